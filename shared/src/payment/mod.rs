//! Payments: their nouns here, their rules in [`life`] and [`sending`], their SQL beside both.

pub mod accept;
pub mod body;
pub mod call;
pub mod claim;
pub mod life;
pub mod read;
pub mod record;
pub mod request;
pub mod scan;
pub mod sending;
pub mod settle;
pub mod timeline;
pub mod told;

use life::Status;
use time::OffsetDateTime;
use uuid::Uuid;

/// The operation that idempotency keys of `POST /v1/payments` are scoped to.
pub const OPERATION: &str = "payments.create";

/// Names one payment. The merchant is part of every key, so that the tables can be sharded by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PaymentKey {
    /// Whose payment.
    pub merchant_id: Uuid,
    /// Which; UUIDv7.
    pub payment_id: Uuid,
}

/// What a writer must prove: the payment is still in the state it saw, nobody claimed it since, and the
/// claim still holds it (a write that ends the claim clears the lease, so that the same claim, executed once
/// more, writes nothing).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    /// The payment.
    pub of: PaymentKey,
    /// The fencing token of the claim.
    pub attempt: i32,
    /// The state the claim saw, or left by its own last write.
    pub status: Status,
    /// The version likewise.
    pub version: i32,
}

/// A payment, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Payment {
    /// Whose.
    pub merchant_id: Uuid,
    /// UUIDv7.
    pub id: Uuid,
    /// The merchant's id of the thing being paid.
    pub payment_intent_id: String,
    /// The client's key. Never logged: see [`request::key_hash`].
    pub idempotency_key: String,
    /// The state.
    pub status: Status,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
    /// Never logged.
    pub payment_method_id: String,
    /// The profile name.
    pub acquirer: String,
    /// What the merchant attached, a JSON object of strings.
    pub metadata: Option<serde_json::Value>,
    /// W3C trace context of the POST.
    pub traceparent: Option<String>,
    /// The acquirer's id of the charge.
    pub transaction_id: Option<String>,
    /// Set when DECLINED.
    pub decline_code: Option<String>,
    /// May be set when DECLINED.
    pub decline_message: Option<String>,
    /// Set when FAILED.
    pub failure_code: Option<String>,
    /// May be set when FAILED.
    pub failure_message: Option<String>,
    /// The fencing token.
    pub attempt: i32,
    /// The database's time until which the owner of `attempt` may act.
    pub lease_until: Option<OffsetDateTime>,
    /// When the acquirer may first have received the charge.
    pub first_call_at: Option<OffsetDateTime>,
    /// Since when the outcome is unknown.
    pub unknown_at: Option<OffsetDateTime>,
    /// Whether a person has it.
    pub in_review: bool,
    /// The ETag.
    pub version: i32,
    /// When it was accepted.
    pub created_at: OffsetDateTime,
    /// When a client could last see it change.
    pub updated_at: OffsetDateTime,
    /// When it became final.
    pub final_at: Option<OffsetDateTime>,
}

impl Payment {
    /// Its name.
    #[must_use]
    pub const fn key(&self) -> PaymentKey {
        PaymentKey { merchant_id: self.merchant_id, payment_id: self.id }
    }

    /// The business fields, as the request that made it had them after routing.
    #[must_use]
    pub fn request(&self) -> request::Request {
        request::Request {
            payment_intent_id: self.payment_intent_id.clone(),
            amount_minor: self.amount_minor,
            currency: self.currency.clone(),
            payment_method_id: self.payment_method_id.clone(),
            acquirer: Some(self.acquirer.clone()),
        }
    }
}

/// The smallest UUIDv7 of that moment.
pub(crate) fn first_id_at(at: OffsetDateTime) -> Uuid {
    let millis = u128::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default();
    Uuid::from_u128(millis << 80 | 0x7 << 76)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lie_on_their_side_of_a_moment() {
        let at = OffsetDateTime::from_unix_timestamp(1_764_590_000).expect("a time");
        let id = |seconds| Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, seconds, 0));
        assert!(id(1_764_589_999) < first_id_at(at) && first_id_at(at) <= id(1_764_590_000));
    }
}
