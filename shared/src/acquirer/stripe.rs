//! What Stripe's answers mean: PaymentIntents, made and confirmed in one request. Source: Stripe's API reference (payment
//! intents, errors, idempotent requests), read in December 2026.

use super::webhook::STRIPE_REFERENCE;
use super::{Answer, CODE_CHARS, Expected, MESSAGE_CHARS, conflicted, duplicate};
use crate::payment::life::Outcome;
use crate::review::Reason;
use crate::text::clean;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, HashMap};

/// The version of the API that this speaks; Stripe keeps answering in it.
pub const API_VERSION: &str = "2024-06-20";

/// Currencies that Stripe counts otherwise than ISO 4217: the króna and the shilling bear two decimal places that must be
/// zero, the ariary none. Source: Stripe's page on currencies, special cases and zero-decimal currencies.
#[must_use]
pub fn exponents() -> BTreeMap<String, u32> {
    [("ISK", 2), ("UGX", 2), ("MGA", 0)].map(|(currency, places)| (currency.to_owned(), places)).into()
}

/// What an amount has to be a multiple of: the third decimal place has to be zero. Source: the same page.
#[must_use]
pub fn step(currency: &str) -> i64 {
    if matches!(currency, "BHD" | "JOD" | "KWD" | "OMR" | "TND") { 10 } else { 1 }
}

/// The form that makes and confirms a PaymentIntent.
#[must_use]
pub fn charge_form(expected: Expected<'_>, payment_method_id: &str) -> Vec<(String, String)> {
    let pairs = [
        ("amount", expected.amount_minor.to_string()),
        ("currency", expected.currency.to_ascii_lowercase()),
        ("payment_method", payment_method_id.to_owned()),
        ("payment_method_types[]", "card".to_owned()),
        ("confirm", "true".to_owned()),
    ];
    let reference = (format!("metadata[{STRIPE_REFERENCE}]"), expected.reference.to_owned());
    pairs.map(|(name, value)| (name.to_owned(), value)).into_iter().chain([reference]).collect()
}

/// A PaymentIntent, as far as it concerns us.
#[derive(Clone, Debug, Deserialize)]
pub struct Intent {
    id: String,
    object: String,
    status: String,
    amount: i64,
    currency: String,
    #[serde(default)]
    metadata: HashMap<String, String>,
    last_payment_error: Option<Problem>,
}

impl Intent {
    fn reference(&self) -> Option<&str> {
        self.metadata.get(STRIPE_REFERENCE).map(String::as_str)
    }
}

/// An error, of a request or of a payment.
#[derive(Clone, Debug, Default, Deserialize)]
struct Problem {
    r#type: Option<String>,
    code: Option<String>,
    decline_code: Option<String>,
    #[serde(default)]
    message: Option<Box<RawValue>>,
    #[serde(default)]
    payment_intent: Option<Box<RawValue>>,
}

