//! The body of `POST /v1/payments`, read strictly and checked as a whole: every fault is found in one
//! go, each with a pointer to where it is.

use crate::currency;
use crate::problem::{Fault, Faults};
use crate::strict_json::{self, Members, NoInteger, NoText};
use serde::Deserialize;
use serde_json::value::RawValue;
use shared::payment::request::Request;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// Every integer up to here survives a client that keeps numbers as IEEE 754 doubles.
pub const MOST_AMOUNT_MINOR: i64 = 9_007_199_254_740_991;

const INTENT_LENGTH: RangeInclusive<usize> = 1..=64;
const METHOD_LENGTH: RangeInclusive<usize> = 1..=128;
const METADATA_ENTRIES: usize = 20;
const METADATA_KEY_CHARS: usize = 40;
const METADATA_VALUE_CHARS: usize = 500;

/// What a merchant asks for. Other members are refused.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PaymentRequest {
    /// Your id of the thing being paid.
    #[schema(min_length = 1, max_length = 64, pattern = "^[!-~]+$", example = "order-1")]
    pub payment_intent_id: String,
    /// In the currency's minor unit, a JSON integer: no point, no exponent.
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64, example = 1999)]
    pub amount_minor: i64,
    /// ISO 4217, upper case, active, with a minor unit.
    #[schema(pattern = "^[A-Z]{3}$", example = "EUR")]
    pub currency: String,
    /// Your id of the means of payment.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$", example = "pm_ok")]
    pub payment_method_id: String,
    /// The profile name of an acquirer; without it the service chooses.
    #[serde(default)]
    #[schema(nullable = false)]
    pub acquirer: Option<String>,
    /// Yours: at most 20 entries, keys of at most 40 and values of at most 500 characters. Not part of
    /// what makes a request the same request.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

impl PaymentRequest {
    /// Reads a body. Whether its acquirer can be used is for the routing to say.
    ///
    /// # Errors
    /// Every fault that is in it.
    pub fn read(body: &[u8]) -> Result<Self, Vec<Fault>> {
        let malformed = |why: &str| vec![Fault::in_body(&[], "malformed_json", why)];
        let text = std::str::from_utf8(body).map_err(|_| malformed("this is not UTF-8"))?;
        let Members(members) = strict_json::object(text).map_err(|error| match error {
            strict_json::NoObject::Malformed { .. } => malformed(&error.to_string()),
            strict_json::NoObject::Other => vec![Fault::in_body(&[], "wrong_type", error.to_string())],
        })?;
        let mut members = Reading { members, faults: Faults::default() };
        let payment_intent_id = members.required("payment_intent_id", |raw| visible(raw, INTENT_LENGTH));
        let amount_minor = members.required("amount_minor", amount);
        let currency = members.required("currency", currency);
        let payment_method_id = members.required("payment_method_id", |raw| visible(raw, METHOD_LENGTH));
        let acquirer = members.optional("acquirer", self::text);
        let metadata = members.metadata();
        members.done()?;
        let all = || {
            Some(Self {
                payment_intent_id: payment_intent_id?,
                amount_minor: amount_minor?,
                currency: currency?,
                payment_method_id: payment_method_id?,
                acquirer,
                metadata,
            })
        };
        // A required member that is not there has left a fault, and `done` has reported it.
        all().ok_or_else(Vec::new)
    }

    /// The business fields, and the metadata as it is stored: `None` when there is none.
    #[must_use]
    pub fn into_parts(self) -> (Request, Option<serde_json::Value>) {
        let metadata = (!self.metadata.is_empty()).then(|| self.metadata.into_iter().collect());
        let request = Request {
            payment_intent_id: self.payment_intent_id,
            amount_minor: self.amount_minor,
            currency: self.currency,
            payment_method_id: self.payment_method_id,
            acquirer: self.acquirer,
        };
        (request, metadata)
    }
}

