//! Reading a POST: the key from where the contract wants it, the payment from the body.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use http::HeaderMap;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::draw;
use super::key_location::KeyLocation;
use super::ledger::{Name, Order};
use super::settings::Settings;

/// Why a POST is no order.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreadable {
    #[error("send one key, in {0}")]
    KeyMissing(KeyLocation),
    #[error("the key has {len} characters; at most {max_len} are taken")]
    KeyTooLong { len: usize, max_len: usize },
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
            Unreadable::KeyMissing(_) => "idempotency_key_missing",
            Unreadable::KeyTooLong { .. } => "idempotency_key_invalid",
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
    let (body, key) = match settings.key_location.member() {
        Some(member) => take_apart(body, member)?,
        None => (serde_json::from_slice(body)?, None),
    };
    if body.amount_minor < 1 {
        return Err(Unreadable::Amount);
    }
    if body.reference.is_empty() {
        return Err(Unreadable::Reference);
    }
    let key = match settings.key_location.header() {
        Some(name) => in_header(headers, name, settings)?,
        None => key,
    };
    Ok(Order {
        key: name(key.as_deref(), &body.reference, settings)?,
        reference: Name::from(&*body.reference),
        amount_minor: body.amount_minor,
        currency: currency(&body.currency)?,
        fingerprint: hash(&body),
        alike: hash(&(body.amount_minor, &body.currency, &body.payment_method_id)),
        method: draw::fault_of(settings, &body.payment_method_id, &body.reference),
    })
}

fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// The payment, and the key that travelled as a member of it.
fn take_apart<'a>(body: &[u8], member: &str) -> Result<(Body<'a>, Option<Cow<'a, str>>), serde_json::Error> {
    let mut members: Map<String, Value> = serde_json::from_slice(body)?;
    let key = members.remove(member).map(String::deserialize).transpose()?;
    Ok((Body::deserialize(Value::Object(members))?, key.map(Cow::Owned)))
}

fn in_header<'a>(headers: &'a HeaderMap, name: &str, settings: &Settings) -> Result<Option<Cow<'a, str>>, Unreadable> {
    let mut given = headers.get_all(name).iter();
    match (given.next().map(|value| value.to_str()), given.next()) {
        (None, None) => Ok(None),
        (Some(Ok(key)), None) => Ok(Some(Cow::Borrowed(key))),
        _ => Err(Unreadable::KeyMissing(settings.key_location.clone())),
    }
}

fn name(key: Option<&str>, reference: &str, settings: &Settings) -> Result<Name, Unreadable> {
    let max_len = settings.key_max_len;
    match key.map(|key| (key, key.chars().count())) {
        // An acquirer without key support does not miss them; the books still want a name.
        None if !settings.keys_honoured => Ok(Name::from(&*format!("none:{reference}"))),
        None | Some((_, 0)) => Err(Unreadable::KeyMissing(settings.key_location.clone())),
        Some((_, len)) if settings.keys_honoured && len > max_len => Err(Unreadable::KeyTooLong { len, max_len }),
        Some((key, _)) => Ok(Name::from(key)),
    }
}

fn currency(text: &str) -> Result<[u8; 3], Unreadable> {
    let letters: [u8; 3] = text.as_bytes().try_into().map_err(|_| Unreadable::Currency)?;
    let all_upper = letters.iter().all(u8::is_ascii_uppercase);
    all_upper.then_some(letters).ok_or(Unreadable::Currency)
}
