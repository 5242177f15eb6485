//! Claiming: taking a payment's step. Fetch *is* the claim: one statement takes due jobs, charges
//! their budget, raises the fencing token, starts the lease and writes down the call to come.

use super::life::Status;
use super::{Fence, Payment, PaymentKey};
use crate::clock::DbClock;
use crate::committer::Verdict;
use crate::queue::{Step, Take};
use sqlx::{PgConnection, PgPool};
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

/// A claimed payment: whoever holds it owns the step until the lease ends.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The step that was claimed.
    pub step: Step,
    /// The payment as it was when it was claimed, `attempt` already raised.
    pub payment: Payment,
    /// The call that is written down as about to happen.
    pub request_id: Uuid,
    /// Whether no call ever left for this payment before: the first send needs no lookup.
    pub untouched: bool,
    /// A person asked for the same charge to be sent once more.
    pub resend: bool,
    /// How often the job was delivered, this time included.
    pub deliveries: i32,
    /// Since when the job was due: for a job whose owner died, when its lease lapsed.
    pub due_at: OffsetDateTime,
    /// The database's clock.
    pub clock: DbClock,
    /// Until when the owner may act, by this process's clock; never later than the database's lease.
    pub lease_until: Instant,
}

impl Claim {
    /// What a write must prove.
    #[must_use]
    pub const fn fence(&self) -> Fence {
        let Payment { attempt, status, version, .. } = self.payment;
        Fence { of: self.payment.key(), attempt, status, version }
    }
}

/// Takes up to `take.limit` due jobs of a payment step.
///
/// # Errors
/// When the database cannot be asked, or the commit's fate is unknown: the lease then lapses.
pub async fn fetch(pool: &PgPool, take: &Take<'_>) -> sqlx::Result<Vec<Claim>> {
    let taken = Instant::now();
    let rows = sqlx::query!(
        r#"WITH due AS (
               SELECT j.ctid AS row, j.run_at AS due_at, gen_random_uuid() AS request_id
               FROM jobs j JOIN payments p ON p.merchant_id = j.merchant_id AND p.id = j.subject_id
               WHERE (j.step || '/' || j.route) COLLATE "C" = $1 AND j.run_at <= now() - make_interval(secs => $7)
               ORDER BY j.run_at LIMIT $2
               FOR NO KEY UPDATE OF j, p SKIP LOCKED),
           job AS (
               UPDATE jobs j SET run_at = now() + make_interval(secs => $3), deliveries = j.deliveries + 1, claimed_by = $4
               FROM due d WHERE j.ctid = d.row
               RETURNING j.merchant_id, j.subject_id, j.deliveries, j.resend, d.request_id, d.due_at,
                         j.deliveries <= $5 AND $6 AS calls),
           claimed AS (
               -- A final payment is left as it is; its job is a leftover and will be dropped.
               UPDATE payments p SET
                   attempt = p.attempt + CASE WHEN p.final_at IS NULL THEN 1 ELSE 0 END,
                   lease_until = CASE WHEN p.final_at IS NULL THEN now() + make_interval(secs => $3) END,
                   first_call_at = CASE WHEN job.calls AND p.final_at IS NULL
                                        THEN COALESCE(p.first_call_at, now()) ELSE p.first_call_at END
               FROM job WHERE p.merchant_id = job.merchant_id AND p.id = job.subject_id
               RETURNING p.*, job.request_id, job.deliveries, job.resend, job.due_at, job.calls,
                         COALESCE(p.first_call_at = now(), true) AS untouched),
           call AS (
               INSERT INTO provider_calls (merchant_id, payment_id, request_id, attempt, kind, key_scope)
               SELECT merchant_id, id, request_id, attempt, CASE WHEN charges THEN 'charge' ELSE 'lookup' END,
                      CASE WHEN charges THEN $9 END
               FROM (SELECT *, untouched OR NOT $8 AS charges FROM claimed) AS c WHERE calls AND final_at IS NULL)
           SELECT merchant_id, id, payment_intent_id, idempotency_key, status AS "status: Status",
                  amount_minor, currency, payment_method_id, acquirer, metadata, traceparent,
                  transaction_id, decline_code, decline_message, failure_code, failure_message,
                  attempt, lease_until, first_call_at, unknown_at, in_review, version,
                  created_at, updated_at, final_at,
                  request_id AS "request_id!", deliveries, resend, due_at, untouched AS "untouched!", now() AS "now!"
           FROM claimed"#,
        take.lane(),
        take.limit,
        take.lease.as_secs_f64(),
        take.worker,
        take.budget,
        take.step.calls_acquirer(),
        take.due_for.as_secs_f64(),
        take.asks,
        take.key_scope,
    )
    .fetch_all(pool)
    .await?;
    let claims = rows.into_iter().map(|row| {
        let clock = DbClock::new(row.now, taken);
        Claim {
            step: take.step,
            payment: Payment {
                merchant_id: row.merchant_id,
                id: row.id,
                payment_intent_id: row.payment_intent_id,
                idempotency_key: row.idempotency_key,
                status: row.status,
                amount_minor: row.amount_minor,
                currency: row.currency,
                payment_method_id: row.payment_method_id,
                acquirer: row.acquirer,
                metadata: row.metadata,
                traceparent: row.traceparent,
                transaction_id: row.transaction_id,
                decline_code: row.decline_code,
                decline_message: row.decline_message,
                failure_code: row.failure_code,
                failure_message: row.failure_message,
                attempt: row.attempt,
                lease_until: row.lease_until,
                first_call_at: row.first_call_at,
                unknown_at: row.unknown_at,
                in_review: row.in_review,
                version: row.version,
                created_at: row.created_at,
                updated_at: row.updated_at,
                final_at: row.final_at,
            },
            request_id: row.request_id,
            untouched: row.untouched,
            resend: row.resend,
            deliveries: row.deliveries,
            due_at: row.due_at,
            clock,
            lease_until: clock.instant_after(take.lease),
        }
    });
    Ok(claims.collect())
}

