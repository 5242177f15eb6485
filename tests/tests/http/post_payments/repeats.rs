//! The same key, the same request.

use crate::{
    ENDS, assert_about, assert_problem, ended, heard, in_doubt, order, path_of, post_bytes, until_somebody_waits, world,
};
use sandbox::acquirer::Settings;
use serde_json::json;
use shared::payment::life::Status;
use tests::{Worker, World, eventually};
use worker::faults::Faults;

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_a_final_payment_hears_the_stored_answer_byte_for_byte() {
    let (world, api) = world().await;
    let another = world.api().await;
    let _worker = world.worker();
    for (n, (method, end)) in ENDS.into_iter().enumerate() {
        let first = ended(&api.client, n, method, end).await;
        for client in [&api.client, &another.client] {
            for prefer in [None, Some("wait=5")] {
                let key = format!("key-{n}");
                let repeat = client.try_post(&key, &order(n, method), prefer).await.expect("an answer");
                assert_eq!((repeat.status, &repeat.text), (201, &first.text));
                assert_eq!(repeat.header("Idempotent-Replayed"), "true");
                assert_eq!(repeat.header("Content-Type"), "application/json");
                assert_eq!(repeat.header("Location"), path_of(first.payment_id()));
                assert_eq!((repeat.header("Retry-After"), repeat.header("Preference-Applied")), ("", ""));
            }
        }
    }
    assert_eq!(world.acquirer.ledger().calls.posts, 3, "no repeat reached the acquirer");
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_replayed_is_what_was_stored_and_not_made_anew() {
    let (world, api) = world().await;
    let worker = world.worker();
    ended(&api.client, 1, "pm_ok", Status::Paid).await;
    worker.stop().await;
    // As an older version of this program may have written it.
    let old = "{ \"status\" : \"PAID\",\n\"amount_minor\": 1999.0, \"é\": \"\\u00e9\" }\n";
    sqlx::query("UPDATE idempotency_keys SET response_code = 200, response_body = $1")
        .bind(old)
        .execute(&world.database.pool)
        .await
        .expect("rewritten");
    let repeat = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_eq!((repeat.status, repeat.text.as_str()), (200, old));
}

/// Case 7: only business fields are compared.
#[tokio::test(flavor = "multi_thread")]
async fn order_spacing_escapes_and_metadata_do_not_make_another_request() {
    let (world, api) = world().await;
    let worker = world.worker();
    let mut request = order(1, "pm_ok");
    request["metadata"] = json!({"try": "1"});
    let first = api.client.pay("key-1", &request).await;
    worker.stop().await;
    let same = r#""payment_intent_id":"order-1","amount_minor":1999,"currency":"EUR","payment_method_id":"pm_ok""#;
    let others = [
        format!("{{{}}}", same.rsplit(',').collect::<Vec<_>>().join(",")),
        format!("\n{{ {}\t}} ", same.replace(',', " ,\r\n").replace(':', " : ")),
        format!("{{{}}}", same.replace("order-1", "order\\u002d1").replace("EUR", "\\u0045UR")),
        format!("{{{same},\"metadata\":{{\"try\":\"2\"}}}}"),
        format!("{{{same},\"metadata\":{{}}}}"),
    ];
    for other in others {
        let repeat = post_bytes(&api.client, "key-1", other.clone()).await;
        assert_eq!((repeat.status, &repeat.text), (201, &first.text), "{other}");
    }
    assert_eq!(api.client.get(&path_of(first.payment_id())).await.json["metadata"], json!({"try": "1"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_quotes_is_the_same_key() {
    let (world, api) = world().await;
    let first = api.client.post("key-1", &order(1, "pm_ok")).await;
    let quoted = api.client.post("\"key-1\"", &order(1, "pm_ok")).await;
    assert_problem(&quoted, 409, "payment_in_progress");
    assert_about(&quoted, first.payment_id());
    // The other way round, and with something to unescape.
    let first = api.client.post(r#""k\"e\\y""#, &order(2, "pm_ok")).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let bare = api.client.post(r#"k"e\y"#, &order(2, "pm_ok")).await;
    assert_about(&bare, first.payment_id());
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_in_progress_is_409_which_never_means_refused() {
    let (world, api) = world().await;
    let first = api.client.post("key-1", &order(1, "pm_ok")).await;
    let repeat = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_problem(&repeat, 409, "payment_in_progress");
    assert_about(&repeat, first.payment_id());
    assert_eq!(repeat.header("Retry-After"), "1");
    assert_eq!((&repeat.json["payment_status"], &repeat.json["retryable"]), (&json!("PENDING"), &json!(true)));
    // As it says: the same key again, and one day the end.
    let _worker = world.worker();
    let end = api.client.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((end.status, &end.json["status"]), (201, &json!("PAID")), "{}", end.text);
    assert_eq!(world.acquirer.ledger().calls.posts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_that_waits_hears_the_end_like_the_first_one() {
    let (world, api) = world().await;
    let first = api.client.post("key-1", &order(1, "pm_ok")).await;
    let client = api.client.clone();
    let repeat = tokio::spawn(async move { client.pay("key-1", &order(1, "pm_ok")).await });
    until_somebody_waits(&world.database.pool).await;
    let _worker = world.worker();
    let repeat = heard(repeat).await;
    assert_eq!((repeat.status, &repeat.json["status"]), (201, &json!("PAID")), "{}", repeat.text);
    assert_eq!(repeat.payment_id(), first.payment_id());
    assert_eq!((repeat.header("Idempotent-Replayed"), repeat.header("Preference-Applied")), ("true", "wait=8"));
    assert_eq!(api.client.post("key-1", &order(1, "pm_ok")).await.text, repeat.text, "the stored answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_that_waits_in_vain_hears_409() {
    let (_world, api) = world().await;
    let first = api.client.post("key-1", &order(1, "pm_ok")).await;
    let repeat = api.client.try_post("key-1", &order(1, "pm_ok"), Some("wait=1")).await.expect("an answer");
    assert_problem(&repeat, 409, "payment_in_progress");
    assert_about(&repeat, first.payment_id());
    assert_eq!(repeat.header("Retry-After"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_in_doubt_hears_the_current_payment() {
    let (world, api) = world().await;
    let first = in_doubt(&world, &api.client, 1, "pm_processing_forever").await;
    for prefer in [None, Some("wait=1")] {
        let request = order(1, "pm_processing_forever");
        let repeat = api.client.try_post("key-1", &request, prefer).await.expect("an answer");
        assert_eq!((repeat.status, &repeat.json["status"]), (202, &json!("UNKNOWN")), "{}", repeat.text);
        assert_eq!((repeat.header("Idempotent-Replayed"), repeat.header("Retry-After")), ("true", "1"));
        assert_eq!(repeat.header("Location"), path_of(first.payment_id()));
        assert_eq!(repeat.header("Preference-Applied"), prefer.unwrap_or_default());
        assert_eq!(repeat.text, api.client.get(&path_of(first.payment_id())).await.text, "as it is now");
        assert_ne!(repeat.json["version"], first.json["version"]);
    }
}

/// Case 6: a lost connection to the acquirer is not an answer that would be stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_in_doubt_that_waits_hears_how_the_doubt_ended() {
    // Long enough to be seen UNKNOWN, however busy the machine is.
    let world = World::with(Settings { processing_ms: 1_500, ..Settings::default() }).await;
    let api = world.api().await;
    let accepted = in_doubt(&world, &api.client, 1, "pm_processing_then_ok").await;
    let client = api.client.clone();
    let repeat = tokio::spawn(async move { client.pay("key-1", &order(1, "pm_processing_then_ok")).await });
    until_somebody_waits(&world.database.pool).await;
    let _worker = world.worker();
    let repeat = heard(repeat).await;
    assert_eq!((repeat.status, &repeat.json["status"]), (201, &json!("PAID")), "{}", repeat.text);
    assert_eq!((repeat.header("Idempotent-Replayed"), repeat.header("Preference-Applied")), ("true", "wait=8"));
    assert_eq!(repeat.payment_id(), accepted.payment_id());
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.calls.posts), (1, 1), "{ledger:?}");
}

/// Case 12: a crash does not leave 409 for longer than its lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_after_a_crash_hears_the_end_as_soon_as_the_lease_has_lapsed() {
    let (world, api) = world().await;
    let never = Faults::at_points(async |point| {
        if point == "after a call" {
            std::future::pending().await
        }
    });
    let victim = Worker::start(&world, never);
    api.client.post("key-1", &order(1, "pm_ok")).await;
    eventually("it was charged", || async { (world.acquirer.ledger().charges == 1).then_some(()) }).await;
    victim.crash();
    assert_problem(&api.client.post("key-1", &order(1, "pm_ok")).await, 409, "payment_in_progress");
    let _heir = world.worker();
    let end = api.client.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((end.status, &end.json["status"]), (201, &json!("PAID")), "{}", end.text);
    assert_eq!(end.header("Idempotent-Replayed"), "true");
    assert_eq!(world.acquirer.ledger().calls.posts, 1);
}
