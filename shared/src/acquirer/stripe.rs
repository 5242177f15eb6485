//! Stripe's wire form: PaymentIntents, made and confirmed by one POST.
//!
//! Architecture invariant: nothing here, and nothing that calls it, ever confirms, captures or cancels an intent, nor
//! keeps the client secret with which a shopper could. What an intent became is therefore its own doing, and a
//! declined one stays declined.

use super::webhook::STRIPE_REFERENCE;
use super::{Answer, CODE_CHARS, Expected, ForeignText, Meaning, conflicted, duplicate};
use crate::payment::life::Outcome;
use crate::text::clean;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

#[cfg(test)]
mod tests;

/// The version of the API that the forms and meanings here are about, whatever the account's own default is.
///
/// From `2026-09-30.endive` on, `payment_method_types` is refused; whoever raises this sends
/// `allowed_payment_method_types` instead.
pub const API_VERSION: &str = "2026-04-22.dahlia";

/// The most intents that one page can have.
pub const PAGE: usize = 100;

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

/// The form of the POST that makes an intent and confirms it. Only cards: they are decided at once, or by the
/// shopper's authentication, while other methods may stay in processing for days.
#[must_use]
pub fn charge_form(expected: Expected<'_>, payment_method_id: &str) -> [(String, String); 6] {
    let pairs = [
        ("amount", expected.amount_minor.to_string()),
        ("currency", expected.currency.to_ascii_lowercase()),
        ("payment_method", payment_method_id.to_owned()),
        ("payment_method_types[]", "card".to_owned()),
        ("confirm", "true".to_owned()),
        (&format!("metadata[{STRIPE_REFERENCE}]"), expected.reference.to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value))
}

/// The search for all intents that bear `reference`, which is ours and has nothing to be escaped.
#[must_use]
pub fn search_query(reference: &str) -> String {
    format!("metadata['{STRIPE_REFERENCE}']:'{reference}'")
}

/// Whether `id` can stand in the path of a request. What came from outside may be anything.
#[must_use]
pub fn is_intent_id(id: &str) -> bool {
    id.starts_with("pi_") && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A PaymentIntent, as far as it matters here.
#[derive(Debug, Deserialize)]
pub struct Intent {
    #[serde(rename = "object")]
    _object: IntentObject,
    id: String,
    status: String,
    amount: i64,
    amount_received: Option<i64>,
    currency: String,
    metadata: Option<Metadata>,
    last_payment_error: Option<Refusal>,
    cancellation_reason: Option<ForeignText>,
}

/// Other objects have an id, a status and an amount, too.
#[derive(Debug, Deserialize)]
enum IntentObject {
    #[serde(rename = "payment_intent")]
    PaymentIntent,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    /// The member is [`STRIPE_REFERENCE`].
    payonce_payment_id: Option<ForeignText>,
}

/// Why something was refused: the `error` of an answer, or the `last_payment_error` of an intent.
#[derive(Debug, Deserialize)]
struct Refusal {
    #[serde(rename = "type")]
    kind: Option<ForeignText>,
    code: Option<ForeignText>,
    decline_code: Option<ForeignText>,
    message: Option<ForeignText>,
    payment_intent: Option<Box<RawValue>>,
}

#[derive(Debug, Deserialize)]
struct ErrorBody {
    error: Refusal,
}

fn text(of: Option<&ForeignText>) -> Option<&str> {
    of.map(|text| text.0.as_str())
}

impl Refusal {
    fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice::<ErrorBody>(body).ok().map(|body| body.error)
    }

    fn kind(&self) -> Option<&str> {
        text(self.kind.as_ref())
    }

    /// The issuer's reason says more than Stripe's.
    fn code(&self) -> Option<&str> {
        text(self.decline_code.as_ref()).or_else(|| text(self.code.as_ref()))
    }

    fn intent(&self) -> Option<Intent> {
        serde_json::from_str(self.payment_intent.as_ref()?.get()).ok()
    }

    /// What a confirmation that was refused for this reason came to.
    fn outcome(&self) -> Outcome {
        match self.kind() {
            Some("card_error") | None => Outcome::Declined,
            Some(_) => Outcome::Failed,
        }
    }

    fn answer(&self, status: u16, outcome: Outcome, default_code: &str) -> Answer {
        let (code, message) = (self.code().unwrap_or(default_code), text(self.message.as_ref()));
        Answer { outcome, ..Answer::unknown(Some(status), code, message.unwrap_or("refused by Stripe")) }
    }
}

impl Intent {
    fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    fn reference(&self) -> Option<&str> {
        self.metadata.as_ref().and_then(Metadata::reference)
    }

