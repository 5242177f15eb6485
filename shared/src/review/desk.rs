//! The desk: everything that a person can do with what a machine could not decide. Each deed is one short
//! transaction that also appends to the audit; none of them calls an acquirer or changes a payment's state. What is to
//! be asked, sent or settled is left to the workers, under their fences.

use super::MACHINE;
use super::audit::{Action, Deed};
use super::decision::DecisionState;
use crate::config::Acquirer;
use crate::payment::life::Status;
use crate::payment::sending::{History, Known, MaySend, may_send};
use crate::payment::{Payment, PaymentKey, call, read};
use crate::text::clean;
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Why something was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such payment.
    #[error("there is no such payment")]
    NoPayment,
    /// There is no such review.
    #[error("there is no such review")]
    NoReview,
    /// There is no such decision.
    #[error("there is no such decision")]
    NoDecision,
    /// The payment is final.
    #[error("the payment is {0}, and that never changes; nothing was done")]
    Final(Status),
    /// The payment is not final.
    #[error(
        "the payment is {0}: ask the acquirer, or decide about it; a review is closed when nothing is left to decide"
    )]
    Open(Status),
    /// The machine is still at it.
    #[error("the payment is {0} and not in review: the machine is still finding out; decide when it has given up")]
    NotInReview(Status),
    /// The payment is not as the person saw it.
    #[error("the payment changed meanwhile; its version is {0}: look again")]
    Changed(i32),
    /// Somebody did the same a moment ago, or a worker is at it.
    #[error("it is being asked already; look again in a moment")]
    UnderWay,
    /// Another decision about this payment is open.
    #[error("decision {0} about this payment is open; approve or reject it first")]
    DecisionOpen(Uuid),
    /// Whoever proposes may not approve.
    #[error("you proposed it: another person has to approve or reject it")]
    SamePerson,
    /// The decision was made.
    #[error("the decision is {0:?} already")]
    Decided(DecisionState),
    /// The contract does not protect another send.
    #[error("the acquirer's contract does not protect another send of this payment ({0}); nothing was sent")]
    NotProtected(&'static str),
    /// The acquirer's profile is not configured here.
    #[error("no [acquirers] profile named {0:?} is configured here")]
    NoAcquirer(String),
    /// The review is about something else.
    #[error("this review is not about an event that could not be delivered")]
    NotADelivery,
    /// Something is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The database.
    #[error("the database could not be asked: {0}")]
    Db(#[from] sqlx::Error),
}

/// The payment as it is now.
pub(super) async fn look(conn: &mut PgConnection, of: PaymentKey) -> Result<Payment, Refused> {
    read::one(conn, of).await?.ok_or(Refused::NoPayment)
}

/// Lets the payment's look-up be due at once, with a fresh budget. False: it is, or a worker has it.
pub(super) async fn look_up_at_once(conn: &mut PgConnection, payment: &Payment, resend: bool) -> sqlx::Result<bool> {
    let due = sqlx::query!(
        r#"INSERT INTO jobs AS j (merchant_id, step, subject_id, route, resend)
           SELECT $1, 'lookup', $2, $3, $4
           -- A charge that waits or runs is nobody's doubt yet.
           WHERE NOT EXISTS (SELECT FROM jobs o WHERE o.merchant_id = $1 AND o.subject_id = $2 AND o.step IN ('charge', 'settle'))
           ON CONFLICT (merchant_id, subject_id, step, route) DO UPDATE SET run_at = now(), deliveries = 0, resend = $4
               WHERE j.claimed_by IS NULL AND (j.run_at > now() OR (j.resend IS DISTINCT FROM $4 AND $4))
           RETURNING 1 AS one"#,
        payment.merchant_id,
        payment.id,
        payment.acquirer,
        resend,
    )
    .fetch_optional(conn)
    .await?;
    Ok(due.is_some())
}

async fn open(conn: &mut PgConnection, of: PaymentKey) -> Result<Payment, Refused> {
    let payment = look(conn, of).await?;
    if payment.status.is_final() { Err(Refused::Final(payment.status)) } else { Ok(payment) }
}

/// Asks the acquirer now what became of the payment. Never a charge.
///
/// # Errors
/// [`Refused`].
pub async fn ask(pool: &PgPool, of: PaymentKey, by: &str, reason: &str) -> Result<(), Refused> {
    let mut tx = pool.begin().await?;
    let payment = open(&mut tx, of).await?;
    if !look_up_at_once(&mut tx, &payment, false).await? {
        return Err(Refused::UnderWay);
    }
    let deed = Deed { of, action: Action::Ask, operator: by, reason, evidence: None };
    deed.write(&mut tx, None, &payment, json!({"lookup": "due"})).await?;
    Ok(tx.commit().await?)
}

/// Sends the same charge once more, with the same key: only where the contract protects that now. The worker checks it
/// again.
///
/// # Errors
/// [`Refused`].
pub async fn resend(
    pool: &PgPool,
    of: PaymentKey,
    by: &str,
    reason: &str,
    acquirer: Option<&Acquirer>,
) -> Result<(), Refused> {
    let now = crate::db::now(pool).await?;
    let mut tx = pool.begin().await?;
    let payment = open(&mut tx, of).await?;
    let acquirer = acquirer.ok_or_else(|| Refused::NoAcquirer(payment.acquirer.clone()))?;
    let sends = call::sends(pool, of, &acquirer.key_scope(), Uuid::nil()).await?;
    let history = History {
        first_call_at: payment.first_call_at,
        last_call_at: sends.last_at,
        in_scope: sends.in_scope,
        known: Known::ResendAsked,
    };
    if may_send(&acquirer.contract(), history, now) != MaySend::Send {
        return Err(Refused::NotProtected(
            "the key has to be honoured, still remembered, known where we would send, and a repeat has to execute nothing",
        ));
    }
    if !look_up_at_once(&mut tx, &payment, true).await? {
        return Err(Refused::UnderWay);
    }
    let deed = Deed { of, action: Action::Resend, operator: by, reason, evidence: None };
    deed.write(&mut tx, None, &payment, json!({"resend": "due"})).await?;
    Ok(tx.commit().await?)
}

/// Says something about a payment.
///
/// # Errors
/// [`Refused`].
pub async fn comment(pool: &PgPool, of: PaymentKey, by: &str, text: &str) -> Result<(), Refused> {
    if text.trim().is_empty() {
        return Err(Refused::Missing("a text"));
    }
    let mut tx = pool.begin().await?;
    let payment = look(&mut tx, of).await?;
    let deed = Deed { of, action: Action::Comment, operator: by, reason: text, evidence: None };
    deed.write(&mut tx, None, &payment, json!({})).await?;
    Ok(tx.commit().await?)
}

/// An open review, locked.
struct Locked {
    payment_id: Uuid,
    event_id: Option<Uuid>,
    sink: Option<String>,
}

async fn locked(conn: &mut PgConnection, merchant_id: Uuid, review_id: Uuid) -> Result<Locked, Refused> {
    let row = sqlx::query_as!(
        Locked,
        "SELECT payment_id, event_id, sink FROM reviews WHERE merchant_id = $1 AND id = $2 AND state = 'OPEN' FOR UPDATE",
        merchant_id,
        review_id,
    );
    row.fetch_optional(conn).await?.ok_or(Refused::NoReview)
}

/// Gives an open review to somebody; `None`: to nobody.
///
/// # Errors
/// [`Refused`].
pub async fn assign(
    pool: &PgPool,
    merchant_id: Uuid,
    review_id: Uuid,
    to: Option<&str>,
    by: &str,
) -> Result<(), Refused> {
    let mut tx = pool.begin().await?;
    let review = locked(&mut tx, merchant_id, review_id).await?;
    let of = PaymentKey { merchant_id, payment_id: review.payment_id };
    let payment = look(&mut tx, of).await?;
    sqlx::query!(
        "UPDATE reviews SET assigned_to = $3 WHERE merchant_id = $1 AND id = $2",
        merchant_id,
        review_id,
        to.map(|name| clean(name, 100)),
    )
    .execute(&mut *tx)
    .await?;
    let deed = Deed { of, action: Action::Assign, operator: by, reason: to.unwrap_or("nobody"), evidence: None };
    deed.write(&mut tx, None, &payment, json!({"review": review_id, "assigned_to": to})).await?;
    Ok(tx.commit().await?)
}

/// Closes an open review of a payment that is final: nothing is left to decide.
///
/// # Errors
/// [`Refused`].
pub async fn resolve(pool: &PgPool, merchant_id: Uuid, review_id: Uuid, by: &str, reason: &str) -> Result<(), Refused> {
    if reason.trim().is_empty() {
        return Err(Refused::Missing("a reason"));
    }
    let mut tx = pool.begin().await?;
    let review = locked(&mut tx, merchant_id, review_id).await?;
    let of = PaymentKey { merchant_id, payment_id: review.payment_id };
    let payment = look(&mut tx, of).await?;
    if !payment.status.is_final() {
        return Err(Refused::Open(payment.status));
    }
    end(&mut tx, of, review_id, "resolved", by).await?;
    let deed = Deed { of, action: Action::Resolve, operator: by, reason, evidence: None };
    deed.write(&mut tx, None, &payment, json!({"review": review_id, "state": "RESOLVED"})).await?;
    Ok(tx.commit().await?)
}

/// Brings a dead event to its sink once more, on the same route and with a fresh budget.
///
/// # Errors
/// [`Refused`].
pub async fn redeliver(
    pool: &PgPool,
    merchant_id: Uuid,
    review_id: Uuid,
    by: &str,
    reason: &str,
) -> Result<(), Refused> {
    let mut tx = pool.begin().await?;
    let review = locked(&mut tx, merchant_id, review_id).await?;
    let (Some(event_id), Some(sink)) = (review.event_id, review.sink) else { return Err(Refused::NotADelivery) };
    let of = PaymentKey { merchant_id, payment_id: review.payment_id };
    let payment = look(&mut tx, of).await?;
    sqlx::query!(
        r#"WITH again AS (
               UPDATE deliveries SET state = 'PENDING' WHERE merchant_id = $1 AND event_id = $2 AND sink = $3 AND state = 'DEAD'
               RETURNING merchant_id, event_id, sink)
           INSERT INTO jobs (merchant_id, step, subject_id, route) SELECT merchant_id, 'publish', event_id, sink FROM again
           ON CONFLICT DO NOTHING"#,
        merchant_id,
        event_id,
        sink,
    )
    .execute(&mut *tx)
    .await?;
    end(&mut tx, of, review_id, "redelivered", by).await?;
    let deed = Deed { of, action: Action::Redeliver, operator: by, reason, evidence: None };
    deed.write(&mut tx, None, &payment, json!({"event": event_id, "sink": sink})).await?;
    Ok(tx.commit().await?)
}

