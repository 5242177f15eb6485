//! The acquirer as the domain sees it: what it promises ([`Contract`]) and what its answers mean
//! ([`classify_charge`], [`classify_lookup`]). The network is the workers' business.

use crate::payment::life::Outcome;
use crate::review::Reason;
use crate::text::clean;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use uuid::Uuid;

/// Longest code kept from an acquirer, in characters.
const CODE_CHARS: usize = 100;
/// Longest message kept from an acquirer, in characters.
const MESSAGE_CHARS: usize = 500;

/// Whether the acquirer recognises a repeat by our key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keys {
    /// A repeat with the same key never charges again, within the window.
    Honoured,
    /// Every POST is a new charge.
    None,
}

/// How a charge can be found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// By the idempotency key.
    ByKey,
    /// By our reference.
    ByReference,
}

/// What an acquirer promises about repeating a charge; the service enforces it.
#[derive(Clone, Debug)]
pub struct Contract {
    /// Whether keys are honoured.
    pub keys: Keys,
    /// For how long a key is remembered, already less the safety margin. `None`: unknown, and then
    /// nothing is ever resent.
    pub window: Option<Duration>,
    /// How a charge is found.
    pub lookup: Lookup,
    /// For this long after a possible send, a lookup that finds nothing proves nothing.
    pub absence_final_after: Duration,
    /// For this long after the first send the machine keeps asking; then a person decides.
    pub give_up_after: Duration,
}

/// The key and the reference that the acquirer sees: the payment's UUID as 32 hex digits. It fits
/// every provider's limit and survives the purge and reuse of a client's key.
#[must_use]
pub fn provider_key(payment_id: Uuid) -> String {
    payment_id.simple().to_string()
}

/// What a success must echo.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// [`provider_key`] of the payment.
    pub reference: &'a str,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: &'a str,
}

/// What a call to the acquirer came to, ready to be recorded. Texts are cleaned and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status, when there was an answer at all.
    pub http_status: Option<u16>,
    /// What it means.
    pub outcome: Outcome,
    /// The acquirer's id of the charge, where it told one.
    pub transaction_id: Option<String>,
    /// The acquirer's decline or error code, or our own word for what went wrong.
    pub code: Option<String>,
    /// The acquirer's message, or our own sentence.
    pub message: Option<String>,
    /// Set when only a person can tell what it means; the outcome is then [`Outcome::Unknown`].
    pub conflict: Option<Reason>,
}

impl Answer {
    /// An answer that proves nothing, with our own word and sentence for what happened.
    #[must_use]
    pub fn unknown(http_status: Option<u16>, code: &str, message: &str) -> Self {
        Self {
            http_status,
            outcome: Outcome::Unknown,
            transaction_id: None,
            code: Some(clean(code, CODE_CHARS)),
            message: Some(clean(message, MESSAGE_CHARS)),
            conflict: None,
        }
    }

    /// Whether the acquirer answered anything, whatever it said.
    #[must_use]
    pub const fn was_heard(&self) -> bool {
        self.http_status.is_some()
    }
}

#[derive(Debug, Deserialize)]
struct Charge {
    transaction_id: String,
    status: String,
    reference: String,
    amount_minor: i64,
    currency: String,
    decline_code: Option<ForeignText>,
    message: Option<ForeignText>,
}

/// A text for people, in whatever shape the acquirer sent it: it must not decide whether the charge
/// around it can be read. Lone surrogates, which no Rust string can hold, stay as their escapes.
#[derive(Debug, Deserialize)]
#[serde(from = "Box<serde_json::value::RawValue>")]
struct ForeignText(String);

impl From<Box<serde_json::value::RawValue>> for ForeignText {
    fn from(raw: Box<serde_json::value::RawValue>) -> Self {
        Self(serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().trim_matches('"').to_owned()))
    }
}

#[derive(Debug, Deserialize)]
struct ChargeList {
    data: Vec<Charge>,
}

#[derive(Debug, Default, Deserialize)]
struct Refusal {
    error: Option<ForeignText>,
    code: Option<ForeignText>,
    message: Option<ForeignText>,
}

impl Refusal {
    fn code(&self) -> Option<&str> {
        self.error.as_ref().or(self.code.as_ref()).map(|text| text.0.as_str())
    }

    fn message(&self) -> Option<&str> {
        self.message.as_ref().map(|text| text.0.as_str())
    }
}

