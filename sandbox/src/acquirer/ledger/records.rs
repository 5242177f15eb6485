//! What the books keep of a charge, a key and a reference.

use super::few::Few;
use super::{ChargeId, Posted, Status, Ticket};
use crate::acquirer::method::Method;

/// What is booked.
#[derive(Clone, Copy)]
pub(in crate::acquirer) struct Booking {
    pub amount_minor: i64,
    pub currency: [u8; 3],
    pub method: Method,
    pub status: Status,
}

/// A line of the books.
pub(super) struct Entry {
    pub key: u32,
    pub reference: u32,
    pub booking: Booking,
    pub booked_at_ms: u32,
    pub settles_at_ms: u32,
}

impl Entry {
    pub fn status(&self, now_ms: u32) -> Status {
        if now_ms < self.settles_at_ms { Status::Processing } else { self.booking.status }
    }

    pub fn moved_money(&self, now_ms: u32) -> bool {
        self.status(now_ms) == Status::Approved
    }
}

/// Everything known about a key.
pub(super) struct KeyRecord {
    pub fingerprint: u64,
    pub reference: u32,
    pub posts: u32,
    pub remembered_since_ms: u32,
    pub in_flight: bool,
    pub charges: Few,
}

impl KeyRecord {
    pub fn forgotten(&self, ttl_ms: Option<u64>, now_ms: u32) -> bool {
        let age_ms = u64::from(now_ms.saturating_sub(self.remembered_since_ms));
        ttl_ms.is_some_and(|ttl_ms| age_ms >= ttl_ms)
    }

    /// What a repeat of an honoured key gets.
    pub fn repeat(&mut self, ticket: Ticket, fingerprint: u64, ttl_ms: Option<u64>, now_ms: u32) -> Posted {
        if !self.in_flight && self.forgotten(ttl_ms, now_ms) {
            self.begin_anew(ticket, fingerprint, now_ms);
            return Posted::Fresh(ticket);
        }
        if self.fingerprint != fingerprint {
            return Posted::Reused;
        }
        if self.in_flight {
            return Posted::InFlight;
        }
        let edition = ticket.edition;
        match self.charges.first() {
            Some(index) => Posted::Replay(ticket, ChargeId { index, edition }),
            None => Posted::Fresh(ticket),
        }
    }

    fn begin_anew(&mut self, ticket: Ticket, fingerprint: u64, now_ms: u32) {
        self.fingerprint = fingerprint;
        self.reference = ticket.reference;
        self.remembered_since_ms = now_ms;
        self.charges = Few::default();
    }
}

/// Everything known about a reference.
#[derive(Default)]
pub(super) struct ReferenceRecord {
    pub posts: u32,
    pub lookups: u32,
    pub keys: Few,
    pub charges: Few,
}
