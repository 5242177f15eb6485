//! Many requests at once, over several instances: the unique constraints decide, whoever reads what.

use crate::network;
use crate::{assert_about, assert_problem, ended, heard, hold_accepts, order, stored, until_held, world};
use serde_json::Value;
use shared::payment::life::Status;
use std::sync::Arc;
use std::time::Duration;
use tests::{Answer, Api, Client, World};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

const POSTS: usize = 20;

async fn three_instances() -> (World, [Api; 3]) {
    let world = World::new().await;
    let apis = [world.api().await, world.api().await, world.api().await];
    (world, apis)
}

/// Posts all at the same moment, in turn over the instances.
async fn post_at_once(apis: &[Api], posts: Vec<(String, Value)>, prefer: Option<&'static str>) -> Vec<Answer> {
    let barrier = Arc::new(Barrier::new(posts.len()));
    let mut posting = JoinSet::new();
    for (index, (key, body)) in posts.into_iter().enumerate() {
        let (client, barrier) = (apis[index % apis.len()].client.clone(), barrier.clone());
        posting.spawn(async move {
            barrier.wait().await;
            client.try_post(&key, &body, prefer).await.expect("an answer")
        });
    }
    posting.join_all().await
}

async fn assert_charged_once(world: &World, payment_id: Uuid) {
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    assert_eq!(stored(world).await, [1, 1]);
    assert_eq!(world.count("SELECT count(*) FROM events").await, 1);
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.calls.posts), (1, 1), "{ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_20_posts_of_one_key_one_is_accepted_and_charged_once() {
    let (world, apis) = three_instances().await;
    let _worker = world.worker();
    let posts = vec![("key-1".to_owned(), order(1, "pm_ok")); POSTS];
    let answers = post_at_once(&apis, posts, None).await;
    let accepted: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(accepted.len(), 1, "one was accepted");
    let payment_id = accepted[0].payment_id();
    for answer in answers.iter().filter(|answer| answer.status != 202) {
        match answer.status {
            201 => assert_eq!(answer.header("Idempotent-Replayed"), "true"),
            _ => assert_problem(answer, 409, "payment_in_progress"),
        }
        assert_eq!(answer.payment_id(), payment_id);
    }
    assert_charged_once(&world, payment_id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_20_posts_that_wait_all_hear_the_one_end() {
    let (world, apis) = three_instances().await;
    let _worker = world.worker();
    let posts = vec![("key-1".to_owned(), order(1, "pm_ok")); POSTS];
    let answers = post_at_once(&apis, posts, Some("wait=8")).await;
    for answer in &answers {
        assert_eq!((answer.status, &answer.text), (201, &answers[0].text));
    }
    let firsts = answers.iter().filter(|answer| answer.header("Idempotent-Replayed").is_empty()).count();
    assert_eq!(firsts, 1, "one was the first");
    assert_charged_once(&world, answers[0].payment_id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_20_keys_for_one_intent_one_pays_it() {
    let (world, apis) = three_instances().await;
    let _worker = world.worker();
    let posts = (0..POSTS).map(|n| (format!("key-{n}"), order(1, "pm_ok"))).collect();
    let answers = post_at_once(&apis, posts, None).await;
    let accepted: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(accepted.len(), 1, "one was accepted");
    for answer in answers.iter().filter(|answer| answer.status != 202) {
        let code = if answer.code() == "payment_already_paid" { answer.code() } else { "payment_attempt_exists" };
        assert_problem(answer, 409, code);
        assert_about(answer, accepted[0].payment_id());
    }
    assert_charged_once(&world, accepted[0].payment_id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_bodies_under_one_key_one_counts_and_the_other_hears_422() {
    let (world, apis) = three_instances().await;
    let posts = (0..POSTS).map(|n| ("key-1".to_owned(), order(n % 2, "pm_ok"))).collect();
    let answers = post_at_once(&apis, posts, None).await;
    let accepted: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(accepted.len(), 1, "one was accepted");
    let count = |code: &str| answers.iter().filter(|answer| answer.code() == code).count();
    assert_eq!((count("payment_in_progress"), count("idempotency_key_reuse")), (POSTS / 2 - 1, POSTS / 2));
    assert_eq!(stored(&world).await, [1, 1]);
}

/// What another instance writes when it accepts `order-N` with `key-1`, not committed yet.
async fn accepted_elsewhere(world: &World, n: usize) -> (sqlx::Transaction<'static, sqlx::Postgres>, Uuid) {
    let request = shared::payment::request::Request {
        payment_intent_id: format!("order-{n}"),
        amount_minor: 1999,
        currency: "EUR".to_owned(),
        payment_method_id: "pm_ok".to_owned(),
        acquirer: None,
    };
    let mut elsewhere = world.database.pool.begin().await.expect("a transaction");
    let payment_id = Uuid::now_v7();
    sqlx::query(
        "WITH payment AS (
             INSERT INTO payments (merchant_id, id, payment_intent_id, idempotency_key, amount_minor, currency,
                                   payment_method_id, acquirer)
             VALUES ($1, $2, $3, 'key-1', 1999, 'EUR', 'pm_ok', 'default'))
         INSERT INTO idempotency_keys (merchant_id, operation, key, request_hash, payment_id)
         VALUES ($1, 'payments.create', 'key-1', $4, $2)",
    )
    .bind(world.merchant_id)
    .bind(payment_id)
    .bind(&request.payment_intent_id)
    .bind(request.hash().as_slice())
    .execute(&mut *elsewhere)
    .await
    .expect("accepted");
    (elsewhere, payment_id)
}

/// Incident 2 at its core: both have read "nobody has this key", and both insert.
#[tokio::test(flavor = "multi_thread")]
async fn a_post_that_meets_another_instances_uncommitted_one_waits_and_hears_what_became_of_it() {
    let cases = [
        ("key-1", 1, Some((409, "payment_in_progress"))),
        ("key-1", 2, Some((422, "idempotency_key_reuse"))),
        ("key-2", 1, Some((409, "payment_attempt_exists"))),
        // The other one is undone: this one counts.
        ("key-1", 1, None),
        ("key-1", 2, None),
    ];
    for (key, n, refusal) in cases {
        let (world, api) = world().await;
        let (elsewhere, payment_id) = accepted_elsewhere(&world, 1).await;
        let client = api.client.clone();
        let posting = tokio::spawn(async move { client.post(key, &order(n, "pm_ok")).await });
        until_held(&world, 1).await;
        match refusal {
            Some(_) => elsewhere.commit().await.expect("committed"),
            None => elsewhere.rollback().await.expect("undone"),
        }
        let answer = heard(posting).await;
        match refusal {
            Some((status, code)) => {
                assert_problem(&answer, status, code);
                assert_about(&answer, payment_id);
            }
            None => assert_eq!(answer.status, 202, "{}", answer.text),
        }
        assert_eq!(stored(&world).await, [1, 1], "{key} {n}: nothing of the other one is left");
    }
}

/// Case 12: whatever a purge removes meanwhile, a repeat hears what is true.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_that_meets_a_purge_hears_the_answer_before_it_and_the_truth_after_it() {
    let (world, api) = world().await;
    let worker = world.worker();
    let paid = ended(&api.client, 1, "pm_ok", Status::Paid).await;
    ended(&api.client, 2, "pm_declined", Status::Declined).await;
    worker.stop().await;
    let live = api.client.post("key-3", &order(3, "pm_ok")).await;
    let mut purge = world.database.pool.begin().await.expect("a transaction");
    sqlx::query("DELETE FROM idempotency_keys").execute(&mut *purge).await.expect("deleted");
    assert_eq!(api.client.post("key-1", &order(1, "pm_ok")).await.text, paid.text, "not purged yet");
    assert_problem(&api.client.post("key-3", &order(3, "pm_ok")).await, 409, "payment_in_progress");
    purge.commit().await.expect("purged");
    let repeat = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_problem(&repeat, 409, "payment_already_paid");
    assert_about(&repeat, paid.payment_id());
    let repeat = api.client.post("key-3", &order(3, "pm_ok")).await;
    assert_problem(&repeat, 409, "payment_attempt_exists");
    assert_about(&repeat, live.payment_id());
    // A refusal leaves the intent free: without its key the repeat is a new attempt.
    assert_eq!(api.client.post("key-2", &order(2, "pm_ok")).await.status, 202);
}

/// Incident 2: the phone's HTTP client sends the POST again 34 ms after a connection reset, and another
/// instance takes it while the first one is still in the middle of accepting.
#[tokio::test(flavor = "multi_thread")]
async fn a_post_sent_again_34_ms_after_a_reset_is_one_payment_and_one_charge() {
    let (world, apis) = three_instances().await;
    let held = hold_accepts(&world).await;
    let phone = Client::new(&network::that_resets(&apis[0]).await, &world.api_key);
    let lost = phone.try_post("key-1", &order(1, "pm_ok"), None).await;
    assert!(lost.is_err(), "the connection was reset before an answer: {lost:?}");
    until_held(&world, 1).await;
    // The time of the incident, not a wait for something.
    tokio::time::sleep(Duration::from_millis(34)).await;
    let phone = apis[1].client.clone();
    let again = tokio::spawn(async move { phone.post("key-1", &order(1, "pm_ok")).await });
    until_held(&world, 2).await;
    held.rollback().await.expect("let go");
    let again = heard(again).await;
    // Whichever of the two came first.
    match again.status {
        202 => assert_eq!(again.header("Idempotent-Replayed"), ""),
        _ => assert_problem(&again, 409, "payment_in_progress"),
    }
    let _worker = world.worker();
    let end = apis[2].client.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((end.status, end.json["status"].as_str()), (201, Some("PAID")), "{}", end.text);
    assert_eq!(end.payment_id(), again.payment_id());
    assert_charged_once(&world, end.payment_id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_it_waits_loses_nothing() {
    let (world, api) = world().await;
    let client = api.client.clone();
    let leaving = tokio::spawn(async move { client.pay("key-1", &order(1, "pm_ok")).await });
    crate::until_somebody_waits(&world.database.pool).await;
    leaving.abort();
    let _worker = world.worker();
    let back = api.client.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((back.status, back.header("Idempotent-Replayed")), (201, "true"), "{}", back.text);
    assert_charged_once(&world, back.payment_id()).await;
}
