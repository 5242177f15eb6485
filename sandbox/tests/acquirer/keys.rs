//! The contract of idempotency keys.

use std::time::Duration;

use sandbox::acquirer::Settings;
use serde_json::json;
use tokio::time::sleep;

use crate::support::{client, order, settings, shop, status_and_json};

#[tokio::test]
async fn a_repeat_gets_the_stored_answer_and_books_nothing() {
    let shop = shop(Settings::default()).await;
    let (first, charge) = shop.answer("k1", "pm_ok").await;
    let (second, replay) = shop.answer("k1", "pm_ok").await;
    assert_eq!((first, second), (201, 200));
    assert_eq!(charge, replay);
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_key_with_other_parameters_is_refused() {
    let shop = shop(Settings::default()).await;
    shop.answer("k1", "pm_ok").await;
    let mut other = order("k1", "pm_ok");
    other["amount_minor"] = 1.into();
    let (status, body) = status_and_json(shop.send("k1", &other).await.unwrap()).await;
    assert_eq!((status, body), (422, json!({"error": "idempotency_key_reuse"})));
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_repeat_of_a_request_in_flight_gets_409() {
    let shop = shop(settings(|s| s.latency_ms = sandbox::acquirer::Latency::Fixed { ms: 200 })).await;
    let repeat = async {
        sleep(Duration::from_millis(80)).await;
        shop.answer("k1", "pm_ok").await
    };
    let (first, repeat) = tokio::join!(shop.answer("k1", "pm_ok"), repeat);
    assert_eq!(first.0, 201);
    assert_eq!(repeat, (409, json!({"error": "idempotency_key_in_use"})));
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_key_is_forgotten_after_its_time() {
    let shop = shop(settings(|s| s.key_ttl_ms = Some(200))).await;
    shop.answer("k1", "pm_ok").await;
    assert_eq!(shop.answer("k1", "pm_ok").await.0, 200);
    sleep(Duration::from_millis(250)).await;
    assert_eq!(shop.find("k1").await.0, 404);
    assert_eq!(shop.get("/charges?reference=k1").await.0, 200);
    assert_eq!(shop.answer("k1", "pm_ok").await.0, 201);
    assert_eq!(shop.acquirer.ledger().duplicates.len(), 1);
}

#[tokio::test]
async fn an_acquirer_that_ignores_keys_charges_every_time() {
    let shop = shop(settings(|s| s.keys_honoured = false)).await;
    shop.answer("k1", "pm_ok").await;
    assert_eq!(shop.answer("k1", "pm_ok").await.0, 201);
    let ledger = shop.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.distinct_keys, ledger.distinct_references), (2, 1, 1));
    assert_eq!(ledger.duplicates[0].reference, "k1");
    assert_eq!(shop.find("k1").await.1["data"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn an_acquirer_that_ignores_keys_does_not_ask_for_one() {
    let shop = shop(settings(|s| s.keys_honoured = false)).await;
    let post = || shop.client.post(shop.url("/charges")).json(&order("r1", "pm_ok"));
    assert_eq!(post().send().await.unwrap().status(), 201);
    shop.acquirer.change_settings(|s| s.keys_honoured = true).unwrap();
    let (status, body) = status_and_json(post().send().await.unwrap()).await;
    assert_eq!((status, &body["error"]), (400, &"idempotency_key_missing".into()));
}

#[tokio::test]
async fn a_booking_survives_a_client_that_goes_away() {
    let shop = shop(settings(|s| s.book_after_ms = 300)).await;
    let hasty = client(Duration::from_millis(100));
    let request = hasty.post(shop.url("/charges")).header("Idempotency-Key", "k1");
    let request = request.json(&order("k1", "pm_timeout_after_charge"));
    assert!(request.send().await.unwrap_err().is_timeout());
    drop(hasty);
    assert_eq!(shop.charges(), 0);
    assert_eq!(shop.answer("k1", "pm_timeout_after_charge").await.0, 409);
    shop.until_charges(1).await;
    assert_eq!(shop.answer("k1", "pm_timeout_after_charge").await.0, 200);
}

#[tokio::test]
async fn a_retry_after_a_timeout_pays_twice_where_keys_are_ignored() {
    let shop = shop(settings(|s| {
        s.keys_honoured = false;
        s.book_after_ms = 200;
    }))
    .await;
    let hasty = client(Duration::from_millis(100));
    let request = hasty.post(shop.url("/charges")).header("Idempotency-Key", "k1");
    let request = request.json(&order("k1", "pm_timeout_after_charge"));
    assert!(request.send().await.is_err());
    assert_eq!(shop.answer("k1", "pm_timeout_after_charge").await.0, 201);
    shop.until_charges(2).await;
    assert_eq!(shop.acquirer.ledger().duplicates.len(), 1);
}

#[tokio::test]
async fn faults_that_repeat_hit_every_post_and_still_book_once() {
    let shop = shop(settings(|s| s.faults_repeat = true)).await;
    for _ in 0..2 {
        assert_eq!(shop.answer("k1", "pm_500_after_charge").await.0, 500);
        assert_eq!(shop.answer("k2", "pm_503").await.0, 503);
        assert!(shop.post("k3", "pm_reset").await.is_err());
    }
    assert_eq!(shop.charges(), 2);
    assert_eq!(shop.acquirer.ledger().duplicates, []);
}

#[tokio::test]
async fn an_unreadable_order_is_explained_and_not_counted() {
    let shop = shop(Settings::default()).await;
    for (field, value) in [
        ("amount_minor", json!(0)),
        ("amount_minor", json!("4200")),
        ("currency", json!("eur")),
        ("reference", json!("")),
        ("colour", json!("red")),
    ] {
        let mut bad = order("k1", "pm_ok");
        bad[field] = value;
        let (status, body) = status_and_json(shop.send("k1", &bad).await.unwrap()).await;
        assert_eq!((status, &body["error"]), (400, &"invalid_request".into()), "{field}");
    }
    assert_eq!(shop.acquirer.ledger().calls.posts, 0);
}
