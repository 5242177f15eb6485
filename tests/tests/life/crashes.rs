//! Every step, cut off at every commit and every network call, and recovered.

use crate::{assert_ended_once, profile, quick_world, settle};
use sandbox::acquirer::{Lookup as Found, Replay as Played, Settings};
use shared::acquirer::{Lookup, Replay};
use shared::config::Acquirer;
use shared::payment::life::Status;
use std::sync::Arc;
use tests::{Point, Worker, World, eventually};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use uuid::Uuid;
use worker::faults::Faults;

/// How many lives are led at once in this process: each has a database and a worker of its own.
static AT_ONCE: Semaphore = Semaphore::const_new(20);
/// Claimed, called, settled, delivered: the fewest points of a life.
const FEWEST: usize = 8;

/// A payment that is cut off.
#[derive(Clone, Copy)]
struct Life {
    method: &'static str,
    /// Whether the acquirer's fault acts on every POST.
    repeats: bool,
    end: Status,
    /// Whether its outcome is on record when it begins, and only settle is left to do.
    on_record: bool,
    contract: Contract,
}

/// What its acquirer promises.
#[derive(Clone, Copy)]
enum Contract {
    /// Keys, look-ups, a repeat that brings the charge as it is.
    Usual,
    /// No look-ups: the same request again is the only question.
    NotToBeAsked,
    /// A repeat after an error executes anew.
    Reexecutes,
}

impl Contract {
    fn plays(self, settings: Settings) -> Settings {
        match self {
            Self::Usual => settings,
            Self::NotToBeAsked => Settings { lookup: Found::None, ..settings },
            Self::Reexecutes => Settings { replay: Played::Reexecute, ..settings },
        }
    }

    fn promises(self, acquirer: &mut Acquirer) {
        match self {
            Self::Usual => {}
            Self::NotToBeAsked => acquirer.lookup = Lookup::None,
            Self::Reexecutes => acquirer.replay_semantics = Replay::Reexecute,
        }
    }
}

impl Life {
    const fn of(method: &'static str, end: Status) -> Self {
        Self { method, repeats: false, end, on_record: false, contract: Contract::Usual }
    }

    const fn under(contract: Contract, method: &'static str, end: Status) -> Self {
        Self { contract, ..Self::of(method, end) }
    }

    async fn begins(self) -> (World, Uuid) {
        let settings = Settings { faults_repeat: self.repeats, ..Settings::default() };
        let mut world = quick_world(self.contract.plays(settings)).await;
        self.contract.promises(profile(&mut world));
        let payment_id = match self.on_record {
            true => settle::on_record(&world, self.method).await,
            false => world.accepted_one(self.method).await,
        };
        (world, payment_id)
    }

    /// How many fault points it passes when nothing happens to it.
    async fn points(self) -> usize {
        let (world, payment_id) = self.begins().await;
        let (faults, point) = Point::nth(usize::MAX);
        let worker = Worker::start(&world, faults);
        world.until(payment_id, self.end).await;
        assert_ended_once(&world, payment_id, self.end).await;
        worker.stop().await;
        point.passed()
    }

    /// Cuts it off at the `n`-th point, and lets another worker find it. False: it ended before.
    async fn crashes_at(self, n: usize) -> bool {
        let _turn = AT_ONCE.acquire().await.expect("never closed");
        let (world, payment_id) = self.begins().await;
        let (faults, point) = Point::nth(n);
        let victim = Worker::start(&world, faults);
        let crashed = tokio::select! {
            () = point.reached() => true,
            () = has_ended(&world, payment_id) => false,
        };
        victim.crash();
        let heir = world.worker();
        eventually(&format!("{} ends after a crash at point {n}, {}", self.method, point.name()), || async {
            (world.payment(payment_id).await.status == self.end).then_some(())
        })
        .await;
        assert_ended_once(&world, payment_id, self.end).await;
        heir.stop().await;
        crashed
    }
}

async fn has_ended(world: &World, payment_id: Uuid) {
    eventually("it ended", || async {
        let ended = world.payment(payment_id).await.status.is_final();
        (ended && world.count("SELECT count(*) FROM jobs").await == 0).then_some(())
    })
    .await;
}

