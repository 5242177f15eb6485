//! A commit that happened, and whose answer was lost on the way back: its fate is unknown to its owner.

use crate::{assert_ended_once, quick_world, repeating};
use sandbox::acquirer::Settings;
use shared::payment::life::Status;
use tests::road::State;
use tests::{Point, Road, Rows, Worker, eventually};
use tokio::task::JoinSet;

/// What becomes of the connection that the answer was lost on.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// It breaks, and all others with it.
    Breaks,
    /// It stays, silent.
    StaysSilent,
}

impl Then {
    /// A lease in which the owner hears of it, and tries again.
    const fn lease_ms(self) -> u64 {
        match self {
            Self::Breaks => 3_000,
            Self::StaysSilent => 8_000,
        }
    }
}

/// Loses the answer to the `n`-th commit of a life; false when it has fewer.
async fn loses_the_answer(n: usize, then: Then, method: &'static str, settings: Settings) -> bool {
    let mut world = quick_world(settings).await;
    world.config.worker.lease_ms = then.lease_ms();
    let payment_id = world.accepted_one(method).await;
    let road = Road::to(&world.database.url).await;
    let direct = std::mem::replace(&mut world.database.url, road.url.clone());
    let (faults, commit) = Point::nth_named(n, "before a commit");
    let worker = Worker::start(&world, faults);
    world.database.url = direct;
    let lost = tokio::select! {
        () = commit.reached() => true,
        () = async { drop(world.until(payment_id, Status::Paid).await); world.until_idle().await } => false,
    };
    if lost {
        let before = Rows::of(&world).await;
        road.becomes(State::Deaf);
        commit.release();
        eventually("it is committed", || async { (Rows::of(&world).await != before).then_some(()) }).await;
        match then {
            Then::Breaks => road.breaks_once().await,
            Then::StaysSilent => road.becomes(State::Open),
        }
    }
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    worker.stop().await;
    lost
}

async fn may_lose_any_answer(method: &'static str, settings: Settings, commits: usize) {
    let mut lives = JoinSet::new();
    for then in [Then::Breaks, Then::StaysSilent] {
        for n in 1..=commits {
            lives.spawn(loses_the_answer(n, then, method, settings.clone()));
        }
    }
    let lost = lives.join_all().await;
    assert!(lost.iter().all(|lost| *lost), "{method}: {lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_done_once() {
    // Settle and mark.
    may_lose_any_answer("pm_ok", Settings::default(), 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_whose_record_is_of_unknown_fate_is_looked_up() {
    // Begin, settle and mark.
    may_lose_any_answer("pm_timeout_after_charge", Settings::default(), 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_doubt_whose_record_is_of_unknown_fate_is_looked_up() {
    // Open, settle and mark.
    may_lose_any_answer("pm_500_after_charge", repeating(), 3).await;
}
