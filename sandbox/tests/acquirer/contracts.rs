//! The rules in which acquirers differ: where a key stands, what a repeat gets, what a look-up shows.

use std::time::Duration;

use sandbox::acquirer::{KeyLocation, Latency, Method, Refusal, Replay, Settings, fault_of};
use sandbox::profiles::Profile;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::support::{Shop, order, settings, shop, status_and_json};

fn place(text: &str) -> KeyLocation {
    text.parse().unwrap()
}

fn refusal(status: u16, body: Value) -> Refusal {
    serde_json::from_value(json!({ "status": status, "body": body })).unwrap()
}

/// Posts `order` as it is, with no key but one it holds itself.
async fn post_bare(shop: &Shop, order: &Value) -> (u16, Value) {
    let request = shop.client.post(shop.url("/charges")).json(order);
    status_and_json(request.send().await.unwrap()).await
}

#[tokio::test]
async fn a_key_is_read_from_the_header_of_the_contract_and_no_other() {
    let shop = shop(settings(|s| s.key_location = place("header:X-Key"))).await;
    let (status, body) = shop.answer("k1", "pm_ok").await;
    assert_eq!((status, &body["error"]), (400, &"idempotency_key_missing".into()));
    assert!(body["message"].as_str().unwrap().contains("header:X-Key"));
    for expected in [201, 200] {
        let request = shop.client.post(shop.url("/charges")).header("x-key", "k1");
        assert_eq!(request.json(&order("k1", "pm_ok")).send().await.unwrap().status(), expected);
    }
}

