//! A step that runs twice leaves the rows of one that ran once.

use crate::{assert_ended_once, posted};
use shared::payment::claim;
use shared::payment::life::Status;
use shared::queue::{Claimed, Step, Take};
use std::sync::Arc;
use std::time::Duration;
use tests::World;
use tests::world::Process;
use worker::faults::Faults;
use worker::{Context, Services};

fn context(world: &World) -> Arc<Context> {
    let Process { pool, committer, notifier, metrics } = Process::start(&world.database.url);
    let (config, name, faults) = (Arc::new(world.config.clone()), "twice".to_owned(), Faults::default());
    Arc::new(Context::new(Services { pool, committer, notifier, metrics, config, name, faults }).expect("clients"))
}

async fn claimed(world: &World, step: Step) -> Option<Claimed> {
    let lease = Duration::from_secs(30);
    let take = Take { step, sink: "", limit: 1, lease, budget: 100, worker: "twice" };
    tests::eventually("a job is due, or none is left", || async {
        let claims = claim::fetch(&world.database.pool, &take).await.expect("a claim");
        let none_left = world.count("SELECT count(*) FROM jobs").await == 0;
        claims.into_iter().next().map(|claim| Some(Claimed::Payment(Box::new(claim)))).or(none_left.then_some(None))
    })
    .await
}

/// Everything that the life of the world's only payment left, without ids and times.
async fn rows(world: &World) -> Vec<String> {
    let sql = "SELECT 'payment ' || concat_ws(' ', status, version, attempt, in_review, lease_until IS NULL) FROM payments
        UNION ALL SELECT 'key ' || concat_ws(' ', state, response_code) FROM idempotency_keys
        UNION ALL (SELECT 'call ' || concat_ws(' ', attempt, kind, outcome, http_status, code) FROM provider_calls ORDER BY started_at)
        UNION ALL (SELECT 'history ' || concat_ws(' ', version, from_status, to_status, attempt, actor, reason)
                   FROM payment_history ORDER BY version)
        UNION ALL SELECT 'event ' || type FROM events
        UNION ALL SELECT 'delivery ' || concat_ws(' ', sink, state) FROM deliveries
        UNION ALL SELECT 'review ' || reason FROM reviews
        UNION ALL SELECT 'job ' || concat_ws(' ', step, sink, deliveries, claimed_by) FROM jobs";
    sqlx::query_scalar(sql).fetch_all(&world.database.pool).await.expect("rows")
}

/// Drives a payment to its end, each claimed step `times` over.
async fn driven(method: &str, first: Step, times: usize) -> (World, uuid::Uuid, Vec<String>) {
    let world = World::new().await;
    let payment_id = posted(&world, method).await;
    let context = context(&world);
    let mut step = first;
    while let Some(claimed) = claimed(&world, step).await {
        for _ in 0..times {
            worker::steps::run(context.clone(), claimed.clone()).await;
        }
        step = Step::Lookup;
        if world.payment(payment_id).await.status.is_final() {
            break;
        }
    }
    let rows = rows(&world).await;
    (world, payment_id, rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_runs_twice_leaves_the_rows_of_one() {
    for (method, end) in [("pm_ok", Status::Paid), ("pm_declined", Status::Declined), ("pm_rejected", Status::Failed)] {
        let (_, _, once) = driven(method, Step::Charge, 1).await;
        let (world, payment_id, twice) = driven(method, Step::Charge, 2).await;
        assert_eq!(once, twice, "{method}");
        assert_ended_once(&world, payment_id, end).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_that_runs_twice_leaves_the_rows_of_one() {
    let (_, _, once) = driven("pm_500_after_charge", Step::Charge, 1).await;
    let (world, payment_id, twice) = driven("pm_500_after_charge", Step::Charge, 2).await;
    assert_eq!(once, twice);
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settle_on_its_own_settles_from_the_record_without_a_call() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_ok").await;
    let context = context(&world);
    // What a refused settle leaves: the outcome on record, the job at settle.
    let Some(Claimed::Payment(claim)) = claimed(&world, Step::Charge).await else { panic!("a payment") };
    world.run("UPDATE jobs SET step = 'settle', run_at = now(), claimed_by = NULL, deliveries = 0").await;
    world.run("UPDATE provider_calls SET finished_at = now(), outcome = 'SUCCESS', transaction_id = 'txn_1'").await;
    for _ in 0..2 {
        if let Some(claimed) = claimed(&world, Step::Settle).await {
            worker::steps::run(context.clone(), claimed.clone()).await;
            worker::steps::run(context.clone(), claimed).await;
        }
    }
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.transaction_id.as_deref()), (Status::Paid, Some("txn_1")));
    assert_eq!(world.acquirer.ledger().calls.posts, 0, "the record was enough");
    assert_eq!(world.count("SELECT count(*) FROM events").await, 1);
    assert!(payment.attempt > claim.payment.attempt);
}
