//! What acquirers tell us unasked: whether it is they who speak, and which payment they mean. It decides
//! nothing; it makes us ask.

use super::plain;
use crate::config::Kind;
use crate::payment::life::Outcome;
use crate::text::clean;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::Value;
use sha2::Sha256;
use std::time::Duration;
use time::OffsetDateTime;
use uuid::Uuid;

/// How far a message's time may be from ours, in either direction. Older ones may be somebody's recording.
const TOLERANCE: Duration = Duration::from_secs(300);
/// Longest id or type kept from a message, in characters.
const WORD_CHARS: usize = 100;

/// The header that bears the signature: `t=<seconds since 1970>,v1=<hex>`, with further `v1` while a secret is
/// being changed. `v1` is the HMAC-SHA256 of `<t>.<body>` under the secret. Source: Stripe's scheme, which the
/// plain wire form shares.
#[must_use]
pub const fn signature_header(kind: Kind) -> &'static str {
    match kind {
        Kind::Http => "acquirer-signature",
        Kind::Stripe => "stripe-signature",
    }
}

/// Why a message is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsigned {
    /// The header is missing or has another form.
    #[error("there is no signature of the form t=<seconds>,v1=<hex>")]
    Malformed,
    /// Somebody else's, or the body was changed.
    #[error("the signature is not that of this body under our secret")]
    Wrong,
    /// Signed too long ago, or in the future.
    #[error("it was signed more than 5 minutes from now; if it is new, compare the clocks")]
    Untimely,
}

/// Checks a signature against the secret and the time.
///
/// # Errors
/// [`Unsigned`].
pub fn verify(secret: &str, header: &str, body: &[u8], now: OffsetDateTime) -> Result<(), Unsigned> {
    let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
    let mut times = parts().filter(|(name, _)| *name == "t").map(|(_, value)| value);
    let (Some(time), None) = (times.next(), times.next()) else { return Err(Unsigned::Malformed) };
    let signed_at = time.parse().ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    let signed_at = signed_at.ok_or(Unsigned::Malformed)?;
    let mut signatures = parts().filter(|(name, _)| *name == "v1").filter_map(|(_, value)| from_hex(value)).peekable();
    signatures.peek().ok_or(Unsigned::Malformed)?;
    let mac = mac(secret, time, body);
    if !signatures.any(|signature| mac.clone().verify_slice(&signature).is_ok()) {
        return Err(Unsigned::Wrong);
    }
    if (now - signed_at).unsigned_abs() > TOLERANCE { Err(Unsigned::Untimely) } else { Ok(()) }
}

fn mac(secret: &str, time: &str, body: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    mac
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let pairs = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(pairs.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// A message, as far as it concerns us. Texts are cleaned and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The acquirer's id of the message: a repeat bears the same.
    pub id: String,
    /// The acquirer's word for what it is about.
    pub r#type: String,
    /// The payment that it names; `None`: none of ours.
    pub payment_id: Option<Uuid>,
    /// The acquirer's id of the charge.
    pub transaction_id: Option<String>,
    /// What it says became of the charge, where that is one of our words.
    pub outcome: Option<Outcome>,
}

/// A message that was signed and cannot be read.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("this is not a message with an id and a type")]
pub struct Unreadable;

/// Reads a message.
///
/// # Errors
/// [`Unreadable`].
pub fn read(kind: Kind, body: &[u8]) -> Result<Message, Unreadable> {
    let envelope: Envelope = serde_json::from_slice(body).map_err(|_| Unreadable)?;
    let word = |text: &str| clean(text, WORD_CHARS);
    let about = match kind {
        Kind::Http => plain_charge(&envelope.charge),
        Kind::Stripe => stripe_object(&envelope.data["object"]),
    };
    Ok(Message {
        id: word(&envelope.id),
        r#type: word(&envelope.r#type),
        payment_id: about.reference.and_then(ours),
        transaction_id: about.transaction_id.map(word),
        outcome: about.outcome,
    })
}

#[derive(Deserialize)]
struct Envelope {
    id: String,
    r#type: String,
    #[serde(default)]
    charge: Value,
    #[serde(default)]
    data: Value,
}

struct About<'a> {
    reference: Option<&'a str>,
    transaction_id: Option<&'a str>,
    outcome: Option<Outcome>,
}

fn plain_charge(charge: &Value) -> About<'_> {
    About {
        reference: charge["reference"].as_str(),
        transaction_id: charge["transaction_id"].as_str(),
        outcome: charge["status"].as_str().and_then(plain::word),
    }
}