#[tokio::test]
async fn a_key_in_the_body_is_no_parameter_of_the_charge() {
    let shop = shop(settings(|s| s.key_location = place("body:idempotency_key"))).await;
    let mut order = order("r1", "pm_ok");
    assert_eq!(post_bare(&shop, &order).await.1["error"], "idempotency_key_missing");
    order["idempotency_key"] = "k1".into();
    assert_eq!(post_bare(&shop, &order).await.0, 201);
    assert_eq!(post_bare(&shop, &order).await.0, 200);
    assert_eq!(shop.find("k1").await.0, 200);

    order["amount_minor"] = 1.into();
    assert_eq!(post_bare(&shop, &order).await.1["error"], "idempotency_key_reuse");
    order["idempotency_key"] = 7.into();
    assert_eq!(post_bare(&shop, &order).await.1["error"], "invalid_request");
    order["colour"] = "red".into();
    assert_eq!(post_bare(&shop, &order).await.1["error"], "invalid_request");
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused() {
    let shop = shop(settings(|s| s.key_max_len = 40)).await;
    assert_eq!(shop.answer(&"k".repeat(40), "pm_ok").await.0, 201);
    let (status, body) = shop.answer(&"k".repeat(41), "pm_ok").await;
    assert_eq!((status, &body["error"]), (400, &"idempotency_key_invalid".into()));
    assert_eq!(shop.acquirer.ledger().calls.posts, 1);
}

#[tokio::test]
async fn a_frozen_500_stays_a_500_while_a_lookup_shows_the_charge() {
    let shop = shop(settings(|s| s.replay = Replay::Frozen)).await;
    for _ in 0..3 {
        assert_eq!(shop.answer("k1", "pm_500_after_charge").await.0, 500);
    }
    assert_eq!(shop.find("k1").await.1["status"], "approved");
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_frozen_answer_does_not_follow_the_charge() {
    let shop = shop(settings(|s| {
        s.replay = Replay::Frozen;
        s.processing_ms = 50;
    }))
    .await;
    let first = shop.answer("k1", "pm_processing_then_ok").await;
    assert_eq!((first.0, &first.1["status"]), (202, &"processing".into()));
    shop.until_charges(1).await;
    assert_eq!(shop.answer("k1", "pm_processing_then_ok").await, first);
    assert_eq!(shop.find("k1").await.1["status"], "approved");

    let first = shop.answer("k2", "pm_ok").await;
    assert_eq!((first.0, shop.answer("k2", "pm_ok").await), (201, first));
    assert_eq!(shop.answer("k3", "pm_declined").await, shop.answer("k3", "pm_declined").await);
}

#[tokio::test]
async fn a_frozen_body_that_cannot_be_read_never_can_be() {
    let shop = shop(settings(|s| s.replay = Replay::Frozen)).await;
    for _ in 0..2 {
        let response = shop.post("k1", "pm_malformed").await.unwrap();
        assert!(response.json::<Value>().await.is_err());
    }
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn what_was_never_executed_is_never_frozen() {
    for replay in [Replay::Frozen, Replay::Reexecute] {
        let shop = shop(settings(|s| {
            s.replay = replay;
            s.hold_ms = 20;
        }))
        .await;
        for (method, first) in [("pm_503", 503), ("pm_429", 429), ("pm_timeout_before_charge", 504)] {
            assert_eq!(shop.answer(method, method).await.0, first, "{replay:?} {method}");
            assert_eq!(shop.answer(method, method).await.0, 201, "{replay:?} {method}");
        }
        assert_eq!(shop.acquirer.ledger().duplicates, []);
    }
}

#[tokio::test]
async fn a_lost_answer_counts_as_the_one_that_was_meant() {
    for replay in [Replay::Frozen, Replay::Reexecute] {
        let shop = shop(settings(|s| s.replay = replay)).await;
        assert!(shop.post("k1", "pm_reset").await.is_err());
        assert!(shop.post("k2", "pm_truncated").await.unwrap().bytes().await.is_err());
        assert_eq!(shop.answer("k3", "pm_409_in_flight").await.0, 409);
        shop.until_charges(3).await;
        for (key, method) in [("k1", "pm_reset"), ("k2", "pm_truncated"), ("k3", "pm_409_in_flight")] {
            assert_eq!(shop.answer(key, method).await.0, 201, "{replay:?} {method}");
        }
        assert_eq!(shop.acquirer.ledger().duplicates, []);
    }
}

#[tokio::test]
async fn a_repeat_after_a_500_that_had_booked_books_again_where_only_successes_are_kept() {
    let shop = shop(settings(|s| s.replay = Replay::Reexecute)).await;
    assert_eq!(shop.answer("k1", "pm_500_after_charge").await.0, 500);
    assert_eq!(shop.charges(), 1);
    let second = shop.answer("k1", "pm_500_after_charge").await;
    assert_eq!((second.0, shop.charges()), (201, 2));
    assert_eq!(shop.answer("k1", "pm_500_after_charge").await, second);
    assert_eq!(shop.acquirer.ledger().duplicates[0].transaction_ids.len(), 2);
    assert_eq!(shop.find("k1").await.1["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn a_refusal_is_executed_again_where_only_successes_are_kept() {
    let shop = shop(settings(|s| s.replay = Replay::Reexecute)).await;
    let (first, second) = (shop.answer("k1", "pm_declined").await, shop.answer("k1", "pm_declined").await);
    assert_eq!((first.0, second.0, shop.charges()), (402, 402, 0));
    assert_ne!(first.1["transaction_id"], second.1["transaction_id"]);
}

#[tokio::test]
async fn another_body_gets_the_original_where_mismatches_are_not_detected() {
    let shop = shop(settings(|s| s.mismatch_detected = false)).await;
    let original = shop.answer("k1", "pm_ok").await.1;
    let mut other = order("r2", "pm_ok");
    other["amount_minor"] = 1.into();
    assert_eq!(status_and_json(shop.send("k1", &other).await.unwrap()).await, (200, original));
    assert_eq!(shop.acquirer.ledger_of("r2").charges, 0);
}

#[tokio::test]
async fn a_mismatch_is_refused_in_the_words_of_the_contract() {
    let shop = shop(Profile::named("increase_like").unwrap().settings()).await;
    let original = shop.answer("k1", "pm_ok").await.1;
    let (status, body) = status_and_json(shop.send("k1", &order("r2", "pm_ok")).await.unwrap()).await;
    assert_eq!((status, &body["resource_id"]), (409, &original["transaction_id"]));
}

#[tokio::test]
async fn a_repeat_in_flight_is_refused_in_the_words_of_the_contract() {
    let shop = shop(settings(|s| {
        s.latency_ms = Latency::Fixed { ms: 200 };
        s.in_flight = refusal(422, json!({"errorCode": "704", "about": ["{transaction_id}"]}));
    }))
    .await;
    let repeat = async {
        sleep(Duration::from_millis(80)).await;
        shop.answer("k1", "pm_ok").await
    };
    let (first, (status, body)) = tokio::join!(shop.answer("k1", "pm_ok"), repeat);
    assert_eq!((first.0, status, &body["errorCode"]), (201, 422, &"704".into()));
    let about = body["about"][0].as_str().unwrap();
    assert!(about.starts_with("req_"), "{about}");
    assert_eq!(shop.answer("k2", "pm_409_in_flight").await.0, 422);
}

#[tokio::test]
async fn a_lookup_by_key_may_always_answer_a_list() {
    let shop = shop(settings(|s| s.lookup_by_key_as_list = true)).await;
    assert_eq!(shop.find("k1").await, (200, json!({"data": []})));
    let charge = shop.answer("k1", "pm_ok").await.1;
    assert_eq!(shop.find("k1").await, (200, json!({"data": [charge]})));
    assert_eq!(shop.get("/charges?reference=k1").await, (200, charge));
    assert_eq!(shop.get("/charges?reference=k2").await.0, 404);
}

#[tokio::test]
async fn an_acquirer_without_keys_declines_what_looks_like_a_repeat() {
    let shop = shop(settings(|s| {
        s.keys_honoured = false;
        s.duplicate_window_ms = Some(300);
    }))
    .await;
    assert_eq!(shop.answer("k1", "card_1").await.0, 201);
    let (status, body) = shop.answer("k2", "card_1").await;
    assert_eq!((status, &body["error"], &body["transaction_id"]), (402, &"duplicate_transaction".into(), &Value::Null));
    assert_eq!(shop.find("k2").await.0, 404);

    assert_eq!(shop.answer("k3", "card_2").await.0, 201);
    let mut other = order("k4", "card_1");
    other["amount_minor"] = 1.into();
    assert_eq!(shop.send("k4", &other).await.unwrap().status(), 201);
    sleep(Duration::from_millis(320)).await;
    assert_eq!(shop.answer("k2", "card_1").await.0, 201);
    assert_eq!(shop.charges(), 4);
}

#[tokio::test]
async fn only_an_approved_charge_makes_the_next_one_a_duplicate() {
    let shop = shop(settings(|s| s.duplicate_window_ms = Some(10_000))).await;
    assert_eq!(shop.answer("k1", "pm_declined").await.0, 402);
    assert_eq!(shop.answer("k2", "pm_declined").await.1["decline_code"], "insufficient_funds");
    assert!(shop.post("k3", "pm_reset").await.is_err());
    assert_eq!(shop.answer("k4", "pm_reset").await.1["error"], "duplicate_transaction");
}

#[tokio::test]
async fn every_profile_approves_a_payment_under_its_own_key() {
    for profile in Profile::ALL {
        let shop = shop(profile.settings()).await;
        let location = profile.settings().key_location.to_string();
        let header = location.strip_prefix("header:").unwrap();
        let request = shop.client.post(shop.url("/charges")).header(header, "0192f0c1a2b37c4d8e5f00112233aabb");
        let response = request.json(&order("r1", "pm_ok")).send().await.unwrap();
        assert_eq!(response.status(), 201, "{}", profile.name);
        assert_eq!(shop.charges(), 1, "{}", profile.name);
    }
}

#[tokio::test]
async fn what_a_payment_meets_can_be_told_afterwards() {
    let shop = shop(settings(|s| {
        s.seed = 3;
        s.faults.insert(Method::ServerErrorAfterCharge, 0.5);
    }))
    .await;
    for n in 0..20 {
        let reference = format!("payment-{n}");
        let expected = match fault_of(&shop.acquirer.settings(), "card_1", &reference) {
            Method::ServerErrorAfterCharge => 500,
            _ => 201,
        };
        assert_eq!(shop.answer(&reference, "card_1").await.0, expected);
    }
}

#[test]
fn the_readme_lists_every_profile_and_every_setting() {
    let readme = include_str!("../../README.md");
    for profile in Profile::ALL {
        let row = format!("| `{}` | {} |", profile.name, profile.summary);
        assert!(readme.contains(&row), "missing in README.md: {row}");
    }
    let Value::Object(fields) = serde_json::to_value(Settings::default()).unwrap() else { panic!("no object") };
    for field in fields.keys() {
        assert!(readme.contains(&format!("| `{field}` |")), "missing in README.md: {field}");
    }
}