/// Ends an open review; a payment that has no other is no longer in review.
async fn end(conn: &mut PgConnection, of: PaymentKey, review_id: Uuid, resolution: &str, by: &str) -> sqlx::Result<()> {
    sqlx::query!(
        r#"WITH ended AS (
               UPDATE reviews SET state = 'RESOLVED', resolution = $4, resolved_by = $5, resolved_at = now()
               WHERE merchant_id = $1 AND id = $2 AND state = 'OPEN' RETURNING id)
           UPDATE payments SET in_review = false, version = version + 1, updated_at = now()
           WHERE merchant_id = $1 AND id = $3 AND in_review AND EXISTS (SELECT FROM ended)
             AND NOT EXISTS (SELECT FROM reviews r WHERE r.merchant_id = $1 AND r.payment_id = $3 AND r.state = 'OPEN'
                             AND r.id <> $2 AND r.reason <> 'delivery_exhausted')"#,
        of.merchant_id,
        review_id,
        of.payment_id,
        resolution,
        by,
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends the reviews of payments that became final meanwhile: the doubt that they were about is gone. Decisions about
/// them end as well. Returns how many reviews.
///
/// # Errors
/// When the database cannot be asked; the next pass goes on.
pub async fn end_doubts(pool: &PgPool) -> sqlx::Result<i64> {
    sqlx::query_scalar!(
        r#"WITH over AS (
               SELECT r.merchant_id, r.id, r.payment_id, p.status FROM reviews r
               JOIN payments p ON p.merchant_id = r.merchant_id AND p.id = r.payment_id
               WHERE r.state = 'OPEN' AND p.final_at IS NOT NULL
                 AND r.reason NOT IN ('late_success', 'duplicate_at_provider', 'delivery_exhausted')
                 AND r.opened_at <= p.final_at
               ORDER BY r.opened_at LIMIT 100 FOR UPDATE OF r SKIP LOCKED),
           ended AS (
               UPDATE reviews r SET state = 'RESOLVED', resolution = over.status, resolved_by = $1, resolved_at = now()
               FROM over WHERE r.merchant_id = over.merchant_id AND r.id = over.id),
           decided AS (
               UPDATE decisions d SET
                   state = CASE WHEN d.state = 'APPROVED' AND d.outcome = over.status THEN 'APPLIED' ELSE 'STALE' END,
                   note = 'the payment is ' || over.status
               FROM over WHERE d.merchant_id = over.merchant_id AND d.payment_id = over.payment_id
                 AND d.state IN ('PROPOSED', 'APPROVED')),
           shown AS (
               UPDATE payments p SET in_review = false, version = p.version + 1, updated_at = now()
               FROM (SELECT DISTINCT merchant_id, payment_id FROM over) AS o
               WHERE p.merchant_id = o.merchant_id AND p.id = o.payment_id AND p.in_review
                 AND NOT EXISTS (SELECT FROM reviews r WHERE r.merchant_id = p.merchant_id AND r.payment_id = p.id
                                 AND r.state = 'OPEN' AND r.reason IN ('late_success', 'duplicate_at_provider')))
           SELECT count(*) AS "count!" FROM over"#,
        MACHINE,
    )
    .fetch_one(pool)
    .await
}
