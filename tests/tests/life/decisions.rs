//! What people do with what a machine could not decide: they ask, send again where that is harmless, and decide; a worker
//! applies it, and what the acquirer proves goes before what a person says.

use crate::{left_in_doubt, profile, until_in_review};
use sandbox::acquirer::Settings;
use shared::acquirer::{Keys, Lookup, provider_key};
use shared::config::ReviewRules;
use shared::operator::{self, Password, Role};
use shared::payment::life::Status;
use shared::review::decision::{self, Decision, DecisionState, Proposal, Wanted};
use shared::review::desk::{self, Done};
use shared::review::{Reason, Refused, audit, open_of};
use tests::{Point, Worker, World, eventually};
use uuid::Uuid;

const ANY_AMOUNT_ALONE: i64 = i64::MAX;

/// A payment that was booked, that the acquirer does not show, and that nobody may send again.
async fn hidden() -> (World, Uuid) {
    let settings = Settings { keys_honoured: false, not_found_times: 1_000, ..Settings::default() };
    let mut world = World::with(settings).await;
    profile(&mut world).keys = Keys::None;
    profile(&mut world).lookup = Lookup::ByReference;
    let payment_id = world.accepted_one("pm_not_found_then_ok").await;
    let worker = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive);
    worker.stop().await;
    (world, payment_id)
}

/// A payment of which nothing was booked, and that nobody may send again.
async fn never_booked() -> (World, Uuid) {
    let mut world = World::with(Settings { keys_honoured: false, ..Settings::default() }).await;
    profile(&mut world).keys = Keys::None;
    profile(&mut world).lookup = Lookup::ByReference;
    let payment_id = world.accepted_one("pm_503").await;
    let worker = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive);
    worker.stop().await;
    (world, payment_id)
}

fn rules(most: i64) -> ReviewRules {
    ReviewRules { four_eyes_above_minor: [("EUR".to_owned(), most)].into(), four_eyes_default_minor: 0 }
}

async fn proposal(world: &World, payment_id: Uuid, wanted: Wanted) -> Proposal {
    let payment_version = world.payment(payment_id).await.version;
    let (reason, evidence) = ("the shopper called".to_owned(), Some("mail of the acquirer, case 7".to_owned()));
    Proposal { wanted, payment_version, reason, evidence }
}

async fn propose(world: &World, payment_id: Uuid, wanted: Wanted, most: i64) -> Result<Decision, Refused> {
    let proposal = proposal(world, payment_id, wanted).await;
    decision::propose(&world.database.pool, world.key(payment_id), &proposal, "ada", &rules(most), true)
        .await
        .map(|(decision, _)| decision)
}

fn failed() -> Wanted {
    Wanted::Failed { code: "never_charged".to_owned() }
}

fn paid(transaction_id: &str) -> Wanted {
    Wanted::Paid { transaction_id: transaction_id.to_owned() }
}

