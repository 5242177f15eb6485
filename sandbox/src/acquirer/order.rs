//! Reading a POST: the key from its header, the payment from its body.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use http::HeaderMap;
use serde::Deserialize;

use super::draw;
use super::ledger::{Name, Order};
use super::settings::Settings;

/// Why a POST is no order.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("send one Idempotency-Key header")]
    KeyMissing,
    #[error("the body is not a charge request: {0}")]
    Body(#[from] serde_json::Error),
    #[error("amount_minor must be at least 1")]
    Amount,
    #[error("currency must be three upper-case letters")]
    Currency,
    #[error("reference must not be empty")]
    Reference,
}

impl Unreadable {
    pub fn code(&self) -> &'static str {
        match self {
            Unreadable::KeyMissing => "idempotency_key_missing",
            _ => "invalid_request",
        }
    }
}

#[derive(Deserialize, Hash)]
#[serde(deny_unknown_fields)]
struct Body<'a> {
    #[serde(borrow)]
    reference: Cow<'a, str>,
    amount_minor: i64,
    #[serde(borrow)]
    currency: Cow<'a, str>,
    #[serde(borrow)]
    payment_method_id: Cow<'a, str>,
}

/// Reads a POST.
pub(super) fn read(headers: &HeaderMap, body: &[u8], settings: &Settings) -> Result<Order, Unreadable> {
    let body: Body<'_> = serde_json::from_slice(body)?;
    if body.amount_minor < 1 {
        return Err(Unreadable::Amount);
    }
    if body.reference.is_empty() {
        return Err(Unreadable::Reference);
    }
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    Ok(Order {
        key: key(headers, &body.reference, settings)?,
        reference: Name::from(&*body.reference),
        amount_minor: body.amount_minor,
        currency: currency(&body.currency)?,
        fingerprint: hasher.finish(),
        method: draw::method(&body.payment_method_id, &body.reference, settings),
    })
}

fn key(headers: &HeaderMap, reference: &str, settings: &Settings) -> Result<Name, Unreadable> {
    let mut given = headers.get_all("idempotency-key").iter();
    match (given.next().map(|value| value.to_str()), given.next()) {
        (Some(Ok(key)), None) if !key.is_empty() => Ok(Name::from(key)),
        // An acquirer without key support does not miss them; the books still want a name.
        (None, None) if !settings.keys_honoured => Ok(Name::from(&*format!("none:{reference}"))),
        _ => Err(Unreadable::KeyMissing),
    }
}

fn currency(text: &str) -> Result<[u8; 3], Unreadable> {
    let letters: [u8; 3] = text.as_bytes().try_into().map_err(|_| Unreadable::Currency)?;
    let all_upper = letters.iter().all(u8::is_ascii_uppercase);
    all_upper.then_some(letters).ok_or(Unreadable::Currency)
}
