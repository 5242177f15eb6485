//! Another key, the same intent: at most one payment of an intent is live, and one that is paid stays so.

use crate::{assert_about, assert_problem, ended, in_doubt, order, world};
use serde_json::json;
use shared::payment::life::Status;

#[tokio::test(flavor = "multi_thread")]
async fn a_live_intent_is_409_with_its_payment() {
    let (world, api) = world().await;
    let unknown = in_doubt(&world, &api.client, 1, "pm_processing_forever").await;
    let pending = api.client.post("key-2", &order(2, "pm_ok")).await;
    for (n, live, status) in [(1, &unknown, "UNKNOWN"), (2, &pending, "PENDING")] {
        for prefer in [None, Some("wait=5")] {
            let other = api.client.try_post("key-other", &order(n, "pm_other"), prefer).await.expect("an answer");
            assert_problem(&other, 409, "payment_attempt_exists");
            assert_about(&other, live.payment_id());
            assert_eq!((&other.json["payment_status"], &other.json["retryable"]), (&json!(status), &json!(false)));
            assert_eq!(other.header("Preference-Applied"), "", "it is not this key's payment: nothing is waited for");
        }
    }
    assert_eq!(
        world.count("SELECT count(*) FROM idempotency_keys WHERE key = 'key-other'").await,
        0,
        "the key is free"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_intent_is_409_for_ever_also_when_its_key_was_purged() {
    let (world, api) = world().await;
    let worker = world.worker();
    let paid = ended(&api.client, 1, "pm_ok", Status::Paid).await;
    worker.stop().await;
    let before = api.client.pay("key-other", &order(1, "pm_other")).await;
    world.run("DELETE FROM idempotency_keys").await;
    let after = api.client.pay("key-other", &order(1, "pm_other")).await;
    let its_own = api.client.pay("key-1", &order(1, "pm_ok")).await;
    for refused in [before, after, its_own] {
        assert_problem(&refused, 409, "payment_already_paid");
        assert_about(&refused, paid.payment_id());
        assert_eq!((&refused.json["payment_status"], &refused.json["retryable"]), (&json!("PAID"), &json!(false)));
    }
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 1);
    assert_eq!(world.acquirer.ledger().calls.posts, 1);
}

/// Case 5: a refusal frees the intent, not the key.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_a_new_key_makes_a_new_payment() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let declined = ended(&api.client, 1, "pm_declined", Status::Declined).await;
    let failed = api.client.pay("key-2", &order(1, "pm_rejected")).await;
    assert_eq!((failed.status, &failed.json["status"]), (201, &json!("FAILED")), "{}", failed.text);
    let paid = api.client.pay("key-3", &order(1, "pm_ok")).await;
    assert_eq!((paid.status, &paid.json["status"]), (201, &json!("PAID")), "{}", paid.text);
    assert_eq!(world.count("SELECT count(DISTINCT id) FROM payments WHERE payment_intent_id = 'order-1'").await, 3);
    // Each key still tells its own end.
    for (key, method, first) in [("key-1", "pm_declined", declined), ("key-2", "pm_rejected", failed)] {
        let repeat = api.client.post(key, &order(1, method)).await;
        assert_eq!((repeat.status, repeat.text), (201, first.text));
    }
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.calls.posts), (1, 3), "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_intents_of_one_merchant_have_nothing_to_do_with_each_other() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let (one, two) =
        tokio::join!(ended(&api.client, 1, "pm_ok", Status::Paid), ended(&api.client, 2, "pm_ok", Status::Paid));
    assert_ne!(one.payment_id(), two.payment_id());
    assert_eq!(world.acquirer.ledger().charges, 2);
}
