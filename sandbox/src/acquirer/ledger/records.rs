//! What the books keep of a charge, a key and a reference.

use super::few::Few;
use super::{ChargeId, Posted, Status, Stored, Ticket};
use crate::acquirer::behaviour::Told;
use crate::acquirer::method::Method;
use crate::acquirer::settings::{Replay, Settings};

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
    /// The answer of the last execution that booked.
    pub told: Option<Told>,
    pub charges: Few,
}

impl KeyRecord {
    pub fn forgotten(&self, ttl_ms: Option<u64>, now_ms: u32) -> bool {
        let age_ms = u64::from(now_ms.saturating_sub(self.remembered_since_ms));
        ttl_ms.is_some_and(|ttl_ms| age_ms >= ttl_ms)
    }

    /// What a repeat of an honoured key gets.
    pub fn repeat(&mut self, ticket: Ticket, fingerprint: u64, rules: &Settings, now_ms: u32) -> Posted {
        if !self.in_flight && self.forgotten(rules.key_ttl_ms, now_ms) {
            self.begin_anew(ticket, fingerprint, now_ms);
            return Posted::Fresh(ticket);
        }
        if rules.mismatch_detected && self.fingerprint != fingerprint {
            return Posted::Reused(ticket);
        }
        if self.in_flight {
            return Posted::InFlight(ticket);
        }
        match self.stored(rules.replay, ticket.edition) {
            Some(stored) => Posted::Replay(ticket, stored),
            None => Posted::Fresh(ticket),
        }
    }

    fn stored(&self, replay: Replay, edition: u32) -> Option<Stored> {
        // Executed again, a key has charges of earlier executions whose answers were not stored.
        let (index, told) = match replay {
            Replay::Live => (self.charges.first()?, None),
            Replay::Frozen => (self.charges.last()?, Some(self.told?)),
            Replay::Reexecute => (self.charges.last()?, Some(self.told.filter(|told| told.is_success())?)),
        };
        Some(Stored { id: ChargeId { index, edition }, told })
    }

    fn begin_anew(&mut self, ticket: Ticket, fingerprint: u64, now_ms: u32) {
        self.fingerprint = fingerprint;
        self.reference = ticket.reference;
        self.remembered_since_ms = now_ms;
        self.told = None;
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