    /// What has become of it; `None`: a status that nobody here knows. `refusal` is why its last confirmation
    /// failed.
    ///
    /// An intent that is made and confirmed at once is `requires_payment_method` before the confirmation and
    /// again after it failed. Only the error tells the two apart: without one, the POST that made it may be
    /// confirming it right now. With one, that confirmation, the only one there will ever be, is over:
    /// * nobody confirms the intent again (see the module's invariant);
    /// * a POST of ours that is still under way bears the key that made this intent: Stripe answers it with the
    ///   first one's result. Where keys are not honoured, `may_send` lets no second POST exist.
    fn outcome(&self, refusal: Option<&Refusal>) -> Option<Outcome> {
        match self.status.as_str() {
            "succeeded" => Some(Outcome::Success),
            "canceled" => Some(Outcome::Failed),
            "requires_payment_method" => Some(refusal.map_or(Outcome::Processing, Refusal::outcome)),
            // Money may yet move, and the machine can do nothing but ask: neither paid nor failed.
            "requires_action" | "processing" | "requires_capture" | "requires_confirmation" => {
                Some(Outcome::Processing)
            }
            _ => None,
        }
    }

    fn differs(&self, expected: Expected<'_>) -> Option<String> {
        if self.reference() != Some(expected.reference) {
            return Some("it bears another reference".to_owned());
        }
        if self.amount != expected.amount_minor {
            return Some(format!("amount {} instead of {}", self.amount, expected.amount_minor));
        }
        if !self.currency.eq_ignore_ascii_case(expected.currency) {
            return Some(format!("currency {} instead of {}", clean(&self.currency, 3), expected.currency));
        }
        let received = self.amount_received.filter(|_| self.status == "succeeded")?;
        (received != expected.amount_minor).then(|| format!("{received} received instead of {}", expected.amount_minor))
    }

    fn answer(&self, status: u16, refusal: Option<&Refusal>, expected: Expected<'_>) -> Answer {
        if let Some(what) = self.differs(expected) {
            return conflicted(status, &self.id, &what);
        }
        let answer = match self.outcome(refusal) {
            None => {
                let message = format!("Stripe reports a status we do not know: {}", self.status);
                Answer::unknown(Some(status), "unknown_status", &message)
            }
            Some(Outcome::Success) => Answer {
                http_status: Some(status),
                outcome: Outcome::Success,
                transaction_id: None,
                code: None,
                message: None,
                conflict: None,
            },
            Some(Outcome::Processing) => Answer {
                outcome: Outcome::Processing,
                ..Answer::unknown(Some(status), &self.status, what_it_waits_for(&self.status))
            },
            Some(outcome) => match refusal.filter(|_| self.status != "canceled") {
                Some(refusal) => refusal.answer(status, outcome, "declined"),
                None => {
                    let reason = text(self.cancellation_reason.as_ref()).unwrap_or("without a reason");
                    let message = format!("the intent was canceled: {reason}");
                    Answer { outcome, ..Answer::unknown(Some(status), "canceled", &message) }
                }
            },
        };
        Answer { transaction_id: Some(clean(&self.id, CODE_CHARS)), ..answer }
    }
}

impl Metadata {
    fn reference(&self) -> Option<&str> {
        text(self.payonce_payment_id.as_ref())
    }
}

fn what_it_waits_for(status: &str) -> &'static str {
    match status {
        "requires_action" => "it waits for the shopper to authenticate",
        "requires_capture" => "the amount is reserved and waits to be captured",
        "processing" => "Stripe is still processing it",
        _ => "it is made and not confirmed yet",
    }
}

/// What the answer to the POST means.
///
/// `sent_before` says that an earlier send of the same payment may have reached Stripe. A refusal then proves
/// nothing about that one, unless it bears our own intent.
#[must_use]
pub fn classify_charge(
    meaning: &Meaning,
    status: u16,
    body: &[u8],
    expected: Expected<'_>,
    sent_before: bool,
) -> Answer {
    if meaning.is_in_flight(status, body) {
        return Answer::unknown(Some(status), "in_flight", "Stripe is still working on the first request");
    }
    if matches!(status, 200..=299) {
        return classify_intent(status, body, expected);
    }
    match Refusal::read(body) {
        Some(refusal) => refused(status, &refusal, expected, sent_before),
        None => not_answered(status, body),
    }
}

/// What an error in answer to the POST means. 409 (the key is in use), 429 and 5xx say nothing about the charge, and
/// `idempotency_error` says that our key is known for a request that was not the same: an earlier one may have
/// moved money.
fn refused(status: u16, refusal: &Refusal, expected: Expected<'_>, sent_before: bool) -> Answer {
    let unknown = || refusal.answer(status, Outcome::Unknown, &format!("http_{status}"));
    if !matches!(status, 400..=404) || refusal.kind() == Some("idempotency_error") {
        return unknown();
    }
    if let Some(intent) = refusal.intent() {
        return intent.answer(status, Some(refusal), expected);
    }
    match (status, refusal.kind()) {
        _ if sent_before => unknown(),
        (402, Some("card_error" | "invalid_request_error")) => refusal.answer(status, Outcome::Declined, "declined"),
        (400 | 401 | 403 | 404, Some("invalid_request_error" | "authentication_error")) => {
            refusal.answer(status, Outcome::Failed, "request_refused")
        }
        _ => unknown(),
    }
}

