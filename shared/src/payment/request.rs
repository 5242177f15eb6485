//! The business fields of a payment request, and the hash that tells two requests apart.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What a merchant asks for: the fields that make a request *that* request. Metadata, JSON order
/// and spacing are not among them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The merchant's id of the thing being paid; 1–64 visible ASCII.
    pub payment_intent_id: String,
    /// In the currency's minor unit; 1 … 9 007 199 254 740 991.
    pub amount_minor: i64,
    /// ISO 4217, upper case.
    pub currency: String,
    /// The merchant's id of the means of payment; 1–128 visible ASCII.
    pub payment_method_id: String,
    /// The profile name the merchant asked for; `None` lets routing decide.
    pub acquirer: Option<String>,
}

impl Request {
    /// The fields in the fixed order of the hash, each with its name.
    fn fields(&self) -> [(&'static str, String); 5] {
        [
            ("payment_intent_id", self.payment_intent_id.clone()),
            ("amount_minor", self.amount_minor.to_string()),
            ("currency", self.currency.clone()),
            ("payment_method_id", self.payment_method_id.clone()),
            ("acquirer", self.acquirer.clone().unwrap_or_default()),
        ]
    }

    /// `length:value` of every field in fixed order, the length in bytes: no two different requests
    /// share an encoding, whatever digits and colons their values hold.
    #[must_use]
    pub fn canonical(&self) -> String {
        self.fields().iter().map(|(_, value)| format!("{}:{value}", value.len())).collect()
    }

    /// The request hash: SHA-256 of [`Self::canonical`].
    #[must_use]
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.canonical()).into()
    }

    /// The names of the fields in which `self` and `other` differ, in fixed order.
    #[must_use]
    pub fn mismatched_fields(&self, other: &Self) -> Vec<&'static str> {
        let pairs = self.fields().into_iter().zip(other.fields());
        pairs.filter(|(mine, theirs)| mine.1 != theirs.1).map(|(mine, _)| mine.0).collect()
    }
}

/// How an idempotency key appears in logs: the first 12 hex digits of its SHA-256, never the key.
#[must_use]
pub fn key_hash(idempotency_key: &str) -> String {
    let digest = Sha256::digest(idempotency_key);
    digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(intent: &str, amount: i64, currency: &str, method: &str) -> Request {
        Request {
            payment_intent_id: intent.into(),
            amount_minor: amount,
            currency: currency.into(),
            payment_method_id: method.into(),
            acquirer: None,
        }
    }

    fn any_request() -> impl Strategy<Value = Request> {
        // A tiny alphabet of what the encoding itself is made of, so that collisions would be found.
        let text = "[0-9:a]{1,6}";
        (text, 1_i64..1000, "[A-Z]{3}", text, proptest::option::of("[0-9:a]{1,3}")).prop_map(
            |(payment_intent_id, amount_minor, currency, payment_method_id, acquirer)| Request {
                payment_intent_id,
                amount_minor,
                currency,
                payment_method_id,
                acquirer,
            },
        )
    }

    #[test]
    fn a_colon_cannot_move_from_one_field_to_the_next() {
        assert_ne!(request("1:23", 4, "EUR", "pm").canonical(), request("1", 4, "EUR", "23:pm").canonical());
        assert_ne!(request("1", 23, "EUR", "4").hash(), request("12", 3, "EUR", "4").hash());
    }

    #[test]
    fn the_encoding_is_the_documented_one() {
        assert_eq!(request("order-1", 1999, "EUR", "pm_ok").canonical(), "7:order-14:19993:EUR5:pm_ok0:");
    }

    #[test]
    fn the_mismatched_fields_are_named() {
        let mut other = request("order-1", 1999, "EUR", "pm_ok");
        other.payment_method_id = "pm_other".into();
        other.amount_minor = 2000;
        assert_eq!(
            other.mismatched_fields(&request("order-1", 1999, "EUR", "pm_ok")),
            ["amount_minor", "payment_method_id"]
        );
    }

    proptest! {
        #[test]
        fn no_two_different_requests_share_an_encoding(a in any_request(), b in any_request()) {
            prop_assert_eq!(a == b, a.canonical() == b.canonical());
        }

        #[test]
        fn json_order_and_spacing_never_change_the_hash(r in any_request()) {
            let sorted = serde_json::to_value(&r).unwrap();
            let pretty = serde_json::to_string_pretty(&sorted).unwrap();
            let back: Request = serde_json::from_str(&pretty).unwrap();
            prop_assert_eq!(back.hash(), r.hash());
        }
    }
}
