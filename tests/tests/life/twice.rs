//! A step that runs twice leaves the rows of one that ran once.

use crate::{assert_ended_once, profile, repeating, settle};
use sandbox::acquirer::Settings;
use shared::payment::life::Status;
use shared::queue::{Claimed, Step};
use std::time::Duration;
use tests::by_hand::route;
use tests::{ByHand, Rows, World, eventually};
use uuid::Uuid;
use worker::faults::Faults;

/// How a step is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// As it should be.
    Once,
    /// The same claim, executed again when it is done.
    ClaimTwice,
    /// Its job is there again when it is done, and is claimed and executed again.
    JobTwice,
}

/// A payment that is driven by hand.
#[derive(Clone, Copy)]
struct Driven {
    method: &'static str,
    settings: fn() -> Settings,
    first: Step,
}

impl Driven {
    const fn of(method: &'static str, settings: fn() -> Settings) -> Self {
        Self { method, settings, first: Step::Charge }
    }

    async fn begins(self) -> (World, Uuid) {
        let mut world = World::with((self.settings)()).await;
        // A look-up that finds nothing proves something in one of these lives only, and there at once.
        profile(&mut world).absence_final_after_ms = if self.method == "pm_503" { 0 } else { 3_600_000 };
        let payment_id = match self.first {
            Step::Settle => settle::on_record(&world, self.method).await,
            _ => world.accepted_one(self.method).await,
        };
        (world, payment_id)
    }

    /// Drives it to its end.
    async fn driven(self, run: Run) -> (World, Uuid, Rows) {
        let (world, payment_id) = self.begins().await;
        let hand = ByHand::start(&world, Faults::default());
        let (mut step, mut steps) = (self.first, 0);
        while let Some(claimed) = next(&world, &hand, step).await {
            runs(&world, &hand, step, &claimed, run).await;
            (step, steps) = (Step::Lookup, steps + 1);
            if steps == 2 {
                comes_clean(&world).await;
            }
        }
        let rows = Rows::of(&world).await;
        (world, payment_id, rows)
    }
}

/// The next claim; `None` when nothing is left to do.
async fn next(world: &World, hand: &ByHand, step: Step) -> Option<Claimed> {
    match world.count("SELECT count(*) FROM jobs").await {
        0 => None,
        _ => Some(hand.claim_one(step).await),
    }
}

/// From the third step on the acquirer keeps nothing back.
async fn comes_clean(world: &World) {
    let change = |settings: &mut Settings| (settings.not_found_times, settings.faults_repeat) = (0, false);
    world.acquirer.change_settings(change).expect("settings");
    eventually("nothing is processing", || async {
        let entries = world.acquirer.ledger_with_entries().entries.unwrap_or_default();
        entries.iter().all(|entry| entry.status != "processing").then_some(())
    })
    .await;
}

async fn runs(world: &World, hand: &ByHand, step: Step, claimed: &Claimed, run: Run) {
    match run {
        Run::Once => hand.run(claimed).await,
        Run::ClaimTwice => {
            hand.run(claimed).await;
            hand.run(claimed).await;
        }
        Run::JobTwice => {
            hand.run(claimed).await;
            comes_again(world, step).await;
            let again = hand.claim_one(step).await;
            hand.run(&again).await;
        }
    }
}

/// Makes the step's job due again, whatever became of it.
async fn comes_again(world: &World, step: Step) {
    let sql = "INSERT INTO jobs (merchant_id, step, subject_id, route) SELECT merchant_id, $1, id, $2 FROM payments
               ON CONFLICT (merchant_id, subject_id, step, route) DO UPDATE SET run_at = now(), claimed_by = NULL";
    sqlx::query(sql).bind(step.as_str()).bind(route(step)).execute(&world.database.pool).await.expect(sql);
}

fn default() -> Settings {
    Settings::default()
}

fn processing() -> Settings {
    Settings { processing_ms: 1_500, ..Settings::default() }
}

fn hidden() -> Settings {
    Settings { not_found_times: 99, faults_repeat: true, ..Settings::default() }
}

