//! What the answers of the plain wire form mean: `POST` and `GET /charges`.

use super::{Answer, CODE_CHARS, Expected, ForeignText, MESSAGE_CHARS, Meaning, conflicted, duplicate};
use crate::payment::life::Outcome;
use crate::text::clean;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

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

/// What a charge's status means.
pub(super) fn word(status: &str) -> Option<Outcome> {
    match status {
        "approved" => Some(Outcome::Success),
        "declined" => Some(Outcome::Declined),
        "rejected" => Some(Outcome::Failed),
        "processing" => Some(Outcome::Processing),
        _ => None,
    }
}

#[derive(Debug, Deserialize)]
struct ChargeList<'a> {
    #[serde(borrow)]
    data: Vec<&'a RawValue>,
}

/// A charge, and as it was sent for the profile's pointers.
struct Seen<'a> {
    charge: Charge,
    body: &'a [u8],
}

impl<'a> Seen<'a> {
    fn read(body: &'a [u8]) -> Option<Self> {
        Some(Self { charge: serde_json::from_slice(body).ok()?, body })
    }

    fn outcome(&self, meaning: &Meaning, status: u16) -> Option<Outcome> {
        word(&self.charge.status).or_else(|| meaning.outcome(status, self.body))
    }
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
pub fn classify_charge(
    meaning: &Meaning,
    status: u16,
    body: &[u8],
    expected: Expected<'_>,
    sent_before: bool,
) -> Answer {
    if meaning.is_in_flight(status, body) {
        return Answer::unknown(Some(status), "in_flight", "the acquirer is still working on the first request");
    }
    // A charge inside an error we have no meaning for (5xx, 409, 3xx) is not believed.
    if matches!(status, 200..=299 | 400 | 402 | 422)
        && let Some(seen) = Seen::read(body)
    {
        return of_charge(meaning, status, &seen, expected);
    }
    let refusal: Refusal = serde_json::from_slice(body).unwrap_or_default();
    match meaning.outcome(status, body) {
        Some(Outcome::Declined) if !sent_before => refused(status, Outcome::Declined, &refusal, "declined"),
        Some(Outcome::Failed) if !sent_before => refused(status, Outcome::Failed, &refusal, "request_refused"),
        Some(Outcome::Processing) => refused(status, Outcome::Processing, &refusal, "processing"),
        _ if matches!(status, 200..=299) => {
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
pub fn classify_lookup(meaning: &Meaning, status: u16, body: &[u8], expected: Expected<'_>) -> Answer {
    let not_found =
        || Answer { outcome: Outcome::NotFound, ..Answer::unknown(Some(status), "not_found", "no charge is found") };
    match status {
        200..=299 => {
            if let Some(seen) = Seen::read(body) {
                return of_charge(meaning, status, &seen, expected);
            }
            let list = serde_json::from_slice::<ChargeList>(body).ok();
            let all: Option<Vec<Seen<'_>>> =
                list.and_then(|list| list.data.iter().map(|one| Seen::read(one.get().as_bytes())).collect());
            match all {
                Some(all) => of_charges(meaning, status, &all, expected).unwrap_or_else(not_found),
                None => Answer::unknown(
                    Some(status),
                    "unreadable_answer",
                    "the acquirer's answer cannot be read as charges",
                ),
            }
        }
        // An HTML page of some proxy in between is not the acquirer's word.
        404 if body.is_empty() || serde_json::from_slice::<Value>(body).is_ok() => not_found(),
        _ => Answer::unknown(Some(status), &format!("http_{status}"), &format!("the lookup was answered {status}")),
    }
}

fn refused(status: u16, outcome: Outcome, refusal: &Refusal, default_code: &str) -> Answer {
    let code = refusal.code().unwrap_or(default_code);
    Answer { outcome, ..Answer::unknown(Some(status), code, refusal.message().unwrap_or("refused by the acquirer")) }
}

fn of_charge(meaning: &Meaning, status: u16, seen: &Seen<'_>, expected: Expected<'_>) -> Answer {
    let charge = &seen.charge;
    if let Some(what) = differs(charge, expected) {
        return conflicted(status, &charge.transaction_id, &what);
    }
    let Some(outcome) = seen.outcome(meaning, status) else {
        let message = format!("the acquirer reports a status we do not know: {}", charge.status);
        return Answer::unknown(Some(status), "unknown_status", &message);
    };
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

/// `None`: there is no charge.
fn of_charges(meaning: &Meaning, status: u16, charges: &[Seen<'_>], expected: Expected<'_>) -> Option<Answer> {
    let with =
        |outcome| charges.iter().filter(|seen| seen.outcome(meaning, status) == Some(outcome)).collect::<Vec<_>>();
    let (approved, processing) = (with(Outcome::Success), with(Outcome::Processing));
    let decisive = match (approved.as_slice(), processing.as_slice()) {
        ([_, _, ..], _) => {
            return Some(duplicate(status, approved.iter().map(|seen| seen.charge.transaction_id.as_str())));
        }
        ([_], [_, ..]) => {
            let message = "one charge is approved and another is still processing";
            return Some(Answer::unknown(Some(status), "second_charge_in_flight", message));
        }
        ([one], []) | ([], [one, ..]) => one,
        ([], []) => charges.last()?,
    };
    Some(of_charge(meaning, status, decisive, expected))
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
    use crate::acquirer::{MapRule, Signature, default_map};
    use crate::review::Reason;

    const OURS: Expected<'_> = Expected { reference: "ref", amount_minor: 1999, currency: "EUR" };

    fn charge(status: &str) -> String {
        format!(
            r#"{{"transaction_id":"t1","status":"{status}","reference":"ref","amount_minor":1999,"currency":"EUR"}}"#
        )
    }

    fn meaning() -> Meaning {
        Meaning { inflight: vec![Signature::of(409, "/error", "idempotency_key_in_use")], map: default_map() }
    }

    fn post(status: u16, body: &str) -> Outcome {
        classify_charge(&meaning(), status, body.as_bytes(), OURS, false).outcome
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
            let answer = classify_charge(&meaning(), 200, charge("approved").replace(from, to).as_bytes(), OURS, false);
            assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, Some(Reason::Conflicted)), "{to}");
        }
    }

    #[test]
    fn a_refused_repeat_proves_nothing_about_the_first_send() {
        for status in [400, 401, 402, 403, 422] {
            let answer = classify_charge(&meaning(), status, br#"{"error":"bad credentials"}"#, OURS, true);
            assert_eq!(answer.outcome, Outcome::Unknown, "{status}");
        }
        let answer = classify_charge(&meaning(), 402, charge("declined").as_bytes(), OURS, true);
        assert_eq!(answer.outcome, Outcome::Declined, "our own charge, declined, does");
    }

    #[test]
    fn a_lookup_tells_absence_from_a_broken_road() {
        let get = |status, body: &str| classify_lookup(&meaning(), status, body.as_bytes(), OURS).outcome;
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
            classify_lookup(&meaning(), 200, body.as_bytes(), OURS)
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
        let answer = classify_lookup(&meaning(), 200, body.as_bytes(), OURS);
        assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("51")));
        assert_eq!(answer.message.as_deref(), Some(r"no \ud800 funds"));
    }

    #[test]
    fn hostile_texts_are_cleaned_and_cut() {
        let body = format!(
            r#"{{"transaction_id":"t1","status":"declined","reference":"ref","amount_minor":1999,"currency":"EUR","message":"a\u0000b{}"}}"#,
            "💳".repeat(300_000)
        );
        let answer = classify_charge(&meaning(), 402, body.as_bytes(), OURS, false);
        let message = answer.message.expect("a message");
        assert!(message.starts_with("a b💳") && message.chars().count() == 500, "{}", message.len());
    }

    #[test]
    fn a_repeat_in_flight_is_unknown_also_where_its_status_means_refused_and_its_body_cannot_be_read() {
        let adyen = Meaning { inflight: vec![Signature::of(422, "/errorCode", "704")], map: default_map() };
        let post = |body: &[u8]| classify_charge(&adyen, 422, body, OURS, false);
        let answer = post(br#"{"errorCode":"704"}"#);
        assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("in_flight")));
        assert_eq!(post(br#"{"errorCode":"704","message":"\ud800"}"#).outcome, Outcome::Unknown);
        assert_eq!(post(b"").outcome, Outcome::Unknown);
        assert_eq!(post(br#"{"errorCode":"101"}"#).outcome, Outcome::Failed);
    }

    #[test]
    fn a_profile_may_teach_words_of_its_own_and_a_success_must_still_echo() {
        let rule = MapRule { when: Signature::of(201, "/status", "Authorized"), outcome: Outcome::Success };
        let also = MapRule { when: Signature::of(200, "/status", "Authorized"), outcome: Outcome::Success };
        let meaning = Meaning { inflight: vec![], map: vec![rule, also] };
        let post = |body: String| classify_charge(&meaning, 201, body.as_bytes(), OURS, false);
        assert_eq!(post(charge("Authorized")).outcome, Outcome::Success);
        assert_eq!(post(charge("Authorized").replace("1999", "1")).conflict, Some(Reason::Conflicted));
        assert_eq!(post(r#"{"status":"Authorized"}"#.to_owned()).outcome, Outcome::Unknown, "it echoes nothing");
        assert_eq!(post(charge("Pending")).outcome, Outcome::Unknown);
        let two = format!(r#"{{"data":[{},{}]}}"#, charge("Authorized"), charge("Authorized").replace("t1", "t2"));
        let found = classify_lookup(&meaning, 200, two.as_bytes(), OURS);
        assert_eq!(found.conflict, Some(Reason::DuplicateAtProvider));
    }
}
