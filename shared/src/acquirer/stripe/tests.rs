use super::*;
use crate::acquirer::default_map;
use crate::review::Reason;
use serde_json::{Value, json};

const OURS: Expected<'_> = Expected { reference: "ref", amount_minor: 1999, currency: "EUR" };

/// An intent of ours, with more members than anybody reads.
fn intent(id: &str, status: &str) -> Value {
    json!({
        "id": id, "object": "payment_intent", "status": status, "amount": 1999, "currency": "eur",
        "amount_received": if status == "succeeded" { 1999 } else { 0 },
        "client_secret": "pi_1_secret_x", "created": 1_790_000_000, "livemode": false, "next_action": null,
        "last_payment_error": null, "cancellation_reason": null, "payment_method_types": ["card"],
        "metadata": {"payonce_payment_id": "ref", "shop": "7"},
    })
}

fn declined_intent(id: &str) -> Value {
    let mut intent = intent(id, "requires_payment_method");
    intent["last_payment_error"] = card_error();
    intent
}

fn card_error() -> Value {
    json!({"type": "card_error", "code": "card_declined", "decline_code": "insufficient_funds", "message": "No funds."})
}

fn error(error: Value) -> Value {
    json!({ "error": error })
}

fn bearing(mut error: Value, intent: Value) -> Value {
    error["payment_intent"] = intent;
    json!({ "error": error })
}

fn meaning() -> Meaning {
    Meaning { inflight: Vec::new(), map: default_map() }
}

fn classified(status: u16, body: &[u8], sent_before: bool) -> Answer {
    classify_charge(&meaning(), status, body, OURS, sent_before)
}

fn first(status: u16, body: &Value) -> Answer {
    classified(status, body.to_string().as_bytes(), false)
}

fn resent(status: u16, body: &Value) -> Answer {
    classified(status, body.to_string().as_bytes(), true)
}

fn found(intents: &[Value]) -> Answer {
    let body = json!({"object": "list", "data": intents, "has_more": false}).to_string();
    classify_found(&read_page(200, body.as_bytes(), "ref").expect("a page").ours, OURS)
}

#[test]
fn a_charge_names_its_reference_and_asks_for_a_card_to_be_charged_at_once() {
    let form = charge_form(OURS, "pm_1").map(|(name, value)| format!("{name}={value}")).join("&");
    let one_post = "amount=1999&currency=eur&payment_method=pm_1&payment_method_types[]=card&confirm=true";
    assert_eq!(form, format!("{one_post}&metadata[payonce_payment_id]=ref"));
}

#[test]
fn a_success_that_echoes_what_was_asked_for_is_a_success_with_the_intents_id() {
    let answer = first(200, &intent("pi_1", "succeeded"));
    assert_eq!((answer.outcome, answer.transaction_id.as_deref()), (Outcome::Success, Some("pi_1")));
    assert_eq!((answer.code, answer.message, answer.conflict), (None, None, None));
}

#[test]
fn a_success_for_something_else_is_never_paid_and_goes_to_a_person() {
    let changes: [(&str, Value); 5] = [
        ("metadata", json!({"payonce_payment_id": "other"})),
        ("metadata", json!({})),
        ("amount", json!(199_900)),
        ("currency", json!("usd")),
        ("amount_received", json!(1998)),
    ];
    for (member, value) in changes {
        let mut intent = intent("pi_1", "succeeded");
        intent[member] = value;
        for answer in [first(200, &intent), classify_intent(200, intent.to_string().as_bytes(), OURS)] {
            assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, Some(Reason::Conflicted)), "{intent}");
        }
    }
}

#[test]
fn an_intent_that_waits_is_neither_paid_nor_failed_and_its_id_is_kept() {
    let waits =
        ["requires_action", "processing", "requires_capture", "requires_confirmation", "requires_payment_method"];
    for status in waits {
        let answer = first(200, &intent("pi_1", status));
        assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Processing, Some(status)));
        assert_eq!((answer.transaction_id.as_deref(), answer.conflict), (Some("pi_1"), None), "{status}");
    }
    let answer = first(200, &intent("pi_1", "settling"));
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("unknown_status")));
    assert_eq!(answer.transaction_id.as_deref(), Some("pi_1"));
}

#[test]
fn a_canceled_intent_failed_for_the_reason_it_gives() {
    let mut intent = declined_intent("pi_1");
    (intent["status"], intent["cancellation_reason"]) = (json!("canceled"), json!("abandoned"));
    let answer = first(200, &intent);
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Failed, Some("canceled")));
    assert_eq!(answer.message.as_deref(), Some("the intent was canceled: abandoned"));
}

#[test]
fn a_decline_bears_the_issuers_code_or_else_stripes() {
    let answer = first(402, &bearing(card_error(), declined_intent("pi_1")));
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("insufficient_funds")));
    assert_eq!((answer.message.as_deref(), answer.transaction_id.as_deref()), (Some("No funds."), Some("pi_1")));
    let answer = first(402, &error(json!({"type": "card_error", "code": "expired_card"})));
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("expired_card")));
    assert_eq!(first(402, &error(json!({}))).outcome, Outcome::Unknown, "nothing says who refused");
}

