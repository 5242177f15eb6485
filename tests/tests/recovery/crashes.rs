//! Every step, cut off at every commit and every network call, and recovered.

use crate::{assert_ended_once, posted};
use sandbox::acquirer::Settings;
use shared::payment::life::Status;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::{Worker, World, eventually};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use worker::faults::Faults;

/// Crash points that are tried at once, each in a world of its own.
const AT_ONCE: usize = 6;

/// Stops whoever comes to the `n`-th fault point (from 1), for good, and tells.
fn stop_at(n: usize) -> (Faults, Arc<Notify>) {
    let (seen, reached) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let tell = reached.clone();
    let faults = Faults::at_points(move |_| {
        let stops = seen.fetch_add(1, Ordering::SeqCst) + 1 == n;
        let tell = tell.clone();
        async move {
            if stops {
                tell.notify_one();
                pending::<()>().await;
            }
        }
    });
    (faults, reached)
}

/// One payment whose worker dies at the `n`-th point; false when it ended before it came that far.
async fn crashes_at(n: usize, method: &'static str, repeats: bool, end: Status) -> bool {
    let world = World::with(Settings { faults_repeat: repeats, ..Settings::default() }).await;
    let payment_id = posted(&world, method).await;
    let (faults, reached) = stop_at(n);
    let victim = Worker::start(&world, faults);
    let ended = async {
        eventually("nothing left to do", || async {
            let done = world.payment(payment_id).await.status.is_final()
                && world.count("SELECT count(*) FROM jobs").await == 0;
            done.then_some(())
        })
        .await;
    };
    let crashed = tokio::select! {
        () = reached.notified() => true,
        () = ended => false,
    };
    victim.crash();
    let heir = world.worker();
    world.until(payment_id, end).await;
    assert_ended_once(&world, payment_id, end).await;
    heir.stop().await;
    crashed
}

/// Crashes at the first point, the second, … until a run has no such point any more.
async fn crashes_everywhere(method: &'static str, repeats: bool, end: Status) {
    for wave in 0.. {
        let mut runs = JoinSet::new();
        for n in wave * AT_ONCE + 1..=(wave + 1) * AT_ONCE {
            runs.spawn(crashes_at(n, method, repeats, end));
        }
        if runs.join_all().await.contains(&false) {
            assert!(wave > 0, "a payment has more than {AT_ONCE} points to crash at");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_charge_survives_a_crash_anywhere() {
    crashes_everywhere("pm_ok", false, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_charge_survives_a_crash_anywhere() {
    crashes_everywhere("pm_declined", false, Status::Declined).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_charge_survives_a_crash_anywhere() {
    crashes_everywhere("pm_rejected", false, Status::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_answer_is_lost_survives_a_crash_anywhere() {
    crashes_everywhere("pm_timeout_after_charge", false, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_every_answer_is_lost_survives_a_crash_anywhere() {
    crashes_everywhere("pm_timeout_after_charge", true, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_answered_by_an_error_survives_a_crash_anywhere() {
    crashes_everywhere("pm_500_after_charge", true, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_processing_survives_a_crash_anywhere() {
    crashes_everywhere("pm_processing_then_ok", false, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_not_found_at_first_survives_a_crash_anywhere() {
    crashes_everywhere("pm_not_found_then_ok", true, Status::Paid).await;
}