/// A PaymentIntent, or one of its charges: these bear the intent's metadata too.
fn stripe_object(object: &Value) -> About<'_> {
    let id = if object["object"] == "charge" { &object["payment_intent"] } else { &object["id"] };
    About {
        reference: object["metadata"][STRIPE_REFERENCE].as_str(),
        transaction_id: id.as_str(),
        outcome: (object["status"] == "succeeded").then_some(Outcome::Success),
    }
}

/// The member of Stripe's `metadata` that bears our reference.
pub const STRIPE_REFERENCE: &str = "payonce_payment_id";

/// The payment that a reference names: see [`super::provider_key`].
fn ours(reference: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(reference).ok()?;
    (super::provider_key(id) == reference).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = br#"{"id":"evt_1","type":"charge.approved","charge":{"transaction_id":"txn_1","status":"approved","reference":"01938f6a7b8c7d00a000000000000001"}}"#;

    fn sign(secret: &str, at: i64, body: &[u8]) -> String {
        let mac = mac(secret, &at.to_string(), body).finalize().into_bytes();
        let hex: String = mac.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={at},v1={hex}")
    }

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(seconds).expect("a time")
    }

    #[test]
    fn a_signature_holds_for_its_secret_its_body_and_five_minutes() {
        let header = sign("secret", 1_000_000, BODY);
        let check = |secret, body, now| verify(secret, &header, body, at(now));
        for now in [999_700, 1_000_000, 1_000_300] {
            assert_eq!(check("secret", BODY, now), Ok(()));
        }
        for now in [999_699, 1_000_301] {
            assert_eq!(check("secret", BODY, now), Err(Unsigned::Untimely));
        }
        assert_eq!(check("another", BODY, 1_000_000), Err(Unsigned::Wrong));
        assert_eq!(check("secret", &BODY[1..], 1_000_000), Err(Unsigned::Wrong));
    }

    #[test]
    fn while_a_secret_is_changed_one_of_two_signatures_is_enough() {
        let (old, new) = (sign("old", 1_000_000, BODY), sign("new", 1_000_000, BODY));
        let both = format!("{old},{}", new.split_once(',').expect("two parts").1);
        assert_eq!(verify("new", &both, BODY, at(1_000_000)), Ok(()));
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let two_times = format!("t=1,{}", sign("secret", 1_000_000, BODY));
        for header in ["", "t=1", "v1=00", "t=x,v1=00", "t=1,v1=0", "t=1,v1=zz", "t=1,v0=00", &two_times] {
            assert_eq!(verify("secret", header, BODY, at(1)), Err(Unsigned::Malformed), "{header}");
        }
        assert_eq!(verify("secret", "t=1,v1=", BODY, at(1)), Err(Unsigned::Wrong));
    }

    #[test]
    fn a_message_of_the_plain_form_names_its_payment() {
        let message = read(Kind::Http, BODY).expect("a message");
        assert_eq!(message.payment_id, Uuid::try_parse("01938f6a-7b8c-7d00-a000-000000000001").ok());
        assert_eq!((message.transaction_id.as_deref(), message.outcome), (Some("txn_1"), Some(Outcome::Success)));
    }

    #[test]
    fn a_message_of_stripe_names_its_payment_by_the_intent_s_metadata() {
        let of = |object: &str| {
            let body = format!(
                r#"{{"id":"evt_1","type":"t","data":{{"object":{{{object},"metadata":{{"payonce_payment_id":"01938f6a7b8c7d00a000000000000001"}}}}}}}}"#
            );
            read(Kind::Stripe, body.as_bytes()).expect("a message")
        };
        let intent = of(r#""object":"payment_intent","id":"pi_1","status":"succeeded""#);
        let charge = of(r#""object":"charge","id":"ch_1","payment_intent":"pi_1","status":"succeeded""#);
        for message in [intent, charge] {
            assert_eq!((message.transaction_id.as_deref(), message.outcome), (Some("pi_1"), Some(Outcome::Success)));
            assert!(message.payment_id.is_some());
        }
        assert_eq!(of(r#""object":"payment_intent","id":"pi_1","status":"processing""#).outcome, None);
    }

    #[test]
    fn what_names_no_payment_of_ours_is_a_message_all_the_same() {
        for reference in ["order-7", "01938F6A7B8C7D00A000000000000001", "01938f6a-7b8c-7d00-a000-000000000001", ""] {
            let body = format!(r#"{{"id":"evt_1","type":"t","charge":{{"reference":"{reference}"}}}}"#);
            assert_eq!(read(Kind::Http, body.as_bytes()).expect("a message").payment_id, None, "{reference}");
        }
        for body in ["", "[]", "{}", r#"{"id":1,"type":"t"}"#] {
            assert!(read(Kind::Http, body.as_bytes()).is_err(), "{body}");
        }
    }
}
