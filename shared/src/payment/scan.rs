//! The search for second charges: recent payments, merchant by merchant, page by page, each once.

use super::{Payment, PaymentKey, first_id_at};
use sqlx::PgPool;
use std::time::Duration;
use uuid::Uuid;

/// Which payments are recent: old enough for the acquirer's lists to show everything, young enough to matter.
#[derive(Clone, Copy, Debug)]
pub struct Recent {
    /// Accepted at least so long ago,
    pub after: Duration,
    /// and at most so long.
    pub within: Duration,
}

/// A page of a merchant's recent payments. Whoever has it has it alone, until its lease ends.
#[derive(Clone, Debug)]
pub struct Page {
    /// The merchant.
    pub merchant_id: Uuid,
    /// Its payments, oldest first; empty when all were seen.
    pub payments: Vec<Payment>,
}

/// Takes the next page of the merchant whose turn is the longest ago. `None`: every merchant's page is taken.
///
/// # Errors
/// When the database cannot be asked.
pub async fn take(pool: &PgPool, recent: Recent, limit: i64, lease: Duration) -> sqlx::Result<Option<Page>> {
    let now = crate::db::now(pool).await?;
    let (oldest, youngest) = (first_id_at(now - recent.within), first_id_at(now - recent.after));
    let turn = sqlx::query!(
        r#"INSERT INTO duplicate_scans AS s (merchant_id, cursor, lease_until)
           SELECT m.id, $1, now() + make_interval(secs => $2)
           FROM merchants m LEFT JOIN duplicate_scans s ON s.merchant_id = m.id
           WHERE s.lease_until IS NULL OR s.lease_until <= now()
           ORDER BY s.lease_until NULLS FIRST LIMIT 1
           ON CONFLICT (merchant_id) DO UPDATE
               SET cursor = GREATEST(s.cursor, EXCLUDED.cursor), lease_until = EXCLUDED.lease_until
               WHERE s.lease_until <= now()
           RETURNING s.merchant_id, s.cursor"#,
        oldest,
        lease.as_secs_f64(),
    )
    .fetch_optional(pool)
    .await?;
    let Some(turn) = turn else { return Ok(None) };
    let payments = super::read::between(pool, turn.merchant_id, turn.cursor, youngest, limit).await?;
    Ok(Some(Page { merchant_id: turn.merchant_id, payments }))
}

/// Gives the page back: everything up to and including `seen` need not be looked at again.
///
/// # Errors
/// When the database cannot be asked: the page is then taken again when its lease has lapsed.
pub async fn done(pool: &PgPool, merchant_id: Uuid, seen: Option<PaymentKey>) -> sqlx::Result<()> {
    sqlx::query!(
        "UPDATE duplicate_scans SET cursor = GREATEST(cursor, COALESCE($2, cursor)), lease_until = now() WHERE merchant_id = $1",
        merchant_id,
        seen.map(|seen| seen.payment_id),
    )
    .execute(pool)
    .await?;
    Ok(())
}
