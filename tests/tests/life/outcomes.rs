//! Every answer that an acquirer can give leads to the right end, or to a person for the right reason.

use crate::scripted::{Say, Scripted};
use crate::{a_day_later, assert_ended_once, assert_one_key, left_in_doubt, until_in_review};
use sandbox::acquirer::{Acquirer, Method, Settings};
use shared::payment::life::Status;
use shared::review::Reason;
use std::net::SocketAddr;
use tests::{World, eventually};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many worlds are there at once.
static AT_ONCE: Semaphore = Semaphore::const_new(10);

/// Where a payment method leads.
#[derive(Clone, Copy, Debug)]
enum Leads {
    /// To a final state, whether or not the outcome is in doubt on the way.
    To(Status),
    /// To a final state, through doubt.
    ThroughDoubtTo(Status),
    /// To a person, at once.
    ToReview(Reason),
    /// Nowhere, until we give up.
    NowhereUntil(Reason),
}
use Leads::{NowhereUntil, ThroughDoubtTo, To, ToReview};

/// Where it leads when the fault acts on the first POST only, and when it acts on every one.
fn leads(method: Method) -> (Leads, Leads) {
    const PAID: Leads = To(Status::Paid);
    const DOUBT_PAID: Leads = ThroughDoubtTo(Status::Paid);
    let same = |leads| (leads, leads);
    match method {
        Method::Ok => same(PAID),
        Method::Declined | Method::NulText => same(To(Status::Declined)),
        Method::Rejected => same(To(Status::Failed)),
        // Nothing was heard: resent inside the charge with the same key.
        Method::Reset | Method::Truncated | Method::TimeoutAfterCharge | Method::Trickle => (PAID, DOUBT_PAID),
        Method::NotFoundThenOk => (PAID, DOUBT_PAID),
        Method::TimeoutBeforeCharge => (PAID, NowhereUntil(Reason::UnknownPastWindow)),
        // Something was heard, and proves nothing: looked up.
        Method::ServerErrorAfterCharge
        | Method::Malformed
        | Method::Html
        | Method::HugeBody
        | Method::EmptyBody
        | Method::ArrayBody
        | Method::InFlight
        | Method::ProcessingThenOk
        | Method::Slow => same(DOUBT_PAID),
        // Heard, and nothing is found: sent again when absence is proven.
        Method::Unavailable | Method::TooManyRequests | Method::Redirect => {
            (DOUBT_PAID, NowhereUntil(Reason::UnknownPastWindow))
        }
        Method::WrongAmount | Method::WrongCurrency | Method::WrongReference => same(ToReview(Reason::Conflicted)),
        Method::DoubleCharge => same(ToReview(Reason::DuplicateAtProvider)),
        Method::ProcessingForever => same(NowhereUntil(Reason::StuckProcessing)),
        Method::NewStatus => same(NowhereUntil(Reason::UnknownPastWindow)),
    }
}

/// How often money moves at the acquirer, whatever it tells us.
fn charges(method: Method, leads: Leads) -> u64 {
    match (method, leads) {
        (Method::DoubleCharge, _) => 2,
        (Method::NewStatus, _) | (_, ToReview(_)) => 1,
        (_, To(status) | ThroughDoubtTo(status)) => u64::from(status == Status::Paid),
        (_, NowhereUntil(_)) => 0,
    }
}

