//! Owners that come too late.

use crate::{assert_ended_once, posted};
use shared::payment::life::Status;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tests::{Worker, World, eventually};
use tokio::sync::Semaphore;
use worker::faults::Faults;

/// The first who comes to a fault point waits there until it is let go.
pub struct Held {
    arrived: Semaphore,
    released: Semaphore,
}

impl Held {
    /// Waits until somebody is held.
    pub async fn arrived(&self) {
        self.arrived.acquire().await.expect("open").forget();
    }

    /// Lets it go on.
    pub fn release(&self) {
        self.released.add_permits(1);
    }
}

/// Holds the first who comes to the point of this name.
pub fn hold_at(point: &'static str) -> (Faults, Arc<Held>) {
    let held = Arc::new(Held { arrived: Semaphore::new(0), released: Semaphore::new(0) });
    let (watched, taken) = (held.clone(), Arc::new(AtomicBool::new(false)));
    let faults = Faults::at_points(move |name| {
        let (held, taken) = (watched.clone(), taken.clone());
        async move {
            if name == point && !taken.swap(true, Ordering::SeqCst) {
                held.arrived.add_permits(1);
                held.released.acquire().await.expect("open").forget();
            }
        }
    });
    (faults, held)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_past_its_lease_writes_nothing_and_is_counted() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_ok").await;
    let (faults, held) = hold_at("after a call");
    let sleeper = Worker::start(&world, faults);
    held.arrived().await;
    let heir = world.worker();
    let paid = world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    let calls = "SELECT count(*) FROM provider_calls WHERE finished_at IS NOT NULL";
    let finished = world.count(calls).await;
    held.release();
    eventually("the sleeper is counted", || async { (sleeper.metrics.stale_attempts() > 0).then_some(()) }).await;
    sleeper.stop().await;
    heir.stop().await;
    assert_eq!(world.payment(payment_id).await, paid, "not a column changed");
    assert_eq!(world.count(calls).await, finished, "not even its own call's end");
    assert_eq!(world.count("SELECT count(*) FROM reviews").await, 0, "what it learned was no news");
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_before_its_call_does_not_send_it() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_503").await;
    // Held before the second send's commit: by then another owner has the payment.
    let (faults, held) = hold_at("before a commit");
    let sleeper = Worker::start(&world, faults);
    held.arrived().await;
    let heir = world.worker();
    world.until(payment_id, Status::Paid).await;
    let posts = world.acquirer.ledger().calls.posts;
    held.release();
    eventually("the sleeper is counted", || async { (sleeper.metrics.stale_attempts() > 0).then_some(()) }).await;
    sleeper.stop().await;
    heir.stop().await;
    assert_eq!(world.acquirer.ledger().calls.posts, posts);
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_comes_after_a_refusal_opens_a_review_and_changes_nothing() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_ok").await;
    let (faults, held) = hold_at("after a call");
    let sleeper = Worker::start(&world, faults);
    held.arrived().await;
    // A person declared it declined meanwhile.
    world
        .run(
            "UPDATE payments SET status = 'DECLINED', decline_code = 'by_hand', final_at = now(), lease_until = NULL,
                    attempt = attempt + 1, version = version + 1;
             DELETE FROM jobs",
        )
        .await;
    held.release();
    let review = eventually("a review", || async {
        shared::review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews").pop()
    })
    .await;
    sleeper.stop().await;
    assert_eq!(review.reason, shared::review::Reason::LateSuccess);
    assert!(review.detail.contains("DECLINED") && review.detail.contains("txn_"), "{}", review.detail);
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.in_review, payment.transaction_id), (Status::Declined, true, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_acquirer_is_not_configured_waits_for_it() {
    let mut world = World::new().await;
    let payment_id = posted(&world, "pm_ok").await;
    let profile = world.config.acquirers.remove("default").expect("the profile");
    let ignorant = world.worker();
    eventually("it was claimed and handed back", || async {
        (world.payment(payment_id).await.attempt > 0
            && world.count("SELECT count(*) FROM payments WHERE lease_until IS NOT NULL").await == 0)
            .then_some(())
    })
    .await;
    ignorant.stop().await;
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.first_call_at), (Status::Pending, None), "nothing ever left");
    assert_eq!(world.count("SELECT deliveries::bigint FROM jobs").await, 0, "the delivery was refunded");
    world.config.acquirers.insert("default".to_owned(), profile);
    world.run("UPDATE jobs SET run_at = now()").await;
    let _knowing = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    assert_eq!(world.acquirer.ledger().calls.lookups, 0, "it was known that no call had left");
}
