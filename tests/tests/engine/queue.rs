use crate::{claimed, post};
use sandbox::acquirer::{Latency, Settings};
use shared::payment::life::Status;
use shared::queue::Step;
use shared::review::Reason;
use std::time::Duration;
use tests::{World, eventually};

async fn slow_world(ms: u64) -> World {
    World::with(Settings { latency_ms: Latency::Fixed { ms }, ..Settings::default() }).await
}

async fn assert_all_paid_once(world: &World, ids: &[uuid::Uuid]) {
    for id in ids {
        world.until(*id, Status::Paid).await;
    }
    world.until_idle().await;
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.duplicates.len()), (ids.len() as u64, 0), "{ledger:?}");
    assert_eq!(world.count("SELECT count(*) FROM events").await, ids.len() as i64);
    assert_eq!(world.count("SELECT count(*) FROM payments WHERE lease_until IS NOT NULL").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_work_and_never_a_job() {
    let world = slow_world(5).await;
    let ids = post(&world, 150).await;
    let (one, other) = (world.worker(), world.worker());
    assert_all_paid_once(&world, &ids).await;
    assert_eq!(world.count("SELECT count(*) FROM payments WHERE attempt <> 1").await, 0, "claimed once each");
    assert_eq!(world.count("SELECT count(DISTINCT actor) FROM payment_history WHERE to_status = 'PAID'").await, 2);
    one.stop().await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_run_at_once_than_the_step_allows() {
    let mut world = slow_world(40).await;
    world.config.steps.charge.concurrency = 3;
    let ids = post(&world, 30).await;
    let _worker = world.worker();
    let mut most = 0;
    while world.count("SELECT count(*) FROM payments WHERE status <> 'PAID'").await > 0 {
        most = most.max(world.count("SELECT count(*) FROM payments WHERE lease_until > now()").await);
        tokio::task::yield_now().await;
    }
    assert_eq!(most, 3, "as many as allowed, and never more");
    assert_all_paid_once(&world, &ids).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_kills_its_workers_is_parked_unexecuted_while_others_flow() {
    let world = World::new().await;
    let poison = post(&world, 1).await[0];
    // Five processes claim it and die with it, each before it called anybody.
    for delivery in 1..=5 {
        let claims = eventually("the lease has lapsed", || async {
            let claims = claimed(&world, Step::Charge, 1, Duration::from_millis(20)).await;
            (!claims.is_empty()).then_some(claims)
        })
        .await;
        assert_eq!((claims[0].deliveries, claims[0].payment.attempt), (delivery, delivery));
    }
    let api = world.api().await;
    let _worker = world.worker();
    let other = api.client.pay("key-other", &tests::client::body("order-other", "pm_ok")).await;
    assert_eq!(other.json["status"], "PAID", "{}", other.text);
    let review = eventually("a review", || async {
        shared::review::open_of(&world.database.pool, world.key(poison)).await.expect("reviews").pop()
    })
    .await;
    assert_eq!(review.reason, Reason::StepCrashed);
    assert_eq!(world.payment(poison).await.status, Status::Unknown);
    let reference = shared::acquirer::provider_key(poison);
    assert_eq!(world.acquirer.ledger_of(&reference).calls.posts, 0, "it was not executed");
    world.until_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn emptying_the_job_table_in_mid_run_loses_nothing() {
    let world = slow_world(20).await;
    let ids = post(&world, 80).await;
    let _workers = [world.worker(), world.worker()];
    for done in [10, 40] {
        eventually("some are paid", || async {
            (world.count("SELECT count(*) FROM payments WHERE status = 'PAID'").await >= done).then_some(())
        })
        .await;
        world.run("TRUNCATE jobs").await;
    }
    assert_all_paid_once(&world, &ids).await;
    let delivered = || async { world.count("SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'").await == 80 };
    eventually("every event is delivered", || async { delivered().await.then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_handed_back_was_never_there() {
    let world = World::new().await;
    let payment_id = post(&world, 1).await[0];
    let claim = claimed(&world, Step::Charge, 1, Duration::from_secs(30)).await.remove(0);
    assert!(world.payment(payment_id).await.lease_until.is_some());
    let process = tests::world::Process::start(&world.database.url);
    process.committer.write(shared::queue::Claimed::Payment(Box::new(claim)).give_back()).await.expect("written");
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.lease_until, payment.first_call_at), (None, None), "no call ever left");
    assert_eq!(world.count("SELECT deliveries::bigint FROM jobs WHERE run_at <= now()").await, 0, "due, and refunded");
    let again = claimed(&world, Step::Charge, 1, Duration::from_secs(30)).await.remove(0);
    assert!(again.untouched, "the next owner may send without a look-up");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_judged_by_the_databases_clock() {
    let world = World::new().await;
    post(&world, 1).await;
    let claim = claimed(&world, Step::Charge, 1, Duration::from_secs(30)).await.remove(0);
    let (lease, now): (time::OffsetDateTime, time::OffsetDateTime) =
        sqlx::query_as("SELECT lease_until, now() FROM payments").fetch_one(&world.database.pool).await.expect("a row");
    assert!(lease > now && claim.payment.lease_until == Some(lease));
    let left = claim.lease_until.saturating_duration_since(tokio::time::Instant::now());
    assert!(left <= Duration::from_secs(30), "the owner never believes in more than it has: {left:?}");
    assert!(claimed(&world, Step::Charge, 1, Duration::from_secs(30)).await.is_empty(), "nobody else gets it");
}
