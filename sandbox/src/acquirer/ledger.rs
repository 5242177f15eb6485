//! The acquirer's own books: what was asked, what was booked, what money moved.
//!
//! A benchmark books hundreds of thousands of charges beside the service under test, so a
//! charge takes 32 bytes and keys and references are kept once, referred to by index.

mod few;
mod name;
mod recent;
mod records;
mod view;

use indexmap::IndexMap;

use super::behaviour::Told;
use super::method::Method;
use super::settings::Settings;
use few::Few;
pub(super) use name::Name;
use recent::Recent;
pub(super) use records::Booking;
use records::{Entry, KeyRecord, ReferenceRecord};
pub use view::{Calls, Duplicate, EntryView, LedgerView, ReferenceView};

/// What became of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Approved,
    Declined,
    Rejected,
    Processing,
}

impl Status {
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Approved => "approved",
            Status::Declined => "declined",
            Status::Rejected => "rejected",
            Status::Processing => "processing",
        }
    }
}

/// What a POST asks for.
pub(super) struct Order {
    pub key: Name,
    pub reference: Name,
    pub amount_minor: i64,
    pub currency: [u8; 3],
    /// A hash of every parameter: another one under the same key is a misuse of the key.
    pub fingerprint: u64,
    /// A hash of what makes two payments alike to an acquirer without keys: amount and card.
    pub alike: u64,
    pub method: Method,
}

/// The answer of the books to a POST.
#[derive(Clone, Copy, Debug)]
pub(super) enum Posted {
    /// Nothing stored under the key: go on, then [`Ledger::book`].
    Fresh(Ticket),
    /// The stored charge is the answer.
    Replay(Ticket, Stored),
    /// The first request of the key has not ended yet.
    InFlight(Ticket),
    /// The key came with other parameters before.
    Reused(Ticket),
}

/// What a key stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored {
    pub id: ChargeId,
    /// The answer to repeat; `None`: the charge as it is now.
    pub told: Option<Told>,
}

/// Where a POST stands in the books.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    key: u32,
    reference: u32,
    /// Raised by every reset, so that a late booking cannot enter books it does not belong to.
    edition: u32,
    /// How many POSTs the key had before this one.
    pub earlier_posts: u32,
}

/// The number of a charge in its edition of the books.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChargeId {
    index: u32,
    edition: u32,
}

/// The books.
pub(super) struct Ledger {
    started_unix_ms: u64,
    edition: u32,
    calls: Calls,
    entries: Vec<Entry>,
    keys: IndexMap<Name, KeyRecord>,
    references: IndexMap<Name, ReferenceRecord>,
    /// Only kept where the contract looks for duplicates.
    recent: Recent,
    /// Charges of earlier editions: a transaction id is never given out twice.
    archived: u64,
}

impl Ledger {
    /// Empty books; times in them count from `started_unix_ms` (ms since 1970).
    pub fn new(started_unix_ms: u64) -> Ledger {
        Ledger {
            started_unix_ms,
            edition: 0,
            calls: Calls::default(),
            entries: Vec::new(),
            keys: IndexMap::new(),
            references: IndexMap::new(),
            recent: Recent::default(),
            archived: 0,
        }
    }

    /// Closes the books and opens empty ones.
    pub fn reset(&mut self) {
        *self = Ledger {
            edition: self.edition + 1,
            archived: self.archived + self.entries.len() as u64,
            ..Ledger::new(self.started_unix_ms)
        };
    }

    /// Notes a POST and says what its key stands for.
    pub fn post(&mut self, order: Order, rules: &Settings, now_ms: u32) -> Posted {
        self.calls.posts += 1;
        let reference = self.reference(order.reference);
        let (key, first) = self.key(order.key, reference, order.fingerprint, now_ms);
        let asked = &mut self.references[reference as usize];
        asked.posts += 1;
        asked.keys.insert(key);

        let record = &mut self.keys[key as usize];
        let ticket = Ticket { key, reference, edition: self.edition, earlier_posts: record.posts };
        record.posts += 1;
        if first || !rules.keys_honoured {
            record.in_flight = true;
            return Posted::Fresh(ticket);
        }
        let posted = record.repeat(ticket, order.fingerprint, rules, now_ms);
        if let Posted::Fresh(_) = posted {
            record.in_flight = true;
        }
        posted
    }

    fn reference(&mut self, name: Name) -> u32 {
        let entry = self.references.entry(name);
        let index = entry.index() as u32;
        entry.or_default();
        index
    }

