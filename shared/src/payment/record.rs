//! Recording what a call taught us, in a short, fenced transaction, where settle does not record it
//! along with everything else: outcomes that leave the payment open, and final ones that settle could
//! not write.

use super::Fence;
use super::call::{Ended, Endings, Fences};
use crate::committer::Verdict;
use crate::queue::Step;
use crate::review::Reason;
use sqlx::PgConnection;
use std::time::Duration;
use uuid::Uuid;

/// A final outcome, made durable on its own. The same commit turns the claimed job into the settle
/// job, which comes again when the lease has lapsed and settles from the record, without another call.
#[derive(Clone, Debug)]
pub struct Final {
    /// The claim's fence.
    pub fence: Fence,
    /// The claimed step.
    pub step: Step,
    /// The call.
    pub ended: Ended,
}

/// Records final outcomes and hands their payments to settle.
pub(crate) async fn finals(conn: &mut PgConnection, rows: &[&Final]) -> sqlx::Result<Vec<Verdict>> {
    let fences = Fences::of(rows.iter().map(|r| r.fence));
    let ended = Endings::of(rows.iter().map(|r| Some(&r.ended)));
    let steps: Vec<&str> = rows.iter().map(|r| r.step.as_str()).collect();
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[],
                                    $5::uuid[], $6::int2[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[])
               WITH ORDINALITY AS i (merchant_id, payment_id, attempt, status,
                                     request_id, http_status, outcome, transaction_id, code, message, step, ord)),
           held AS (
               SELECT i.* FROM input i JOIN payments p ON p.merchant_id = i.merchant_id AND p.id = i.payment_id
               WHERE p.attempt = i.attempt AND p.status = i.status AND p.lease_until IS NOT NULL
               ORDER BY i.merchant_id, i.payment_id
               FOR NO KEY UPDATE OF p),
           ended AS (
               UPDATE provider_calls c SET finished_at = now(), http_status = h.http_status, outcome = h.outcome,
                      transaction_id = h.transaction_id, code = h.code, message = h.message
               FROM held h
               WHERE c.merchant_id = h.merchant_id AND c.payment_id = h.payment_id AND c.request_id = h.request_id),
           job AS (
               UPDATE jobs j SET step = 'settle', route = '', deliveries = 1 FROM held h
               WHERE j.merchant_id = h.merchant_id AND j.step = h.step AND j.subject_id = h.payment_id)
           SELECT ord AS "ord!", now() AS "at!" FROM held"#,
        &fences.merchants,
        &fences.payments,
        &fences.attempts,
        &fences.statuses as &[&str],
        &ended.requests as &[Option<Uuid>],
        &ended.http_statuses as &[Option<i16>],
        &ended.outcomes as &[Option<&str>],
        &ended.transactions as &[Option<&str>],
        &ended.codes as &[Option<&str>],
        &ended.messages as &[Option<&str>],
        &steps as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(rows.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}

/// An outcome that leaves the payment open: it becomes (or stays) UNKNOWN, its key AWAITING_RESULT.
#[derive(Clone, Debug)]
pub struct Open {
    /// The claim's fence.
    pub fence: Fence,
    /// The claimed step.
    pub step: Step,
    /// The call; `None` when the machine gives up without one.
    pub ended: Option<Ended>,
    /// Who writes this: the worker's name.
    pub actor: String,
    /// What follows.
    pub then: Then,
}

/// What follows an outcome that leaves a payment open.
#[derive(Clone, Debug)]
pub enum Then {
    /// Ask the acquirer again.
    LookUp {
        /// After this rest.
        after: Duration,
        /// Nothing was heard from the acquirer: the delivery is not charged to the budget.
        refund: bool,
    },
    /// A person decides; the job ends.
    Review {
        /// Why.
        reason: Reason,
        /// What the machine knew.
        detail: String,
    },
}