/// What a member's value violates, and the words for it.
type Violated = (&'static str, String);

/// The members that were not read yet, and what was wrong with those that were.
struct Reading<'a> {
    members: Vec<(String, &'a RawValue)>,
    faults: Faults,
}

impl<'a> Reading<'a> {
    /// Takes the member `name`. A double is a fault, whatever its values.
    fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let (mine, others) = std::mem::take(&mut self.members).into_iter().partition(|(found, _)| found == name);
        self.members = others;
        let mine: Vec<(String, &RawValue)> = mine;
        if mine.len() > 1 {
            self.faults.add(Fault::in_body(&[name], "duplicate_member", format!("{name} is given more than once")));
        }
        mine.first().map(|(_, value)| *value)
    }

    fn optional<T>(&mut self, name: &str, rule: impl FnOnce(&'a RawValue) -> Result<T, Violated>) -> Option<T> {
        let value = self.take(name)?;
        let fault = |(code, must): Violated| Fault::in_body(&[name], code, format!("{name} {must}"));
        self.faults.keep(rule(value).map_err(fault))
    }

    fn required<T>(&mut self, name: &str, rule: impl FnOnce(&'a RawValue) -> Result<T, Violated>) -> Option<T> {
        if !self.members.iter().any(|(found, _)| found == name) {
            self.faults.add(Fault::in_body(&[name], "missing", format!("{name} is missing")));
        }
        self.optional(name, rule)
    }

    fn metadata(&mut self) -> BTreeMap<String, String> {
        let Some(Members(entries)) = self.optional("metadata", object) else {
            return BTreeMap::new();
        };
        if entries.len() > METADATA_ENTRIES {
            self.faults.add(Fault::in_body(&["metadata"], "too_many", "metadata has at most 20 entries"));
        }
        let mut metadata = BTreeMap::new();
        for (key, raw) in entries {
            let fault = |(code, must): Violated| Fault::in_body(&["metadata", &key], code, format!("{key:?} {must}"));
            if let Some(value) = self.faults.keep(entry(&key, raw).map_err(fault))
                && metadata.insert(key.clone(), value).is_some()
            {
                self.faults.add(fault(("duplicate_member", "is given more than once".to_owned())));
            }
        }
        metadata
    }

    fn done(mut self) -> Result<(), Vec<Fault>> {
        for (name, _) in &self.members {
            self.faults.add(Fault::in_body(&[name], "unknown_field", "there is no such member"));
        }
        self.faults.none()
    }
}

fn text(raw: &RawValue) -> Result<String, Violated> {
    strict_json::text(raw).map_err(|error| match error {
        NoText::OtherType => ("wrong_type", "must be a string".to_owned()),
        NoText::Broken => ("invalid_characters", "holds half of a surrogate pair".to_owned()),
    })
}

fn visible(raw: &RawValue, length: RangeInclusive<usize>) -> Result<String, Violated> {
    let text = text(raw)?;
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(("invalid_characters", "must be visible ASCII without spaces".to_owned()));
    }
    if !length.contains(&text.len()) {
        return Err(("invalid_length", format!("must have {} to {} characters", length.start(), length.end())));
    }
    Ok(text)
}

fn amount(raw: &RawValue) -> Result<i64, Violated> {
    let range = || ("out_of_range", format!("must be from 1 to {MOST_AMOUNT_MINOR}"));
    match strict_json::integer(raw) {
        Ok(amount) if (1..=MOST_AMOUNT_MINOR).contains(&amount) => Ok(amount),
        Ok(_) | Err(NoInteger::TooLarge) => Err(range()),
        Err(NoInteger::Fraction) => {
            Err(("not_an_integer", "must be written as an integer: minor units, no point, no exponent".to_owned()))
        }
        Err(NoInteger::OtherType) => Err(("wrong_type", "must be a number".to_owned())),
    }
}

fn currency(raw: &RawValue) -> Result<String, Violated> {
    let code = text(raw)?;
    let unknown = || ("unknown_currency", "must be an active ISO 4217 code with a minor unit, upper case".to_owned());
    if currency::is_payable(&code) { Ok(code) } else { Err(unknown()) }
}

fn object(raw: &RawValue) -> Result<Members<'_>, Violated> {
    strict_json::object(raw.get()).map_err(|error| match error {
        strict_json::NoObject::Other => ("wrong_type", "must be an object of strings".to_owned()),
        strict_json::NoObject::Malformed { .. } => {
            ("invalid_characters", "has a name with half of a surrogate pair".to_owned())
        }
    })
}

/// One entry of the metadata. Postgres keeps every character but NUL.
fn entry(key: &str, raw: &RawValue) -> Result<String, Violated> {
    let value = text(raw)?;
    if key.chars().count() > METADATA_KEY_CHARS {
        return Err(("invalid_length", format!("must have at most {METADATA_KEY_CHARS} characters")));
    }
    if value.chars().count() > METADATA_VALUE_CHARS {
        return Err(("invalid_length", format!("must be a string of at most {METADATA_VALUE_CHARS} characters")));
    }
    if key.contains('\0') || value.contains('\0') {
        return Err(("invalid_characters", "must not hold the character NUL".to_owned()));
    }
    Ok(value)
}

#[cfg(test)]
mod tests;
