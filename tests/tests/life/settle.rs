//! Settle on its own: an outcome that could not be settled at first.

use crate::assert_ended_once;
use shared::payment::life::Status;
use tests::{World, eventually};
use uuid::Uuid;

/// Brings the payment to where only settle is left: its outcome is on record, and one of settle's tables
/// refused the rest. Nobody holds it, and the table takes everything again.
pub async fn on_record(world: &World, method: &str) -> Uuid {
    world.run("ALTER TABLE events ADD CONSTRAINT events_refused_by_a_test CHECK (type = '')").await;
    let payment_id = world.accepted_one(method).await;
    let worker = world.worker();
    let sql = "SELECT count(*) FROM jobs j JOIN provider_calls c ON c.payment_id = j.subject_id
               WHERE j.step = 'settle' AND c.outcome IN ('SUCCESS', 'DECLINED', 'FAILED')";
    eventually("the outcome is on record", || async { (world.count(sql).await == 1).then_some(()) }).await;
    worker.crash();
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.transaction_id), (Status::Pending, None), "half of settle is nothing");
    world
        .run(
            "ALTER TABLE events DROP CONSTRAINT events_refused_by_a_test;
             UPDATE jobs SET run_at = now(), claimed_by = NULL",
        )
        .await;
    payment_id
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_was_refused_is_settled_from_the_record_without_another_call() {
    for (method, end) in [("pm_ok", Status::Paid), ("pm_declined", Status::Declined), ("pm_rejected", Status::Failed)] {
        let world = World::new().await;
        let payment_id = on_record(&world, method).await;
        let calls = world.acquirer.ledger().calls;
        let worker = world.worker();
        world.until(payment_id, end).await;
        assert_ended_once(&world, payment_id, end).await;
        worker.stop().await;
        assert_eq!(world.acquirer.ledger().calls, calls, "{method}: the record was enough");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_that_is_never_settled_goes_to_a_person_and_stays_on_record() {
    let mut world = World::new().await;
    world.config.steps.settle.deliveries = 2;
    let payment_id = on_record(&world, "pm_ok").await;
    world.run("ALTER TABLE events ADD CONSTRAINT events_refused_by_a_test CHECK (type = '')").await;
    // Each refusal rests for a lease; a test need not.
    let worker = world.worker();
    let reason = eventually("a person has it", || async {
        world.run("UPDATE jobs SET run_at = now() WHERE run_at > now() + interval '0.5 s'").await;
        let open = shared::review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
        open.first().map(|review| review.reason)
    })
    .await;
    worker.stop().await;
    assert_eq!(reason, shared::review::Reason::StepCrashed);
    let recorded = "SELECT count(*) FROM provider_calls WHERE outcome = 'SUCCESS' AND transaction_id IS NOT NULL";
    assert_eq!(world.count(recorded).await, 1, "what the acquirer said is not lost");
    assert_eq!(world.acquirer.ledger().calls.posts, 1);
}
