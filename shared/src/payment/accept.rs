//! Accepting a request: its key, its payment, the first line of its history and its first job, in
//! one statement. The unique constraints decide; nothing is read first.

use super::life::Status;
use super::request::Request;
use super::{OPERATION, Payment, PaymentKey, read};
use crate::committer::{Committer, Verdict, Write, WriteError};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

/// The constraint that makes a re-posted request harmless.
pub const KEY_TAKEN: &str = "idempotency_keys_pkey";

/// A request to be accepted.
#[derive(Clone, Debug)]
pub struct Accept {
    /// Whose; from the credential, never from the body.
    pub merchant_id: Uuid,
    /// Minted by the API, UUIDv7; it becomes the payment's id if this request is the one that counts.
    pub payment_id: Uuid,
    /// The client's key.
    pub idempotency_key: String,
    /// The business fields, as asked.
    pub request: Request,
    /// The profile that routing chose.
    pub acquirer: String,
    /// What the merchant attached, a JSON object of strings.
    pub metadata: Option<serde_json::Value>,
    /// W3C trace context of the POST.
    pub traceparent: Option<String>,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// A new payment.
    Created(Box<Payment>),
    /// The same request again, and the answer is final: repeat it byte for byte.
    Replay {
        /// The payment.
        payment_id: Uuid,
        /// HTTP status of the answer.
        code: u16,
        /// The body.
        body: String,
    },
    /// The same request again, and the outcome is unknown: the current payment.
    AwaitingResult(Box<Payment>),
    /// The same request again, and the first one still runs.
    InProgress(Box<Payment>),
    /// The key was used for another request.
    HashMismatch {
        /// The payment that the key made.
        payment_id: Uuid,
        /// The names of the fields that differ, never their values.
        fields: Vec<&'static str>,
    },
    /// Another key holds a live payment of this intent.
    IntentLive(Box<Payment>),
    /// The intent is paid.
    IntentPaid(Box<Payment>),
}

/// Accepts a request, or says why it is not a new one.
///
/// # Errors
/// [`WriteError::Unavailable`] when the database is away or the commit's fate is unknown: the
/// repeat with the same key finds out. Nothing else for a request that the API has checked.
pub async fn accept(committer: &Committer, pool: &PgPool, accept: Accept) -> Result<Accepted, WriteError> {
    // A lost insert is followed by a read of who won. Should that one be gone meanwhile (its key
    // purged, its payment refused), the intent is free again and the insert is tried once more.
    for _ in 0..3 {
        match committer.write(Write::Accept(accept.clone())).await {
            Ok(Verdict::Applied(at)) => {
                return Ok(Accepted::Created(Box::new(created(accept, at))));
            }
            Ok(Verdict::Stale) => {}
            Err(WriteError::Refused { constraint, .. }) if constraint == KEY_TAKEN => {}
            Err(error) => return Err(error),
        }
        if let Some(winner) = who_won(pool, &accept).await.map_err(WriteError::from)? {
            return Ok(winner);
        }
    }
    Err(WriteError::Unavailable("the intent changed hands three times while this request was accepted".to_owned()))
}

fn created(accept: Accept, at: OffsetDateTime) -> Payment {
    Payment {
        merchant_id: accept.merchant_id,
        id: accept.payment_id,
        payment_intent_id: accept.request.payment_intent_id,
        idempotency_key: accept.idempotency_key,
        status: Status::Pending,
        amount_minor: accept.request.amount_minor,
        currency: accept.request.currency,
        payment_method_id: accept.request.payment_method_id,
        acquirer: accept.acquirer,
        metadata: accept.metadata,
        traceparent: accept.traceparent,
        transaction_id: None,
        decline_code: None,
        decline_message: None,
        failure_code: None,
        failure_message: None,
        attempt: 0,
        lease_until: None,
        first_call_at: None,
        unknown_at: None,
        in_review: false,
        version: 1,
        created_at: at,
        updated_at: at,
        final_at: None,
    }
}

