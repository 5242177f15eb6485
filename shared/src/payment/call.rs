//! Calls to the acquirer, as rows: each is committed before its first byte leaves.

use super::{Fence, PaymentKey};
use crate::acquirer::Answer;
use crate::committer::Verdict;
use crate::payment::life::Outcome;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

/// What a call is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `POST /charges`.
    Charge,
    /// `GET /charges`.
    Lookup,
}

impl Kind {
    /// The word in the database, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Lookup => "lookup",
        }
    }
}

/// The outcome on record of a call that was written down and never made.
const NOT_SENT: &str = "NOT_SENT";

/// A call that ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Which call.
    pub request_id: Uuid,
    /// What it came to; of a call that was not made after all, why.
    pub answer: Answer,
    /// False: it was written down and never made.
    pub sent: bool,
}

impl Ended {
    /// A call that was made.
    #[must_use]
    pub const fn sent(request_id: Uuid, answer: Answer) -> Self {
        Self { request_id, answer, sent: true }
    }

    /// A call that was written down and never made: nothing left.
    #[must_use]
    pub const fn unsent(request_id: Uuid, why: Answer) -> Self {
        Self { request_id, answer: why, sent: false }
    }
}

/// The next call of a claim: the one before it is recorded, this one written down. It may be sent
/// only after the committer says `Applied`: that is also the proof that the claim still holds.
#[derive(Clone, Debug)]
pub struct Begin {
    /// The claim's fence.
    pub fence: Fence,
    /// The call before it.
    pub ended: Ended,
    /// The new call's id.
    pub request_id: Uuid,
    /// The new call's kind.
    pub kind: Kind,
    /// The realm of the acquirer's keys; only a charge has one.
    pub key_scope: Option<String>,
}

/// Records the calls that ended and writes down the ones to come.
pub(crate) async fn begin(conn: &mut PgConnection, begins: &[&Begin]) -> sqlx::Result<Vec<Verdict>> {
    let fences = Fences::of(begins.iter().map(|b| b.fence));
    let ended = Endings::of(begins.iter().map(|b| Some(&b.ended)));
    let requests: Vec<Uuid> = begins.iter().map(|b| b.request_id).collect();
    let kinds: Vec<&str> = begins.iter().map(|b| b.kind.as_str()).collect();
    let scopes: Vec<Option<&str>> = begins.iter().map(|b| b.key_scope.as_deref()).collect();
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[],
                                    $5::uuid[], $6::int2[], $7::text[], $8::text[], $9::text[], $10::text[],
                                    $11::uuid[], $12::text[], $13::text[])
               WITH ORDINALITY AS i (merchant_id, payment_id, attempt, status,
                                     ended_id, http_status, outcome, transaction_id, code, message,
                                     request_id, kind, key_scope, ord)),
           held AS (
               UPDATE payments p SET first_call_at = CASE WHEN i.kind = 'charge'
                                                          THEN COALESCE(p.first_call_at, now()) ELSE p.first_call_at END
               FROM input i
               WHERE p.merchant_id = i.merchant_id AND p.id = i.payment_id
                 AND p.attempt = i.attempt AND p.status = i.status AND p.lease_until IS NOT NULL
               RETURNING i.*),
           ended AS (
               UPDATE provider_calls c SET finished_at = now(), http_status = h.http_status, outcome = h.outcome,
                      transaction_id = h.transaction_id, code = h.code, message = h.message
               FROM held h
               WHERE c.merchant_id = h.merchant_id AND c.payment_id = h.payment_id AND c.request_id = h.ended_id),
           begun AS (
               INSERT INTO provider_calls (merchant_id, payment_id, request_id, attempt, kind, key_scope)
               SELECT merchant_id, payment_id, request_id, attempt, kind, key_scope FROM held)
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
        &requests,
        &kinds as &[&str],
        &scopes as &[Option<&str>],
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(begins.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}

/// What is on record about the charges that may have left.
#[derive(Clone, Debug)]
pub struct Sends {
    /// When the acquirer may last have received one; `None`: no longer on record, or none ever left.
    pub last_at: Option<OffsetDateTime>,
    /// Whether all of them went where keys of `key_scope` are known.
    pub in_scope: bool,
    /// The acquirer's id of the charge, where an answer that decided nothing already told one.
    pub transaction_id: Option<String>,
}

