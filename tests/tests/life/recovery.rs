//! Owners that died, and those who take over.

use crate::{assert_ended_once, profile};
use sandbox::acquirer::Settings;
use shared::acquirer::provider_key;
use shared::payment::life::Status;
use std::sync::Arc;
use tests::client::body;
use tests::{Point, Worker, World};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// A world whose calls have the time that a busy machine may need: a second call is a second question,
/// not an answer that was missed.
pub async fn patient_world() -> World {
    let mut world = World::with(Settings::default()).await;
    let acquirer = profile(&mut world);
    (acquirer.connect_ms, acquirer.read_ms, acquirer.deadline_ms) = (200, 800, 2_400);
    world.config.worker.lease_ms = 2_800;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_killed_between_the_charge_and_its_record_is_recovered_without_a_second_charge() {
    let world = patient_world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let (faults, charged) = Point::first("after a call");
    let victim = Worker::start(&world, faults);
    charged.reached().await;
    victim.crash();
    assert_eq!(world.acquirer.ledger().charges, 1, "money moved");
    assert_eq!(world.payment(payment_id).await.status, Status::Pending, "and nobody wrote it down");
    let heir = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    heir.stop().await;
    let calls = world.acquirer.ledger_of(&provider_key(payment_id)).calls;
    assert_eq!((calls.posts, calls.lookups), (1, 1), "looked up, not sent again");
    assert_eq!(world.payment(payment_id).await.attempt, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_recoveries_and_a_repeat_at_once_are_one_question_one_end_and_one_event() {
    const PAYMENTS: usize = 8;
    let world = patient_world().await;
    let ids = world.accepted(PAYMENTS, "pm_ok").await;
    let (faults, charged) = Point::named("after a call");
    let victim = Worker::start(&world, faults);
    for _ in 0..PAYMENTS {
        charged.reached().await;
    }
    victim.crash();
    let api = world.api().await;
    let recoveries = [world.worker(), world.worker()];
    let (barrier, mut repeats) = (Arc::new(Barrier::new(PAYMENTS)), JoinSet::new());
    for n in 1..=PAYMENTS {
        let (client, barrier) = (api.client.clone(), barrier.clone());
        repeats.spawn(async move {
            barrier.wait().await;
            client.pay(&format!("key-{n}"), &body(&format!("order-{n}"), "pm_ok")).await
        });
    }
    for repeat in repeats.join_all().await {
        assert_eq!((repeat.status, repeat.json["status"].as_str()), (201, Some("PAID")), "{}", repeat.text);
    }
    world.until_idle().await;
    for recovery in recoveries {
        recovery.stop().await;
    }
    for id in ids {
        let of = world.acquirer.ledger_of(&provider_key(id));
        assert_eq!((of.calls.posts, of.calls.lookups, of.charges), (1, 1, 1), "one charge, one question");
    }
    let one_each = [
        "SELECT count(*) FROM payments WHERE status = 'PAID' AND lease_until IS NULL AND attempt = 2",
        "SELECT count(*) FROM payment_history WHERE to_status = 'PAID'",
        "SELECT count(DISTINCT payment_id) FROM events",
        "SELECT count(*) FROM events",
    ];
    for sql in one_each {
        assert_eq!(world.count(sql).await, 8, "{sql}");
    }
}