async fn ended(world: &World, payment_id: Uuid) -> Decision {
    eventually("the decision ended", || async {
        let all = decision::all_of(&world.database.pool, world.key(payment_id)).await.expect("decisions");
        all.into_iter().find(|one| !matches!(one.state, DecisionState::Proposed | DecisionState::Approved))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn asking_again_finds_what_the_machine_gave_up_and_ends_the_review() {
    let (world, payment_id) = hidden().await;
    let (pool, of) = (&world.database.pool, world.key(payment_id));
    world.acquirer.change_settings(|settings| settings.not_found_times = 0).expect("settings");
    assert_eq!(desk::ask(pool, of, "ada", "a day later").await.expect("asked"), Done::Now);
    assert_eq!(desk::ask(pool, of, "ada", "a day later").await.expect("a repeat is a replay"), Done::Before);
    assert!(
        matches!(desk::ask(pool, of, "grace", "me too").await, Err(Refused::UnderWay)),
        "one wins, the other is told"
    );
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    eventually("nothing is left to decide", || async {
        let payment = world.payment(payment_id).await;
        (!payment.in_review).then_some(())
    })
    .await;
    worker.stop().await;
    assert!(open_of(pool, of).await.expect("reviews").is_empty());
    let posts = world.acquirer.ledger().calls.posts;
    assert_eq!(posts, 1, "asking never means charging");
    assert!(matches!(desk::ask(pool, of, "ada", "again").await, Err(Refused::Final(Status::Paid))));
    assert_eq!(audit::of_payment(pool, of).await.expect("the audit").len(), 1, "what was refused is no deed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_a_person_calls_failed_is_settled_in_the_ordinary_way() {
    let (world, payment_id) = never_booked().await;
    let decided = propose(&world, payment_id, failed(), ANY_AMOUNT_ALONE).await.expect("decided");
    assert_eq!(decided.state, DecisionState::Approved, "one person is enough");
    let worker = world.worker();
    let payment = world.until(payment_id, Status::Failed).await;
    assert_eq!(payment.failure_code.as_deref(), Some("never_charged"));
    assert_eq!(ended(&world, payment_id).await.state, DecisionState::Applied);
    world.until_idle().await;
    worker.stop().await;
    let once = [
        "SELECT count(*) FROM payment_history WHERE to_status = 'FAILED' AND actor = 'operator ada'",
        "SELECT count(*) FROM events WHERE type = 'payments.failed'",
        "SELECT count(*) FROM idempotency_keys WHERE state = 'COMPLETED'",
        "SELECT count(*) FROM reviews WHERE state = 'RESOLVED' AND resolution = 'FAILED'",
        "SELECT count(*) FROM payments WHERE NOT in_review AND first_call_at IS NOT NULL",
    ];
    for sql in once {
        assert_eq!(world.count(sql).await, 1, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_the_acquirer_does_not_know_is_not_paid_whatever_a_person_says() {
    let (world, payment_id) = never_booked().await;
    propose(&world, payment_id, paid("txn_of_my_dreams"), ANY_AMOUNT_ALONE).await.expect("decided");
    let worker = world.worker();
    let decision = ended(&world, payment_id).await;
    worker.stop().await;
    assert_eq!(
        (decision.state, decision.note.as_deref()),
        (DecisionState::Refused, Some("the acquirer knows no charge for this payment"))
    );
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.in_review), (Status::Unknown, true), "it is back with the people");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_acquirer_proves_goes_before_what_a_person_says() {
    let (world, payment_id) = hidden().await;
    propose(&world, payment_id, failed(), ANY_AMOUNT_ALONE).await.expect("decided");
    world.acquirer.change_settings(|settings| settings.not_found_times = 0).expect("settings");
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_eq!(ended(&world, payment_id).await.state, DecisionState::Stale);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn above_an_amount_it_takes_two_people_and_never_the_same_one_twice() {
    let (world, payment_id) = never_booked().await;
    let (pool, merchant_id) = (&world.database.pool, world.merchant_id);
    let proposed = propose(&world, payment_id, failed(), 1998).await.expect("proposed");
    assert_eq!(proposed.state, DecisionState::Proposed);
    let again = propose(&world, payment_id, failed(), 1998).await.expect("a repeat is a replay");
    assert_eq!(again.id, proposed.id);
    let other = propose(&world, payment_id, paid("txn_1"), 1998).await;
    assert!(matches!(other, Err(Refused::DecisionOpen(id)) if id == proposed.id), "{other:?}");
    let myself = decision::approve(pool, merchant_id, proposed.id, "ada", "fine").await;
    assert!(matches!(myself, Err(Refused::SamePerson)), "{myself:?}");
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 0, "nothing happens before");
    for done in [Done::Now, Done::Before] {
        let approved = decision::approve(pool, merchant_id, proposed.id, "grace", "I have read it").await;
        let (approved, how) = approved.expect("approved");
        assert_eq!((approved.state, how), (DecisionState::Approved, done));
    }
    let late = decision::reject(pool, merchant_id, proposed.id, "joan", "no").await;
    assert!(matches!(late, Err(Refused::Decided(DecisionState::Approved))), "{late:?}");
    let worker = world.worker();
    world.until(payment_id, Status::Failed).await;
    worker.stop().await;
    let proposal =
        Proposal { payment_version: proposed.payment_version, ..proposal(&world, payment_id, failed()).await };
    let of = world.key(payment_id);
    let (again, how) = decision::propose(pool, of, &proposal, "ada", &rules(1998), true).await.expect("a repeat");
    assert_eq!((again.id, again.state, how), (proposed.id, DecisionState::Applied, Done::Before));
    let other = decision::propose(pool, of, &proposal, "joan", &rules(1998), true).await;
    assert!(matches!(other, Err(Refused::Final(Status::Failed))), "{other:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_people_who_decide_at_once_one_wins_and_the_other_is_told() {
    let (world, payment_id) = never_booked().await;
    let one = proposal(&world, payment_id, failed()).await;
    let other = Proposal { wanted: paid("txn_1"), ..one.clone() };
    let (pool, of, rules) = (&world.database.pool, world.key(payment_id), rules(0));
    let propose = async |proposal, by| decision::propose(pool, of, proposal, by, &rules, true).await;
    for _ in 0..20 {
        let (ada, joan) = tokio::join!(propose(&one, "ada"), propose(&other, "joan"));
        let (winner, loser) = if let Ok((winner, _)) = ada { (winner, joan) } else { (joan.expect("one wins").0, ada) };
        assert!(matches!(loser, Err(Refused::DecisionOpen(id)) if id == winner.id), "{loser:?}");
        decision::reject(pool, world.merchant_id, winner.id, "grace", "once more").await.expect("rejected");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_proposal_changes_nothing_and_leaves_room_for_another() {
    let (world, payment_id) = never_booked().await;
    let (pool, merchant_id) = (&world.database.pool, world.merchant_id);
    let proposed = propose(&world, payment_id, failed(), 0).await.expect("proposed");
    decision::reject(pool, merchant_id, proposed.id, "grace", "no evidence").await.expect("rejected");
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
    assert_eq!(propose(&world, payment_id, failed(), 0).await.expect("another").state, DecisionState::Proposed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_seen_before_the_payment_changed_is_stale() {
    let (world, payment_id) = never_booked().await;
    let (pool, of) = (&world.database.pool, world.key(payment_id));
    let mut old = proposal(&world, payment_id, failed()).await;
    old.payment_version -= 1;
    let refused = decision::propose(pool, of, &old, "ada", &rules(0), true).await;
    assert!(matches!(refused, Err(Refused::Changed(_))), "{refused:?}");
    let proposed = propose(&world, payment_id, failed(), 0).await.expect("proposed");
    world.run("UPDATE payments SET version = version + 1").await;
    let refused = decision::approve(pool, world.merchant_id, proposed.id, "grace", "fine").await;
    assert!(matches!(refused, Err(Refused::Changed(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_reason_or_evidence_nothing_is_decided() {
    let (world, payment_id) = never_booked().await;
    let (pool, of) = (&world.database.pool, world.key(payment_id));
    let good = proposal(&world, payment_id, failed()).await;
    let lacking = [
        (Proposal { reason: " ".to_owned(), ..good.clone() }, true),
        (Proposal { evidence: None, ..good.clone() }, true),
        (Proposal { wanted: Wanted::Failed { code: String::new() }, ..good.clone() }, true),
        (Proposal { wanted: paid(""), ..good.clone() }, true),
        (Proposal { wanted: paid("txn_1"), evidence: None, ..good }, false),
    ];
    for (proposal, asks) in lacking {
        let refused = decision::propose(pool, of, &proposal, "ada", &rules(ANY_AMOUNT_ALONE), asks).await;
        assert!(matches!(refused, Err(Refused::Missing(_))), "{proposal:?}: {refused:?}");
    }
    assert_eq!(world.count("SELECT count(*) FROM decisions").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_charges_a_person_says_which_one_paid() {
    let world = World::with(Settings { faults_repeat: true, ..Settings::default() }).await;
    let payment_id = world.accepted_one("pm_double_charge").await;
    let worker = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::DuplicateAtProvider);
    let second = world.acquirer.ledger_of(&provider_key(payment_id)).entries[1].transaction_id.clone();
    propose(&world, payment_id, paid(&second), ANY_AMOUNT_ALONE).await.expect("decided");
    let payment = world.until(payment_id, Status::Paid).await;
    worker.stop().await;
    assert_eq!(payment.transaction_id, Some(second));
    let open = open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
    assert_eq!(open[0].reason, Reason::DuplicateAtProvider, "the other charge is still to be given back");
    let resolved = desk::resolve(&world.database.pool, world.merchant_id, open[0].id, "ada", "refunded").await;
    assert_eq!(resolved.expect("it is final, so it can be closed"), Done::Now);
    let again = desk::resolve(&world.database.pool, world.merchant_id, open[0].id, "ada", "refunded").await;
    assert_eq!(again.expect("a repeat is a replay"), Done::Before);
    let other = desk::resolve(&world.database.pool, world.merchant_id, open[0].id, "grace", "refunded").await;
    assert!(matches!(&other, Err(Refused::Resolved { by, .. }) if by == "ada"), "{other:?}");
    assert!(!world.payment(payment_id).await.in_review);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_is_made_only_where_the_contract_protects_it() {
    let (mut world, payment_id) = never_booked().await;
    let (pool, of) = (world.database.pool.clone(), world.key(payment_id));
    let unprotected = profile(&mut world).clone();
    let refused = desk::resend(&pool, of, "ada", "try", Some(&unprotected)).await;
    assert!(matches!(refused, Err(Refused::NotProtected(_))), "{refused:?}");
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 0);

    let mut world = World::new().await;
    profile(&mut world).absence_final_after_ms = 5_000;
    world.config.steps.lookup.deliveries = 1;
    let payment_id = world.accepted_one("pm_503").await;
    left_in_doubt(&world, payment_id).await;
    let worker = world.worker();
    until_in_review(&world, payment_id).await;
    let protected = profile(&mut world).clone();
    let of = world.key(payment_id);
    desk::resend(&world.database.pool, of, "ada", "the acquirer is back", Some(&protected)).await.expect("asked");
    world.until(payment_id, Status::Paid).await;
    worker.stop().await;
    let books = world.acquirer.ledger_of(&provider_key(payment_id));
    assert_eq!((books.charges, books.keys), (1, vec![provider_key(payment_id)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_did_is_appended_and_never_edited() {
    let (world, payment_id) = never_booked().await;
    let (pool, of) = (&world.database.pool, world.key(payment_id));
    desk::comment(pool, of, "ada", "called them\u{0} twice").await.expect("said");
    let review = open_of(pool, of).await.expect("reviews").remove(0);
    let assign = async |to| desk::assign(pool, world.merchant_id, review.id, to, "ada").await;
    assert!(matches!(assign(Some("grace")).await, Err(Refused::NoOperator(_))), "there is nobody of that name");
    let password = Password::new("correct horse battery").expect("a password");
    operator::create(pool, "grace", Role::Operator, &password).await.expect("an operator");
    assert_eq!(assign(Some("grace")).await.expect("assigned"), Done::Now);
    assert_eq!(assign(Some("grace")).await.expect("a repeat"), Done::Before);
    operator::disable(pool, "grace").await.expect("disabled");
    assert!(matches!(assign(Some("grace")).await, Err(Refused::NoOperator(_))), "who is disabled looks after nothing");
    for sql in ["UPDATE audit SET reason = 'nothing'", "DELETE FROM audit", "TRUNCATE audit"] {
        let edited = sqlx::query(sql).execute(pool).await.unwrap_err();
        assert!(edited.to_string().contains("append-only"), "{sql}: {edited}");
    }
    let entries = audit::of_payment(pool, of).await.expect("the audit");
    let told: Vec<_> = entries.iter().map(|entry| (entry.operator.as_str(), entry.reason.as_str())).collect();
    assert_eq!(told, [("ada", "called them  twice"), ("ada", "grace")]);
    assert_eq!(entries[0].before["status"], "UNKNOWN");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_kept_no_longer_is_not_said_to_be_redelivered() {
    let world = World::new().await;
    let payment_id = world.accepted_one("pm_ok").await;
    world
        .run(
            "INSERT INTO reviews (merchant_id, payment_id, event_id, sink, reason, detail)
             SELECT merchant_id, id, gen_random_uuid(), 'log', 'delivery_exhausted', 'no answer' FROM payments",
        )
        .await;
    let (pool, of) = (&world.database.pool, world.key(payment_id));
    let review = open_of(pool, of).await.expect("reviews").remove(0);
    let refused = desk::replay(pool, world.merchant_id, review.id, "ada", "the sink is back").await;
    assert!(matches!(refused, Err(Refused::NothingToDeliver)), "{refused:?}");
    desk::resolve(pool, world.merchant_id, review.id, "ada", "nobody needs it").await.expect("though not final");
    assert_eq!(world.count("SELECT count(*) FROM audit").await, 1, "what was refused is no deed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_event_is_brought_to_its_sink_once_more() {
    let world = World::new().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    world
        .run(
            "UPDATE deliveries SET state = 'DEAD', delivered_at = NULL;
             INSERT INTO reviews (merchant_id, payment_id, event_id, sink, reason, detail)
             SELECT e.merchant_id, e.payment_id, e.id, 'log', 'delivery_exhausted', 'no answer' FROM events e",
        )
        .await;
    let (pool, of) = (&world.database.pool, world.key(payment_id));
    let review = open_of(pool, of).await.expect("reviews").remove(0);
    for done in [Done::Now, Done::Before] {
        let replayed = desk::replay(pool, world.merchant_id, review.id, "ada", "the sink is back").await;
        assert_eq!(replayed.expect("replayed"), done);
    }
    let again = desk::redeliver(pool, world.merchant_id, review.id, "grace", "me too").await;
    assert!(matches!(&again, Err(Refused::Resolved { by, .. }) if by == "ada"), "{again:?}");
    assert_eq!(
        world.count("SELECT count(*) FROM jobs WHERE step = 'publish' AND route = 'log'").await,
        1,
        "one, on its route"
    );
    let _worker = world.worker();
    let delivered = "SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'";
    eventually("it is delivered", || async { (world.count(delivered).await == 1).then_some(()) }).await;
}

/// A world in which a lease is over soon, and a payment that a person called failed.
async fn decided_and_never_booked() -> (World, Uuid) {
    let (mut world, payment_id) = never_booked().await;
    let acquirer = profile(&mut world);
    (acquirer.connect_ms, acquirer.read_ms, acquirer.deadline_ms) = (100, 200, 1_000);
    world.config.worker.lease_ms = 1_300;
    propose(&world, payment_id, failed(), ANY_AMOUNT_ALONE).await.expect("decided");
    (world, payment_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_survives_a_crash_anywhere() {
    for n in 1.. {
        let (world, payment_id) = decided_and_never_booked().await;
        let (faults, point) = Point::nth(n);
        let victim = Worker::start(&world, faults);
        let crashed = tokio::select! {
            () = point.reached() => true,
            _ = world.until(payment_id, Status::Failed) => false,
        };
        victim.crash();
        let heir = world.worker();
        world.until(payment_id, Status::Failed).await;
        assert_eq!(ended(&world, payment_id).await.state, DecisionState::Applied, "point {n}, {}", point.name());
        world.until_idle().await;
        heir.stop().await;
        for sql in [
            "SELECT count(*) FROM payment_history WHERE to_status = 'FAILED'",
            "SELECT count(*) FROM events",
            "SELECT count(*) FROM payments WHERE NOT in_review AND lease_until IS NULL",
            "SELECT count(*) FROM reviews WHERE state = 'RESOLVED'",
        ] {
            assert_eq!(world.count(sql).await, 1, "{sql}, after a crash at point {n}, {}", point.name());
        }
        assert_eq!(world.acquirer.ledger().calls.posts, 1, "nothing was sent for it");
        if !crashed {
            assert!(n > 4, "only {n} points");
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_cannot_be_applied_is_told_once_wherever_its_worker_dies() {
    for n in 1..=4 {
        let (mut world, payment_id) = never_booked().await;
        let acquirer = profile(&mut world);
        (acquirer.connect_ms, acquirer.read_ms, acquirer.deadline_ms) = (100, 200, 1_000);
        world.config.worker.lease_ms = 1_300;
        propose(&world, payment_id, paid("txn_of_my_dreams"), ANY_AMOUNT_ALONE).await.expect("decided");
        let (faults, point) = Point::nth(n);
        let victim = Worker::start(&world, faults);
        point.reached().await;
        victim.crash();
        let heir = world.worker();
        assert_eq!(ended(&world, payment_id).await.state, DecisionState::Refused, "point {n}, {}", point.name());
        world.until_idle().await;
        heir.stop().await;
        let payment = world.payment(payment_id).await;
        assert_eq!((payment.status, payment.in_review, payment.lease_until), (Status::Unknown, true, None));
        assert_eq!(open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews").len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_outlives_the_job_table() {
    let (world, payment_id) = never_booked().await;
    propose(&world, payment_id, failed(), ANY_AMOUNT_ALONE).await.expect("decided");
    world.run("DELETE FROM jobs").await;
    let worker = world.worker();
    world.until(payment_id, Status::Failed).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_machine_is_still_finding_out_is_not_decided() {
    let world = World::new().await;
    let payment_id = world.accepted_one("pm_500_after_charge").await;
    left_in_doubt(&world, payment_id).await;
    let refused = propose(&world, payment_id, failed(), ANY_AMOUNT_ALONE).await;
    assert!(matches!(refused, Err(Refused::NotInReview(Status::Unknown))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resend_that_a_person_asked_for_survives_a_crash_anywhere() {
    for n in 1.. {
        let mut world = World::with(Settings { faults_repeat: false, ..Settings::default() }).await;
        profile(&mut world).absence_final_after_ms = 3_000;
        let usual = std::mem::replace(&mut world.config.steps.lookup.deliveries, 1);
        let payment_id = world.accepted_one("pm_503").await;
        let worker = world.worker();
        until_in_review(&world, payment_id).await;
        worker.stop().await;
        world.config.steps.lookup.deliveries = usual;
        let acquirer = profile(&mut world);
        (acquirer.connect_ms, acquirer.read_ms, acquirer.deadline_ms) = (100, 200, 1_000);
        world.config.worker.lease_ms = 1_300;
        let acquirer = profile(&mut world).clone();
        desk::resend(&world.database.pool, world.key(payment_id), "ada", "again", Some(&acquirer))
            .await
            .expect("asked");
        let (faults, point) = Point::nth(n);
        let victim = Worker::start(&world, faults);
        let crashed = tokio::select! {
            () = point.reached() => true,
            _ = world.until(payment_id, Status::Paid) => false,
        };
        victim.crash();
        let heir = world.worker();
        world.until(payment_id, Status::Paid).await;
        world.until_idle().await;
        heir.stop().await;
        let books = world.acquirer.ledger_of(&provider_key(payment_id));
        assert_eq!((books.charges, books.keys), (1, vec![provider_key(payment_id)]), "point {n}, {}", point.name());
        if !crashed {
            assert!(n > 6, "only {n} points");
            return;
        }
    }
}