/// Crashes at the first point, the second, … until a life passes without reaching its point.
async fn survives_a_crash_anywhere(life: Life) {
    let points = life.points().await;
    assert!(points >= FEWEST - 2 * usize::from(life.on_record), "{}: {points} points", life.method);
    let mut lives = JoinSet::new();
    for n in 1..=points {
        lives.spawn(life.crashes_at(n));
    }
    let crashed = lives.join_all().await.into_iter().filter(|crashed| *crashed).count();
    // The last may be seen as ended before they are seen at their point, and look-ups depend on time.
    assert!(crashed >= FEWEST - 2 * usize::from(life.on_record) - 1, "{}: {crashed} crashes", life.method);
    let mut n = points + 1;
    while life.crashes_at(n).await {
        n += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_charge_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_ok", Status::Paid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_charge_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_declined", Status::Declined)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_charge_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_rejected", Status::Failed)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_answer_is_lost_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_timeout_after_charge", Status::Paid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_every_answer_is_lost_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life { repeats: true, ..Life::of("pm_timeout_after_charge", Status::Paid) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_answered_by_an_error_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_500_after_charge", Status::Paid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_processing_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_processing_then_ok", Status::Paid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_not_found_at_first_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life { repeats: true, ..Life::of("pm_not_found_then_ok", Status::Paid) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_connection_is_reset_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_reset", Status::Paid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_was_not_taken_at_first_survives_a_crash_anywhere() {
    survives_a_crash_anywhere(Life::of("pm_503", Status::Paid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_on_record_survives_a_crash_anywhere_before_it_is_settled() {
    survives_a_crash_anywhere(Life { on_record: true, ..Life::of("pm_ok", Status::Paid) }).await;
}

/// What a crash at a chosen point leaves is what recovery begins with: these tests test something.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_leaves_what_was_committed_and_nothing_else() {
    let left = [
        ("before a call", 0, "PENDING", 0),
        ("after a call", 1, "PENDING", 0),
        ("before a commit", 1, "PENDING", 0),
        ("after a commit", 1, "PAID", 1),
    ];
    for (name, posts, status, events) in left {
        let world = quick_world(Settings::default()).await;
        let payment_id = world.accepted_one("pm_ok").await;
        let (faults, point) = Point::first(name);
        let victim = crash(Worker::start(&world, faults), &point).await;
        victim.crash();
        assert_eq!(world.acquirer.ledger().calls.posts, posts, "{name}");
        assert_eq!(world.payment(payment_id).await.status.as_str(), status, "{name}");
        assert_eq!(world.count("SELECT count(*) FROM events").await, events, "{name}");
        assert_eq!(world.count("SELECT count(*) FROM jobs WHERE claimed_by IS NOT NULL").await, 1, "{name}");
    }
}

async fn crash(victim: Worker, point: &Arc<Point>) -> Worker {
    point.reached().await;
    victim
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_stopped_by_nothing_passes_every_point_by_name() {
    let world = quick_world(Settings::default()).await;
    let payment_id = world.accepted_one("pm_ok").await;
    let names = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = names.clone();
    let faults = Faults::at_points(move |name| {
        seen.lock().expect("nobody panicked").push(name);
        std::future::ready(())
    });
    let worker = Worker::start(&world, faults);
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    let (call, commit) = (["before a call", "after a call"], ["before a commit", "after a commit"]);
    assert_eq!(*names.lock().unwrap(), [call, commit, call, commit].concat(), "charge, settle, deliver, mark");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_at_an_acquirer_that_cannot_be_asked_survives_a_crash_anywhere() {
    for method in ["pm_ok", "pm_500_after_charge", "pm_503"] {
        survives_a_crash_anywhere(Life::under(Contract::NotToBeAsked, method, Status::Paid)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_at_an_acquirer_that_executes_anew_survives_a_crash_anywhere() {
    for method in ["pm_ok", "pm_500_after_charge", "pm_503", "pm_reset"] {
        survives_a_crash_anywhere(Life::under(Contract::Reexecutes, method, Status::Paid)).await;
    }
}
