//! An acquirer that is away, slow, or wants to be asked slowly: what waits for it waits in the queue, and holds up
//! nobody else.

use crate::scripted::{Say, Scripted};
use crate::{assert_ended_once, left_in_doubt, profile, until_in_review};
use sandbox::acquirer::Settings;
use shared::acquirer::{KeyLocation, provider_key};
use shared::config::Acquirer;
use shared::payment::life::Status;
use shared::review::{Reason, open_of};
use std::net::SocketAddr;
use std::time::Duration;
use tests::{Point, Worker, World, eventually};
use uuid::Uuid;

const APPROVED: Say = Say::Charge(201, "approved", "txn_1");

/// A world whose acquirer is not there, and where that was noticed by the first payment.
async fn away(unavailable_after_s: u64) -> (World, Uuid, tests::Worker) {
    let mut world = World::new().await;
    // Nobody listens there.
    profile(&mut world).base_url = "http://127.0.0.1:9".to_owned();
    profile(&mut world).circuit_failures = 1;
    profile(&mut world).unavailable_after_s = unavailable_after_s;
    let first = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(first, Status::Unknown).await;
    until_circuit(&world, &worker, "open").await;
    (world, first, worker)
}

async fn until_circuit(world: &World, worker: &tests::Worker, state: &str) {
    let line = format!("payonce_acquirer_circuit{{acquirer=\"default\",state=\"{state}\"}} 1");
    eventually(&line, || async { worker.metrics.render(&world.database.pool).await.contains(&line).then_some(()) })
        .await;
}

async fn another(world: &World, n: usize) -> Uuid {
    let request = world.request(n, "pm_ok");
    let payment_id = request.payment_id;
    let committer = tests::world::Process::start(&world.database.url).committer;
    committer.write(shared::committer::Write::Accept(request)).await.expect("accepted");
    payment_id
}

