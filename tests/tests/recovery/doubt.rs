//! A charge in doubt is looked up, never blindly resent.

use crate::{assert_ended_once, posted};
use sandbox::acquirer::Settings;
use shared::payment::life::Status;
use shared::payment::sending::{History, MaySend, may_send};
use tests::client::body;
use tests::{World, eventually};
use uuid::Uuid;

/// Lets the first and the last call of the only payment be older.
async fn age(world: &World, hours: u32) {
    let interval = format!("{hours} hours");
    let pool = &world.database.pool;
    for sql in [
        "UPDATE payments SET first_call_at = first_call_at - $1::interval",
        "UPDATE provider_calls SET started_at = started_at - $1::interval",
    ] {
        sqlx::query(sql).bind(&interval).execute(pool).await.expect(sql);
    }
}

async fn review(world: &World, payment_id: Uuid) -> String {
    eventually("a review", || async {
        let open = shared::review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
        open.first().map(|review| review.reason.as_str().to_owned())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_window_what_is_not_found_goes_to_a_person_and_is_not_resent() {
    let world = World::with(Settings { faults_repeat: true, ..Settings::default() }).await;
    let payment_id = posted(&world, "pm_timeout_before_charge").await;
    let worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    worker.stop().await;
    age(&world, 24).await;
    let posts = world.acquirer.ledger().calls.posts;
    let worker = world.worker();
    assert_eq!(review(&world, payment_id).await, "unknown_past_window");
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.in_review), (Status::Unknown, true));
    assert_eq!(world.acquirer.ledger().calls.posts, posts, "no further POST");
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 0, "it waits for a person alone");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processing_for_ever_goes_to_a_person_when_we_give_up() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_processing_forever").await;
    let worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    worker.stop().await;
    age(&world, 24).await;
    let _worker = world.worker();
    assert_eq!(review(&world, payment_id).await, "stuck_processing");
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn not_found_twice_and_then_found_is_one_charge() {
    let mut world = World::with(Settings { faults_repeat: true, ..Settings::default() }).await;
    // Absence proves nothing for an hour: nothing may be resent in this test.
    let acquirer = world.config.acquirers.get_mut("default").expect("the profile");
    acquirer.absence_final_after_ms = 3_600_000;
    let payment_id = posted(&world, "pm_not_found_then_ok").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    let reference = shared::acquirer::provider_key(payment_id);
    let calls = world.acquirer.ledger_of(&reference).calls;
    assert!(calls.lookups >= 3 && calls.posts <= 2, "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn proven_absence_is_resent_with_the_same_key() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_503").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    let reference = shared::acquirer::provider_key(payment_id);
    let view = world.acquirer.ledger_of(&reference);
    assert_eq!(view.keys, [reference], "every send bore the payment's one key");
    assert_eq!(view.calls.posts, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_after_a_timeout_bears_the_same_key_and_is_answered_by_the_first_charge() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_timeout_after_charge").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    let reference = shared::acquirer::provider_key(payment_id);
    let view = world.acquirer.ledger_of(&reference);
    assert_eq!((view.calls.posts, view.calls.lookups, view.keys), (2, 0, vec![reference]));
    let calls: Vec<(String, String)> =
        sqlx::query_as("SELECT outcome, COALESCE(code, '') FROM provider_calls ORDER BY started_at")
            .fetch_all(&world.database.pool)
            .await
            .expect("calls");
    assert_eq!(calls[0], ("UNKNOWN".to_owned(), "timeout".to_owned()), "a timeout means unknown");
    assert_eq!((calls.len(), calls[1].0.as_str()), (2, "SUCCESS"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_nothing_is_ever_sent_twice() {
    let settings = Settings { keys_honoured: false, faults_repeat: true, ..Settings::default() };
    for method in ["pm_timeout_before_charge", "pm_503", "pm_reset", "pm_timeout_after_charge"] {
        let mut world = World::with(settings.clone()).await;
        world.config.acquirers.get_mut("default").expect("the profile").keys = shared::acquirer::Keys::None;
        world.config.acquirers.get_mut("default").expect("the profile").lookup = shared::acquirer::Lookup::ByReference;
        let payment_id = posted(&world, method).await;
        let _worker = world.worker();
        eventually("it ended, or a person has it", || async {
            let payment = world.payment(payment_id).await;
            (payment.in_review || payment.status.is_final()).then_some(())
        })
        .await;
        assert_eq!(world.acquirer.ledger().calls.posts, 1, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_recoveries_and_a_repeat_at_once_ask_once() {
    let world = World::new().await;
    let payment_id = posted(&world, "pm_ok").await;
    let (faults, reached) = crate::owners::hold_at("after a call");
    let victim = tests::Worker::start(&world, faults);
    reached.arrived().await;
    victim.crash();
    let api = world.api().await;
    let (first, second) = (world.worker(), world.worker());
    let repeat = api.client.pay("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!((repeat.status, repeat.json["status"].as_str()), (201, Some("PAID")), "{}", repeat.text);
    assert_ended_once(&world, payment_id, Status::Paid).await;
    let calls = world.acquirer.ledger().calls;
    assert_eq!((calls.posts, calls.lookups), (1, 1), "one charge, one look-up");
    first.stop().await;
    second.stop().await;
}

/// The acquirer's promise about time and the schedule of look-ups agree with the decision itself.
#[tokio::test]
async fn the_default_profile_keeps_asking_for_its_whole_window() {
    let contract = shared::config::Acquirer::at("http://127.0.0.1").contract();
    let start = time::OffsetDateTime::UNIX_EPOCH;
    let history = |looked_up| History { first_call_at: Some(start), last_call_at: Some(start), looked_up };
    let unknown = Some(shared::payment::life::Outcome::Unknown);
    let decided = |hours| may_send(&contract, history(unknown), start + time::Duration::hours(hours));
    assert_eq!((decided(22), decided(23)), (MaySend::Wait, MaySend::Review(shared::review::Reason::UnknownPastWindow)));
}