async fn leads_there(method: Method, faults_repeat: bool, leads: Leads) {
    let _turn = AT_ONCE.acquire().await.expect("never closed");
    let world = World::with(Settings { faults_repeat, ..Settings::default() }).await;
    let payment_id = world.accepted_one(method.id()).await;
    println!("{method}, repeating: {faults_repeat}: {leads:?}");
    match leads {
        To(status) | ThroughDoubtTo(status) => {
            let worker = world.worker();
            world.until(payment_id, status).await;
            assert_ended_once(&world, payment_id, status).await;
            worker.stop().await;
        }
        ToReview(reason) => {
            let worker = world.worker();
            assert_eq!(until_in_review(&world, payment_id).await, reason, "{method}");
            worker.stop().await;
        }
        NowhereUntil(reason) => {
            left_in_doubt(&world, payment_id).await;
            a_day_later(&world).await;
            let worker = world.worker();
            assert_eq!(until_in_review(&world, payment_id).await, reason, "{method}");
            worker.stop().await;
        }
    }
    let doubted = world.count("SELECT count(*) FROM payment_history WHERE to_status = 'UNKNOWN'").await > 0;
    assert!(doubted || matches!(leads, To(_)), "{method}: the doubt is on record");
    let books = world.acquirer.ledger();
    assert_eq!(books.charges, charges(method, leads), "{method}: {books:?}");
    assert_one_key(&world, payment_id);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_payment_method_of_the_sandbox_leads_where_it_must() {
    let mut worlds = JoinSet::new();
    for method in Method::ALL {
        let (once, always) = leads(*method);
        worlds.spawn(leads_there(*method, false, once));
        worlds.spawn(leads_there(*method, true, always));
    }
    worlds.join_all().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_new_to_us_is_doubt_until_one_is_known() {
    let acquirer = Scripted::start(
        &[Say::Charge(201, "paid_out", "txn_1")],
        &[Say::Charge(200, "settling", "txn_1"), Say::Charge(200, "approved", "txn_1")],
    )
    .await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    world.until(payment_id, Status::Paid).await;
    assert_eq!(acquirer.posts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_never_followed() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let elsewhere = Acquirer::start(any, Settings::default()).await.expect("an acquirer");
    let mut server = mockito::Server::new_async().await;
    for (method, status) in [("POST", 307), ("GET", 302)] {
        let path = mockito::Matcher::Regex("^/charges".to_owned());
        let location = format!("{}/charges", elsewhere.base_url());
        server.mock(method, path).with_status(status).with_header("Location", &location).create_async().await;
    }
    let mut world = World::new().await;
    crate::profile(&mut world).base_url = server.url();
    let payment_id = world.accepted_one("pm_ok").await;
    let _worker = world.worker();
    let lookups = "SELECT count(*) FROM provider_calls WHERE kind = 'lookup' AND http_status = 302";
    eventually("it was looked up", || async { (world.count(lookups).await >= 2).then_some(()) }).await;
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
    let calls = elsewhere.ledger().calls;
    assert_eq!((calls.posts, calls.lookups), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_trickles_holds_a_claim_no_longer_than_its_deadline() {
    let world = World::with(Settings { faults_repeat: true, ..Settings::default() }).await;
    let payment_id = world.accepted_one("pm_trickle").await;
    left_in_doubt(&world, payment_id).await;
    let took = "SELECT (extract(epoch FROM max(finished_at) - min(started_at)) * 1000)::bigint FROM provider_calls";
    let (took_ms, deadline_ms) = (world.count(took).await, 1_500);
    assert_eq!(
        world.count("SELECT count(*) FROM provider_calls WHERE outcome = 'UNKNOWN'").await,
        2,
        "sent, and resent"
    );
    // A body of a hundred bytes at one a second; the slack is for the commits around the calls.
    assert!(took_ms <= deadline_ms + 500, "{took_ms} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_text_is_stored_clean_and_stops_nothing() {
    let world = World::new().await;
    let payment_id = world.accepted_one("pm_nul_text").await;
    let worker = world.worker();
    let payment = world.until(payment_id, Status::Declined).await;
    assert_ended_once(&world, payment_id, Status::Declined).await;
    worker.stop().await;
    let message = payment.decline_message.expect("a message");
    assert!(message.chars().count() <= 500 && !message.contains(char::is_control), "{message:?}");
    assert!(message.starts_with("refused") && message.contains('💳') && message.ends_with('…'), "{message:?}");
    let kept = "SELECT count(*) FROM provider_calls c, events e
                WHERE c.message = $1 AND e.data::jsonb -> 'decline' ->> 'message' = $1";
    let kept: i64 = sqlx::query_scalar(kept).bind(&message).fetch_one(&world.database.pool).await.unwrap();
    assert_eq!(kept, 1, "the same text everywhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_of_a_megabyte_is_not_even_read_to_its_end() {
    let huge: &'static str = format!(r#"{{"error":"no","message":"{}"}}"#, "é".repeat(500_000)).leak();
    let acquirer = Scripted::start(&[Say::Plain(402, huge)], &[Say::Charge(200, "declined", "txn_1")]).await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Declined).await;
    let first = "SELECT count(*) FROM provider_calls WHERE kind = 'charge' AND outcome = 'UNKNOWN' AND code = 'answer_too_long'";
    assert_eq!(world.count(first).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_refusal_the_intent_is_free_again_and_after_paid_never() {
    let world = World::new().await;
    let api = world.api().await;
    let _worker = world.worker();
    let ways = [("pm_declined", "DECLINED"), ("pm_rejected", "FAILED"), ("pm_ok", "PAID")];
    for (n, (method, end)) in ways.into_iter().enumerate() {
        let answer = api.client.pay(&format!("key-{n}"), &tests::client::body("order-1", method)).await;
        assert_eq!(answer.json["status"], end, "{}", answer.text);
    }
    let again = api.client.pay("key-9", &tests::client::body("order-1", "pm_ok")).await;
    assert_eq!((again.status, again.code()), (409, "payment_already_paid"), "{}", again.text);
    assert_eq!(world.acquirer.ledger().charges, 1);
}
