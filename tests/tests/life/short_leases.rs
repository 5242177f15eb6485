//! A claim whose lease would not outlive its call is given back; the call is not made.

use crate::{assert_ended_once, left_in_doubt, quick_world};
use sandbox::acquirer::Settings;
use shared::payment::life::Status;
use shared::queue::{Claimed, Step};
use std::sync::Arc;
use std::time::Duration;
use tests::{ByHand, Point, World, eventually};
use uuid::Uuid;
use worker::faults::Faults;

/// Too short for the deadline of all calls, 1 s in a quick world.
const TOO_SHORT: Duration = Duration::from_millis(900);

async fn assert_given_back(world: &World, payment_id: Uuid, step: &'static str) {
    let payment = world.payment(payment_id).await;
    assert_eq!(payment.lease_until, None, "nobody holds it");
    let due = "SELECT count(*) FROM jobs WHERE run_at <= now() AND claimed_by IS NULL AND step = $1";
    let due: i64 = sqlx::query_scalar(due).bind(step).fetch_one(&world.database.pool).await.expect(due);
    assert_eq!(due, 1, "it is due at once");
    assert_eq!(world.count("SELECT count(*) FROM provider_calls WHERE outcome = 'NOT_SENT'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_lease_would_not_outlive_its_calls_is_not_begun() {
    let world = quick_world(Settings::default()).await;
    let payment_id = world.accepted_one("pm_ok").await;
    let hand = ByHand::start(&world, Faults::default());
    let claimed = hand.claim(Step::Charge, "default", 1, TOO_SHORT).await.remove(0);
    hand.run(&claimed).await;
    assert_given_back(&world, payment_id, "charge").await;
    assert_eq!(world.acquirer.ledger().calls.posts, 0);
    assert_eq!(world.count("SELECT deliveries::bigint FROM jobs").await, 0, "the delivery was refunded");
    assert_eq!(world.payment(payment_id).await.first_call_at, None, "nothing ever left");
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    assert_eq!(world.acquirer.ledger().calls.lookups, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_up_whose_lease_would_not_outlive_its_calls_is_not_begun() {
    let world = quick_world(Settings::default()).await;
    let payment_id = world.accepted_one("pm_500_after_charge").await;
    left_in_doubt(&world, payment_id).await;
    world.run("UPDATE jobs SET run_at = now()").await;
    let hand = ByHand::start(&world, Faults::default());
    let claimed = hand.claim(Step::Lookup, "default", 1, TOO_SHORT).await.remove(0);
    hand.run(&claimed).await;
    assert_given_back(&world, payment_id, "lookup").await;
    assert_eq!(world.acquirer.ledger().calls.lookups, 0);
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

/// Runs a claim whose owner sleeps at `point` until its lease has lapsed by the database's clock.
async fn sleeps(world: &World, step: Step, point: &'static str) {
    let (faults, held) = Point::first(point);
    let hand = Arc::new(ByHand::start(world, faults));
    let claimed = hand.claim_one(step).await;
    let (runner, claim) = (hand.clone(), claimed.clone());
    let running = tokio::spawn(async move { runner.run(&claim).await });
    held.reached().await;
    let lapsed = "SELECT count(*) FROM payments WHERE lease_until < now()";
    eventually("the lease has lapsed", || async { (world.count(lapsed).await == 1).then_some(()) }).await;
    held.release();
    running.await.expect("no panic");
    let Claimed::Payment(claim) = claimed else { panic!("a payment") };
    assert_eq!(world.payment(claim.payment.id).await.attempt, claim.payment.attempt, "nobody else had it");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_between_its_claim_and_its_send_does_not_send() {
    let world = quick_world(Settings::default()).await;
    let payment_id = world.accepted_one("pm_ok").await;
    sleeps(&world, Step::Charge, "before a call").await;
    assert_eq!(world.acquirer.ledger().calls.posts, 0);
    assert_given_back(&world, payment_id, "charge").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    let calls = world.acquirer.ledger().calls;
    assert_eq!((calls.posts, calls.lookups), (1, 0), "it was known that nothing had left");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_between_its_claim_and_its_look_up_does_not_ask() {
    let world = quick_world(Settings::default()).await;
    let payment_id = world.accepted_one("pm_500_after_charge").await;
    left_in_doubt(&world, payment_id).await;
    sleeps(&world, Step::Lookup, "before a call").await;
    assert_eq!(world.acquirer.ledger().calls.lookups, 0);
    assert_given_back(&world, payment_id, "lookup").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_between_the_record_of_a_resend_and_the_resend_does_not_send_it() {
    let world = quick_world(Settings::default()).await;
    let payment_id = world.accepted_one("pm_timeout_before_charge").await;
    // The first commit inside a charge is the one that writes down its resend.
    sleeps(&world, Step::Charge, "after a commit").await;
    assert_eq!(world.acquirer.ledger().calls.posts, 1, "the first send, and no second");
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    assert!(world.acquirer.ledger().calls.lookups > 0, "what may have left was looked up first");
}