/// Records outcomes that leave payments open.
pub(crate) async fn opens(conn: &mut PgConnection, rows: &[&Open]) -> sqlx::Result<Vec<Verdict>> {
    let fences = Fences::of(rows.iter().map(|r| r.fence));
    let steps: Vec<&str> = rows.iter().map(|r| r.step.as_str()).collect();
    let actors: Vec<&str> = rows.iter().map(|r| r.actor.as_str()).collect();
    let ended = Endings::of(rows.iter().map(|r| r.ended.as_ref()));
    let (mut delays, mut refunds, mut reasons, mut details) = (vec![], vec![], vec![], vec![]);
    for row in rows {
        let (delay, refund, reason, detail) = match &row.then {
            Then::LookUp { after, refund } => (Some(after.as_secs_f64()), *refund, None, None),
            Then::Review { reason, detail } => (None, false, Some(reason.as_str()), Some(detail.as_str())),
        };
        delays.push(delay);
        refunds.push(refund);
        reasons.push(reason);
        details.push(detail);
    }
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[],
                                    $5::uuid[], $6::int2[], $7::text[], $8::text[], $9::text[], $10::text[],
                                    $11::text[], $12::text[], $13::float8[], $14::bool[], $15::text[], $16::text[])
               WITH ORDINALITY AS i (merchant_id, payment_id, attempt, from_status,
                                     request_id, http_status, outcome, transaction_id, code, message,
                                     step, actor, delay_s, refund, reason, detail, ord)),
           held AS (
               UPDATE payments p SET
                   status = 'UNKNOWN', unknown_at = COALESCE(p.unknown_at, now()), lease_until = NULL,
                   in_review = p.in_review OR i.reason IS NOT NULL,
                   -- A look-up that taught nothing changes nothing that a client can see.
                   version = p.version + CASE WHEN p.status = 'PENDING' OR (i.reason IS NOT NULL AND NOT p.in_review)
                                              THEN 1 ELSE 0 END,
                   updated_at = CASE WHEN p.status = 'PENDING' OR (i.reason IS NOT NULL AND NOT p.in_review)
                                     THEN now() ELSE p.updated_at END
               FROM input i
               WHERE p.merchant_id = i.merchant_id AND p.id = i.payment_id
                 AND p.attempt = i.attempt AND p.status = i.from_status AND p.lease_until IS NOT NULL
               RETURNING i.*, p.version, p.idempotency_key, p.acquirer),
           key AS (
               UPDATE idempotency_keys k SET state = 'AWAITING_RESULT' FROM held h
               WHERE k.merchant_id = h.merchant_id AND k.operation = $17 AND k.key = h.idempotency_key
                 AND k.payment_id = h.payment_id AND k.state = 'IN_PROGRESS'),
           ended AS (
               UPDATE provider_calls c SET finished_at = now(), http_status = h.http_status, outcome = h.outcome,
                      transaction_id = h.transaction_id, code = h.code, message = h.message
               FROM held h
               WHERE c.merchant_id = h.merchant_id AND c.payment_id = h.payment_id AND c.request_id = h.request_id),
           history AS (
               INSERT INTO payment_history (merchant_id, payment_id, version, from_status, to_status, attempt, actor, reason)
               SELECT merchant_id, payment_id, version, from_status, 'UNKNOWN', attempt, actor,
                      COALESCE(reason, code, outcome, 'no_outcome_on_record')
               FROM held
               -- One line per visible change, none for a lookup that taught nothing.
               ON CONFLICT DO NOTHING),
           review AS (
               INSERT INTO reviews (merchant_id, payment_id, reason, detail)
               SELECT merchant_id, payment_id, reason, detail FROM held WHERE reason IS NOT NULL
               ON CONFLICT DO NOTHING),
           gone AS (
               DELETE FROM jobs j USING held h
               WHERE j.merchant_id = h.merchant_id AND j.step = h.step AND j.subject_id = h.payment_id
                 AND (h.reason IS NOT NULL OR h.step <> 'lookup')),
           job AS (
               INSERT INTO jobs AS j (merchant_id, step, subject_id, route, run_at)
               SELECT merchant_id, 'lookup', payment_id, acquirer, now() + make_interval(secs => delay_s) FROM held WHERE reason IS NULL
               ON CONFLICT (merchant_id, subject_id, step, route) DO UPDATE SET
                   run_at = EXCLUDED.run_at, claimed_by = NULL, resend = false,
                   deliveries = j.deliveries - (SELECT h.refund::int FROM held h
                                                WHERE h.merchant_id = j.merchant_id AND h.payment_id = j.subject_id))
           SELECT ord AS "ord!", now() AS "at!" FROM held"#,
        &fences.merchants,
        &fences.payments,
        &fences.attempts,
        &fences.statuses as &[&str],
        &ended.requests as &[Option<Uuid>],
        &ended.http_statuses as &[Option<i16>],
        &ended.outcomes as &[Option<&str>],
        &ended.transactions as &[Option<&str>],
        &ended.codes as &[Option<&str>],
        &ended.messages as &[Option<&str>],
        &steps as &[&str],
        &actors as &[&str],
        &delays as &[Option<f64>],
        &refunds,
        &reasons as &[Option<&str>],
        &details as &[Option<&str>],
        super::OPERATION,
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(rows.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}
