//! Reading payments: from the primary only.

use super::life::Status;
use super::{OPERATION, Payment, PaymentKey};
use sqlx::{PgExecutor, PgPool};
use uuid::Uuid;

/// Whole payments. `$from` names the table of payments `p`.
macro_rules! payments {
    ($from:tt, $($argument:expr),+ $(,)?) => {
        sqlx::query_as!(
            Payment,
            r#"SELECT p.merchant_id, p.id, p.payment_intent_id, p.idempotency_key, p.status AS "status: Status",
                      p.amount_minor, p.currency, p.payment_method_id, p.acquirer, p.metadata, p.traceparent,
                      p.transaction_id, p.decline_code, p.decline_message, p.failure_code, p.failure_message,
                      p.attempt, p.lease_until, p.first_call_at, p.unknown_at, p.in_review, p.version,
                      p.created_at, p.updated_at, p.final_at
               FROM "# + $from,
            $($argument),+
        )
    };
}

/// One payment; `None` when the merchant has none of that id.
///
/// # Errors
/// When the database cannot be asked.
pub async fn one(db: impl PgExecutor<'_>, of: PaymentKey) -> sqlx::Result<Option<Payment>> {
    payments!("payments p WHERE p.merchant_id = $1 AND p.id = $2", of.merchant_id, of.payment_id)
        .fetch_optional(db)
        .await
}

/// A payment of some merchant, named by whoever runs the service.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whose.
    pub merchant_id: Uuid,
    /// The merchant's name.
    pub merchant: String,
    /// Which.
    pub payment_id: Uuid,
}

impl Found {
    /// Its name.
    #[must_use]
    pub const fn key(&self) -> PaymentKey {
        PaymentKey { merchant_id: self.merchant_id, payment_id: self.payment_id }
    }
}

/// The payment of this id, whoever's it is. Walks the merchants, of which there are few.
///
/// # Errors
/// When the database cannot be asked.
pub async fn anyones(pool: &PgPool, payment_id: Uuid) -> sqlx::Result<Option<Found>> {
    sqlx::query_as!(
        Found,
        r#"SELECT p.merchant_id, m.name AS merchant, p.id AS payment_id
           FROM merchants m CROSS JOIN LATERAL (
               -- LIMIT keeps this from being turned round into a walk along the whole key by its second column.
               SELECT merchant_id, id FROM payments WHERE merchant_id = m.id AND id = $1 LIMIT 1) AS p"#,
        payment_id,
    )
    .fetch_optional(pool)
    .await
}

/// The payments of this intent, whoever's it is, oldest first; of the refused ones the latest `limit` of each merchant.
///
/// # Errors
/// When the database cannot be asked.
pub async fn anyones_of_intent(pool: &PgPool, intent: &str, limit: i64) -> sqlx::Result<Vec<Found>> {
    sqlx::query_as!(
        Found,
        r#"SELECT p.merchant_id AS "merchant_id!", m.name AS merchant, p.id AS "payment_id!"
           FROM merchants m CROSS JOIN LATERAL (
               (SELECT merchant_id, id FROM payments WHERE merchant_id = m.id AND payment_intent_id = $1
                   AND status IN ('PENDING', 'UNKNOWN', 'PAID') LIMIT 1)
               UNION ALL
               -- See `ids_of_intent`.
               (SELECT merchant_id, id FROM payments WHERE merchant_id = m.id AND payment_intent_id BETWEEN $1 AND $1
                   AND status = 'DECLINED' ORDER BY payment_intent_id DESC, id DESC LIMIT $2)
               UNION ALL
               (SELECT merchant_id, id FROM payments WHERE merchant_id = m.id AND payment_intent_id BETWEEN $1 AND $1
                   AND status = 'FAILED' ORDER BY payment_intent_id DESC, id DESC LIMIT $2)) AS p
           ORDER BY p.id"#,
        intent,
        limit,
    )
    .fetch_all(pool)
    .await
}

/// A merchant's payments with ids after one and before another, oldest first.
pub(super) async fn between(
    pool: &PgPool,
    merchant_id: Uuid,
    after: Uuid,
    before: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<Payment>> {
    payments!(
        "payments p WHERE p.merchant_id = $1 AND p.id > $2 AND p.id < $3 ORDER BY p.id LIMIT $4",
        merchant_id,
        after,
        before,
        limit,
    )
    .fetch_all(pool)
    .await
}

/// Versions of many payments at once, for those who wait for a change.
///
/// # Errors
/// When the database cannot be asked.
pub async fn versions(pool: &PgPool, of: &[PaymentKey]) -> sqlx::Result<Vec<(PaymentKey, i32, Status)>> {
    let merchants: Vec<Uuid> = of.iter().map(|key| key.merchant_id).collect();
    let payments: Vec<Uuid> = of.iter().map(|key| key.payment_id).collect();
    let rows = sqlx::query!(
        r#"SELECT p.merchant_id, p.id, p.version, p.status AS "status: Status"
           FROM unnest($1::uuid[], $2::uuid[]) AS i (merchant_id, id)
           JOIN payments p ON p.merchant_id = i.merchant_id AND p.id = i.id"#,
        &merchants,
        &payments,
    )
    .fetch_all(pool)
    .await?;
    let named = |row: (Uuid, Uuid)| PaymentKey { merchant_id: row.0, payment_id: row.1 };
    Ok(rows.into_iter().map(|row| (named((row.merchant_id, row.id)), row.version, row.status)).collect())
}

/// Which payments of a merchant to list; newest first.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those of this intent.
    pub payment_intent_id: Option<String>,
    /// Only the one that this key made.
    pub idempotency_key: Option<String>,
    /// Only those in this state.
    pub status: Option<Status>,
    /// Only those older than this payment: the cursor.
    pub before: Option<Uuid>,
    /// At most so many.
    pub limit: i64,
}

