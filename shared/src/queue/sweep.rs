//! The sweep: makes jobs from the truth, for payments and deliveries that have none. It is what makes
//! the job table expendable.

use crate::queue::Step;
use sqlx::PgPool;
use std::collections::BTreeSet;
use std::time::Duration;
use uuid::Uuid;

/// How many open payments (and open deliveries) one pass looks at.
const PAGE: i64 = 1000;

/// Walks the open payments and deliveries, page by page, round and round.
#[derive(Debug)]
pub struct Sweep {
    grace: Duration,
    payment: Uuid,
    event: Uuid,
}

/// What a pass found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Payments without a job: each has one now.
    pub payments: u64,
    /// Deliveries without a job: each has one now.
    pub deliveries: u64,
}

impl Sweep {
    /// Starts at the oldest. An UNKNOWN payment still rests `grace` before it is looked up.
    #[must_use]
    pub const fn new(grace: Duration) -> Self {
        Self { grace, payment: Uuid::nil(), event: Uuid::nil() }
    }

    /// One pass over one page of each. Payments in review wait for a person, and get a job only for what that person
    /// decided; payments under a live lease have an owner.
    ///
    /// # Errors
    /// When the database cannot be asked; the next pass goes on where this one stood.
    pub async fn pass(&mut self, pool: &PgPool) -> sqlx::Result<Found> {
        Ok(Found { payments: self.payments(pool).await?, deliveries: self.deliveries(pool).await? })
    }

    async fn payments(&mut self, pool: &PgPool) -> sqlx::Result<u64> {
        let page = sqlx::query!(
            r#"WITH page AS (
                   SELECT merchant_id, id, acquirer, first_call_at, unknown_at, in_review, lease_until FROM payments
                   WHERE status IN ('PENDING', 'UNKNOWN') AND id > $1 ORDER BY id LIMIT $2),
               orphan AS (
                   SELECT * FROM page p
                   WHERE (lease_until IS NULL OR lease_until < now())
                     -- What lies before a person waits for them, unless they have decided.
                     AND (NOT in_review OR EXISTS (SELECT FROM decisions d WHERE d.merchant_id = p.merchant_id
                                                   AND d.payment_id = p.id AND d.state = 'APPROVED'))
                     AND NOT EXISTS (SELECT FROM jobs j WHERE j.merchant_id = p.merchant_id AND j.subject_id = p.id
                                     AND j.step IN ('charge', 'lookup', 'settle'))),
               made AS (
                   INSERT INTO jobs (merchant_id, step, subject_id, route, run_at)
                   SELECT merchant_id, CASE WHEN first_call_at IS NULL THEN $4 ELSE $5 END, id, acquirer,
                          GREATEST(now(), unknown_at + make_interval(secs => $3))
                   FROM orphan ON CONFLICT DO NOTHING RETURNING 1)
               SELECT (SELECT max(id::text)::uuid FROM page) AS last, (SELECT count(*) FROM page) AS "looked_at!",
                      (SELECT count(*) FROM made) AS "made!""#,
            self.payment,
            PAGE,
            self.grace.as_secs_f64(),
            Step::Charge.as_str(),
            Step::Lookup.as_str(),
        )
        .fetch_one(pool)
        .await?;
        self.payment = page.last.filter(|_| page.looked_at == PAGE).unwrap_or_default();
        Ok(page.made.unsigned_abs())
    }

    async fn deliveries(&mut self, pool: &PgPool) -> sqlx::Result<u64> {
        let page = sqlx::query!(
            r#"WITH page AS (
                   SELECT merchant_id, event_id, sink FROM deliveries
                   WHERE state = 'PENDING' AND event_id > $1 ORDER BY event_id LIMIT $2),
               made AS (
                   INSERT INTO jobs (merchant_id, step, subject_id, route)
                   SELECT merchant_id, 'publish', event_id, sink FROM page d
                   WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.merchant_id = d.merchant_id AND j.step = 'publish'
                                     AND j.subject_id = d.event_id AND j.route = d.sink)
                   ON CONFLICT DO NOTHING RETURNING 1)
               SELECT (SELECT max(event_id::text)::uuid FROM page) AS last, (SELECT count(*) FROM page) AS "looked_at!",
                      (SELECT count(*) FROM made) AS "made!""#,
            self.event,
            PAGE,
        )
        .fetch_one(pool)
        .await?;
        self.event = page.last.filter(|_| page.looked_at == PAGE).unwrap_or_default();
        Ok(page.made.unsigned_abs())
    }
}

/// The lanes that have jobs. Steps from lane to lane along the index, however many jobs there are.
///
/// # Errors
/// When the database cannot be asked.
pub async fn lanes_in_use(pool: &PgPool) -> sqlx::Result<BTreeSet<String>> {
    let lanes = sqlx::query_scalar!(
        r#"WITH RECURSIVE lane AS (
               SELECT min((step || '/' || route) COLLATE "C") AS name FROM jobs
               UNION ALL
               SELECT (SELECT min((j.step || '/' || j.route) COLLATE "C") FROM jobs j
                       WHERE (j.step || '/' || j.route) COLLATE "C" > lane.name)
               FROM lane WHERE lane.name IS NOT NULL)
           SELECT name AS "name!" FROM lane WHERE name IS NOT NULL"#
    );
    Ok(lanes.fetch_all(pool).await?.into_iter().collect())
}