/// A claim that is handed back unused: on shutdown, or because the lease would not outlive the call.
#[derive(Clone, Debug)]
pub struct GiveBack {
    /// The claim's fence.
    pub fence: Fence,
    /// The claim's step.
    pub step: Step,
    /// The call that did not happen.
    pub request_id: Uuid,
    /// See [`Claim::untouched`]: if this would have been the first call, none ever left.
    pub untouched: bool,
    /// Due again after this rest.
    pub after: Duration,
}

impl GiveBack {
    /// Hands `claim` back, due again `after` a rest.
    #[must_use]
    pub const fn new(claim: &Claim, after: Duration) -> Self {
        let Claim { step, request_id, untouched, .. } = *claim;
        Self { fence: claim.fence(), step, request_id, untouched, after }
    }
}

/// Gives claims back: the delivery refunded, the call marked as never sent.
pub(crate) async fn give_back(conn: &mut PgConnection, given: &[&GiveBack]) -> sqlx::Result<Vec<Verdict>> {
    let merchants: Vec<Uuid> = given.iter().map(|g| g.fence.of.merchant_id).collect();
    let payments: Vec<Uuid> = given.iter().map(|g| g.fence.of.payment_id).collect();
    let attempts: Vec<i32> = given.iter().map(|g| g.fence.attempt).collect();
    let steps: Vec<&str> = given.iter().map(|g| g.step.as_str()).collect();
    let requests: Vec<Uuid> = given.iter().map(|g| g.request_id).collect();
    let untouched: Vec<bool> = given.iter().map(|g| g.untouched).collect();
    let rests: Vec<f64> = given.iter().map(|g| g.after.as_secs_f64()).collect();
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[], $5::uuid[], $6::bool[], $7::float8[])
               WITH ORDINALITY AS i (merchant_id, payment_id, attempt, step, request_id, untouched, rest_s, ord)),
           free AS (
               UPDATE payments p SET lease_until = NULL,
                      first_call_at = CASE WHEN i.untouched THEN NULL ELSE p.first_call_at END
               FROM input i
               WHERE p.merchant_id = i.merchant_id AND p.id = i.payment_id AND p.attempt = i.attempt
                 AND p.lease_until IS NOT NULL
               RETURNING i.*),
           call AS (
               UPDATE provider_calls c SET finished_at = now(), outcome = 'NOT_SENT' FROM free f
               WHERE c.merchant_id = f.merchant_id AND c.payment_id = f.payment_id AND c.request_id = f.request_id
                 AND c.outcome IS NULL),
           job AS (
               UPDATE jobs j SET run_at = now() + make_interval(secs => f.rest_s), deliveries = GREATEST(j.deliveries - 1, 0), claimed_by = NULL FROM free f
               WHERE j.merchant_id = f.merchant_id AND j.step = f.step AND j.subject_id = f.payment_id)
           SELECT ord AS "ord!", now() AS "at!" FROM free"#,
        &merchants,
        &payments,
        &attempts,
        &steps as &[&str],
        &requests,
        &untouched,
        &rests,
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(given.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}

/// A job whose payment is final already: nothing is left to do.
#[derive(Clone, Copy, Debug)]
pub struct Drop {
    /// The payment.
    pub of: PaymentKey,
}

/// Drops every payment job of final payments.
pub(crate) async fn drop_jobs(conn: &mut PgConnection, drops: &[&Drop]) -> sqlx::Result<Vec<Verdict>> {
    let merchants: Vec<Uuid> = drops.iter().map(|d| d.of.merchant_id).collect();
    let payments: Vec<Uuid> = drops.iter().map(|d| d.of.payment_id).collect();
    let at = sqlx::query_scalar!(
        r#"WITH gone AS (
               DELETE FROM jobs j USING unnest($1::uuid[], $2::uuid[]) AS i (merchant_id, payment_id)
               WHERE j.merchant_id = i.merchant_id AND j.step IN ('charge', 'lookup', 'settle')
                 AND j.subject_id = i.payment_id)
           SELECT now() AS "at!""#,
        &merchants,
        &payments,
    )
    .fetch_one(conn)
    .await?;
    Ok(vec![Verdict::Applied(at); drops.len()])
}