impl Problem {
    fn code(&self) -> Option<&str> {
        self.decline_code.as_deref().or(self.code.as_deref()).or(self.r#type.as_deref())
    }

    /// Lone surrogates, which no Rust string can hold, stay as their escapes.
    fn message(&self) -> Option<String> {
        let raw = self.message.as_ref()?.get();
        Some(serde_json::from_str(raw).unwrap_or_else(|_| raw.trim_matches('"').to_owned()))
    }

    fn intent(&self) -> Option<Intent> {
        serde_json::from_str(self.payment_intent.as_ref()?.get()).ok()
    }
}

#[derive(Deserialize)]
struct Failure {
    error: Problem,
}

fn read_intent(body: &[u8]) -> Option<Intent> {
    serde_json::from_slice(body).ok().filter(|intent: &Intent| intent.object == "payment_intent")
}

/// What the answer to `POST /v1/payment_intents` means. `sent_before`: an earlier send may have reached Stripe, and a
/// refusal of this one then proves nothing about it, unless it bears our own PaymentIntent.
#[must_use]
pub fn classify_charge(status: u16, body: &[u8], expected: Expected<'_>, sent_before: bool) -> Answer {
    if let (200..=299, Some(intent)) = (status, read_intent(body)) {
        return of_intent(status, &intent, expected);
    }
    let Ok(Failure { error }) = serde_json::from_slice::<Failure>(body) else { return unreadable(status) };
    let ours = error.intent().is_some_and(|intent| differs(&intent, expected).is_none());
    match (status, error.r#type.as_deref()) {
        // Our key was used for another request: somebody else's, or ours was not what it is now.
        (_, Some("idempotency_error")) => {
            let message = error.message().unwrap_or_else(|| "the key was used for another request".to_owned());
            Answer {
                conflict: Some(Reason::Conflicted),
                ..Answer::unknown(Some(status), "idempotency_error", &message)
            }
        }
        (402, _) if ours || !sent_before => refused(status, Outcome::Declined, &error, "declined"),
        (400 | 401 | 403 | 404, _) if !sent_before => refused(status, Outcome::Failed, &error, "request_refused"),
        _ => refused(status, Outcome::Unknown, &error, &format!("http_{status}")),
    }
}

/// What the answer to `GET /v1/payment_intents/{id}` means.
#[must_use]
pub fn classify_intent(status: u16, body: &[u8], expected: Expected<'_>) -> Answer {
    match (status, read_intent(body), serde_json::from_slice::<Failure>(body)) {
        (200..=299, Some(intent), _) => of_intent(status, &intent, expected),
        (404, _, Ok(_)) => not_found(status),
        (_, _, Ok(Failure { error })) => refused(status, Outcome::Unknown, &error, &format!("http_{status}")),
        (_, _, Err(_)) => unreadable(status),
    }
}

/// One page of a list of PaymentIntents, or of a search.
#[derive(Debug)]
pub struct Page {
    /// Those that bear our reference.
    pub ours: Vec<Intent>,
    /// The id to go on after; `None`: this was the last page.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Intent>,
    #[serde(default)]
    has_more: bool,
}

/// Reads a page. `None`: it cannot be read, and nothing follows from it.
#[must_use]
pub fn page(body: &[u8], reference: &str) -> Option<Page> {
    let List { data, has_more } = serde_json::from_slice(body).ok()?;
    let last = data.last().map(|intent| intent.id.clone());
    let ours = data.into_iter().filter(|intent| intent.reference() == Some(reference)).collect();
    Some(Page { ours, next: last.filter(|_| has_more) })
}

/// What all PaymentIntents that bear our reference mean together.
#[must_use]
pub fn of_all(status: u16, ours: &[Intent], expected: Expected<'_>) -> Answer {
    let with =
        |words: &[&str]| ours.iter().filter(|intent| words.contains(&intent.status.as_str())).collect::<Vec<_>>();
    let (paid, open) = (with(&["succeeded"]), with(&["processing", "requires_action", "requires_capture"]));
    match (paid.as_slice(), open.as_slice()) {
        ([_, _, ..], _) => duplicate(status, paid.iter().map(|intent| intent.id.as_str())),
        ([_], [_, ..]) => {
            Answer::unknown(Some(status), "second_charge_in_flight", "one charge succeeded and another is still open")
        }
        ([one], []) | ([], [one, ..]) => of_intent(status, one, expected),
        ([], []) => ours.last().map_or_else(|| not_found(status), |last| of_intent(status, last, expected)),
    }
}

fn of_intent(status: u16, intent: &Intent, expected: Expected<'_>) -> Answer {
    if let Some(what) = differs(intent, expected) {
        return conflicted(status, &intent.id, &what);
    }
    let (outcome, code) = match (intent.status.as_str(), &intent.last_payment_error) {
        ("succeeded", _) => (Outcome::Success, None),
        ("canceled", _) => (Outcome::Failed, Some("canceled")),
        // The confirmation failed, and nobody confirms this intent again: we make one per key and never touch it
        // afterwards, and a repeat of our request within the key's time brings this very answer.
        ("requires_payment_method", Some(error)) => (Outcome::Declined, Some(error.code().unwrap_or("declined"))),
        // It waits for the shopper, or for the bank; money may still move.
        (open @ ("processing" | "requires_action" | "requires_confirmation"), _) => (Outcome::Processing, Some(open)),
        // We never ask for a capture of our own, so somebody else has a hand in it.
        (other, _) => (Outcome::Unknown, Some(other)),
    };
    let error = intent.last_payment_error.as_ref().and_then(Problem::message);
    Answer {
        http_status: Some(status),
        outcome,
        transaction_id: Some(clean(&intent.id, CODE_CHARS)),
        code: code.map(|code| clean(code, CODE_CHARS)),
        message: error.map(|message| clean(&message, MESSAGE_CHARS)),
        conflict: None,
    }
}

fn differs(intent: &Intent, expected: Expected<'_>) -> Option<String> {
    if intent.reference() != Some(expected.reference) {
        return Some("it bears another reference".to_owned());
    }
    if intent.amount != expected.amount_minor {
        return Some(format!("amount {} instead of {}", intent.amount, expected.amount_minor));
    }
    (!intent.currency.eq_ignore_ascii_case(expected.currency))
        .then(|| format!("currency {} instead of {}", clean(&intent.currency, 3), expected.currency))
}

fn refused(status: u16, outcome: Outcome, error: &Problem, default_code: &str) -> Answer {
    let message = error.message().unwrap_or_else(|| format!("Stripe answered {status}"));
    Answer { outcome, ..Answer::unknown(Some(status), error.code().unwrap_or(default_code), &message) }
}

fn not_found(status: u16) -> Answer {
    let answer = Answer::unknown(Some(status), "not_found", "no PaymentIntent bears our reference");
    Answer { outcome: Outcome::NotFound, ..answer }
}

fn unreadable(status: u16) -> Answer {
    let code = if status < 300 { "unreadable_answer".to_owned() } else { format!("http_{status}") };
    Answer::unknown(Some(status), &code, "Stripe's answer cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const OURS: Expected<'_> = Expected { reference: "ref", amount_minor: 1999, currency: "EUR" };

    fn intent(id: &str, status: &str) -> Value {
        json!({"id": id, "object": "payment_intent", "status": status, "amount": 1999, "currency": "eur",
            "metadata": {"payonce_payment_id": "ref"}, "last_payment_error": null})
    }

    fn declined() -> Value {
        let mut intent = intent("pi_1", "requires_payment_method");
        intent["last_payment_error"] =
            json!({"code": "card_declined", "decline_code": "insufficient_funds", "message": "No."});
        intent
    }

    fn error(kind: &str, code: &str) -> Value {
        json!({"error": {"type": kind, "code": code, "message": "why"}})
    }

    fn post(status: u16, body: &Value, sent_before: bool) -> Answer {
        classify_charge(status, body.to_string().as_bytes(), OURS, sent_before)
    }

    #[test]
    fn a_charge_asks_for_one_confirmed_intent_that_bears_our_reference() {
        let form = charge_form(OURS, "pm_1");
        let has = |name: &str, value: &str| form.contains(&(name.to_owned(), value.to_owned()));
        assert!(
            has("amount", "1999") && has("currency", "eur") && has("confirm", "true") && has("payment_method", "pm_1")
        );
        assert!(has("metadata[payonce_payment_id]", "ref"), "{form:?}");
    }

    #[test]
    fn every_status_of_an_intent_has_a_meaning() {
        let table = [
            ("succeeded", Outcome::Success),
            ("processing", Outcome::Processing),
            ("requires_action", Outcome::Processing),
            ("requires_confirmation", Outcome::Processing),
            ("requires_capture", Outcome::Unknown),
            ("requires_payment_method", Outcome::Unknown),
            ("canceled", Outcome::Failed),
            ("a_new_word", Outcome::Unknown),
        ];
        for (status, outcome) in table {
            let answer = post(200, &intent("pi_1", status), false);
            assert_eq!((answer.outcome, answer.transaction_id.as_deref()), (outcome, Some("pi_1")), "{status}");
        }
        let answer = post(200, &declined(), true);
        assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("insufficient_funds")));
    }