async fn who_won(pool: &PgPool, accept: &Accept) -> sqlx::Result<Option<Accepted>> {
    match of_key(pool, accept).await? {
        Some(accepted) => Ok(Some(accepted)),
        None => of_intent(pool, accept).await,
    }
}

/// A taken key.
struct TakenKey {
    request_hash: Vec<u8>,
    payment_id: Uuid,
    response_code: Option<i16>,
    response_body: Option<String>,
}

impl TakenKey {
    fn replay(self) -> Option<Accepted> {
        let (code, body) = (self.response_code?.unsigned_abs(), self.response_body?);
        Some(Accepted::Replay { payment_id: self.payment_id, code, body })
    }
}

async fn taken_key(pool: &PgPool, accept: &Accept) -> sqlx::Result<Option<TakenKey>> {
    sqlx::query_as!(
        TakenKey,
        r#"SELECT request_hash, payment_id, response_code, response_body FROM idempotency_keys
           WHERE merchant_id = $1 AND operation = $2 AND key = $3"#,
        accept.merchant_id,
        OPERATION,
        accept.idempotency_key,
    )
    .fetch_optional(pool)
    .await
}

/// What the key says; `None` when nobody took it. Reads only: whoever waits for the end of a request
/// that was accepted asks here. 422 comes before 409: the request hash is compared first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn of_key(pool: &PgPool, accept: &Accept) -> sqlx::Result<Option<Accepted>> {
    let Some(key) = taken_key(pool, accept).await? else {
        return Ok(None);
    };
    let of = PaymentKey { merchant_id: accept.merchant_id, payment_id: key.payment_id };
    let same = key.request_hash == accept.request.hash();
    if let (true, Some(replay)) = (same, key.replay()) {
        return Ok(Some(replay));
    }
    let Some(payment) = read::one(pool, of).await?.map(Box::new) else {
        return Ok(None);
    };
    if !same {
        return Ok(Some(Accepted::HashMismatch { payment_id: of.payment_id, fields: mismatched(accept, &payment) }));
    }
    Ok(match payment.status {
        Status::Pending => Some(Accepted::InProgress(payment)),
        Status::Unknown => Some(Accepted::AwaitingResult(payment)),
        // Settled since its key was read. Both were written at once, so the key has the answer now; to
        // look at the intent instead would tell the client that *another* key paid it.
        Status::Paid | Status::Declined | Status::Failed => taken_key(pool, accept).await?.and_then(TakenKey::replay),
    })
}

/// The payment's row holds the routed acquirer, the hash the one that was asked for.
fn mismatched(accept: &Accept, payment: &Payment) -> Vec<&'static str> {
    let mut asked = accept.request.clone();
    asked.acquirer = asked.acquirer.or_else(|| Some(payment.acquirer.clone()));
    let fields = asked.mismatched_fields(&payment.request());
    if fields.is_empty() { vec!["acquirer"] } else { fields }
}

async fn of_intent(pool: &PgPool, accept: &Accept) -> sqlx::Result<Option<Accepted>> {
    let live = sqlx::query_scalar!(
        r#"SELECT id FROM payments WHERE merchant_id = $1 AND payment_intent_id = $2
           AND status IN ('PENDING', 'UNKNOWN', 'PAID')"#,
        accept.merchant_id,
        accept.request.payment_intent_id,
    )
    .fetch_optional(pool)
    .await?;
    let Some(payment_id) = live else {
        return Ok(None);
    };
    let of = PaymentKey { merchant_id: accept.merchant_id, payment_id };
    let Some(payment) = read::one(pool, of).await?.map(Box::new) else {
        return Ok(None);
    };
    Ok(match payment.status {
        Status::Pending | Status::Unknown => Some(Accepted::IntentLive(payment)),
        Status::Paid => Some(Accepted::IntentPaid(payment)),
        Status::Declined | Status::Failed => None,
    })
}