/// What the answer to a GET of one intent means.
#[must_use]
pub fn classify_intent(status: u16, body: &[u8], expected: Expected<'_>) -> Answer {
    match status {
        200..=299 => match Intent::read(body) {
            Some(intent) => intent.answer(status, intent.last_payment_error.as_ref(), expected),
            None => unreadable(status),
        },
        // It was there: Stripe told us its id. Whatever this is (another account's credential, a server that lost
        // its memory), it is no proof of absence.
        404 => Answer::unknown(Some(status), "intent_not_known", "Stripe does not know the intent that it told us"),
        _ => not_answered(status, body),
    }
}

/// One page of a list or of a search.
#[derive(Debug)]
pub struct Page {
    /// The intents on it that bear our reference.
    pub ours: Vec<Intent>,
    /// After which intent the next page begins; `None`: this was the last one.
    pub next: Option<String>,
}

#[derive(Debug, Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
    has_more: bool,
}

/// What is read of everybody's intents.
#[derive(Debug, Deserialize)]
struct Mark {
    id: String,
    metadata: Option<Metadata>,
}

/// Reads one page.
///
/// # Errors
/// The answer that proves nothing, where a part of the page cannot be read: an intent of ours may stand there.
pub fn read_page(status: u16, body: &[u8], reference: &str) -> Result<Page, Answer> {
    if !matches!(status, 200..=299) {
        return Err(not_answered(status, body));
    }
    page(body, reference).ok_or_else(|| unreadable(status))
}

fn page(body: &[u8], reference: &str) -> Option<Page> {
    let list: List<'_> = serde_json::from_slice(body).ok()?;
    let mut read = Page { ours: Vec::new(), next: None };
    let mut last = None;
    for raw in &list.data {
        let mark: Mark = serde_json::from_str(raw.get()).ok()?;
        if mark.metadata.as_ref().and_then(Metadata::reference) == Some(reference) {
            read.ours.push(Intent::read(raw.get().as_bytes())?);
        }
        last = Some(mark.id);
    }
    if list.has_more {
        // More after nothing: there is no way on.
        read.next = Some(last?);
    }
    Some(read)
}

/// Adds what a search found to what the list already showed.
pub fn add(found: &mut Vec<Intent>, more: Vec<Intent>) {
    for intent in more {
        if found.iter().all(|known| known.id != intent.id) {
            found.push(intent);
        }
    }
}

/// What all the intents that bear our reference mean together.
#[must_use]
pub fn classify_found(found: &[Intent], expected: Expected<'_>) -> Answer {
    const STATUS: u16 = 200;
    let with = |wanted: fn(Option<Outcome>) -> bool| {
        found.iter().filter(|intent| wanted(intent.outcome(intent.last_payment_error.as_ref()))).collect::<Vec<_>>()
    };
    let succeeded = with(|outcome| outcome == Some(Outcome::Success));
    let undecided = with(|outcome| !outcome.is_some_and(Outcome::is_final));
    let declined = with(|outcome| outcome == Some(Outcome::Declined));
    let decisive = match (succeeded.as_slice(), undecided.as_slice()) {
        ([_, _, ..], _) => return duplicate(STATUS, succeeded.iter().map(|intent| intent.id.as_str())),
        ([_], [_, ..]) => {
            let message = "one intent has succeeded and another is not decided yet";
            return Answer::unknown(Some(STATUS), "second_charge_in_flight", message);
        }
        ([one], []) | ([], [one, ..]) => Some(*one),
        ([], []) => declined.first().copied().or_else(|| found.first()),
    };
    match decisive {
        Some(intent) => intent.answer(STATUS, intent.last_payment_error.as_ref(), expected),
        None => not_found(STATUS),
    }
}

fn not_found(status: u16) -> Answer {
    Answer { outcome: Outcome::NotFound, ..Answer::unknown(Some(status), "not_found", "no intent bears our reference") }
}

fn unreadable(status: u16) -> Answer {
    Answer::unknown(Some(status), "unreadable_answer", "Stripe's answer cannot be read as what was asked for")
}

/// An error that says nothing about the charge, or nothing that can be read.
fn not_answered(status: u16, body: &[u8]) -> Answer {
    let code = format!("http_{status}");
    match Refusal::read(body) {
        Some(refusal) => refusal.answer(status, Outcome::Unknown, &code),
        None => Answer::unknown(Some(status), &code, &format!("Stripe answered {status}")),
    }
}
