//! Owners that come too late: they slept past their lease while another one did the work.

use crate::scripted::{Say, Scripted};
use crate::{assert_ended_once, quick_world, repeating};
use sandbox::acquirer::Settings;
use shared::payment::life::Status;
use shared::review::{Reason, Review};
use tests::{Point, Rows, Worker, World, eventually};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;

/// How many sleepers sleep at once in this process.
static AT_ONCE: Semaphore = Semaphore::const_new(12);

/// A life whose owner sleeps at the `n`-th fault point until another one has ended it; false when it ended
/// before that point.
async fn sleeps_at(n: usize, method: &'static str, settings: Settings, end: Status) -> bool {
    let _turn = AT_ONCE.acquire().await.expect("never closed");
    let mut world = quick_world(settings).await;
    // The one place is taken by the sleeper: its own process does not claim the charge again.
    world.config.steps.charge.concurrency = 1;
    let payment_id = world.accepted_one(method).await;
    let (faults, point) = Point::nth(n);
    let sleeper = Worker::start(&world, faults);
    let slept = tokio::select! {
        () = point.reached() => true,
        () = ended(&world, payment_id) => false,
    };
    let heir = world.worker();
    world.until(payment_id, end).await;
    world.until_idle().await;
    heir.stop().await;
    let (rows, calls) = (Rows::of(&world).await, world.acquirer.ledger().calls);
    let stale = sleeper.metrics.stale_attempts();
    point.release();
    let metrics = sleeper.metrics.clone();
    sleeper.stop().await;
    let at = format!("{method}, point {n}, {}", point.name());
    assert_eq!(Rows::of(&world).await, rows, "{at}: not a column changed");
    assert_eq!(world.acquirer.ledger().calls, calls, "{at}: nothing was sent");
    // After a commit there may be nothing more to write.
    let wrote = slept && point.name() != "after a commit";
    assert!(!wrote || metrics.stale_attempts() > stale, "{at}: it is counted");
    assert_ended_once(&world, payment_id, end).await;
    slept
}

async fn ended(world: &World, payment_id: Uuid) {
    eventually("it ended", || async {
        let ended = world.payment(payment_id).await.status.is_final();
        (ended && world.count("SELECT count(*) FROM jobs").await == 0).then_some(())
    })
    .await;
}

async fn may_sleep_anywhere(method: &'static str, settings: Settings, end: Status, points: usize) {
    let mut lives = JoinSet::new();
    for n in 1..=points {
        lives.spawn(sleeps_at(n, method, settings.clone(), end));
    }
    let slept = lives.join_all().await.into_iter().filter(|slept| *slept).count();
    assert!(slept >= 7, "{method}: {slept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_past_its_lease_writes_and_sends_nothing_and_is_counted() {
    may_sleep_anywhere("pm_ok", Settings::default(), Status::Paid, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_before_or_after_a_resend_writes_and_sends_nothing_and_is_counted() {
    may_sleep_anywhere("pm_timeout_after_charge", Settings::default(), Status::Paid, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_slept_before_or_after_a_look_up_writes_and_sends_nothing_and_is_counted() {
    may_sleep_anywhere("pm_500_after_charge", repeating(), Status::Paid, 12).await;
}

/// An owner that heard `first` and slept; another one that asked and heard `second`, which ended the
/// payment; and the review that the sleeper's waking opened.
async fn contradicted(first: Say, second: Say, end: Status) -> (World, Uuid, Review) {
    let acquirer = Scripted::start(&[first], &[second]).await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let (faults, heard) = Point::first("after a call");
    let sleeper = Worker::start(&world, faults);
    heard.reached().await;
    let heir = world.worker();
    let payment = world.until(payment_id, end).await;
    world.until_idle().await;
    heir.stop().await;
    let answer = "SELECT response_body FROM idempotency_keys";
    let stored: String = sqlx::query_scalar(answer).fetch_one(&world.database.pool).await.expect("an answer");
    heard.release();
    let metrics = sleeper.metrics.clone();
    sleeper.stop().await;
    assert!(metrics.stale_attempts() > 0);
    let reviews = shared::review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
    let [review] = reviews.try_into().expect("one review");
    let now = world.payment(payment_id).await;
    assert!(now.in_review);
    let before = (end, &payment.transaction_id, payment.final_at, &payment.decline_code, &payment.failure_code);
    let after = (now.status, &now.transaction_id, now.final_at, &now.decline_code, &now.failure_code);
    assert_eq!(before, after, "final stays final");
    let still: String = sqlx::query_scalar(answer).fetch_one(&world.database.pool).await.expect("an answer");
    assert_eq!(stored, still, "and so does the stored answer");
    assert_eq!(world.count("SELECT count(*) FROM events").await, 1);
    (world, payment_id, review)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_comes_after_a_refusal_opens_a_review_and_changes_nothing() {
    let approved = Say::Charge(201, "approved", "txn_late");
    for (word, end) in [("declined", Status::Declined), ("rejected", Status::Failed)] {
        let (_world, _, review) = contradicted(approved, Say::Charge(200, word, "txn_1"), end).await;
        assert_eq!(review.reason, Reason::LateSuccess);
        assert!(review.detail.contains(end.as_str()) && review.detail.contains("txn_late"), "{}", review.detail);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_that_comes_after_another_success_opens_a_review_and_changes_nothing() {
    let (first, second) = (Say::Charge(201, "approved", "txn_1"), Say::Charge(200, "approved", "txn_2"));
    let (_world, _, review) = contradicted(first, second, Status::Paid).await;
    assert_eq!(review.reason, Reason::DuplicateAtProvider);
    assert!(review.detail.contains("txn_1") && review.detail.contains("txn_2"), "{}", review.detail);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_comes_after_a_success_is_no_news() {
    let acquirer =
        Scripted::start(&[Say::Charge(402, "declined", "txn_1")], &[Say::Charge(200, "approved", "txn_2")]).await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let (faults, heard) = Point::first("after a call");
    let sleeper = Worker::start(&world, faults);
    heard.reached().await;
    let heir = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    heir.stop().await;
    let rows = Rows::of(&world).await;
    heard.release();
    sleeper.stop().await;
    assert_eq!(Rows::of(&world).await, rows);
}