#[test]
fn a_decline_of_a_resend_counts_only_when_it_bears_our_own_intent() {
    assert_eq!(resent(402, &error(card_error())).outcome, Outcome::Unknown);
    assert_eq!(resent(402, &bearing(card_error(), declined_intent("pi_1"))).outcome, Outcome::Declined);
    let mut foreign = declined_intent("pi_2");
    foreign["metadata"] = json!({"payonce_payment_id": "other"});
    let answer = resent(402, &bearing(card_error(), foreign));
    assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, Some(Reason::Conflicted)));
    let answer = resent(402, &bearing(card_error(), intent("pi_1", "processing")));
    assert_eq!(answer.outcome, Outcome::Processing, "the intent knows better than the error");
}

#[test]
fn a_refused_request_failed_only_when_nothing_was_sent_before() {
    let refusal =
        error(json!({"type": "invalid_request_error", "code": "resource_missing", "message": "No such method"}));
    for status in [400, 401, 403, 404] {
        let answer = first(status, &refusal);
        assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Failed, Some("resource_missing")), "{status}");
        assert_eq!(resent(status, &refusal).outcome, Outcome::Unknown, "{status}");
    }
    let refused = json!({"type": "invalid_request_error", "code": "amount_too_small"});
    let answer = first(400, &bearing(refused, intent("pi_1", "requires_payment_method")));
    assert_eq!(answer.outcome, Outcome::Failed, "it was made, and its confirmation refused");
}

#[test]
fn a_key_that_is_known_for_another_request_proves_nothing() {
    let answer = first(400, &error(json!({"type": "idempotency_error", "message": "Keys for idempotent requests…"})));
    assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, None));
}

#[test]
fn conflicts_limits_and_faults_of_stripes_prove_nothing() {
    let in_use = error(json!({"type": "invalid_request_error", "code": "idempotency_key_in_use"}));
    for status in [301, 402, 405, 409, 424, 429, 500, 502, 503, 504] {
        let api_error = error(json!({"type": "api_error"}));
        assert_eq!(first(status, &api_error).outcome, Outcome::Unknown, "{status}");
        assert_eq!(first(status, &intent("pi_1", "succeeded")).outcome, Outcome::Unknown, "{status}");
    }
    let answer = first(409, &in_use);
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("idempotency_key_in_use")));
    let paid = bearing(json!({"type": "api_error"}), intent("pi_1", "succeeded"));
    assert_eq!(first(500, &paid).outcome, Outcome::Unknown, "an intent inside a fault is not believed");
}

#[test]
fn what_cannot_be_read_is_unknown_whatever_its_status() {
    for status in [200, 201, 400, 402, 404] {
        for body in ["", "{", "<html>paid</html>", "[]", "null", "{}", r#"{"error":"no"}"#, r#"{"status":"succeeded"}"#]
        {
            let answer = classified(status, body.as_bytes(), false);
            assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, None), "{status} {body}");
        }
    }
    let mut charge = intent("ch_1", "succeeded");
    charge["object"] = json!("charge");
    assert_eq!(first(200, &charge).outcome, Outcome::Unknown, "it is no intent");
}

#[test]
fn hostile_texts_are_cleaned_and_cut_and_hide_nothing() {
    let body = format!(
        r#"{{"error":{{"type":"card_error","decline_code":"a\u0000b","message":"no \ud800 funds {}"}}}}"#,
        "💳".repeat(10_000)
    );
    let answer = classified(402, body.as_bytes(), false);
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("a b")));
    let message = answer.message.expect("a message");
    assert!(message.starts_with(r"no \ud800 funds 💳") && message.chars().count() == 500, "{message}");
    let secret = first(200, &intent("pi_1", "requires_action"));
    assert!(!format!("{secret:?}").contains("secret"), "{secret:?}");
}

#[test]
fn an_intent_is_decided_by_its_failed_confirmation_and_not_before_it() {
    assert_eq!(found(&[intent("pi_1", "requires_payment_method")]).outcome, Outcome::Processing);
    let answer = found(&[declined_intent("pi_1")]);
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Declined, Some("insufficient_funds")));
    let mut refused = declined_intent("pi_1");
    refused["last_payment_error"] = json!({"type": "invalid_request_error", "code": "x"});
    assert_eq!(found(&[refused]).outcome, Outcome::Failed);
}