#[tokio::test(flavor = "multi_thread")]
async fn while_an_acquirer_is_away_its_payments_wait_unclaimed_and_are_counted_as_parked() {
    let (world, _, worker) = away(900).await;
    for n in 2..=5 {
        another(&world, n).await;
    }
    // And the look-up of the payment by which it was noticed.
    let parked = "payonce_jobs_parked{acquirer=\"default\"} 5";
    eventually(parked, || async { worker.metrics.render(&world.database.pool).await.contains(parked).then_some(()) })
        .await;
    let untouched = "SELECT count(*) FROM payments WHERE attempt = 0 AND status = 'PENDING'";
    assert_eq!(world.count(untouched).await, 4);
    assert_eq!(world.count("SELECT count(*) FROM jobs WHERE step = 'charge' AND deliveries = 0").await, 4);
    assert_eq!(world.count("SELECT count(*) FROM provider_calls WHERE outcome = 'NOT_SENT'").await, 0, "no churn");
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_acquirer_is_back_everything_that_waited_goes_on() {
    let mut world = World::new().await;
    // An address that is taken, and then served again.
    let acquirer = std::mem::replace(&mut world.acquirer, sandbox_at(([127, 0, 0, 1], 0).into()).await);
    let address = acquirer.addr();
    acquirer.stop().await;
    profile(&mut world).circuit_failures = 1;
    let ids = world.accepted(8, "pm_ok").await;
    let worker = world.worker();
    until_circuit(&world, &worker, "open").await;
    world.acquirer = sandbox_at(address).await;
    for id in &ids {
        world.until(*id, Status::Paid).await;
    }
    until_circuit(&world, &worker, "closed").await;
    worker.stop().await;
    for id in ids {
        assert_eq!(world.acquirer.ledger_of(&provider_key(id)).charges, 1);
    }
}

async fn sandbox_at(address: SocketAddr) -> sandbox::acquirer::Acquirer {
    sandbox::acquirer::Acquirer::start(address, sandbox::acquirer::Settings::default()).await.expect("the address")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_was_never_sent_fails_when_it_has_waited_too_long_and_one_in_doubt_does_not() {
    let (world, in_doubt, worker) = away(1).await;
    let waiting = another(&world, 2).await;
    let failed = world.until(waiting, Status::Failed).await;
    assert_eq!(failed.failure_code.as_deref(), Some("acquirer_unavailable"));
    assert_eq!(failed.first_call_at, None, "nothing ever left");
    let message = failed.failure_message.expect("a message");
    assert!(message.contains("nothing was sent"), "{message}");
    let calls = "SELECT count(*) FROM provider_calls c JOIN payments p ON p.id = c.payment_id
                 WHERE p.status = 'FAILED' AND c.outcome IS DISTINCT FROM 'NOT_SENT'";
    assert_eq!(world.count(calls).await, 0);
    worker.stop().await;
    assert_eq!(world.payment(in_doubt).await.status, Status::Unknown, "it may have been sent");
    assert_eq!(world.payment(in_doubt).await.lease_until, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn look_ups_that_wait_for_an_acquirer_spend_no_budget() {
    let mut world = World::new().await;
    world.config.steps.lookup.deliveries = 2;
    let payment_id = world.accepted_one("pm_500_after_charge").await;
    left_in_doubt(&world, payment_id).await;
    let url = std::mem::replace(&mut profile(&mut world).base_url, "http://127.0.0.1:9".to_owned());
    world.run("UPDATE jobs SET run_at = now()").await;
    let worker = world.worker();
    let in_vain = "SELECT count(*) FROM provider_calls WHERE kind = 'lookup' AND outcome = 'UNKNOWN'";
    eventually("it was asked in vain, more often than the budget", || async {
        (world.count(in_vain).await > 3).then_some(())
    })
    .await;
    worker.stop().await;
    profile(&mut world).base_url = url;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_is_away_holds_up_no_other() {
    let (mut world, _, worker) = away(900).await;
    worker.stop().await;
    let other = Acquirer { base_url: world.acquirer.base_url(), ..profile(&mut world).clone() };
    world.config.acquirers.insert("other".to_owned(), other);
    for n in 2..=200 {
        another(&world, n).await;
    }
    let mut request = world.request(201, "pm_ok");
    request.acquirer = "other".to_owned();
    let payment_id = request.payment_id;
    let committer = tests::world::Process::start(&world.database.url).committer;
    committer.write(shared::committer::Write::Accept(request)).await.expect("accepted");
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_is_called_no_more_often_than_it_wants_to_be() {
    let acquirer = Scripted::start(&[APPROVED], &[Say::Plain(500, "")]).await;
    let mut world = acquirer.world().await;
    profile(&mut world).concurrency = 1;
    profile(&mut world).requests_per_second = 20;
    let began = tokio::time::Instant::now();
    let ids = world.accepted(5, "pm_ok").await;
    let worker = world.worker();
    for id in ids {
        world.until(id, Status::Paid).await;
    }
    worker.stop().await;
    assert!(began.elapsed() >= Duration::from_millis(190), "five calls at 20 per second");
    assert_eq!(acquirer.posts().len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_amount_that_the_acquirer_cannot_be_told_fails_and_is_never_sent() {
    let mut world = World::new().await;
    profile(&mut world).exponent_overrides = [("EUR".to_owned(), 0)].into();
    let payment_id = world.accepted_one("pm_ok").await;
    let _worker = world.worker();
    let failed = world.until(payment_id, Status::Failed).await;
    assert_eq!(failed.failure_code.as_deref(), Some("amount_not_representable"));
    assert_eq!((world.acquirer.ledger().calls.posts, failed.first_call_at), (0, None));
    assert_ended_once(&world, payment_id, Status::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_counts_a_currency_otherwise_is_told_and_echoes_its_own_count() {
    let mut world = World::new().await;
    profile(&mut world).exponent_overrides = [("EUR".to_owned(), 3)].into();
    let payment_id = world.accepted_one("pm_ok").await;
    let _worker = world.worker();
    let paid = world.until(payment_id, Status::Paid).await;
    assert_eq!(paid.amount_minor, 1999, "ours is that of ISO 4217");
    let entries = world.acquirer.ledger_of(&provider_key(payment_id)).entries;
    assert_eq!(entries[0].amount_minor, 19_990);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_told_its_amount_and_may_have_been_sent_goes_to_a_person() {
    let mut world = World::new().await;
    profile(&mut world).exponent_overrides = [("EUR".to_owned(), 0)].into();
    let payment_id = world.accepted_one("pm_ok").await;
    // The claim says that a call may leave; its worker dies before it can say that none did.
    let (faults, claimed) = Point::first("before a commit");
    let victim = Worker::start(&world, faults);
    claimed.reached().await;
    victim.crash();
    let heir = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive);
    heir.stop().await;
    let review = open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews").remove(0);
    assert!(review.detail.contains("1999 of EUR cannot be told"), "{}", review.detail);
    assert_eq!(world.acquirer.ledger().calls.posts, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_may_lie_in_the_body() {
    let location = "body:request_token";
    let settings = Settings { key_location: location.parse().expect("a location"), ..Settings::default() };
    let mut world = World::with(settings).await;
    profile(&mut world).key_location = KeyLocation::Body("request_token".to_owned());
    let payment_id = world.accepted_one("pm_reset").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    assert_eq!(world.acquirer.ledger_of(&provider_key(payment_id)).keys, [provider_key(payment_id)]);
}