/// What is on record about a payment's charges, apart from the call `but` that a claim just wrote down.
///
/// # Errors
/// When the database cannot be asked.
pub async fn sends(pool: &PgPool, of: PaymentKey, key_scope: &str, but: Uuid) -> sqlx::Result<Sends> {
    sqlx::query_as!(
        Sends,
        r#"SELECT max(started_at) AS last_at, COALESCE(bool_and(COALESCE(key_scope = $3, false)), false) AS "in_scope!",
                  (array_agg(transaction_id ORDER BY started_at DESC) FILTER (WHERE transaction_id IS NOT NULL))[1] AS transaction_id
           FROM provider_calls
           WHERE merchant_id = $1 AND payment_id = $2 AND kind = 'charge' AND request_id <> $4
             AND outcome IS DISTINCT FROM 'NOT_SENT'"#,
        of.merchant_id,
        of.payment_id,
        key_scope,
        but,
    )
    .fetch_one(pool)
    .await
}

/// The last answer on record that decides the payment; settle reads it when it runs on its own.
///
/// # Errors
/// When the database cannot be asked.
pub async fn recorded_answer(pool: &PgPool, of: PaymentKey) -> sqlx::Result<Option<Answer>> {
    let row = sqlx::query!(
        r#"SELECT http_status, outcome AS "outcome!: Outcome", transaction_id, code, message FROM provider_calls
           WHERE merchant_id = $1 AND payment_id = $2 AND outcome IN ('SUCCESS', 'DECLINED', 'FAILED')
           ORDER BY finished_at DESC LIMIT 1"#,
        of.merchant_id,
        of.payment_id,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| Answer {
        http_status: row.http_status.map(i16::unsigned_abs),
        outcome: row.outcome,
        transaction_id: row.transaction_id,
        code: row.code,
        message: row.message,
        conflict: None,
    }))
}

/// Fences as columns.
pub(super) struct Fences {
    pub(super) merchants: Vec<Uuid>,
    pub(super) payments: Vec<Uuid>,
    pub(super) attempts: Vec<i32>,
    pub(super) statuses: Vec<&'static str>,
}

impl Fences {
    pub(super) fn of(fences: impl Iterator<Item = Fence> + Clone) -> Self {
        Self {
            merchants: fences.clone().map(|f| f.of.merchant_id).collect(),
            payments: fences.clone().map(|f| f.of.payment_id).collect(),
            attempts: fences.clone().map(|f| f.attempt).collect(),
            statuses: fences.map(|f| f.status.as_str()).collect(),
        }
    }
}

/// Calls that ended, as columns; NULLs where none did.
pub(super) struct Endings<'a> {
    pub(super) requests: Vec<Option<Uuid>>,
    pub(super) http_statuses: Vec<Option<i16>>,
    pub(super) outcomes: Vec<Option<&'static str>>,
    pub(super) transactions: Vec<Option<&'a str>>,
    pub(super) codes: Vec<Option<&'a str>>,
    pub(super) messages: Vec<Option<&'a str>>,
}

impl<'a> Endings<'a> {
    pub(super) fn of(ended: impl Iterator<Item = Option<&'a Ended>> + Clone) -> Self {
        let answers = ended.clone().map(|e| e.map(|e| &e.answer));
        let text = |of: fn(&Answer) -> Option<&str>| answers.clone().map(|a| a.and_then(of)).collect();
        Self {
            requests: ended.clone().map(|e| e.map(|e| e.request_id)).collect(),
            http_statuses: answers.clone().map(|a| i16::try_from(a?.http_status?).ok()).collect(),
            outcomes: ended.map(|e| e.map(|e| if e.sent { e.answer.outcome.as_str() } else { NOT_SENT })).collect(),
            transactions: text(|a| a.transaction_id.as_deref()),
            codes: text(|a| a.code.as_deref()),
            messages: text(|a| a.message.as_deref()),
        }
    }
}