const LIVES: [(Driven, Status); 9] = [
    (Driven::of("pm_ok", default), Status::Paid),
    (Driven::of("pm_declined", default), Status::Declined),
    (Driven::of("pm_rejected", default), Status::Failed),
    // Sent, and resent inside the charge.
    (Driven::of("pm_timeout_after_charge", default), Status::Paid),
    (Driven::of("pm_500_after_charge", default), Status::Paid),
    // Looked up twice: the first look-up leaves it open.
    (Driven::of("pm_processing_then_ok", processing), Status::Paid),
    (Driven::of("pm_not_found_then_ok", hidden), Status::Paid),
    // Looked up, proven absent, and sent again by the look-up: first in vain, then not.
    (Driven::of("pm_503", repeating), Status::Paid),
    (Driven { first: Step::Settle, ..Driven::of("pm_ok", default) }, Status::Paid),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_executed_twice_leaves_the_rows_of_one() {
    for (life, end) in LIVES {
        let ((_, _, once), (world, payment_id, twice)) =
            tokio::join!(life.driven(Run::Once), life.driven(Run::ClaimTwice));
        assert_eq!(once, twice, "{}", life.method);
        assert_ended_once(&world, payment_id, end).await;
    }
}

/// A job that comes again is another claim, so attempts and calls are counted on; nothing else differs.
fn but_for_the_claims(rows: Rows) -> Rows {
    rows.without_table("provider_calls").without(&["attempt", "deliveries"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_delivered_twice_leaves_the_rows_of_one() {
    for (life, end) in LIVES {
        let ((_, _, once), (world, payment_id, twice)) =
            tokio::join!(life.driven(Run::Once), life.driven(Run::JobTwice));
        assert_eq!(but_for_the_claims(once), but_for_the_claims(twice), "{}", life.method);
        assert_ended_once(&world, payment_id, end).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_ends_in_a_review_and_runs_twice_opens_one() {
    for method in ["pm_wrong_amount", "pm_double_charge"] {
        let life = Driven::of(method, default);
        let ((_, _, once), (world, payment_id, twice)) =
            tokio::join!(life.driven(Run::Once), life.driven(Run::ClaimTwice));
        assert_eq!(once, twice, "{method}");
        crate::until_in_review(&world, payment_id).await;
    }
}

/// A world whose event is not delivered, and its delivery due.
async fn undelivered() -> (World, Uuid) {
    let world = World::new().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let hand = ByHand::start(&world, Faults::default());
    let charge = hand.claim_one(Step::Charge).await;
    hand.run(&charge).await;
    world
        .run(
            "UPDATE deliveries SET state = 'PENDING', delivered_at = NULL;
             INSERT INTO jobs (merchant_id, step, subject_id, route) SELECT merchant_id, 'publish', event_id, sink FROM deliveries",
        )
        .await;
    (world, payment_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_is_made_twice_is_marked_once() {
    let (once, _) = undelivered().await;
    let hand = ByHand::start(&once, Faults::default());
    let claimed = hand.claim_one(Step::Publish).await;
    hand.run(&claimed).await;
    let (twice, payment_id) = undelivered().await;
    let hand = ByHand::start(&twice, Faults::default());
    let first = hand.claim_one(Step::Publish).await;
    twice.run("UPDATE jobs SET run_at = now()").await;
    let second = hand.claim_one(Step::Publish).await;
    hand.run(&second).await;
    let delivered_at = "SELECT delivered_at FROM deliveries";
    let at: time::OffsetDateTime = sqlx::query_scalar(delivered_at).fetch_one(&twice.database.pool).await.unwrap();
    hand.run(&first).await;
    hand.run(&second).await;
    let still: time::OffsetDateTime = sqlx::query_scalar(delivered_at).fetch_one(&twice.database.pool).await.unwrap();
    assert_eq!(at, still, "who comes later changes nothing");
    assert_eq!(hand.context.metrics.stale_attempts(), 2);
    assert_eq!(Rows::of(&once).await, Rows::of(&twice).await);
    assert_ended_once(&twice, payment_id, Status::Paid).await;
    assert!(hand.claim(Step::Publish, "log", 1, Duration::from_secs(1)).await.is_empty());
}
