//! The desk: everything that a person can do with what a machine could not decide. Each deed is one short
//! transaction that also appends to the audit; none of them calls an acquirer or changes a payment's state. What is to
//! be asked, sent or settled is left to the workers, under their fences.

use super::allowed::Situation;
use super::audit::{self, Action, Deed};
use super::{MACHINE, Reason, Refused, Review, decision, locked};
use crate::config::Acquirer;
use crate::operator::{self, OperatorError};
use crate::payment::sending::{History, Known, MaySend, may_send};
use crate::payment::{Payment, PaymentKey, call, read};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Whether a deed was done now, or by the same operator before: a repeat changes nothing and is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// Now.
    Now,
    /// Before.
    Before,
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

/// What there is to act on, for somebody who looks at the payment, not at one of its reviews.
async fn about(conn: &mut PgConnection, of: PaymentKey, action: Action) -> Result<Payment, Refused> {
    let payment = look(conn, of).await?;
    Situation { payment: &payment, review: None, decision: None }.allows(action)?;
    Ok(payment)
}

/// Asks the acquirer now what became of the payment. Never a charge.
///
/// # Errors
/// [`Refused`]; [`Refused::UnderWay`] when it is being asked and another operator, or the machine, saw to it.
pub async fn ask(pool: &PgPool, of: PaymentKey, by: &str, reason: &str) -> Result<Done, Refused> {
    said(reason)?;
    let mut tx = pool.begin().await?;
    let payment = about(&mut tx, of, Action::Ask).await?;
    if !look_up_at_once(&mut tx, &payment, false).await? {
        return under_way(&mut tx, of, Action::Ask, by).await;
    }
    let deed = Deed { action: Action::Ask, operator: by, reason, ..Deed::about(of) };
    deed.write(&mut tx, &payment, json!({"lookup": "due"})).await?;
    tx.commit().await?;
    Ok(Done::Now)
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
) -> Result<Done, Refused> {
    said(reason)?;
    let payment = look(&mut *pool.acquire().await?, of).await?;
    let protected = may_resend(pool, &payment, acquirer).await;
    let mut tx = pool.begin().await?;
    let payment = about(&mut tx, of, Action::Resend).await?;
    protected?;
    if !look_up_at_once(&mut tx, &payment, true).await? {
        return under_way(&mut tx, of, Action::Resend, by).await;
    }
    let deed = Deed { action: Action::Resend, operator: by, reason, ..Deed::about(of) };
    deed.write(&mut tx, &payment, json!({"resend": "due"})).await?;
    tx.commit().await?;
    Ok(Done::Now)
}

/// Whether the contract protects another send of this payment now.
///
/// # Errors
/// [`Refused::NotProtected`], [`Refused::NoAcquirer`].
pub async fn may_resend(pool: &PgPool, payment: &Payment, acquirer: Option<&Acquirer>) -> Result<(), Refused> {
    let acquirer = acquirer.ok_or_else(|| Refused::NoAcquirer(payment.acquirer.clone()))?;
    let now = crate::db::now(pool).await?;
    let sends = call::sends(pool, payment.key(), &acquirer.key_scope(), Uuid::nil()).await?;
    let history = History {
        first_call_at: payment.first_call_at,
        last_call_at: sends.last_at,
        in_scope: sends.in_scope,
        known: Known::ResendAsked,
    };
    if may_send(&acquirer.contract(), history, now) == MaySend::Send {
        return Ok(());
    }
    Err(Refused::NotProtected(
        "the key has to be honoured, still remembered, known where we would send, and a repeat has to execute nothing",
    ))
}

/// Whoever did the same last hears that it was done; anybody else that it is under way.
async fn under_way(conn: &mut PgConnection, of: PaymentKey, action: Action, by: &str) -> Result<Done, Refused> {
    match audit::last_by(conn, of, action).await? {
        Some(operator) if operator == by => Ok(Done::Before),
        _ => Err(Refused::UnderWay),
    }
}

/// A deed has a reason: whoever looks at it in a year must understand it.
pub(super) fn said(reason: &str) -> Result<(), Refused> {
    if reason.trim().is_empty() { Err(Refused::Missing("a reason")) } else { Ok(()) }
}

/// Says something about a payment.
///
/// # Errors
/// [`Refused`].
pub async fn comment(pool: &PgPool, of: PaymentKey, by: &str, text: &str) -> Result<(), Refused> {
    said(text)?;
    let mut tx = pool.begin().await?;
    let payment = about(&mut tx, of, Action::Comment).await?;
    let deed = Deed { action: Action::Comment, operator: by, reason: text, ..Deed::about(of) };
    deed.write(&mut tx, &payment, json!({})).await?;
    Ok(tx.commit().await?)
}

/// A review about to be acted on, its payment, and what may not be done about them refused.
async fn at_review(
    conn: &mut PgConnection,
    merchant_id: Uuid,
    review_id: Uuid,
    action: Action,
) -> Result<(Review, Payment, Result<(), Refused>), Refused> {
    let review = locked(conn, merchant_id, review_id).await?;
    let of = PaymentKey { merchant_id, payment_id: review.payment_id };
    let payment = look(conn, of).await?;
    let decision = decision::open_of(conn, of).await?;
    let allowed = Situation { payment: &payment, review: Some(&review), decision: decision.as_ref() }.allows(action);
    Ok((review, payment, allowed))
}