    #[test]
    fn a_success_for_something_else_is_never_paid() {
        for (pointer, value) in [
            ("/metadata/payonce_payment_id", json!("another")),
            ("/metadata", json!({})),
            ("/amount", json!(199_900)),
            ("/currency", json!("usd")),
        ] {
            let mut other = intent("pi_1", "succeeded");
            *other.pointer_mut(pointer).expect("there") = value;
            let answer = post(200, &other, false);
            assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, Some(Reason::Conflicted)), "{pointer}");
        }
    }

    #[test]
    fn a_first_refusal_is_final_and_one_of_a_repeat_proves_nothing() {
        let table = [
            (402, error("card_error", "card_declined"), Outcome::Declined),
            (400, error("invalid_request_error", "parameter_missing"), Outcome::Failed),
            (401, error("invalid_request_error", "api_key_expired"), Outcome::Failed),
            (403, error("invalid_request_error", "no_permission"), Outcome::Failed),
            (404, error("invalid_request_error", "resource_missing"), Outcome::Failed),
        ];
        for (status, body, outcome) in table {
            assert_eq!(post(status, &body, false).outcome, outcome, "{status}");
            assert_eq!(post(status, &body, true).outcome, Outcome::Unknown, "{status}");
        }
        let mut ours = error("card_error", "card_declined");
        ours["error"]["payment_intent"] = declined();
        assert_eq!(post(402, &ours, true).outcome, Outcome::Declined, "it bears our own intent");
    }

    #[test]
    fn whatever_else_comes_is_unknown() {
        for status in [409, 429, 500, 502, 503] {
            assert_eq!(post(status, &error("api_error", "lock_timeout"), false).outcome, Outcome::Unknown, "{status}");
            assert_eq!(post(status, &intent("pi_1", "succeeded"), false).outcome, Outcome::Unknown, "{status}");
        }
        for body in ["", "{", "<html>", "[]", "null", "{\"id\":\"pi_1\"}"] {
            for status in [200, 302, 400, 404, 500] {
                let answer = classify_charge(status, body.as_bytes(), OURS, false);
                assert_eq!(answer.outcome, Outcome::Unknown, "{status} {body}");
            }
        }
        let reuse = post(400, &error("idempotency_error", "idempotency_key_reuse"), false);
        assert_eq!((reuse.outcome, reuse.conflict), (Outcome::Unknown, Some(Reason::Conflicted)));
    }

    #[test]
    fn a_lookup_by_id_tells_absence_from_a_broken_road() {
        let get = |status, body: &str| classify_intent(status, body.as_bytes(), OURS).outcome;
        assert_eq!(get(200, &intent("pi_1", "succeeded").to_string()), Outcome::Success);
        assert_eq!(get(404, &error("invalid_request_error", "resource_missing").to_string()), Outcome::NotFound);
        assert_eq!(get(404, "<html>"), Outcome::Unknown);
        assert_eq!(get(401, &error("invalid_request_error", "x").to_string()), Outcome::Unknown);
    }

    #[test]
    fn of_a_list_only_ours_count_and_two_that_succeeded_are_a_duplicate() {
        let mut foreign = intent("pi_9", "succeeded");
        foreign["metadata"] = json!({"payonce_payment_id": "another"});
        let read = |intents: &[Value], more| {
            let body = json!({"object": "list", "data": intents, "has_more": more}).to_string();
            page(body.as_bytes(), "ref").expect("a page")
        };
        let first = read(&[intent("pi_1", "succeeded"), foreign.clone()], true);
        assert_eq!((first.ours.len(), first.next.as_deref()), (1, Some("pi_9")));
        assert_eq!(of_all(200, &first.ours, OURS).outcome, Outcome::Success);
        let none = read(&[foreign], false);
        assert_eq!((of_all(200, &none.ours, OURS).outcome, none.next), (Outcome::NotFound, None));
        let twice = of_all(200, &read(&[intent("pi_1", "succeeded"), intent("pi_2", "succeeded")], false).ours, OURS);
        assert!(twice.conflict == Some(Reason::DuplicateAtProvider) && twice.message.unwrap().contains("pi_1, pi_2"));
        let open = of_all(200, &read(&[intent("pi_1", "succeeded"), intent("pi_2", "processing")], false).ours, OURS);
        assert_eq!(open.outcome, Outcome::Unknown);
        assert!(page(b"[]", "ref").is_none());
    }

    #[test]
    fn hostile_texts_are_cleaned_and_hide_nothing() {
        let body = r#"{"error":{"type":"card_error","code":"card_declined","message":"a\u0000b \ud800"}}"#;
        let answer = classify_charge(402, body.as_bytes(), OURS, false);
        assert_eq!(answer.outcome, Outcome::Declined);
        assert!(!answer.message.expect("a message").contains('\0'));
    }
}