/// Accepts many at once. A row whose key or intent is taken is not applied and harms no other; a key
/// that is taken *while* this statement runs fails it, and the committer splits.
pub(crate) async fn apply(conn: &mut PgConnection, accepts: &[&Accept]) -> sqlx::Result<Vec<Verdict>> {
    let merchants: Vec<Uuid> = accepts.iter().map(|a| a.merchant_id).collect();
    let payments: Vec<Uuid> = accepts.iter().map(|a| a.payment_id).collect();
    let keys: Vec<&str> = accepts.iter().map(|a| a.idempotency_key.as_str()).collect();
    let hashes: Vec<Vec<u8>> = accepts.iter().map(|a| a.request.hash().to_vec()).collect();
    let intents: Vec<&str> = accepts.iter().map(|a| a.request.payment_intent_id.as_str()).collect();
    let amounts: Vec<i64> = accepts.iter().map(|a| a.request.amount_minor).collect();
    let currencies: Vec<&str> = accepts.iter().map(|a| a.request.currency.as_str()).collect();
    let methods: Vec<&str> = accepts.iter().map(|a| a.request.payment_method_id.as_str()).collect();
    let acquirers: Vec<&str> = accepts.iter().map(|a| a.acquirer.as_str()).collect();
    let metadata: Vec<Option<serde_json::Value>> = accepts.iter().map(|a| a.metadata.clone()).collect();
    let traces: Vec<Option<&str>> = accepts.iter().map(|a| a.traceparent.as_deref()).collect();
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::text[], $5::bytea[], $6::text[], $7::bigint[],
                                    $8::text[], $9::text[], $10::text[], $11::jsonb[], $12::text[])
               WITH ORDINALITY AS i (merchant_id, id, key, request_hash, payment_intent_id, amount_minor,
                                     currency, payment_method_id, acquirer, metadata, traceparent, ord)),
           created AS (
               INSERT INTO payments (merchant_id, id, payment_intent_id, idempotency_key, amount_minor,
                                     currency, payment_method_id, acquirer, metadata, traceparent)
               SELECT merchant_id, id, payment_intent_id, key, amount_minor,
                      currency, payment_method_id, acquirer, metadata, traceparent
               FROM input i
               WHERE NOT EXISTS (SELECT FROM idempotency_keys k
                                 WHERE k.merchant_id = i.merchant_id AND k.operation = $1 AND k.key = i.key)
               -- One order for everybody: two instances that insert the same intents must not deadlock.
               ORDER BY merchant_id, payment_intent_id, key
               ON CONFLICT (merchant_id, payment_intent_id) WHERE status IN ('PENDING', 'UNKNOWN', 'PAID') DO NOTHING
               RETURNING merchant_id, id, acquirer),
           keys AS (
               INSERT INTO idempotency_keys (merchant_id, operation, key, request_hash, payment_id)
               SELECT i.merchant_id, $1, i.key, i.request_hash, i.id FROM created c JOIN input i ON i.id = c.id),
           history AS (
               INSERT INTO payment_history (merchant_id, payment_id, version, to_status, attempt, actor, reason)
               SELECT merchant_id, id, 1, 'PENDING', 0, 'client', 'accepted' FROM created),
           job AS (
               INSERT INTO jobs (merchant_id, step, subject_id, route) SELECT merchant_id, 'charge', id, acquirer FROM created)
           SELECT i.ord AS "ord!", now() AS "at!" FROM created c JOIN input i ON i.id = c.id"#,
        OPERATION,
        &merchants,
        &payments,
        &keys as &[&str],
        &hashes,
        &intents as &[&str],
        &amounts,
        &currencies as &[&str],
        &methods as &[&str],
        &acquirers as &[&str],
        &metadata as &[Option<serde_json::Value>],
        &traces as &[Option<&str>],
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(accepts.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}