#[test]
fn several_intents_of_one_payment_are_told_apart() {
    let (one, two) = (intent("pi_1", "succeeded"), intent("pi_2", "succeeded"));
    let twice = found(&[one.clone(), two]);
    assert_eq!(twice.conflict, Some(Reason::DuplicateAtProvider));
    assert!(twice.message.as_deref().is_some_and(|message| message.contains("pi_1, pi_2")), "{twice:?}");
    for status in ["requires_action", "processing", "requires_capture", "settling"] {
        let answer = found(&[one.clone(), intent("pi_2", status)]);
        assert_eq!((answer.outcome, answer.conflict), (Outcome::Unknown, None), "{status}");
        let answer = found(&[declined_intent("pi_1"), intent("pi_2", status)]);
        assert_eq!(answer.transaction_id.as_deref(), Some("pi_2"), "a decline decides nothing beside {status}");
    }
    assert_eq!(found(&[declined_intent("pi_2"), one]).outcome, Outcome::Success);
    assert_eq!(found(&[intent("pi_1", "canceled"), declined_intent("pi_2")]).outcome, Outcome::Declined);
    assert_eq!(found(&[]).outcome, Outcome::NotFound);
}

#[test]
fn an_intent_whose_id_we_were_told_is_never_absent() {
    let get = |status, body: &Value| classify_intent(status, body.to_string().as_bytes(), OURS);
    let missing = error(json!({"type": "invalid_request_error", "code": "resource_missing"}));
    let answer = get(404, &missing);
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("intent_not_known")));
    assert_eq!(get(200, &intent("pi_1", "succeeded")).outcome, Outcome::Success);
    assert_eq!(get(200, &declined_intent("pi_1")).outcome, Outcome::Declined);
    for status in [401, 429, 500] {
        assert_eq!(get(status, &missing).outcome, Outcome::Unknown, "{status}");
    }
}

#[test]
fn a_page_shows_our_intents_and_where_the_next_one_begins() {
    let mut foreign = json!({"id": "pi_9", "object": "payment_intent", "metadata": {"order": "\u{0}"}});
    let page = |data: &[&Value], has_more| {
        let body = json!({"object": "list", "data": data, "has_more": has_more}).to_string();
        read_page(200, body.as_bytes(), "ref").map(|page| (page.ours.len(), page.next))
    };
    let ours = intent("pi_1", "succeeded");
    assert_eq!(page(&[&ours, &foreign], true), Ok((1, Some("pi_9".to_owned()))));
    assert_eq!(page(&[&foreign], false), Ok((0, None)));
    assert!(page(&[], true).is_err(), "there is no way on");
    foreign["metadata"] = json!(null);
    assert_eq!(page(&[&foreign], false), Ok((0, None)));
    foreign["metadata"] = json!("ref");
    assert!(page(&[&foreign], false).is_err(), "it may be ours");
    assert!(page(&[&json!({"id": "pi_1", "metadata": {"payonce_payment_id": "ref"}})], false).is_err(), "it is ours");
}

#[test]
fn a_list_that_is_not_answered_says_why() {
    let refused = error(json!({"type": "invalid_request_error", "code": "rate_limit"})).to_string();
    let answer = read_page(429, refused.as_bytes(), "ref").expect_err("no page");
    assert_eq!((answer.http_status, answer.code.as_deref()), (Some(429), Some("rate_limit")));
    assert_eq!(answer.outcome, Outcome::Unknown);
    for body in ["", "[]", "<html>", r#"{"data":[]}"#, r#"{"data":{},"has_more":false}"#] {
        let answer = read_page(200, body.as_bytes(), "ref").expect_err(body);
        assert_eq!(answer.code.as_deref(), Some("unreadable_answer"), "{body}");
    }
    let answer = read_page(404, b"<html>", "ref").expect_err("no page");
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("http_404")));
}

#[test]
fn what_a_search_shows_again_is_not_counted_twice() {
    let page = |intents: &[Value]| {
        let body = json!({"object": "search_result", "data": intents, "has_more": false}).to_string();
        read_page(200, body.as_bytes(), "ref").expect("a page").ours
    };
    let mut all = page(&[intent("pi_1", "succeeded")]);
    add(&mut all, page(&[intent("pi_1", "succeeded")]));
    assert_eq!(classify_found(&all, OURS).outcome, Outcome::Success);
    add(&mut all, page(&[intent("pi_2", "succeeded")]));
    assert_eq!(classify_found(&all, OURS).conflict, Some(Reason::DuplicateAtProvider));
}

#[test]
fn only_an_intents_id_may_stand_in_a_path() {
    assert!(is_intent_id("pi_3QxYz12"));
    for id in ["", "pi", "ch_1", "pi_1/confirm", "pi_../x", "pi_1?expand=x", "pi_…"] {
        assert!(!is_intent_id(id), "{id}");
    }
}

#[test]
fn a_profile_may_name_what_a_repeat_in_flight_hears() {
    let signature = crate::acquirer::Signature::of(400, "/error/code", "lock_timeout");
    let meaning = Meaning { inflight: vec![signature], map: default_map() };
    let body = error(json!({"type": "invalid_request_error", "code": "lock_timeout"})).to_string();
    let answer = classify_charge(&meaning, 400, body.as_bytes(), OURS, false);
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("in_flight")));
}
