//! Every fault of the sandbox against every contract that is shipped, judged by the acquirer's own books: no second
//! charge, never PAID without a charge that matches, and every payment ends or lies in front of a person for the right
//! reason.

use cli::profiles::Played;
use sandbox::acquirer::{Method, ReferenceView, Settings};
use shared::acquirer::{Keys, provider_key};
use shared::payment::Payment;
use shared::payment::life::Status;
use shared::review::{Reason, open_of};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tests::World;
use uuid::Uuid;

/// A world whose acquirer plays the contract.
async fn world_like(name: &str) -> World {
    let played = Played::named(name).expect("a profile").hurried();
    // No API listens here.
    let settings = Settings { webhook_url: None, webhook_secret: None, ..played.settings.clone() };
    let mut world = World::with(settings).await;
    let mut config = played.config().expect("it agrees with itself");
    let profile = config.acquirers.get_mut(name).expect("the profile");
    profile.base_url = world.acquirer.base_url();
    world.config = config;
    world
}

/// Accepts one payment for each method.
async fn one_of_each(world: &World) -> BTreeMap<&'static str, Uuid> {
    let mut ids = BTreeMap::new();
    let process = tests::world::Process::start(&world.database.url);
    for (n, method) in Method::ALL.iter().enumerate() {
        let request = world.request(n, method.id());
        ids.insert(method.id(), request.payment_id);
        let accepted = process.committer.write(shared::committer::Write::Accept(request)).await;
        accepted.expect("accepted");
    }
    ids
}

/// What became of a payment, in a line; what must not be fails the test.
async fn judged(world: &World, profile: &str, method: &str, payment_id: Uuid) -> String {
    let payment = world.payment(payment_id).await;
    let books = world.acquirer.ledger_of(&provider_key(payment_id));
    let reviews = open_of(&world.database.pool, payment.key()).await.expect("reviews");
    let reasons: Vec<Reason> = reviews.iter().map(|review| review.reason).collect();
    assert_books(profile, method, &payment, &books);
    match (payment.status, reasons.as_slice()) {
        (Status::Unknown, [reason]) => format!("in review: {}", reason.as_str()),
        (status, []) if status.is_final() => status.to_string(),
        (status, reasons) => panic!("{profile} {method}: {status} with {reasons:?}"),
    }
}

fn assert_books(profile: &str, method: &str, payment: &Payment, books: &ReferenceView) {
    let approved: Vec<&str> = books
        .entries
        .iter()
        .filter(|entry| entry.status == "approved")
        .map(|entry| entry.transaction_id.as_str())
        .collect();
    // Charged twice for one POST, by the acquirer's own doing.
    let own_doing = method == Method::DoubleCharge.id();
    assert!(approved.len() < 2 || own_doing, "{profile} {method}: charged twice: {books:?}");
    assert_eq!(payment.lease_until, None, "{profile} {method}");
    match payment.status {
        Status::Paid => {
            let transaction_id = payment.transaction_id.as_deref().expect("PAID has one");
            assert!(approved.contains(&transaction_id), "{profile} {method}: {payment:?} {books:?}");
        }
        Status::Declined | Status::Failed => assert!(approved.is_empty(), "{profile} {method}: {payment:?} {books:?}"),
        Status::Pending | Status::Unknown => {}
    }
}

async fn every_fault_against(name: &str) {
    let world = world_like(name).await;
    let ids = one_of_each(&world).await;
    let worker = world.worker();
    world.until_idle().await;
    worker.stop().await;
    let mut table = String::new();
    for (method, payment_id) in &ids {
        let end = judged(&world, name, method, *payment_id).await;
        writeln!(table, "{method:<26} {end}").expect("a text grows");
    }
    if world.config.acquirers[name].keys == Keys::None {
        let posts = ids.values().map(|id| world.acquirer.ledger_of(&provider_key(*id)).calls.posts);
        assert!(posts.clone().all(|posts| posts == 1), "without keys nothing is sent twice: {posts:?}");
    }
    insta::assert_snapshot!(name, table);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_against_a_contract_like_stripe_s() {
    every_fault_against("stripe_like").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_against_a_contract_like_adyen_s() {
    every_fault_against("adyen_like").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_against_a_contract_like_checkout_com_s() {
    every_fault_against("checkout_like").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_against_a_contract_like_worldline_s() {
    every_fault_against("worldline_like").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_against_a_contract_like_increase_s() {
    every_fault_against("increase_like").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_against_an_acquirer_without_keys() {
    every_fault_against("no_keys").await;
}
