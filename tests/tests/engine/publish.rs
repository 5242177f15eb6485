use crate::{claimed, paid, post, write};
use shared::outbox::{self, Became, DeliveryKey, Mark};
use shared::payment::life::Status;
use shared::queue::{Claimed, Step, Take};
use shared::review::Reason;
use std::sync::Arc;
use std::time::Duration;
use tests::by_hand::take;
use tests::world::Process;
use tests::{World, eventually};
use worker::faults::Faults;
use worker::{Context, Services};

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_a_job_is_found_by_the_sweep_and_delivered() {
    let world = World::new().await;
    let payment_id = post(&world, 1).await[0];
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    world.run("UPDATE deliveries SET state = 'PENDING', delivered_at = NULL").await;
    let open = "SELECT count(*) FROM deliveries WHERE state = 'PENDING'";
    eventually("delivered again", || async { (world.count(open).await == 0).then_some(()) }).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_no_sink_takes_is_dead_at_its_budget_and_a_person_is_told() {
    let mut world = World::new().await;
    world.config.steps.publish.deliveries = 3;
    world.config.steps.publish.backoff_ms = vec![1];
    let payment_id = post(&world, 1).await[0];
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    // A sink that was taken out of the configuration while an event was on its way to it.
    world.run("UPDATE deliveries SET sink = 'nowhere', state = 'PENDING', delivered_at = NULL").await;
    world.run("INSERT INTO jobs (merchant_id, step, subject_id, route) SELECT merchant_id, 'publish', event_id, sink FROM deliveries").await;
    let Process { pool, committer, notifier, metrics } = Process::start(&world.database.url);
    let (config, name, faults) = (Arc::new(world.config.clone()), "by hand".to_owned(), Faults::default());
    let services = Services { pool, committer, notifier, metrics, config, name, faults };
    let context = Arc::new(Context::new(services).expect("clients"));
    let lease = Duration::from_secs(30);
    let take = Take { lease, budget: 3, ..take(Step::Publish, "nowhere") };
    for _ in 0..3 {
        let claim = eventually("due again", || async {
            outbox::fetch(&world.database.pool, &take).await.expect("claims").pop()
        })
        .await;
        worker::steps::run(context.clone(), Claimed::Delivery(Box::new(claim))).await;
    }
    assert_eq!(
        world.count("SELECT count(*) FROM deliveries WHERE state = 'DEAD' AND last_error LIKE '%nowhere%'").await,
        1
    );
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 0, "it waits for a person alone");
    let reviews = shared::review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
    assert_eq!(reviews.iter().map(|review| review.reason).collect::<Vec<_>>(), [Reason::DeliveryExhausted]);
    assert_eq!(world.payment(payment_id).await.status, Status::Paid, "the payment is as final as before");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_postponement_by_a_lost_owner_does_not_move_the_new_owners_job() {
    let world = World::new().await;
    post(&world, 1).await;
    let claim = claimed(&world, Step::Charge, 1, Duration::from_secs(30)).await.remove(0);
    let settle = paid(&claim);
    let of = DeliveryKey { merchant_id: world.merchant_id, event_id: settle.event_id, sink: "log".to_owned() };
    let process = Process::start(&world.database.url);
    process.committer.write(write(settle)).await.expect("settled");
    // The lease of the owner that settled lapsed, and another one claimed the delivery.
    world.run("UPDATE jobs SET deliveries = 2, claimed_by = 'heir', run_at = now() + interval '30 s'").await;
    let late = Became::Postponed { after: Duration::ZERO, error: "no answer".to_owned() };
    process
        .committer
        .write(shared::committer::Write::Mark(Mark { of, deliveries: 1, became: late }))
        .await
        .expect("written");
    assert_eq!(world.count("SELECT count(*) FROM jobs WHERE claimed_by = 'heir' AND run_at > now()").await, 1);
}
