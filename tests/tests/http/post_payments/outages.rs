//! The database goes away: before the claim, in the middle of it, after it.

use crate::{
    assert_about, assert_problem, heard, hold_accepts, order, path_of, stored, until_held, until_somebody_waits, world,
    world_on_own_server,
};
use sqlx::Connection;
use std::time::Duration;
use tests::road::State;
use tests::{Answer, Api, Client, Road, World, eventually};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

#[track_caller]
fn assert_away(answer: &Answer) {
    assert_problem(answer, 503, "database_unavailable");
    assert_eq!((answer.header("Retry-After"), answer.json["retryable"].as_bool()), ("1", Some(true)));
}

/// An api instance that comes to the world's database by a road of its own.
async fn api_on_a_road() -> (World, Api, Road) {
    let mut world = World::new().await;
    let road = Road::to(&world.database.url).await;
    let direct = std::mem::replace(&mut world.database.url, road.url.clone());
    let api = world.api().await;
    world.database.url = direct;
    (world, api, road)
}

#[tokio::test(flavor = "multi_thread")]
async fn away_before_the_claim_it_is_503_and_the_repeat_with_the_same_key_succeeds() {
    let (mut postgres, world) = world_on_own_server().await;
    let api = world.api().await;
    let before = api.client.post("key-0", &order(0, "pm_ok")).await;
    assert_eq!(before.status, 202, "{}", before.text);
    postgres.stop().await.expect("it stops");
    let (request, path) = (order(1, "pm_ok"), path_of(before.payment_id()));
    let (post, waiting, repeat, get, list, feed) = tokio::join!(
        api.client.post("key-1", &request),
        api.client.pay("key-2", &request),
        api.client.post("key-0", &request),
        api.client.get(&path),
        api.client.get("/v1/payments"),
        api.client.get("/v1/events"),
    );
    for answer in [&post, &waiting, &repeat, &get, &list, &feed] {
        assert_away(answer);
    }
    postgres.restart().await.expect("it comes back");
    // Not through a pool, whose connections died.
    let mut fresh = sqlx::PgConnection::connect(&world.database.url).await.expect("a connection");
    let keys = "SELECT array_agg(key) FROM idempotency_keys";
    let keys: Vec<String> = sqlx::query_scalar(keys).fetch_one(&mut fresh).await.expect("keys");
    assert_eq!(keys, ["key-0"], "nothing was stored");
    let accepted = eventually("it is accepted", || async {
        let answer = api.client.post("key-1", &request).await;
        if answer.status == 503 {
            assert_away(&answer)
        }
        (answer.status != 503).then_some(answer)
    })
    .await;
    assert_eq!((accepted.status, accepted.header("Idempotent-Replayed")), (202, ""), "{}", accepted.text);
    let repeat = api.client.post("key-1", &request).await;
    assert_problem(&repeat, 409, "payment_in_progress");
    assert_about(&repeat, accepted.payment_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn cut_off_in_the_middle_of_the_claim_it_is_503_and_nothing_is_stored() {
    let (world, api) = world().await;
    let held = hold_accepts(&world).await;
    let client = api.client.clone();
    let posting = tokio::spawn(async move { client.pay("key-1", &order(1, "pm_ok")).await });
    until_held(&world, 1).await;
    world
        .run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        )
        .await;
    assert_away(&heard(posting).await);
    held.rollback().await.expect("let go");
    assert_eq!(stored(&world).await, [0, 0]);
    let repeat = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_eq!((repeat.status, repeat.header("Idempotent-Replayed")), (202, ""), "{}", repeat.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_fate_is_unknown_is_503_and_the_repeat_finds_out() {
    let (world, api, road) = api_on_a_road().await;
    let held = hold_accepts(&world).await;
    let client = api.client.clone();
    let posting = tokio::spawn(async move { client.post("key-1", &order(1, "pm_ok")).await });
    until_held(&world, 1).await;
    road.becomes(State::Deaf);
    held.rollback().await.expect("let go");
    assert_away(&heard(posting).await);
    assert_eq!(stored(&world).await, [1, 1], "it was committed");
    road.becomes(State::Open);
    let repeat = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_problem(&repeat, 409, "payment_in_progress");
    let _worker = world.worker();
    let end = api.client.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((end.status, end.payment_id()), (201, repeat.payment_id()), "{}", end.text);
    assert_eq!(stored(&world).await, [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn over_connections_that_fell_silent_it_is_503_until_within_seconds_there_are_others() {
    let (world, api, road) = api_on_a_road().await;
    let before = api.client.post("key-0", &order(0, "pm_ok")).await;
    let path = path_of(before.payment_id());
    // As many connections as it may have.
    let gets = (0..20).map(|_| {
        let (client, path) = (api.client.clone(), path.clone());
        async move { client.get(&path).await.status }
    });
    assert_eq!(gets.collect::<JoinSet<_>>().join_all().await, [200; 20]);
    assert_eq!(api.client.get(&path).await.status, 200);
    road.becomes(State::Frozen);
    let accepted = eventually("it is accepted", || async {
        let answer = api.client.post("key-1", &order(1, "pm_ok")).await;
        if answer.status == 503 {
            assert_away(&answer)
        }
        (answer.status != 503).then_some(answer)
    });
    let accepted = timeout(Duration::from_secs(15), accepted).await.expect("within seconds");
    assert_eq!((accepted.status, accepted.header("Idempotent-Replayed")), (202, ""), "{}", accepted.text);
    assert_eq!(stored(&world).await, [2, 2]);
}

/// A POST that was accepted and waits.
async fn post_and_wait(client: &Client, world: &World) -> JoinHandle<Answer> {
    let client = client.clone();
    let post = async move { client.try_post("key-1", &order(1, "pm_ok"), Some("wait=1")).await.expect("an answer") };
    let posting = tokio::spawn(post);
    until_somebody_waits(&world.database.pool).await;
    posting
}

#[tokio::test(flavor = "multi_thread")]
async fn away_after_the_claim_the_answer_is_what_is_known_and_never_5xx() {
    let (mut postgres, world) = world_on_own_server().await;
    let api = world.api().await;
    let first = post_and_wait(&api.client, &world).await;
    postgres.kill().await.expect("it dies");
    let first = heard(first).await;
    assert_eq!((first.status, first.json["status"].as_str()), (202, Some("PENDING")), "{}", first.text);
    assert_eq!(first.header("Retry-After"), "1");
    postgres.restart().await.expect("it comes back");
    // Until both sides have got rid of their dead connections.
    let known = || async { (api.client.get(&path_of(first.payment_id())).await.status == 200).then_some(()) };
    eventually("the payment outlived it", known).await;
    let repeat = post_and_wait(&api.client, &world).await;
    postgres.kill().await.expect("it dies again");
    let repeat = heard(repeat).await;
    assert_problem(&repeat, 409, "payment_in_progress");
    assert_about(&repeat, first.payment_id());
}
