//! Doubt that no machine can end goes to a person.

use crate::{a_day_later, left_in_doubt, repeating, until_in_review};
use shared::payment::life::Status;
use shared::review::Reason;
use tests::World;

#[tokio::test(flavor = "multi_thread")]
async fn past_the_provider_window_what_is_not_found_is_not_sent_again() {
    let world = World::with(repeating()).await;
    let payment_id = world.accepted_one("pm_timeout_before_charge").await;
    left_in_doubt(&world, payment_id).await;
    let before = world.acquirer.ledger().calls;
    assert_eq!(before.posts, 2, "sent, and resent inside the charge");
    a_day_later(&world).await;
    let worker = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::UnknownPastWindow);
    worker.stop().await;
    let after = world.acquirer.ledger().calls;
    assert_eq!((after.posts, after.lookups), (before.posts, before.lookups + 1), "asked once more, never sent");
    assert_eq!(world.count("SELECT count(*) FROM idempotency_keys WHERE state = 'AWAITING_RESULT'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_review_is_left_alone_by_every_worker() {
    let world = World::new().await;
    let payment_id = world.accepted_one("pm_wrong_amount").await;
    let worker = world.worker();
    until_in_review(&world, payment_id).await;
    let calls = world.acquirer.ledger().calls;
    let version = world.payment(payment_id).await.version;
    // The sweep passes over it too: another payment that lost its job is found meanwhile.
    let other = world.request(2, "pm_ok");
    let other_id = other.payment_id;
    let process = tests::world::Process::start(&world.database.url);
    process.committer.write(shared::committer::Write::Accept(other)).await.unwrap();
    world.run("DELETE FROM jobs").await;
    world.until(other_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    assert_eq!(world.payment(payment_id).await.version, version);
    let now = world.acquirer.ledger().calls;
    assert_eq!((now.posts, now.lookups), (calls.posts + 1, calls.lookups), "nothing but the other payment's charge");
}

#[tokio::test(flavor = "multi_thread")]
async fn look_ups_that_hear_nothing_are_not_charged_to_the_budget() {
    let mut world = World::new().await;
    world.config.steps.lookup.deliveries = 2;
    world.config.steps.lookup.backoff_ms = vec![20];
    let payment_id = world.accepted_one("pm_500_after_charge").await;
    left_in_doubt(&world, payment_id).await;
    let unreachable = std::mem::replace(&mut crate::profile(&mut world).base_url, "http://127.0.0.1:9".to_owned());
    let worker = world.worker();
    let lookups = "SELECT count(*) FROM provider_calls WHERE kind = 'lookup' AND outcome = 'UNKNOWN'";
    tests::eventually("it was asked for more often than the budget allows", || async {
        (world.count(lookups).await > 4).then_some(())
    })
    .await;
    worker.stop().await;
    assert!(!world.payment(payment_id).await.in_review, "an acquirer that is away decides nothing");
    crate::profile(&mut world).base_url = unreachable;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_of_look_ups_that_is_spent_goes_to_a_person() {
    let cases = [
        ("pm_processing_forever", Reason::StuckProcessing),
        ("pm_new_status", Reason::UnknownPastWindow),
        ("pm_timeout_before_charge", Reason::NotFoundInconclusive),
    ];
    for (method, reason) in cases {
        let mut world = World::with(repeating()).await;
        world.config.steps.lookup.deliveries = 3;
        world.config.steps.lookup.backoff_ms = vec![20];
        crate::profile(&mut world).absence_final_after_ms = 3_600_000;
        let payment_id = world.accepted_one(method).await;
        let _worker = world.worker();
        assert_eq!(until_in_review(&world, payment_id).await, reason, "{method}");
        assert_eq!(world.acquirer.ledger().calls.lookups, 3, "{method}");
    }
}
