//! The same key, another request: 422, which names fields and never values.

use crate::{assert_about, assert_problem, ended, in_doubt, order, stored, world};
use serde_json::{Value, json};
use shared::payment::life::Status;
use tests::Answer;
use tests::client::body;

#[track_caller]
fn assert_reuse(answer: &Answer, fields: &[&str]) {
    assert_problem(answer, 422, "idempotency_key_reuse");
    assert_eq!(answer.json["mismatched_fields"], json!(fields), "{}", answer.text);
    assert_eq!((answer.header("Retry-After"), &answer.json["retryable"]), ("", &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_business_field_that_differs_is_named_and_no_value_is_shown() {
    let (mut world, _) = world().await;
    let profile = world.config.acquirers["default"].clone();
    world.config.acquirers.insert("backup".to_owned(), profile);
    let api = world.api().await;
    let first = api.client.post("key-1", &order(1, "pm_ok")).await;
    let differing: [(&str, Value); 5] = [
        ("payment_intent_id", json!("order-zwei")),
        ("amount_minor", json!(2001)),
        ("currency", json!("HUF")),
        ("payment_method_id", json!("pm_secret")),
        ("acquirer", json!("backup")),
    ];
    let mut all = order(1, "pm_ok");
    for (field, value) in &differing {
        let mut other = order(1, "pm_ok");
        other[*field] = value.clone();
        all[*field] = value.clone();
        let reused = api.client.post("key-1", &other).await;
        assert_reuse(&reused, &[field]);
        assert_about(&reused, first.payment_id());
    }
    let reused = api.client.post("key-1", &all).await;
    assert_reuse(&reused, &differing.clone().map(|(field, _)| field));
    for secret in ["order-1", "1999", "EUR", "pm_ok", "order-zwei", "2001", "HUF", "pm_secret", "backup", "key-1"] {
        assert!(!reused.text.contains(secret), "{secret}: {}", reused.text);
    }
    assert_eq!(stored(&world).await, [1, 1]);
}

/// Case 7: no digit and no colon can move from one field to its neighbour unseen.
#[tokio::test(flavor = "multi_thread")]
async fn fields_that_read_the_same_when_joined_are_told_apart() {
    let (_world, api) = world().await;
    let request = |intent: &str, amount: i64| {
        let mut request = body(intent, "pm_ok");
        request["amount_minor"] = amount.into();
        request
    };
    assert_eq!(api.client.post("key-1", &request("1:23", 4)).await.status, 202);
    assert_reuse(&api.client.post("key-1", &request("1:2", 34)).await, &["payment_intent_id", "amount_minor"]);
    assert_reuse(&api.client.post("key-1", &request("1", 234)).await, &["payment_intent_id", "amount_minor"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_422_in_every_state_of_the_key_and_comes_before_409() {
    let (world, api) = world().await;
    // IN_PROGRESS, where the same request would hear 409.
    let pending = api.client.post("key-1", &order(1, "pm_ok")).await;
    let other = api.client.try_post("key-1", &order(1, "pm_other"), Some("wait=5")).await.expect("an answer");
    assert_reuse(&other, &["payment_method_id"]);
    assert_about(&other, pending.payment_id());
    assert_eq!(other.header("Preference-Applied"), "", "there is nothing to wait for");
    // Also when the other request is one for an intent that is live under a third key.
    api.client.post("key-2", &order(2, "pm_ok")).await;
    assert_reuse(&api.client.post("key-1", &order(2, "pm_ok")).await, &["payment_intent_id"]);
    // AWAITING_RESULT.
    let unknown = in_doubt(&world, &api.client, 3, "pm_processing_forever").await;
    let other = api.client.post("key-3", &order(3, "pm_ok")).await;
    assert_reuse(&other, &["payment_method_id"]);
    assert_about(&other, unknown.payment_id());
    // COMPLETED.
    let _worker = world.worker();
    let paid = ended(&api.client, 4, "pm_ok", Status::Paid).await;
    let other = api.client.post("key-4", &order(5, "pm_ok")).await;
    assert_reuse(&other, &["payment_intent_id"]);
    assert_about(&other, paid.payment_id());
}

/// Case 8: another card under the old key is told what to do; under a new key it is charged.
#[tokio::test(flavor = "multi_thread")]
async fn another_card_after_a_refusal_needs_a_new_key_and_is_told_so() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let declined = ended(&api.client, 1, "pm_declined", Status::Declined).await;
    let old_key = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_reuse(&old_key, &["payment_method_id"]);
    assert_about(&old_key, declined.payment_id());
    let new_key = api.client.pay("key-new", &order(1, "pm_ok")).await;
    assert_eq!((new_key.status, &new_key.json["status"]), (201, &json!("PAID")), "{}", new_key.text);
}
