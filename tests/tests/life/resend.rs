//! A second send: when it is made it is the same request, and what it hears proves nothing about the
//! first.

use crate::scripted::{Say, Scripted};
use crate::{assert_final_rows, left_in_doubt, profile, repeating, until_in_review};
use sandbox::acquirer::Settings;
use shared::acquirer::{Keys, Lookup, provider_key};
use shared::payment::life::Status;
use shared::review::Reason;
use tests::World;
use uuid::Uuid;

const APPROVED: Say = Say::Charge(201, "approved", "txn_1");
const FOUND: Say = Say::Charge(200, "approved", "txn_1");
const NOT_FOUND: Say = Say::Plain(404, r#"{"error":"not_found"}"#);

/// What the calls of the only payment came to, in their order.
async fn calls(world: &World) -> Vec<String> {
    let sql = "SELECT concat_ws(' ', kind, outcome, http_status) FROM provider_calls ORDER BY started_at";
    sqlx::query_scalar(sql).fetch_all(&world.database.pool).await.expect("calls")
}

async fn paid(acquirer: &Scripted, world: &World) -> Uuid {
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    assert_final_rows(world, payment_id, Status::Paid).await;
    assert!(acquirer.posts().iter().all(|sent| sent.key == provider_key(payment_id)), "{:?}", acquirer.posts());
    payment_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_timeout_is_resent_with_the_same_key_and_the_same_body() {
    let acquirer = Scripted::start(&[Say::Nothing, APPROVED], &[Say::Plain(500, "")]).await;
    let world = acquirer.world().await;
    paid(&acquirer, &world).await;
    let [first, second] = acquirer.posts().try_into().expect("two sends");
    assert_eq!((&first.key, &first.body), (&second.key, &second.body));
    assert_eq!(calls(&world).await, ["charge UNKNOWN", "charge SUCCESS 201"]);
    let of_calls = "SELECT request_id::text FROM provider_calls ORDER BY started_at";
    let of_calls: Vec<String> = sqlx::query_scalar(of_calls).fetch_all(&world.database.pool).await.unwrap();
    assert_eq!(of_calls, [first.request_id, second.request_id], "each call is on record under the id that it bore");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_was_never_absent_is_resent_much_later_with_the_same_key_and_the_same_body() {
    let acquirer = Scripted::start(&[Say::Plain(503, ""), APPROVED], &[NOT_FOUND]).await;
    let world = acquirer.world().await;
    paid(&acquirer, &world).await;
    let [first, second] = acquirer.posts().try_into().expect("two sends");
    assert_eq!((&first.key, &first.body), (&second.key, &second.body));
    assert_ne!(first.request_id, second.request_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_resend_proves_nothing_about_the_first_send() {
    for status in [400, 401, 402, 403, 422] {
        let refusal = Say::Plain(status, r#"{"error":"refused","message":"this request only"}"#);
        let acquirer = Scripted::start(&[Say::Nothing, refusal], &[FOUND]).await;
        let world = acquirer.world().await;
        paid(&acquirer, &world).await;
        let resent = format!("charge UNKNOWN {status}");
        assert_eq!(calls(&world).await, ["charge UNKNOWN", &resent, "lookup SUCCESS 200"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_after_proven_absence_proves_nothing_either() {
    let refusal = Say::Plain(422, r#"{"error":"refused"}"#);
    let acquirer = Scripted::start(&[Say::Plain(503, ""), refusal], &[NOT_FOUND]).await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    tests::eventually("it was resent", || async { (acquirer.posts().len() >= 2).then_some(()) }).await;
    worker.stop().await;
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
    assert!(calls(&world).await.contains(&"charge UNKNOWN 422".to_owned()), "{:?}", calls(&world).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_send_that_is_refused_is_final() {
    for (status, end) in [(402, Status::Declined), (400, Status::Failed), (401, Status::Failed), (422, Status::Failed)]
    {
        let acquirer = Scripted::start(&[Say::Plain(status, r#"{"error":"refused"}"#)], &[FOUND]).await;
        let world = acquirer.world().await;
        let payment_id = world.accepted_one("pm_ok").await;
        let worker = world.worker();
        let payment = world.until(payment_id, end).await;
        worker.stop().await;
        assert_eq!(payment.decline_code.or(payment.failure_code).as_deref(), Some("refused"), "{status}");
        assert_eq!(calls(&world).await.len(), 1);
    }
}

/// A contract that does not protect a second send, and an acquirer that charges for every POST.
async fn unprotected(change: impl FnOnce(&mut shared::config::Acquirer)) -> World {
    let mut world = World::with(Settings { keys_honoured: false, ..repeating() }).await;
    profile(&mut world).lookup = Lookup::ByReference;
    change(profile(&mut world));
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_what_was_booked_is_found_by_reference_and_never_sent_again() {
    for method in ["pm_timeout_after_charge", "pm_reset", "pm_500_after_charge", "pm_truncated", "pm_not_found_then_ok"]
    {
        let mut world = unprotected(|acquirer| acquirer.keys = Keys::None).await;
        // Long enough for the look-ups that find nothing yet.
        profile(&mut world).absence_final_after_ms = 5_000;
        let payment_id = world.accepted_one(method).await;
        let _worker = world.worker();
        world.until(payment_id, Status::Paid).await;
        world.until_idle().await;
        let books = world.acquirer.ledger();
        assert_eq!((books.calls.posts, books.charges), (1, 1), "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_what_is_not_found_goes_to_a_person_and_is_never_sent_again() {
    for method in ["pm_timeout_before_charge", "pm_503", "pm_429", "pm_redirect"] {
        let world = unprotected(|acquirer| acquirer.keys = Keys::None).await;
        let payment_id = world.accepted_one(method).await;
        let _worker = world.worker();
        assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive, "{method}");
        assert_eq!(world.acquirer.ledger().calls.posts, 1, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_are_kept_for_nobody_knows_how_long_protect_no_second_send() {
    let world = unprotected(|acquirer| acquirer.ttl_h = None).await;
    let payment_id = world.accepted_one("pm_timeout_before_charge").await;
    let _worker = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive);
    assert_eq!(world.acquirer.ledger().calls.posts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn absence_proves_nothing_before_its_time() {
    let mut world = World::with(Settings { not_found_times: 4, ..repeating() }).await;
    profile(&mut world).absence_final_after_ms = 3_600_000;
    let payment_id = world.accepted_one("pm_not_found_then_ok").await;
    left_in_doubt(&world, payment_id).await;
    let posts = world.acquirer.ledger().calls.posts;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    let books = world.acquirer.ledger();
    assert_eq!((books.calls.posts, books.charges), (posts, 1), "no send after the look-ups that found nothing");
    assert!(books.calls.lookups >= 5, "{books:?}");
}