/// Lists payments of a merchant, newest first. Every combination of filters runs along an index.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(pool: &PgPool, merchant_id: Uuid, filter: &Filter) -> sqlx::Result<Vec<Payment>> {
    let ids = match (&filter.idempotency_key, &filter.payment_intent_id) {
        (Some(key), _) => ids_of_key(pool, merchant_id, key).await?,
        (None, Some(intent)) => ids_of_intent(pool, merchant_id, intent, filter).await?,
        (None, None) => ids_of_status(pool, merchant_id, filter).await?,
    };
    payments!(
        "unnest($2::uuid[]) AS i (id) JOIN payments p ON p.merchant_id = $1 AND p.id = i.id
         WHERE ($3::text IS NULL OR p.payment_intent_id = $3) AND ($4::text IS NULL OR p.status = $4)
           AND ($5::uuid IS NULL OR p.id < $5)
         ORDER BY p.id DESC LIMIT $6",
        merchant_id,
        &ids,
        filter.payment_intent_id,
        filter.status.map(Status::as_str),
        filter.before,
        filter.limit,
    )
    .fetch_all(pool)
    .await
}

async fn ids_of_key(pool: &PgPool, merchant_id: Uuid, key: &str) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        "SELECT payment_id FROM idempotency_keys WHERE merchant_id = $1 AND operation = $2 AND key = $3",
        merchant_id,
        OPERATION,
        key,
    )
    .fetch_all(pool)
    .await
}

/// An intent has at most one live payment and as many refused ones as the shopper had patience for.
async fn ids_of_intent(pool: &PgPool, merchant_id: Uuid, intent: &str, filter: &Filter) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar!(
        r#"SELECT id AS "id!" FROM (
               SELECT id FROM payments WHERE merchant_id = $1 AND payment_intent_id = $2
                  AND status IN ('PENDING', 'UNKNOWN', 'PAID')
               UNION ALL
               -- A range and this order leave only the index that begins with the intent: with an equality, all
               -- refused payments of the merchant look as good to a planner whose statistics are of an empty table.
               (SELECT id FROM payments WHERE merchant_id = $1 AND payment_intent_id BETWEEN $2 AND $2
                  AND status = 'DECLINED' AND ($3::uuid IS NULL OR id < $3) ORDER BY payment_intent_id DESC, id DESC LIMIT $4)
               UNION ALL
               (SELECT id FROM payments WHERE merchant_id = $1 AND payment_intent_id BETWEEN $2 AND $2
                  AND status = 'FAILED' AND ($3::uuid IS NULL OR id < $3) ORDER BY payment_intent_id DESC, id DESC LIMIT $4)
           ) AS attempts"#,
        merchant_id,
        intent,
        filter.before,
        filter.limit,
    )
    .fetch_all(pool)
    .await
}

/// Newest first along the index that the literal predicate selects: one statement per shape, so that
/// each is planned for its own.
macro_rules! newest {
    ($pool:expr, $merchant_id:expr, $filter:expr, $predicate:tt) => {
        sqlx::query_scalar!(
            "SELECT id FROM payments WHERE merchant_id = $1 AND ($2::text IS NULL OR status = $2)
             AND id < COALESCE($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')"
                + $predicate
                + " ORDER BY id DESC LIMIT $4",
            $merchant_id,
            $filter.status.map(Status::as_str),
            $filter.before,
            $filter.limit,
        )
        .fetch_all($pool)
        .await
    };
}

async fn ids_of_status(pool: &PgPool, merchant_id: Uuid, filter: &Filter) -> sqlx::Result<Vec<Uuid>> {
    match filter.status {
        None | Some(Status::Paid) => newest!(pool, merchant_id, filter, ""),
        Some(Status::Pending | Status::Unknown) => {
            newest!(pool, merchant_id, filter, " AND status IN ('PENDING', 'UNKNOWN')")
        }
        Some(Status::Declined | Status::Failed) => {
            newest!(pool, merchant_id, filter, " AND status IN ('DECLINED', 'FAILED')")
        }
    }
}
