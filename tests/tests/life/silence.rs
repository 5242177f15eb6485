//! Connections to Postgres that die without a goodbye: nothing comes back on them, and nothing says so.

use crate::{left_in_doubt, repeating};
use shared::committer::Write;
use shared::payment::life::Status;
use shared::queue::Step;
use std::time::Duration;
use tests::road::State;
use tests::world::Process;
use tests::{ByHand, Point, Road, Worker, World, eventually};
use tokio::time::timeout;
use uuid::Uuid;
use worker::faults::Faults;

/// Seconds, where TCP would take a quarter of an hour and a lease takes half a minute.
const SECONDS: Duration = Duration::from_secs(15);

/// A world whose leases outlast these tests, and a worker that comes to the database by a road of its own.
async fn worker_on_a_road(world: &mut World, faults: Faults) -> (Worker, Road) {
    world.config.worker.lease_ms = 30_000;
    let road = Road::to(&world.database.url).await;
    let direct = std::mem::replace(&mut world.database.url, road.url.clone());
    let worker = Worker::start(world, faults);
    world.database.url = direct;
    (worker, road)
}

async fn end_within_seconds(world: &World, payments: &[Uuid]) {
    let ends = async {
        for id in payments {
            world.until(*id, Status::Paid).await;
        }
        world.until_idle().await;
    };
    timeout(SECONDS, ends).await.expect("they end within seconds");
    let books = world.acquirer.ledger();
    assert_eq!((books.charges, books.duplicates.len()), (payments.len() as u64, 0), "{books:?}");
    assert_eq!(books.calls.posts, payments.len() as u64, "each was sent once");
    assert_eq!(world.count("SELECT count(*) FROM payments WHERE lease_until IS NOT NULL").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM reviews").await, 0);
    let delivered = world.count("SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'").await;
    assert_eq!(delivered, payments.len() as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn charges_under_way_when_all_connections_fall_silent_are_on_record_within_seconds() {
    const PAYMENTS: usize = 8;
    let mut world = World::new().await;
    let payments = world.accepted(PAYMENTS, "pm_ok").await;
    let (faults, commit) = Point::named("before a commit");
    let (worker, road) = worker_on_a_road(&mut world, faults).await;
    for _ in 0..PAYMENTS {
        commit.reached().await;
    }
    road.becomes(State::Frozen);
    // Settle and mark.
    for _ in 0..2 * PAYMENTS {
        commit.release();
    }
    end_within_seconds(&world, &payments).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_connections_all_fell_silent_takes_new_payments_within_seconds() {
    let mut world = World::new().await;
    let mut payments = world.accepted(1, "pm_ok").await;
    let (worker, road) = worker_on_a_road(&mut world, Faults::default()).await;
    world.until(payments[0], Status::Paid).await;
    world.until_idle().await;
    road.becomes(State::Frozen);
    let process = Process::start(&world.database.url);
    for n in 2..=8 {
        let request = world.request(n, "pm_ok");
        payments.push(request.payment_id);
        process.committer.write(Write::Accept(request)).await.expect("accepted");
    }
    end_within_seconds(&world, &payments).await;
    worker.stop().await;
}

/// What a step reads on its way has a clock, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_reads_over_a_silent_connection_ends_within_seconds() {
    let mut world = World::with(repeating()).await;
    let payment_id = world.accepted_one("pm_timeout_before_charge").await;
    left_in_doubt(&world, payment_id).await;
    let calls = world.acquirer.ledger().calls;
    world.config.worker.lease_ms = 30_000;
    let road = Road::to(&world.database.url).await;
    let direct = std::mem::replace(&mut world.database.url, road.url.clone());
    let hand = ByHand::start(&world, Faults::default());
    world.database.url = direct;
    let claimed = hand.claim_one(Step::Lookup).await;
    let pool = &hand.context.pool;
    let at_rest = || async { (pool.num_idle() == pool.size() as usize).then_some(()) };
    eventually("its connections lie in the pool", at_rest).await;
    road.becomes(State::Frozen);
    timeout(SECONDS, hand.run(&claimed)).await.expect("it ends within seconds");
    assert_eq!(world.count("SELECT count(*) FROM payments WHERE lease_until IS NOT NULL").await, 0, "handed back");
    assert_eq!(world.acquirer.ledger().calls, calls, "the acquirer was not asked");
}
