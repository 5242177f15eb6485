//! The payment as clients see it: the body of the API's answers, of the stored answer and of events.

use super::Payment;
use super::life::Status;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::serde::rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

/// Why a payment was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Refusal {
    /// The acquirer's code, or ours.
    pub code: String,
    /// For people, in the acquirer's words, cleaned.
    pub message: Option<String>,
}

/// A payment as clients see it. Absent values are `null`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Payment)]
pub struct PaymentBody {
    /// UUIDv7.
    pub id: Uuid,
    /// Always `payment`.
    pub object: String,
    /// The merchant's id of the thing being paid.
    pub payment_intent_id: String,
    /// PENDING and UNKNOWN are shown to a shopper as "processing".
    pub status: Status,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
    /// The merchant's id of the means of payment.
    pub payment_method_id: String,
    /// The profile name of the acquirer.
    pub acquirer: String,
    /// The acquirer's id of the charge.
    pub transaction_id: Option<String>,
    /// Set when DECLINED: the issuer's final business refusal.
    pub decline: Option<Refusal>,
    /// Set when FAILED: the request was refused, no money can have moved.
    pub failure: Option<Refusal>,
    /// Whether a person is looking at it.
    pub in_review: bool,
    /// What the merchant attached.
    pub metadata: BTreeMap<String, String>,
    /// Raised by every visible change; also the ETag.
    pub version: i32,
    /// When it was accepted.
    #[serde(with = "rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it last changed visibly.
    #[serde(with = "rfc3339")]
    pub updated_at: OffsetDateTime,
    /// When it became final.
    #[serde(with = "rfc3339::option")]
    pub final_at: Option<OffsetDateTime>,
}

impl From<&Payment> for PaymentBody {
    fn from(payment: &Payment) -> Self {
        let refusal = |code: &Option<String>, message: &Option<String>| {
            code.clone().map(|code| Refusal { code, message: message.clone() })
        };
        let metadata = payment.metadata.clone().and_then(|map| serde_json::from_value(map).ok());
        Self {
            id: payment.id,
            object: "payment".to_owned(),
            payment_intent_id: payment.payment_intent_id.clone(),
            status: payment.status,
            amount_minor: payment.amount_minor,
            currency: payment.currency.clone(),
            payment_method_id: payment.payment_method_id.clone(),
            acquirer: payment.acquirer.clone(),
            transaction_id: payment.transaction_id.clone(),
            decline: refusal(&payment.decline_code, &payment.decline_message),
            failure: refusal(&payment.failure_code, &payment.failure_message),
            in_review: payment.in_review,
            metadata: metadata.unwrap_or_default(),
            version: payment.version,
            created_at: payment.created_at,
            updated_at: payment.updated_at,
            final_at: payment.final_at,
        }
    }
}

impl PaymentBody {
    /// The JSON text. It is stored and repeated byte for byte.
    ///
    /// # Panics
    /// Never: the type has no map with other keys than strings.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a payment has only string keys")
    }
}
