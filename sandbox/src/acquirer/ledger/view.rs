//! What the books show: the answers of `GET /ledger`.

use serde::{Deserialize, Serialize};

use super::{ChargeId, Entry, Ledger, Name, Status, Ticket};
use crate::acquirer::charge::{self, Charge};

/// How often the acquirer was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// `POST /charges`, refused ones with a readable order included.
    pub posts: u64,
    /// `GET /charges`.
    pub lookups: u64,
}

/// The books at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerView {
    /// Approved charges: how often money moved.
    pub charges: u64,
    /// Calls since the last reset.
    pub calls: Calls,
    /// Different keys among the approved charges.
    pub distinct_keys: u64,
    /// Different references among the approved charges; fewer than `charges` means that
    /// somebody paid twice.
    pub distinct_references: u64,
    /// References for which money moved more than once.
    pub duplicates: Vec<Duplicate>,
    /// Every charge, when asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<EntryView>>,
}

/// A reference for which money moved more than once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Duplicate {
    /// The reference.
    pub reference: String,
    /// Its approved charges, oldest first.
    pub transaction_ids: Vec<String>,
}

/// What the books say about one reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceView {
    /// The reference.
    pub reference: String,
    /// Its approved charges.
    pub charges: u64,
    /// The calls about it; a look-up by a key counts for the reference the key came with.
    pub calls: Calls,
    /// The different keys its POSTs bore, in order of appearance.
    pub keys: Vec<String>,
    /// All its charges, oldest first.
    pub entries: Vec<EntryView>,
}

/// One line of the books, as it really was booked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryView {
    /// The acquirer's id of the charge.
    pub transaction_id: String,
    /// The key of the POST.
    pub key: String,
    /// The reference of the POST.
    pub reference: String,
    /// In minor units.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
    /// `approved`, `declined`, `rejected` or `processing`.
    pub status: String,
    /// When it was booked, in ms since 1970.
    pub booked_at_ms: u64,
}

impl Ledger {
    /// The books as a whole.
    pub fn view(&self, now_ms: u32, with_entries: bool) -> LedgerView {
        let moved = self.entries.iter().filter(|entry| entry.moved_money(now_ms));
        let mut keys = vec![false; self.keys.len()];
        let mut references = vec![false; self.references.len()];
        let mut charges = 0;
        for entry in moved {
            charges += 1;
            keys[entry.key as usize] = true;
            references[entry.reference as usize] = true;
        }
        LedgerView {
            charges,
            calls: self.calls,
            distinct_keys: count(&keys),
            distinct_references: count(&references),
            duplicates: self.duplicates(now_ms),
            entries: with_entries.then(|| self.entries(0..self.entries.len(), now_ms)),
        }
    }

    fn duplicates(&self, now_ms: u32) -> Vec<Duplicate> {
        let mut duplicates = Vec::new();
        for (name, record) in &self.references {
            let moved = |index: &u32| self.entries[*index as usize].moved_money(now_ms);
            let moved: Vec<u32> = record.charges.iter().filter(moved).collect();
            if moved.len() > 1 {
                let ids = moved.iter().map(|&i| self.transaction_id(i));
                duplicates.push(Duplicate { reference: name.to_string(), transaction_ids: ids.collect() });
            }
        }
        duplicates
    }

    /// The books about one reference; all zeros for one never seen.
    pub fn reference_view(&self, reference: &str, now_ms: u32) -> ReferenceView {
        let record = self.references.get(&Name::from(reference));
        let calls = record.map(|r| (r.posts, r.lookups)).unwrap_or_default();
        let keys = record.map(|r| r.keys.as_slice()).unwrap_or_default();
        let charges = record.map(|r| r.charges.as_slice()).unwrap_or_default();
        let indices = || charges.iter().map(|&index| index as usize);
        let moved = indices().filter(|&i| self.entries[i].moved_money(now_ms));
        ReferenceView {
            reference: reference.to_owned(),
            charges: moved.count() as u64,
            calls: Calls { posts: calls.0.into(), lookups: calls.1.into() },
            keys: keys.iter().map(|&key| self.key_name(key)).collect(),
            entries: self.entries(indices(), now_ms),
        }
    }

    fn entries(&self, indices: impl Iterator<Item = usize>, now_ms: u32) -> Vec<EntryView> {
        let view = |index: usize| self.entry_view(index, now_ms);
        indices.map(view).collect()
    }

    fn entry_view(&self, index: usize, now_ms: u32) -> EntryView {
        let entry = &self.entries[index];
        EntryView {
            transaction_id: self.transaction_id(index as u32),
            key: self.key_name(entry.key),
            reference: self.reference_name(entry.reference),
            amount_minor: entry.booking.amount_minor,
            currency: charge::currency(entry.booking.currency),
            status: entry.status(now_ms).as_str().to_owned(),
            booked_at_ms: self.started_unix_ms + u64::from(entry.booked_at_ms),
        }
    }

    /// A charge as the acquirer's clients see it; `None` when the books were reset.
    pub fn charge(&self, id: ChargeId, now_ms: u32) -> Option<Charge> {
        let status = self.entry(id)?.status(now_ms);
        self.charge_as(id, status)
    }

    /// The same with the status it was told with.
    pub fn charge_as(&self, id: ChargeId, status: Status) -> Option<Charge> {
        let entry: &Entry = self.entry(id)?;
        let transaction_id = self.transaction_id(id.index);
        Some(Charge::shown(transaction_id, self.reference_name(entry.reference), entry.booking, status))
    }

    /// What a refusal of a repeat can name: the charge under its key, or while there is none the request.
    pub fn resource_id(&self, ticket: Ticket) -> String {
        let record = self.keys.get_index(ticket.key as usize).filter(|_| ticket.edition == self.edition);
        match record.and_then(|(_, record)| record.charges.first()) {
            Some(index) => self.transaction_id(index),
            None => format!("req_{:x}_{}_{}", self.started_unix_ms, ticket.edition, ticket.key),
        }
    }

    fn transaction_id(&self, index: u32) -> String {
        let number = self.archived + u64::from(index) + 1;
        format!("txn_{:x}_{number}", self.started_unix_ms)
    }

    fn key_name(&self, index: u32) -> String {
        let name = self.keys.get_index(index as usize);
        name.map(|(name, _)| name.to_string()).unwrap_or_default()
    }

    fn reference_name(&self, index: u32) -> String {
        let name = self.references.get_index(index as usize);
        name.map(|(name, _)| name.to_string()).unwrap_or_default()
    }
}

fn count(marks: &[bool]) -> u64 {
    marks.iter().filter(|&&mark| mark).count() as u64
}