/// What the answer to `POST /charges` means.
///
/// `sent_before` says that an earlier send of the same payment may have reached the acquirer. A
/// refusal such as 401 or 422 then proves nothing: it is about this request, while the earlier one
/// may have moved money. Only a charge of ours that says `rejected` or `declined` does.
#[must_use]
pub fn classify_charge(status: u16, body: &[u8], expected: Expected<'_>, sent_before: bool) -> Answer {
    if let Ok(charge) = serde_json::from_slice::<Charge>(body) {
        // A charge inside an error we have no meaning for (5xx, 409, 3xx) is not believed.
        if matches!(status, 200..=299 | 400 | 402 | 422) {
            return of_charge(status, &charge, expected);
        }
    }
    let refusal: Refusal = serde_json::from_slice(body).unwrap_or_default();
    match status {
        402 if !sent_before => refused(status, Outcome::Declined, &refusal, "declined"),
        400 | 401 | 403 | 422 if !sent_before => refused(status, Outcome::Failed, &refusal, "request_refused"),
        200..=299 => {
            Answer::unknown(Some(status), "unreadable_answer", "the acquirer's answer cannot be read as a charge")
        }
        _ => {
            let (code, message) = (format!("http_{status}"), format!("the acquirer answered {status}"));
            Answer::unknown(Some(status), refusal.code().unwrap_or(&code), refusal.message().unwrap_or(&message))
        }
    }
}

/// What the answer to `GET /charges?…` means: one charge, `{"data": […]}`, or 404.
#[must_use]
pub fn classify_lookup(status: u16, body: &[u8], expected: Expected<'_>) -> Answer {
    let not_found =
        || Answer { outcome: Outcome::NotFound, ..Answer::unknown(Some(status), "not_found", "no charge is found") };
    match status {
        200..=299 => {
            if let Ok(charge) = serde_json::from_slice::<Charge>(body) {
                return of_charge(status, &charge, expected);
            }
            match serde_json::from_slice::<ChargeList>(body) {
                Ok(list) if list.data.is_empty() => not_found(),
                Ok(list) => of_charges(status, &list.data, expected),
                Err(_) => Answer::unknown(
                    Some(status),
                    "unreadable_answer",
                    "the acquirer's answer cannot be read as charges",
                ),
            }
        }
        // An HTML page of some proxy in between is not the acquirer's word.
        404 if body.is_empty() || serde_json::from_slice::<serde_json::Value>(body).is_ok() => not_found(),
        _ => Answer::unknown(Some(status), &format!("http_{status}"), &format!("the lookup was answered {status}")),
    }
}

fn refused(status: u16, outcome: Outcome, refusal: &Refusal, default_code: &str) -> Answer {
    let code = refusal.code().unwrap_or(default_code);
    Answer { outcome, ..Answer::unknown(Some(status), code, refusal.message().unwrap_or("refused by the acquirer")) }
}

fn of_charge(status: u16, charge: &Charge, expected: Expected<'_>) -> Answer {
    let outcome = match charge.status.as_str() {
        "approved" => Outcome::Success,
        "declined" => Outcome::Declined,
        "rejected" => Outcome::Failed,
        "processing" => Outcome::Processing,
        other => {
            let message = format!("the acquirer reports a status we do not know: {other}");
            return Answer::unknown(Some(status), "unknown_status", &message);
        }
    };
    let conflict = differs(charge, expected).map(|what| {
        format!(
            "the acquirer's charge {} does not match the payment: {what}",
            clean(&charge.transaction_id, CODE_CHARS)
        )
    });
    if let Some(message) = conflict {
        return Answer { conflict: Some(Reason::Conflicted), ..Answer::unknown(Some(status), "conflicted", &message) };
    }
    let code = charge.decline_code.as_ref().map(|code| code.0.as_str()).or(match outcome {
        Outcome::Declined => Some("declined"),
        Outcome::Failed => Some("rejected"),
        _ => None,
    });
    Answer {
        http_status: Some(status),
        outcome,
        transaction_id: Some(clean(&charge.transaction_id, CODE_CHARS)),
        code: code.map(|code| clean(code, CODE_CHARS)),
        message: charge.message.as_ref().map(|message| clean(&message.0, MESSAGE_CHARS)),
        conflict: None,
    }
}

fn of_charges(status: u16, charges: &[Charge], expected: Expected<'_>) -> Answer {
    let with = |word: &str| charges.iter().filter(|charge| charge.status == word).collect::<Vec<_>>();
    let (approved, processing) = (with("approved"), with("processing"));
    match (approved.as_slice(), processing.as_slice()) {
        ([_, _, ..], _) => {
            let ids: Vec<String> = approved.iter().map(|charge| clean(&charge.transaction_id, CODE_CHARS)).collect();
            let message =
                format!("the acquirer holds {} approved charges for this payment: {}", ids.len(), ids.join(", "));
            Answer {
                conflict: Some(Reason::DuplicateAtProvider),
                ..Answer::unknown(Some(status), "duplicate_at_provider", &message)
            }
        }
        ([one], []) | ([], [one, ..]) => of_charge(status, one, expected),
        ([_], [_, ..]) => Answer::unknown(
            Some(status),
            "second_charge_in_flight",
            "one charge is approved and another is still processing",
        ),
        ([], []) => charges.last().map_or_else(
            || Answer::unknown(Some(status), "unreadable_answer", "an empty list"),
            |last| of_charge(status, last, expected),
        ),
    }
}