    fn key(&mut self, name: Name, reference: u32, fingerprint: u64, now_ms: u32) -> (u32, bool) {
        let entry = self.keys.entry(name);
        let index = entry.index() as u32;
        let first = matches!(entry, indexmap::map::Entry::Vacant(_));
        entry.or_insert_with(|| KeyRecord {
            fingerprint,
            reference,
            posts: 0,
            remembered_since_ms: now_ms,
            in_flight: false,
            told: None,
            charges: Few::default(),
        });
        (index, first)
    }

    /// Enters a charge; `None` when the books were reset since the POST.
    ///
    /// It shows as `processing` for the first `processing_ms` (ms).
    pub fn book(&mut self, ticket: Ticket, booking: Booking, processing_ms: u64, now_ms: u32) -> Option<ChargeId> {
        if ticket.edition != self.edition {
            return None;
        }
        let index = self.entries.len() as u32;
        let processing_ms = u32::try_from(processing_ms).unwrap_or(u32::MAX);
        self.entries.push(Entry {
            key: ticket.key,
            reference: ticket.reference,
            booking,
            booked_at_ms: now_ms,
            settles_at_ms: now_ms.saturating_add(processing_ms),
        });
        self.keys[ticket.key as usize].charges.push(index);
        self.references[ticket.reference as usize].charges.push(index);
        Some(ChargeId { index, edition: self.edition })
    }

    /// Ends the request of a key: from now on a repeat is answered from what was booked and `told`,
    /// or starts anew when nothing was.
    pub fn conclude(&mut self, ticket: Ticket, told: Option<Told>) {
        if ticket.edition == self.edition {
            let record = &mut self.keys[ticket.key as usize];
            record.in_flight = false;
            record.told = told.or(record.told);
        }
    }

    /// Whether a charge alike was approved less than `window_ms` ago.
    pub fn is_duplicate(&mut self, alike: u64, window_ms: u64, now_ms: u32) -> bool {
        self.recent.holds(alike, window_ms, now_ms)
    }

    /// Notes an approved charge for [`Ledger::is_duplicate`].
    pub fn note_approved(&mut self, alike: u64, now_ms: u32) {
        self.recent.note(alike, now_ms);
    }

    /// The charges a look-up by key may show now.
    pub fn find_by_key(&mut self, key: &Name, rules: &Settings, now_ms: u32) -> Vec<ChargeId> {
        self.calls.lookups += 1;
        let Some(record) = self.keys.get(key) else {
            return Vec::new();
        };
        let reference = record.reference;
        self.references[reference as usize].lookups += 1;
        if record.forgotten(rules.key_ttl_ms, now_ms) {
            return Vec::new();
        }
        self.visible(&record.charges, rules, now_ms)
    }

    /// The charges a look-up by reference may show now.
    pub fn find_by_reference(&mut self, reference: &Name, rules: &Settings, now_ms: u32) -> Vec<ChargeId> {
        self.calls.lookups += 1;
        let Some(record) = self.references.get_mut(reference) else {
            return Vec::new();
        };
        record.lookups += 1;
        let record = &self.references[reference];
        self.visible(&record.charges, rules, now_ms)
    }

    /// Notes a look-up that the contract does not offer.
    pub fn refuse_lookup(&mut self) {
        self.calls.lookups += 1;
    }

    fn visible(&self, charges: &Few, rules: &Settings, now_ms: u32) -> Vec<ChargeId> {
        let shown = |index: &u32| {
            let entry = &self.entries[*index as usize];
            let age_ms = u64::from(now_ms.saturating_sub(entry.booked_at_ms));
            age_ms >= rules.lookup_lag_ms && !self.plays_hidden(entry, rules)
        };
        let edition = self.edition;
        let ids = charges.iter().filter(shown);
        ids.map(|index| ChargeId { index, edition }).collect()
    }

    fn plays_hidden(&self, entry: &Entry, rules: &Settings) -> bool {
        let lookups = self.references[entry.reference as usize].lookups;
        entry.booking.method == Method::NotFoundThenOk && lookups <= rules.not_found_times
    }

    /// The method a charge was booked with.
    pub fn method(&self, id: ChargeId) -> Option<Method> {
        Some(self.entry(id)?.booking.method)
    }

    fn entry(&self, id: ChargeId) -> Option<&Entry> {
        let current = id.edition == self.edition;
        current.then(|| &self.entries[id.index as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_million_charges_stay_below_sixty_megabytes() {
        // Bytes per charge: its line, its key and its reference (name, hash and index), and
        // the index tables at their fullest, times the slack of a vector that just doubled.
        let record = |size: usize| size + size_of::<Name>() + 8;
        let keys = record(size_of::<KeyRecord>());
        let references = record(size_of::<ReferenceRecord>());
        let line = size_of::<Entry>() + keys + references + 2 * 18;
        assert!(line * 250_000 < 60_000_000, "{line} bytes per charge");
    }
}
