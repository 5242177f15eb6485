//! What an acquirer's answers mean, as its profile says: by HTTP status, and where that is not enough by
//! a member of the body.

use crate::payment::life::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How an answer is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signature {
    /// The HTTP status.
    pub status: u16,
    /// A JSON pointer (RFC 6901) into the body; absent: the status is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// What the pointer must lead to: this text, or a number or boolean that is written so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub equals: Option<String>,
}

impl Signature {
    /// A status, and a member of the body.
    #[must_use]
    pub fn of(status: u16, pointer: &str, equals: &str) -> Self {
        Self { status, pointer: Some(pointer.to_owned()), equals: Some(equals.to_owned()) }
    }

    /// What is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(100..=599).contains(&self.status) {
            return Err(format!("status = {}: {} is not an HTTP status", self.status, self.status));
        }
        match (&self.pointer, &self.equals) {
            (Some(pointer), Some(_)) if pointer.starts_with('/') => Ok(()),
            (Some(pointer), Some(_)) => Err(format!("pointer = {pointer:?}: a JSON pointer begins with /")),
            (None, None) => Ok(()),
            _ => Err("pointer and equals belong together: give both or none".to_owned()),
        }
    }

    /// Whether a body is one of these; its status is.
    fn is_said_by(&self, body: &Value) -> bool {
        let (Some(pointer), Some(equals)) = (&self.pointer, &self.equals) else { return true };
        match body.pointer(pointer) {
            Some(Value::String(text)) => text == equals,
            Some(said @ (Value::Bool(_) | Value::Number(_))) => format!("{said}") == *equals,
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => false,
        }
    }
}

/// One rule of an outcome map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Flat", into = "Flat")]
pub struct MapRule {
    /// The answers it is about.
    pub when: Signature,
    /// What they mean.
    pub outcome: Outcome,
}

impl MapRule {
    /// What every answer with this status means.
    #[must_use]
    pub const fn of_status(status: u16, outcome: Outcome) -> Self {
        Self { when: Signature { status, pointer: None, equals: None }, outcome }
    }
}

/// A rule as it stands in the configuration.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Flat {
    status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pointer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    equals: Option<String>,
    outcome: Word,
}

/// The outcomes that a map can give. "Not found" is no answer to a charge.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Success,
    Declined,
    Failed,
    Unknown,
    Processing,
}

impl From<Flat> for MapRule {
    fn from(flat: Flat) -> Self {
        let outcome = match flat.outcome {
            Word::Success => Outcome::Success,
            Word::Declined => Outcome::Declined,
            Word::Failed => Outcome::Failed,
            Word::Unknown => Outcome::Unknown,
            Word::Processing => Outcome::Processing,
        };
        Self { when: Signature { status: flat.status, pointer: flat.pointer, equals: flat.equals }, outcome }
    }
}

impl From<MapRule> for Flat {
    fn from(rule: MapRule) -> Self {
        let outcome = match rule.outcome {
            Outcome::Success => Word::Success,
            Outcome::Declined => Word::Declined,
            Outcome::Failed => Word::Failed,
            Outcome::Unknown | Outcome::NotFound => Word::Unknown,
            Outcome::Processing => Word::Processing,
        };
        Self { status: rule.when.status, pointer: rule.when.pointer, equals: rule.when.equals, outcome }
    }
}

/// What refusals mean unless a profile says otherwise: 402 is the issuer's, 400, 401, 403 and 422 are
/// about the request. Everything else proves nothing.
#[must_use]
pub fn default_map() -> Vec<MapRule> {
    let failed = [400, 401, 403, 422].map(|status| MapRule::of_status(status, Outcome::Failed));
    [MapRule::of_status(402, Outcome::Declined)].into_iter().chain(failed).collect()
}

/// The meaning of one acquirer's answers.
#[derive(Clone, Debug)]
pub struct Meaning {
    /// What a repeat hears while the first request is being worked on.
    pub inflight: Vec<Signature>,
    /// What everything else means; the first rule that matches decides.
    pub map: Vec<MapRule>,
}

impl Meaning {
    /// Whether this is the answer to a repeat in flight. A body that cannot be read is taken for one where its
    /// status could be.
    #[must_use]
    pub fn is_in_flight(&self, status: u16, body: &[u8]) -> bool {
        let mut signatures = self.inflight.iter().filter(|signature| signature.status == status).peekable();
        if signatures.peek().is_none() {
            return false;
        }
        match serde_json::from_slice(body) {
            Ok(body) => signatures.any(|signature| signature.is_said_by(&body)),
            Err(_) => true,
        }
    }

    /// What the map says; `None` when no rule matches.
    #[must_use]
    pub fn outcome(&self, status: u16, body: &[u8]) -> Option<Outcome> {
        let mut rules = self.map.iter().filter(|rule| rule.when.status == status).peekable();
        rules.peek()?;
        let body = serde_json::from_slice(body).unwrap_or_default();
        rules.find(|rule| rule.when.is_said_by(&body)).map(|rule| rule.outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides_and_no_rule_is_unknown() {
        let map = vec![
            MapRule { when: Signature::of(422, "/errorCode", "101"), outcome: Outcome::Declined },
            MapRule::of_status(422, Outcome::Failed),
        ];
        let meaning = Meaning { inflight: vec![Signature::of(422, "/errorCode", "704")], map };
        assert_eq!(meaning.outcome(422, br#"{"errorCode":"101"}"#), Some(Outcome::Declined));
        assert_eq!(meaning.outcome(422, br#"{"errorCode":101}"#), Some(Outcome::Declined), "a number too");
        assert_eq!(meaning.outcome(422, br#"{"errorCode":"102"}"#), Some(Outcome::Failed));
        assert_eq!(meaning.outcome(500, br#"{"errorCode":"101"}"#), None);
        assert!(meaning.is_in_flight(422, br#"{"errorCode":"704"}"#));
        assert!(meaning.is_in_flight(422, b"<html>"), "it could be");
        assert!(!meaning.is_in_flight(422, b"null") && !meaning.is_in_flight(409, b"<html>"));
    }

    #[test]
    fn a_rule_with_an_unknown_member_is_refused() {
        let read = |text| serde_json::from_str::<MapRule>(text);
        assert!(read(r#"{"status":402,"outcome":"declined"}"#).is_ok());
        assert!(read(r#"{"status":402,"outcome":"declined","pionter":"/x"}"#).is_err());
        assert!(read(r#"{"status":404,"outcome":"not_found"}"#).is_err(), "no answer to a charge means that");
    }
}
