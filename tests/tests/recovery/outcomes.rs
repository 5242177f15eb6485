//! Every answer that an acquirer can give leads to the right end, or to a person for the right reason.

use crate::posted;
use sandbox::acquirer::Settings;
use shared::payment::Payment;
use shared::payment::life::Status;
use shared::review::Reason;
use tests::{World, eventually};

/// Lets a payment run until it is final or in review.
async fn ended(world: &World, method: &str) -> (Payment, Option<Reason>) {
    let payment_id = posted(world, method).await;
    let _worker = world.worker();
    let payment = eventually(&format!("{method} ended"), || async {
        let payment = world.payment(payment_id).await;
        (payment.status.is_final() || payment.in_review).then_some(payment)
    })
    .await;
    let reviews = shared::review::open_of(&world.database.pool, payment.key()).await.expect("reviews");
    (payment, reviews.first().map(|review| review.reason))
}

async fn assert_paid_once(method: &str, settings: Settings) {
    let world = World::with(settings).await;
    let (payment, review) = ended(&world, method).await;
    assert_eq!((payment.status, review), (Status::Paid, None), "{method}");
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.duplicates.len()), (1, 0), "{method}: {ledger:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_ends_paid_by_look_up_and_one_charge() {
    for method in ["pm_malformed", "pm_truncated", "pm_html", "pm_empty_body", "pm_array_body", "pm_huge_body"] {
        assert_paid_once(method, Settings { faults_repeat: true, ..Settings::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_is_slow_busy_or_cut_off_ends_paid_by_one_charge() {
    for method in
        ["pm_reset", "pm_409_in_flight", "pm_500_after_charge", "pm_timeout_after_charge", "pm_trickle", "pm_slow"]
    {
        assert_paid_once(method, Settings { faults_repeat: true, ..Settings::default() }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_did_not_take_it_at_first_ends_paid_by_one_charge() {
    for method in ["pm_503", "pm_429", "pm_timeout_before_charge", "pm_redirect"] {
        assert_paid_once(method, Settings::default()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_for_something_else_is_never_paid() {
    for method in ["pm_wrong_amount", "pm_wrong_currency", "pm_wrong_reference"] {
        let world = World::new().await;
        let (payment, review) = ended(&world, method).await;
        assert_eq!((payment.status, review), (Status::Unknown, Some(Reason::Conflicted)), "{method}");
        assert_eq!(world.count("SELECT count(*) FROM events").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_charges_under_one_key_go_to_a_person() {
    let world = World::new().await;
    let (payment, review) = ended(&world, "pm_double_charge").await;
    assert_eq!((payment.status, review), (Status::Unknown, Some(Reason::DuplicateAtProvider)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_ends_with_the_acquirers_code() {
    let world = World::new().await;
    let (payment, _) = ended(&world, "pm_declined").await;
    assert_eq!((payment.status, payment.decline_code.as_deref()), (Status::Declined, Some("insufficient_funds")));
    let world = World::new().await;
    let (payment, _) = ended(&world, "pm_rejected").await;
    assert_eq!(payment.status, Status::Failed);
    assert!(payment.failure_code.is_some() && payment.final_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_text_from_the_acquirer_is_stored_clean_and_stops_nothing() {
    let world = World::new().await;
    let (payment, _) = ended(&world, "pm_nul_text").await;
    assert_eq!(payment.status, Status::Declined);
    let message = payment.decline_message.expect("a message");
    assert!(message.chars().count() <= 500 && !message.chars().any(char::is_control), "{message:?}");
}
