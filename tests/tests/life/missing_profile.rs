//! A payment whose acquirer is not configured waits until it is, and is told of.

use crate::{assert_ended_once, left_in_doubt};
use shared::payment::life::Status;
use tests::{World, eventually};

/// Lets a worker run that does not know the acquirer, until it says so.
async fn a_worker_that_does_not_know_it(world: &mut World, lane: &str) -> shared::config::Acquirer {
    let profile = world.config.acquirers.remove("default").expect("the profile");
    let ignorant = world.worker();
    let told = format!("payonce_lanes_unserved{{lane=\"{lane}\"}} 1");
    eventually("it is told of", || async {
        ignorant.metrics.render(&world.database.pool).await.contains(&told).then_some(())
    })
    .await;
    ignorant.stop().await;
    profile
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_whose_acquirer_is_not_configured_waits_and_goes_on_when_it_is() {
    let mut world = World::new().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let profile = a_worker_that_does_not_know_it(&mut world, "charge/default").await;
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.attempt, payment.first_call_at), (Status::Pending, 0, None));
    let waiting = "SELECT count(*) FROM jobs WHERE step = 'charge' AND deliveries = 0 AND claimed_by IS NULL";
    assert_eq!(world.count(waiting).await, 1);
    world.config.acquirers.insert("default".to_owned(), profile);
    let _knowing = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    assert_eq!(world.acquirer.ledger().calls.lookups, 0, "it was known that nothing had left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_doubt_whose_acquirer_is_not_configured_waits_and_is_looked_up_when_it_is() {
    let mut world = World::new().await;
    let payment_id = world.accepted_one("pm_500_after_charge").await;
    left_in_doubt(&world, payment_id).await;
    let profile = a_worker_that_does_not_know_it(&mut world, "lookup/default").await;
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.in_review, payment.lease_until), (Status::Unknown, false, None));
    assert!(payment.first_call_at.is_some(), "that a charge may have left is not forgotten");
    world.config.acquirers.insert("default".to_owned(), profile);
    let _knowing = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    let calls = world.acquirer.ledger().calls;
    assert_eq!((calls.posts, calls.lookups), (1, 1));
}
