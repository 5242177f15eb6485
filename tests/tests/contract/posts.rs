use crate::{assert_problem, location, paid, world};
use serde_json::Value;
use shared::payment::life::Status;
use tests::client::body;
use tests::{World, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_payment_is_202_with_where_to_look() {
    let (_world, api) = world().await;
    let answer = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!(answer.status, 202, "{}", answer.text);
    assert_eq!(answer.header("Location"), location(answer.payment_id()));
    assert_eq!(answer.header("Retry-After"), "1");
    let expected = serde_json::json!({"object": "payment", "payment_intent_id": "order-1", "status": "PENDING",
        "amount_minor": 1999, "currency": "EUR", "payment_method_id": "pm_ok", "acquirer": "default", "version": 1,
        "transaction_id": null, "decline": null, "failure": null, "in_review": false, "metadata": {}, "final_at": null});
    for (member, value) in expected.as_object().expect("an object") {
        assert_eq!(&answer.json[member], value, "{member}");
    }
    assert!(answer.json["created_at"].as_str().is_some_and(|time| time.ends_with('Z')), "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_final_answer_within_the_wait_is_201_whatever_it_is() {
    let (world, api) = world().await;
    for (n, method, end) in
        [(1, "pm_ok", Status::Paid), (2, "pm_declined", Status::Declined), (3, "pm_rejected", Status::Failed)]
    {
        let (_worker, answer) = paid(&world, &api, n, method, end).await;
        assert_eq!(answer.header("Preference-Applied"), "wait=8");
        assert_eq!(answer.header("Idempotent-Replayed"), "", "the first answer is no replay");
        assert_eq!(answer.json["decline"]["code"].is_string(), end == Status::Declined, "{}", answer.text);
        assert_eq!(answer.json["failure"]["code"].is_string(), end == Status::Failed, "{}", answer.text);
        assert!(answer.json["final_at"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_a_final_payment_hears_the_stored_answer_byte_for_byte() {
    let (world, api) = world().await;
    for (n, method, end) in
        [(1, "pm_ok", Status::Paid), (2, "pm_declined", Status::Declined), (3, "pm_rejected", Status::Failed)]
    {
        let (_worker, first) = paid(&world, &api, n, method, end).await;
        let repeat = api.client.post(&format!("key-{n}"), &body(&format!("order-{n}"), method)).await;
        assert_eq!((repeat.status, &repeat.text), (first.status, &first.text));
        assert_eq!(repeat.header("Idempotent-Replayed"), "true");
    }
    assert_eq!(world.acquirer.ledger().calls.posts, 3, "no repeat reached the acquirer");
}

#[tokio::test(flavor = "multi_thread")]
async fn order_spacing_and_metadata_do_not_make_another_request() {
    let (world, api) = world().await;
    let (_worker, first) = paid(&world, &api, 1, "pm_ok", Status::Paid).await;
    let other_order = r#"{ "currency": "EUR",  "payment_method_id": "pm_ok", "metadata": {"try": "2"},
                           "amount_minor": 1999, "payment_intent_id": "order-1" }"#;
    let repeat = crate::raw_post(&api, "key-1", other_order, "application/json; charset=utf-8").await;
    assert_eq!((repeat.status, repeat.text), (201, first.text));
    let quoted = crate::raw_post(&api, "\"key-1\"", other_order, "application/json").await;
    assert_eq!(quoted.header("Idempotent-Replayed"), "true", "a quoted key is the same key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_while_the_first_runs_is_409_and_says_repeat() {
    let (_world, api) = world().await;
    let first = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let repeat = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    assert_problem(&repeat, 409, "payment_in_progress");
    assert_eq!(repeat.payment_id(), first.payment_id());
    assert_eq!((&repeat.json["payment_status"], &repeat.json["retryable"]), (&"PENDING".into(), &true.into()));
    assert_eq!(repeat.header("Location"), location(first.payment_id()));
    assert!(!repeat.header("Retry-After").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_that_waits_hears_the_end_or_409_when_there_is_none() {
    let (world, api) = world().await;
    let first = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let in_vain = api.client.try_post("key-1", &body("order-1", "pm_ok"), Some("wait=1")).await.expect("an answer");
    assert_problem(&in_vain, 409, "payment_in_progress");
    let client = api.client.clone();
    let waiting = tokio::spawn(async move { client.pay("key-1", &body("order-1", "pm_ok")).await });
    let _worker = world.worker();
    let heard = waiting.await.expect("an answer");
    assert_eq!((heard.status, heard.payment_id()), (201, first.payment_id()), "{}", heard.text);
    assert_eq!(heard.header("Idempotent-Replayed"), "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_of_a_payment_in_doubt_is_202_with_the_current_payment() {
    let (world, api) = world().await;
    let worker = world.worker();
    let first = api.client.post("key-1", &body("order-1", "pm_processing_forever")).await;
    world.until(first.payment_id(), Status::Unknown).await;
    worker.stop().await;
    let repeat = api.client.post("key-1", &body("order-1", "pm_processing_forever")).await;
    assert_eq!((repeat.status, repeat.json["status"].as_str()), (202, Some("UNKNOWN")), "{}", repeat.text);
    assert_eq!(repeat.header("Idempotent-Replayed"), "true");
    assert_eq!(repeat.json["version"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_for_another_request_is_422_and_names_the_fields_alone() {
    let (_world, api) = world().await;
    let first = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let mut other = body("order-1", "pm_secret_method");
    other["amount_minor"] = 2000.into();
    let reused = api.client.post("key-1", &other).await;
    // 422 comes before 409: the first one is still in progress.
    assert_problem(&reused, 422, "idempotency_key_reuse");
    assert_eq!(reused.json["mismatched_fields"], serde_json::json!(["amount_minor", "payment_method_id"]));
    assert_eq!(reused.header("Retry-After"), "");
    assert_eq!(reused.json["retryable"], false);
    assert!(!reused.text.contains("pm_secret_method") && !reused.text.contains("1999"), "{}", reused.text);
    assert_eq!(reused.payment_id(), first.payment_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_on_a_live_intent_is_409_with_the_payment() {
    let (_world, api) = world().await;
    let first = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let other = api.client.post("key-2", &body("order-1", "pm_ok")).await;
    assert_problem(&other, 409, "payment_attempt_exists");
    assert_eq!(other.payment_id(), first.payment_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_on_a_paid_intent_is_409_also_when_the_first_key_was_purged() {
    let (world, api) = world().await;
    let (_worker, first) = paid(&world, &api, 1, "pm_ok", Status::Paid).await;
    for round in 0..2 {
        let other = api.client.post("key-other", &body("order-1", "pm_ok")).await;
        assert_problem(&other, 409, "payment_already_paid");
        assert_eq!(other.payment_id(), first.payment_id(), "round {round}");
        world.run("DELETE FROM idempotency_keys").await;
    }
    let same = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    assert_problem(&same, 409, "payment_already_paid");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_a_new_key_makes_a_new_payment_on_the_same_intent() {
    let (world, api) = world().await;
    let (_worker, declined) = paid(&world, &api, 1, "pm_declined", Status::Declined).await;
    let same_key = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    assert_problem(&same_key, 422, "idempotency_key_reuse");
    assert_eq!(same_key.json["mismatched_fields"], serde_json::json!(["payment_method_id"]));
    let new_key = api.client.pay("key-2", &body("order-1", "pm_ok")).await;
    assert_eq!((new_key.status, new_key.json["status"].as_str()), (201, Some("PAID")), "{}", new_key.text);
    assert_ne!(new_key.payment_id(), declined.payment_id());
    let repeat = api.client.post("key-1", &body("order-1", "pm_declined")).await;
    assert_eq!(repeat.text, declined.text, "the first key still tells its own end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_without_harm_when_nothing_happens() {
    let (world, api) = world().await;
    let answer = api.client.try_post("key-1", &body("order-1", "pm_ok"), Some("wait=1")).await.expect("an answer");
    assert_eq!((answer.status, answer.json["status"].as_str()), (202, Some("PENDING")), "{}", answer.text);
    let ignored = api.client.try_post("key-2", &body("order-2", "pm_ok"), Some("wait=soon")).await.expect("an answer");
    assert_eq!((ignored.status, ignored.header("Preference-Applied")), (202, ""), "an unknown preference is ignored");
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_it_waits_loses_nothing() {
    let (world, api) = world().await;
    let client = api.client.clone();
    let leaving = tokio::spawn(async move { client.pay("key-1", &body("order-1", "pm_ok")).await });
    eventually("it was accepted", || async { (world.count("SELECT count(*) FROM payments").await == 1).then_some(()) })
        .await;
    leaving.abort();
    let _worker = world.worker();
    let back = api.client.pay("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!((back.status, back.json["status"].as_str()), (201, Some("PAID")), "{}", back.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_and_the_trace_context_are_kept() {
    let (world, api) = world().await;
    let mut request = body("order-1", "pm_ok");
    request["metadata"] = serde_json::json!({"basket": "42", "note": "für 💳"});
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let post = api.client.request(reqwest::Method::POST, "/v1/payments").header("Idempotency-Key", "key-1");
    let answer = tests::Answer::of(post.header("traceparent", trace).json(&request).send().await.expect("sent")).await;
    assert_eq!(answer.json["metadata"], request["metadata"], "{}", answer.text);
    assert_eq!(world.payment(answer.payment_id()).await.traceparent.as_deref(), Some(trace));
    let events = async |world: &World| -> Value {
        let _worker = world.worker();
        eventually("an event", || async {
            let feed = api.client.get("/v1/events").await.json;
            feed["data"].as_array().is_some_and(|events| !events.is_empty()).then_some(feed)
        })
        .await
    };
    let event = &events(&world).await["data"][0];
    assert!(
        event["traceparent"].as_str().is_some_and(|parent| parent.contains("4bf92f3577b34da6a3ce929d0e0e4736")),
        "{event}"
    );
}