fn differs(charge: &Charge, expected: Expected<'_>) -> Option<String> {
    if charge.reference != expected.reference {
        return Some("it bears another reference".to_owned());
    }
    if charge.amount_minor != expected.amount_minor {
        return Some(format!("amount {} instead of {}", charge.amount_minor, expected.amount_minor));
    }
    (charge.currency != expected.currency)
        .then(|| format!("currency {} instead of {}", clean(&charge.currency, 3), expected.currency))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Expected<'_> = Expected { reference: "ref", amount_minor: 1999, currency: "EUR" };

    fn charge(status: &str) -> String {
        format!(
            r#"{{"transaction_id":"t1","status":"{status}","reference":"ref","amount_minor":1999,"currency":"EUR"}}"#
        )
    }

    fn post(status: u16, body: &str) -> Outcome {
        classify_charge(status, body.as_bytes(), OURS, false).outcome
    }

    #[test]
    fn the_default_map_is_by_meaning() {
        assert_eq!(post(201, &charge("approved")), Outcome::Success);
        assert_eq!(post(402, &charge("declined")), Outcome::Declined);
        assert_eq!(post(402, ""), Outcome::Declined);
        for status in [400, 401, 403, 422] {
            assert_eq!(post(status, r#"{"error":"no"}"#), Outcome::Failed, "{status}");
        }
        for status in [301, 307, 404, 409, 429, 500, 502, 503, 504] {
            assert_eq!(post(status, r#"{"error":"no"}"#), Outcome::Unknown, "{status}");
            assert_eq!(post(status, &charge("approved")), Outcome::Unknown, "{status}");
        }
    }

    #[test]
    fn a_success_that_cannot_be_read_is_unknown() {
        for body in ["", "{", "<html>paid</html>", "[]", "null", r#"{"status":"approved"}"#, &charge("paid_out")] {
            assert_eq!(post(200, body), Outcome::Unknown, "{body}");
        }
    }

    #[test]
    fn a_success_for_something_else_is_never_paid_and_goes_to_a_person() {
        for (from, to) in [(r#""ref""#, r#""other""#), ("1999", "199900"), ("EUR", "USD")] {
            let answer = classify_charge(200, charge("approved").replace(from, to).as_bytes(), OURS, false);
            assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, Some(Reason::Conflicted)), "{to}");
        }
    }

    #[test]
    fn a_refused_repeat_proves_nothing_about_the_first_send() {
        for status in [400, 401, 402, 403, 422] {
            let answer = classify_charge(status, br#"{"error":"bad credentials"}"#, OURS, true);
            assert_eq!(answer.outcome, Outcome::Unknown, "{status}");
        }
        let answer = classify_charge(402, charge("declined").as_bytes(), OURS, true);
        assert_eq!(answer.outcome, Outcome::Declined, "our own charge, declined, does");
    }

    #[test]
    fn a_lookup_tells_absence_from_a_broken_road() {
        let get = |status, body: &str| classify_lookup(status, body.as_bytes(), OURS).outcome;
        assert_eq!(get(404, r#"{"error":"not_found"}"#), Outcome::NotFound);
        assert_eq!(get(404, ""), Outcome::NotFound);
        assert_eq!(get(404, "<html>nginx</html>"), Outcome::Unknown);
        assert_eq!(get(200, r#"{"data":[]}"#), Outcome::NotFound);
        assert_eq!(get(500, ""), Outcome::Unknown);
        assert_eq!(get(200, &charge("processing")), Outcome::Processing);
    }

    #[test]
    fn several_charges_under_one_key_are_told_apart() {
        let get = |charges: &[String]| {
            let body = format!(r#"{{"data":[{}]}}"#, charges.join(","));
            classify_lookup(200, body.as_bytes(), OURS)
        };
        let twice = get(&[charge("approved"), charge("approved").replace("t1", "t2")]);
        assert_eq!(twice.conflict, Some(Reason::DuplicateAtProvider));
        assert!(twice.message.as_deref().is_some_and(|m| m.contains("t1, t2")), "{twice:?}");
        assert_eq!(get(&[charge("declined"), charge("approved")]).outcome, Outcome::Success);
        assert_eq!(get(&[charge("approved"), charge("processing")]).outcome, Outcome::Unknown);
        assert_eq!(get(&[charge("declined"), charge("declined")]).outcome, Outcome::Declined);
    }

    #[test]
    fn a_lone_surrogate_in_a_message_does_not_hide_the_charge() {
        let body = charge("declined").replace('}', r#","message":"no \ud800 funds","decline_code":51}"#);
        let answer = classify_lookup(200, body.as_bytes(), OURS);
        assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("51")));
        assert_eq!(answer.message.as_deref(), Some(r"no \ud800 funds"));
    }

    #[test]
    fn hostile_texts_are_cleaned_and_cut() {
        let body = format!(
            r#"{{"transaction_id":"t1","status":"declined","reference":"ref","amount_minor":1999,"currency":"EUR","message":"a\u0000b{}"}}"#,
            "💳".repeat(300_000)
        );
        let answer = classify_charge(402, body.as_bytes(), OURS, false);
        let message = answer.message.expect("a message");
        assert!(message.starts_with("a b💳") && message.chars().count() == 500, "{}", message.len());
    }
}
