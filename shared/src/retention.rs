//! Retention: what is old enough is deleted, merchant by merchant, batch by batch. A batch is one statement, so
//! that wherever it is cut off it happened whole or not at all; and run twice, it finds nothing the second time.
//!
//! Payments stay for ever, and with them the index that refuses a second one for a paid intent.
//!
//! Each statement reads row by row from its page on (LATERAL, with a LIMIT or OFFSET that keeps it from being turned
//! round) and deletes by `ctid`: also a plan that was made while the tables were empty never reads one whole. What is
//! old enough to go is never changed any more, so a `ctid` stays true until the statement ends.

use crate::payment::{OPERATION, first_id_at};
use sqlx::PgPool;
use std::time::Duration;
use time::OffsetDateTime;
use uuid::Uuid;

/// The most rows of one batch; of calls and history those of the last payment come on top, so that none is left
/// with half of them.
pub const BATCH: i64 = 10_000;

/// Ids are walked to an hour less than the age, because age counts from the end of a payment. What takes longer
/// than that to end is found later.
const LONGEST_USUAL_LIFE: Duration = Duration::from_secs(3_600);

/// What is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum What {
    /// COMPLETED keys, along their payments.
    IdempotencyKeys,
    /// Keys whose payments were not final when the purge came past.
    LateKeys,
    /// Calls of final payments.
    ProviderCalls,
    /// History of final payments.
    PaymentHistory,
    /// Events that every sink has, with their deliveries.
    Events,
    /// What acquirers told of final payments.
    AcquirerWebhooks,
}

impl What {
    /// Everything.
    pub const ALL: [Self; 6] = [
        Self::IdempotencyKeys,
        Self::LateKeys,
        Self::ProviderCalls,
        Self::PaymentHistory,
        Self::Events,
        Self::AcquirerWebhooks,
    ];

    /// The word in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IdempotencyKeys => "idempotency_keys",
            Self::LateKeys => "late_keys",
            Self::ProviderCalls => "provider_calls",
            Self::PaymentHistory => "payment_history",
            Self::Events => "events",
            Self::AcquirerWebhooks => "acquirer_webhooks",
        }
    }

    /// The word in metrics: what is gone, however it was found.
    #[must_use]
    pub const fn gone(self) -> &'static str {
        match self {
            Self::LateKeys => Self::IdempotencyKeys.as_str(),
            other => other.as_str(),
        }
    }
}

/// A merchant's next batch. Whoever has it has it alone, until its lease ends.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Whose rows.
    pub merchant_id: Uuid,
    /// Which rows.
    pub what: What,
    /// The database's time.
    pub now: OffsetDateTime,
    /// Up to where it was looked at before.
    cursor: Uuid,
}

/// What a batch came to.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// How many are gone: keys, calls, lines of history, events, messages.
    pub purged: i64,
    /// How many rows it took to find them.
    pub looked_at: i64,
    last: Option<Uuid>,
}

impl Batch {
    /// Nothing is looked at: these rows are kept for ever.
    pub const NOTHING: Self = Self { purged: 0, looked_at: 0, last: None };

    /// Whether there may be more.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.looked_at >= BATCH
    }
}

