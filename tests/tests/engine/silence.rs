//! Connections that die without a goodbye, one at a time.

use crate::committer::in_one_batch;
use crate::{accept, claimed};
use shared::committer::{Verdict, Write, WriteError};
use shared::db;
use shared::payment::claim::GiveBack;
use shared::queue::Step;
use sqlx::PgPool;
use std::time::Duration;
use tests::road::State;
use tests::world::Process;
use tests::{Road, World, eventually};
use tokio::time::timeout;
use uuid::Uuid;

const SECONDS: Duration = Duration::from_secs(10);

/// Waits until all connections lie in the pool. One that is on its way back falls silent there, and keeps its
/// place until TCP gives up: sqlx asks it for a last sign of life, without a clock.
async fn all_at_rest(pool: &PgPool) {
    let at_rest = || async { (pool.num_idle() == pool.size() as usize).then_some(()) };
    eventually("all connections lie in the pool", at_rest).await;
}

async fn backend(pool: &PgPool) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(pool).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_hears_nothing_is_of_unknown_fate_within_seconds_and_the_next_goes_on() {
    let world = World::new().await;
    let road = Road::to(&world.database.url).await;
    let Process { pool, committer, .. } = Process::start(&road.url);
    assert!(matches!(committer.write(Write::Accept(accept(&world, 1))).await, Ok(Verdict::Applied(_))));
    all_at_rest(&pool).await;
    // Under way when it falls silent: one that only rested would be asked for a sign of life first.
    let mut held = world.database.pool.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE payments IN SHARE MODE").execute(&mut *held).await.expect("the lock");
    let (silent, write) = (committer.clone(), Write::Accept(accept(&world, 2)));
    let silent = tokio::spawn(async move { timeout(SECONDS, silent.write(write)).await.expect("it has a clock") });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("it waits for the lock", || async { (world.count(waits).await == 1).then_some(()) }).await;
    road.becomes(State::Frozen);
    held.rollback().await.expect("let go");
    let silent = silent.await.expect("no panic");
    assert!(matches!(silent, Err(WriteError::Unavailable(_))), "{silent:?}");
    let next =
        timeout(SECONDS, committer.write(Write::Accept(accept(&world, 3)))).await.expect("by another connection");
    assert!(matches!(next, Ok(Verdict::Applied(_))), "{next:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_hears_nothing_has_a_clock_and_leaves_its_place_in_the_pool() {
    let world = World::new().await;
    let road = Road::to(&world.database.url).await;
    let pool = db::pool(&road.url, 1, "tests").expect("a URL");
    let first = backend(&pool).await;
    all_at_rest(&pool).await;
    road.becomes(State::Frozen);
    let silent = timeout(SECONDS, db::in_time(sqlx::query("SELECT 1").execute(&pool))).await.expect("a clock");
    assert!(silent.is_err_and(|error| db::is_outage(&error)));
    assert_ne!(backend(&pool).await, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_gives_up_a_client_that_vanished_within_a_minute() {
    let world = World::new().await;
    let clocks = "SELECT setting::bigint FROM pg_settings WHERE name LIKE 'tcp_keepalives_%' ORDER BY name";
    let clocks: Vec<i64> = sqlx::query_scalar(clocks).fetch_all(&world.database.pool).await.expect("the settings");
    let [count, idle, interval] = clocks[..] else { panic!("{clocks:?}") };
    assert_eq!(idle + count * interval, 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_whose_user_left_in_mid_answer_comes_back_when_it_has_heard_the_rest() {
    let world = World::new().await;
    let pool = db::pool(&world.database.url, 1, "tests").expect("a URL");
    let first = backend(&pool).await;
    let long = "SELECT repeat('a', 1000), pg_sleep(0.02) FROM generate_series(1, 10)";
    assert!(timeout(Duration::from_millis(50), sqlx::query(long).execute(&pool)).await.is_err());
    assert_eq!(backend(&pool).await, first, "the same, and at the beginning of an answer");
    assert!(timeout(Duration::from_millis(50), sqlx::query("SELECT pg_sleep(3600)").execute(&pool)).await.is_err());
    assert_ne!(backend(&pool).await, first, "another, since that one is still busy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_whose_committer_vanished_locks_no_payment_for_longer_than_seconds() {
    let world = World::new().await;
    crate::post(&world, 1).await;
    let claim = claimed(&world, Step::Charge, 1, Duration::from_secs(30)).await.remove(0);
    let writes = [Write::GiveBack(GiveBack::new(&claim, Duration::ZERO)), Write::Accept(accept(&world, 2))];
    let road = Road::to(&world.database.url).await;
    let mut held = world.database.pool.begin().await.expect("a transaction");
    sqlx::query("SELECT FROM payments FOR UPDATE").execute(&mut *held).await.expect("the lock");
    let (there, nobody, given) = (road.url.clone(), world.key(Uuid::nil()), writes.to_vec());
    let vanished = tokio::spawn(async move { in_one_batch(&there, nobody, given).await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("it waits for the lock", || async { (world.count(waits).await == 1).then_some(()) }).await;
    road.becomes(State::Deaf);
    held.rollback().await.expect("let go");
    let vanished = vanished.await.expect("no panic");
    assert!(vanished.iter().all(|verdict| matches!(verdict, Err(WriteError::Unavailable(_)))), "{vanished:?}");
    let Process { committer, .. } = Process::start(&world.database.url);
    for write in writes {
        let again = timeout(SECONDS, committer.write(write)).await.expect("an answer");
        assert!(matches!(again, Ok(Verdict::Applied(_))), "{again:?}");
    }
}
