//! The life of a payment at its worst moments: timed out, cut off, taken over, run twice, answered in
//! every way an acquirer can think of. Whatever happens, it ends right and money moves at most once.

mod acquirer_away;
mod contracts;
mod crashes;
mod decisions;
mod doubt;
mod duplicates;
mod incident;
mod late;
mod lost_answers;
mod missing_profile;
mod outcomes;
mod recovery;
mod resend;
mod scripted;
mod settle;
mod short_leases;
mod silence;
mod twice;

use sandbox::acquirer::Settings;
use shared::acquirer::provider_key;
use shared::config::Acquirer;
use shared::payment::life::Status;
use shared::review::Reason;
use tests::world::short_times;
use tests::{World, eventually};
use uuid::Uuid;

/// A world in which a lease is over after 1.3 s, for tests that wait for that.
async fn quick_world(settings: Settings) -> World {
    let mut world = World::with(settings).await;
    let acquirer = profile(&mut world);
    (acquirer.connect_ms, acquirer.read_ms, acquirer.deadline_ms) = (100, 200, 1_000);
    world.config.worker.lease_ms = 1_300;
    world
}

/// The profile of the world's acquirer.
fn profile(world: &mut World) -> &mut Acquirer {
    world.config.acquirers.get_mut("default").expect("the profile")
}

/// An acquirer whose faults act on every POST.
fn repeating() -> Settings {
    Settings { faults_repeat: true, ..Settings::default() }
}

#[tokio::test]
async fn the_times_of_these_tests_agree_with_each_other() {
    short_times("http://127.0.0.1:1").checked().unwrap();
    quick_world(Settings::default()).await.config.checked().unwrap();
    recovery::patient_world().await.config.checked().unwrap();
    incident::real_times(&mut World::new().await).clone().checked().unwrap();
}

/// What must hold when the world's only payment has ended: every table says the same, once.
async fn assert_ended_once(world: &World, payment_id: Uuid, end: Status) {
    world.until_idle().await;
    assert_final_rows(world, payment_id, end).await;
    assert_one_key(world, payment_id);
    let books = world.acquirer.ledger();
    let charges = u64::from(end == Status::Paid);
    assert_eq!((books.charges, books.duplicates.as_slice()), (charges, [].as_slice()), "{books:?}");
    let booked = world.acquirer.ledger_of(&provider_key(payment_id)).entries;
    let booked = booked.into_iter().find(|entry| entry.status == "approved").map(|entry| entry.transaction_id);
    let payment = world.payment(payment_id).await;
    assert!(end != Status::Paid || payment.transaction_id == booked, "{payment:?} is not {booked:?}");
}

async fn assert_final_rows(world: &World, payment_id: Uuid, end: Status) {
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.lease_until, payment.in_review), (end, None, false), "{payment:?}");
    let once = [
        (
            "one end in the history",
            "SELECT count(*) FROM payment_history WHERE to_status IN ('PAID', 'DECLINED', 'FAILED')",
        ),
        (
            "the history ends with it",
            "SELECT count(*) FROM payments p JOIN payment_history h ON h.payment_id = p.id AND h.version = p.version AND h.to_status = p.status",
        ),
        (
            "one event, with the stored answer",
            "SELECT count(*) FROM events e JOIN idempotency_keys k ON k.payment_id = e.payment_id AND k.response_body = e.data AND k.response_code = 201 AND k.state = 'COMPLETED'",
        ),
        ("one delivery, done", "SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'"),
    ];
    for (what, sql) in once {
        assert_eq!(world.count(sql).await, 1, "{what}");
    }
    assert_eq!(world.count("SELECT count(*) FROM events").await, 1, "one event");
    assert_eq!(world.count("SELECT count(*) FROM reviews").await, 0, "nothing for a person");
}

/// However often it was sent, every send bore the payment's one key.
fn assert_one_key(world: &World, payment_id: Uuid) {
    let reference = provider_key(payment_id);
    let keys = world.acquirer.ledger_of(&reference).keys;
    assert!(keys.iter().all(|key| *key == reference), "{keys:?}");
}

/// Waits until a person has the payment, which is then UNKNOWN and owned by nobody, and says why.
async fn until_in_review(world: &World, payment_id: Uuid) -> Reason {
    let review = eventually("a person has it", || async {
        let open = shared::review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
        assert!(open.len() < 2, "{open:?}");
        open.into_iter().next()
    })
    .await;
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.in_review, payment.lease_until), (Status::Unknown, true, None));
    assert_eq!(world.count("SELECT count(*) FROM jobs").await, 0, "it waits for a person alone");
    assert_eq!(world.count("SELECT count(*) FROM events").await, 0, "nothing is final");
    review.reason
}

/// Brings a payment to UNKNOWN, where it stays while no worker runs.
async fn left_in_doubt(world: &World, payment_id: Uuid) {
    let worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    worker.stop().await;
}

/// Lets everything that happened have happened a day earlier, and the next look-up be due.
async fn a_day_later(world: &World) {
    world
        .run(
            "UPDATE payments SET first_call_at = first_call_at - interval '1 day';
             UPDATE provider_calls SET started_at = started_at - interval '1 day';
             UPDATE jobs SET run_at = now()",
        )
        .await;
}
