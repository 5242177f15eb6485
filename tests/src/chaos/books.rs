//! The books: the service's tables, and the acquirer's ledger.

use super::surroundings::Surroundings;
use sandbox::acquirer::{EntryView, LedgerView};
use shared::acquirer::provider_key;
use sqlx::{FromRow, PgPool};
use std::collections::HashMap;
use uuid::Uuid;

/// A payment as the service has it.
#[derive(Clone, Debug, Default, FromRow)]
pub(super) struct Payment {
    /// Its id.
    pub id: Uuid,
    /// What it pays.
    pub payment_intent_id: String,
    /// Its status.
    pub status: String,
    /// The acquirer's id of the charge.
    pub transaction_id: Option<String>,
    /// In minor units.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
    /// Whether somebody still holds it.
    pub leased: bool,
    /// Whether it says that a person looks at it.
    pub in_review: bool,
    /// The reasons of its open reviews.
    #[sqlx(skip)]
    pub reviews: Vec<String>,
    /// The types of its events.
    #[sqlx(skip)]
    pub events: Vec<String>,
    /// The state of its key.
    #[sqlx(skip)]
    pub key_state: String,
    /// The acquirer's lines about it.
    #[sqlx(skip)]
    pub entries: Vec<EntryView>,
}

impl Payment {
    /// Whether its status is one that never changes.
    pub fn is_final(&self) -> bool {
        matches!(self.status.as_str(), "PAID" | "DECLINED" | "FAILED")
    }

    /// The charges that moved money.
    pub fn charges(&self) -> impl Iterator<Item = &EntryView> {
        self.entries.iter().filter(|entry| entry.status == "approved")
    }
}

/// Both books.
#[derive(Default)]
pub(super) struct Books {
    /// The payments, each with everything about it.
    pub payments: HashMap<Uuid, Payment>,
    /// Lines of the acquirer about none of our payments.
    pub strangers: Vec<EntryView>,
    /// How often the acquirer was asked to charge, and asked about a charge.
    pub calls: (u64, u64),
    /// Jobs that are left.
    pub jobs: i64,
    /// Deliveries of events that are open.
    pub undelivered: i64,
    /// Calls whose owner never said what came of them: each a claim that died with its worker.
    pub calls_without_end: i64,
}

impl Books {
    /// Reads them.
    pub async fn read(surroundings: &Surroundings) -> Self {
        let pool = &surroundings.pool;
        let mut books = Self { payments: payments(pool).await, ..Self::default() };
        for (payment, reason) in pairs(pool, "SELECT payment_id, reason FROM reviews WHERE state = 'OPEN'").await {
            books.of(payment).reviews.push(reason);
        }
        for (payment, kind) in pairs(pool, "SELECT payment_id, type FROM events").await {
            books.of(payment).events.push(kind);
        }
        for (payment, state) in pairs(pool, "SELECT payment_id, state FROM idempotency_keys").await {
            books.of(payment).key_state = state;
        }
        books.jobs = count(pool, "SELECT count(*) FROM jobs").await;
        books.undelivered = count(pool, "SELECT count(*) FROM deliveries WHERE state <> 'DELIVERED'").await;
        let dead = "SELECT count(*) FROM provider_calls WHERE finished_at IS NULL";
        books.calls_without_end = count(pool, dead).await;
        books.lay_beside(surroundings.acquirer.ledger_with_entries());
        books
    }

    /// A row about no payment makes one, without an intent: the judge sees it.
    fn of(&mut self, payment: Uuid) -> &mut Payment {
        self.payments.entry(payment).or_insert_with(|| Payment { id: payment, ..Payment::default() })
    }

    fn lay_beside(&mut self, ledger: LedgerView) {
        self.calls = (ledger.calls.posts, ledger.calls.lookups);
        let ids: HashMap<String, Uuid> = self.payments.keys().map(|id| (provider_key(*id), *id)).collect();
        for entry in ledger.entries.unwrap_or_default() {
            match ids.get(&entry.reference).and_then(|id| self.payments.get_mut(id)) {
                Some(payment) => payment.entries.push(entry),
                None => self.strangers.push(entry),
            }
        }
    }
}

async fn payments(pool: &PgPool) -> HashMap<Uuid, Payment> {
    let rows: Vec<Payment> = sqlx::query_as(
        "SELECT id, payment_intent_id, status, transaction_id, amount_minor, currency,
                lease_until IS NOT NULL AS leased, in_review FROM payments",
    )
    .fetch_all(pool)
    .await
    .expect("the payments can be read");
    rows.into_iter().map(|payment| (payment.id, payment)).collect()
}

async fn pairs(pool: &PgPool, sql: &'static str) -> Vec<(Uuid, String)> {
    sqlx::query_as(sql).fetch_all(pool).await.expect(sql)
}

async fn count(pool: &PgPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.expect(sql)
}