/// Gives each merchant that has none its turns.
///
/// # Errors
/// When the database cannot be asked.
pub async fn enrol(pool: &PgPool) -> sqlx::Result<()> {
    sqlx::query!(
        r#"INSERT INTO purges (merchant_id, what)
           SELECT m.id, w.what FROM merchants m CROSS JOIN unnest($1::text[]) AS w (what)
           WHERE NOT EXISTS (SELECT FROM purges p WHERE p.merchant_id = m.id AND p.what = w.what)
           ON CONFLICT DO NOTHING"#,
        &What::ALL.map(What::as_str) as &[&str],
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Takes the batch that has been due for the longest. `None`: none is due.
///
/// # Errors
/// When the database cannot be asked.
pub async fn take(pool: &PgPool, lease: Duration) -> sqlx::Result<Option<Turn>> {
    sqlx::query_as!(
        Turn,
        r#"WITH due AS (
               SELECT merchant_id, what FROM purges WHERE next_at <= now()
               ORDER BY next_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED)
           UPDATE purges p SET next_at = now() + make_interval(secs => $1)
           FROM due WHERE p.merchant_id = due.merchant_id AND p.what = due.what
           RETURNING p.merchant_id, p.what AS "what: What", p.cursor, now() AS "now!""#,
        lease.as_secs_f64(),
    )
    .fetch_optional(pool)
    .await
}

/// Gives the turn back: the next batch is due at once when there may be more, else after `rest`. A turn that was
/// taken by another since changes nothing.
///
/// # Errors
/// When the database cannot be asked: the batch is then taken again when the lease has lapsed, and finds nothing.
pub async fn done(pool: &PgPool, turn: &Turn, batch: &Batch, rest: Duration) -> sqlx::Result<()> {
    let cursor = match turn.what {
        What::IdempotencyKeys => batch.last.unwrap_or(turn.cursor),
        _ => batch.last.filter(|_| batch.is_full()).unwrap_or_default(),
    };
    let rest = if batch.is_full() { Duration::ZERO } else { rest };
    sqlx::query!(
        r#"UPDATE purges SET cursor = $4, next_at = now() + make_interval(secs => $5)
           WHERE merchant_id = $1 AND what = $2 AND cursor = $3"#,
        turn.merchant_id,
        turn.what.as_str(),
        turn.cursor,
        cursor,
        rest.as_secs_f64(),
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Deletes rows of a table whose key begins with the payment: those of payments that are final for long enough and
/// lie before nobody, all rows of a payment at once.
macro_rules! of_final {
    ($pool:expr, $turn:expr, $old:expr, $table:tt, $but:tt) => {
        sqlx::query_as!(
            Batch,
            "WITH looked_at AS (SELECT merchant_id, payment_id FROM "
                + $table
                + r#" WHERE merchant_id = $1 AND payment_id > $2 AND payment_id < $3 ORDER BY payment_id LIMIT $4),
           page AS (SELECT DISTINCT merchant_id, payment_id FROM looked_at),
           ended AS (
               SELECT page.* FROM page CROSS JOIN LATERAL (
                   SELECT FROM payments
                   WHERE merchant_id = page.merchant_id AND id = page.payment_id AND final_at < $5 LIMIT 1) AS p
               -- The state would let it be planned along all open reviews, oldest first.
               WHERE NOT EXISTS (SELECT FROM reviews r WHERE r.merchant_id = page.merchant_id
                                 AND r.payment_id = page.payment_id AND r.resolved_at IS NULL OFFSET 0)),
           due AS (
               SELECT t.row FROM ended CROSS JOIN LATERAL (
                   SELECT ctid AS row FROM "#
                + $table
                + r#" AS t WHERE t.merchant_id = ended.merchant_id AND t.payment_id = ended.payment_id"#
                + $but
                + r#" OFFSET 0) AS t),
           -- History is append-only but for retention, which has to say so: until the end of this statement.
           allowed AS MATERIALIZED (SELECT set_config('payonce.retention', 'on', true)),
           gone AS (DELETE FROM "#
                + $table
                + r#" WHERE ctid = ANY (ARRAY(SELECT row FROM due CROSS JOIN allowed)) RETURNING 1)
           SELECT (SELECT count(*) FROM gone) AS "purged!", (SELECT count(*) FROM looked_at) AS "looked_at!",
                  (SELECT max(payment_id::text)::uuid FROM page) AS last"#,
            $turn.merchant_id,
            $turn.cursor,
            $old.ids_before,
            BATCH,
            $old.before,
        )
        .fetch_one($pool)
        .await
    };
}

/// Deletes what ended longer ago than `age`, of one batch.
///
/// # Errors
/// When the database cannot be asked, or nobody knows whether it happened: the batch is taken again.
pub async fn purge(pool: &PgPool, turn: &Turn, age: Duration) -> sqlx::Result<Batch> {
    let old = Old { before: turn.now - age, ids_before: first_id_at(turn.now - age - LONGEST_USUAL_LIFE) };
    match turn.what {
        What::IdempotencyKeys => keys(pool, turn, old).await,
        What::LateKeys => late_keys(pool, turn, old).await,
        What::ProviderCalls => of_final!(pool, turn, old, "provider_calls", ""),
        What::PaymentHistory => of_final!(pool, turn, old, "payment_history", ""),
        What::AcquirerWebhooks => of_final!(pool, turn, old, "acquirer_webhooks", " AND t.received_at < $5"),
        What::Events => events(pool, turn, old).await,
    }
}

/// What is old.
#[derive(Clone, Copy)]
struct Old {
    /// What ended before this.
    before: OffsetDateTime,
    /// Only these are looked at.
    ids_before: Uuid,
}

/// Keys have no order of time of their own, and an index that gave them one would cost every payment. They are
/// found along the payments' ids; what cannot go yet is put aside.
async fn keys(pool: &PgPool, turn: &Turn, old: Old) -> sqlx::Result<Batch> {
    sqlx::query_as!(
        Batch,
        r#"WITH page AS (
               SELECT merchant_id, id, idempotency_key, final_at FROM payments
               WHERE merchant_id = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4),
           due AS (
               SELECT k.row FROM page p CROSS JOIN LATERAL (
                   SELECT ctid AS row FROM idempotency_keys
                   -- A key that was purged and used again belongs to another payment.
                   WHERE merchant_id = p.merchant_id AND operation = $6 AND key = p.idempotency_key AND payment_id = p.id
                     AND state = 'COMPLETED' AND completed_at < $5 LIMIT 1) AS k),
           gone AS (DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT row FROM due)) RETURNING 1),
           late AS (
               INSERT INTO late_keys (merchant_id, payment_id)
               SELECT merchant_id, id FROM page WHERE final_at IS NULL OR final_at >= $5
               ON CONFLICT DO NOTHING)
           SELECT (SELECT count(*) FROM gone) AS "purged!", (SELECT count(*) FROM page) AS "looked_at!",
                  (SELECT max(id::text)::uuid FROM page) AS last"#,
        turn.merchant_id,
        turn.cursor,
        old.ids_before,
        BATCH,
        old.before,
        OPERATION,
    )
    .fetch_one(pool)
    .await
}

/// Those that were put aside.
async fn late_keys(pool: &PgPool, turn: &Turn, old: Old) -> sqlx::Result<Batch> {
    sqlx::query_as!(
        Batch,
        r#"WITH page AS (
               SELECT ctid AS row, merchant_id, payment_id FROM late_keys
               WHERE merchant_id = $1 AND payment_id > $2 ORDER BY payment_id LIMIT $3),
           ended AS (
               SELECT page.row, p.* FROM page CROSS JOIN LATERAL (
                   SELECT merchant_id, id, idempotency_key FROM payments
                   WHERE merchant_id = page.merchant_id AND id = page.payment_id AND final_at < $4 LIMIT 1) AS p),
           due AS (
               SELECT k.row FROM ended p CROSS JOIN LATERAL (
                   SELECT ctid AS row FROM idempotency_keys
                   WHERE merchant_id = p.merchant_id AND operation = $5 AND key = p.idempotency_key AND payment_id = p.id
                     AND state = 'COMPLETED' AND completed_at < $4 LIMIT 1) AS k),
           gone AS (DELETE FROM idempotency_keys WHERE ctid = ANY (ARRAY(SELECT row FROM due)) RETURNING 1),
           done AS (DELETE FROM late_keys WHERE ctid = ANY (ARRAY(SELECT row FROM ended)))
           SELECT (SELECT count(*) FROM gone) AS "purged!", (SELECT count(*) FROM page) AS "looked_at!",
                  (SELECT max(payment_id::text)::uuid FROM page) AS last"#,
        turn.merchant_id,
        turn.cursor,
        BATCH,
        old.before,
        OPERATION,
    )
    .fetch_one(pool)
    .await
}

/// Events that every sink has, and their deliveries. The deliveries are locked first: one that a person sends on
/// its way again meanwhile keeps its event.
async fn events(pool: &PgPool, turn: &Turn, old: Old) -> sqlx::Result<Batch> {
    sqlx::query_as!(
        Batch,
        r#"WITH page AS (
               SELECT ctid AS row, merchant_id, id, occurred_at FROM events
               WHERE merchant_id = $1 AND id > $2 AND id < $3 ORDER BY id LIMIT $4),
           due AS MATERIALIZED (
               SELECT page.row, delivered.rows
               FROM page CROSS JOIN LATERAL (
                   SELECT array_agg(d.row) AS rows, count(*) AS count FROM (
                       SELECT ctid AS row FROM deliveries
                       WHERE merchant_id = page.merchant_id AND event_id = page.id AND state = 'DELIVERED'
                       FOR UPDATE) AS d) AS delivered
               CROSS JOIN LATERAL (
                   SELECT count(*) AS count FROM deliveries
                   WHERE merchant_id = page.merchant_id AND event_id = page.id) AS known
               WHERE page.occurred_at < $5 AND delivered.count = known.count),
           delivered AS (DELETE FROM deliveries WHERE ctid = ANY (ARRAY(SELECT unnest(rows) FROM due))),
           gone AS (DELETE FROM events WHERE ctid = ANY (ARRAY(SELECT row FROM due)) RETURNING 1)
           SELECT (SELECT count(*) FROM gone) AS "purged!", (SELECT count(*) FROM page) AS "looked_at!",
                  (SELECT max(id::text)::uuid FROM page) AS last"#,
        turn.merchant_id,
        turn.cursor,
        old.ids_before,
        BATCH,
        old.before,
    )
    .fetch_one(pool)
    .await
}