/// Gives an open review to an operator; `None`: to nobody.
///
/// # Errors
/// [`Refused`].
pub async fn assign(
    pool: &PgPool,
    merchant_id: Uuid,
    review_id: Uuid,
    to: Option<&str>,
    by: &str,
) -> Result<Done, Refused> {
    if let Some(name) = to {
        is_enabled(pool, name).await?;
    }
    let mut tx = pool.begin().await?;
    let (review, payment, allowed) = at_review(&mut tx, merchant_id, review_id, Action::Assign).await?;
    allowed?;
    if review.assigned_to.as_deref() == to {
        return Ok(Done::Before);
    }
    sqlx::query!("UPDATE reviews SET assigned_to = $3 WHERE merchant_id = $1 AND id = $2", merchant_id, review_id, to)
        .execute(&mut *tx)
        .await?;
    let reason = to.unwrap_or("nobody");
    let deed = Deed { action: Action::Assign, operator: by, reason, ..Deed::at(&review) };
    deed.write(&mut tx, &payment, json!({"assigned_to": to, "assigned_before": review.assigned_to})).await?;
    tx.commit().await?;
    Ok(Done::Now)
}

async fn is_enabled(pool: &PgPool, name: &str) -> Result<(), Refused> {
    match operator::named(pool, name).await {
        Ok(operator) if operator.disabled_at.is_none() => Ok(()),
        Err(OperatorError::Db(error)) => Err(error.into()),
        Ok(_) | Err(_) => Err(Refused::NoOperator(name.to_owned())),
    }
}

/// Closes an open review in which nothing is left to decide.
///
/// # Errors
/// [`Refused`].
pub async fn resolve(
    pool: &PgPool,
    merchant_id: Uuid,
    review_id: Uuid,
    by: &str,
    reason: &str,
) -> Result<Done, Refused> {
    said(reason)?;
    let mut tx = pool.begin().await?;
    let (review, payment, allowed) = at_review(&mut tx, merchant_id, review_id, Action::Resolve).await?;
    if was(&review, RESOLVED, by) {
        return Ok(Done::Before);
    }
    allowed?;
    end(&mut tx, &review, RESOLVED, by).await?;
    let deed = Deed { action: Action::Resolve, operator: by, reason, ..Deed::at(&review) };
    deed.write(&mut tx, &payment, json!({"state": "RESOLVED"})).await?;
    tx.commit().await?;
    Ok(Done::Now)
}

/// How a person ended a review.
const RESOLVED: &str = "resolved";
const REDELIVERED: &str = "redelivered";

/// Whether this very operator ended the review so: the request is a repeat.
fn was(review: &Review, resolution: &str, by: &str) -> bool {
    (review.resolution.as_deref(), review.resolved_by.as_deref()) == (Some(resolution), Some(by))
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
) -> Result<Done, Refused> {
    said(reason)?;
    let mut tx = pool.begin().await?;
    let (review, payment, allowed) = at_review(&mut tx, merchant_id, review_id, Action::Redeliver).await?;
    if was(&review, REDELIVERED, by) {
        return Ok(Done::Before);
    }
    allowed?;
    if !deliver_again(&mut tx, &review).await? {
        return Err(Refused::NothingToDeliver);
    }
    end(&mut tx, &review, REDELIVERED, by).await?;
    let deed = Deed { action: Action::Redeliver, operator: by, reason, ..Deed::at(&review) };
    deed.write(&mut tx, &payment, json!({"event": review.event_id, "sink": review.sink})).await?;
    tx.commit().await?;
    Ok(Done::Now)
}

/// False: it is not dead, or gone.
async fn deliver_again(conn: &mut PgConnection, review: &Review) -> sqlx::Result<bool> {
    let again = sqlx::query_scalar!(
        r#"WITH again AS (
               UPDATE deliveries SET state = 'PENDING' WHERE merchant_id = $1 AND event_id = $2 AND sink = $3 AND state = 'DEAD'
               RETURNING merchant_id, event_id, sink),
           job AS (
               INSERT INTO jobs (merchant_id, step, subject_id, route) SELECT merchant_id, 'publish', event_id, sink FROM again
               ON CONFLICT DO NOTHING)
           SELECT count(*) AS "again!" FROM again"#,
        review.merchant_id,
        review.event_id,
        review.sink,
    );
    Ok(again.fetch_one(conn).await? > 0)
}

/// Takes a dead letter up again: an event goes to its sink once more, a payment whose step crashed is looked up.
///
/// # Errors
/// [`Refused`]; [`Refused::NotADeadLetter`] for a review of another reason.
pub async fn replay(
    pool: &PgPool,
    merchant_id: Uuid,
    review_id: Uuid,
    by: &str,
    reason: &str,
) -> Result<Done, Refused> {
    let (review, _, _) = at_review(&mut *pool.begin().await?, merchant_id, review_id, Action::Comment).await?;
    match review.reason {
        Reason::DeliveryExhausted => redeliver(pool, merchant_id, review_id, by, reason).await,
        Reason::StepCrashed => ask(pool, PaymentKey { merchant_id, payment_id: review.payment_id }, by, reason).await,
        _ => Err(Refused::NotADeadLetter),
    }
}

/// Ends an open review; a payment that has no other is no longer in review.
async fn end(conn: &mut PgConnection, review: &Review, resolution: &str, by: &str) -> sqlx::Result<()> {
    sqlx::query!(
        r#"WITH ended AS (
               UPDATE reviews SET state = 'RESOLVED', resolution = $4, resolved_by = $5, resolved_at = now()
               WHERE merchant_id = $1 AND id = $2 AND state = 'OPEN' RETURNING id)
           UPDATE payments SET in_review = false, version = version + 1, updated_at = now()
           WHERE merchant_id = $1 AND id = $3 AND in_review AND EXISTS (SELECT FROM ended)
             AND NOT EXISTS (SELECT FROM reviews r WHERE r.merchant_id = $1 AND r.payment_id = $3 AND r.state = 'OPEN'
                             AND r.id <> $2 AND r.reason <> 'delivery_exhausted')"#,
        review.merchant_id,
        review.id,
        review.payment_id,
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
