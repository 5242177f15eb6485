use super::*;
use crate::acquirer::AcquirerClient;
use mockito::{Matcher, Mock, ServerGuard};
use shared::acquirer::{Keys, Lookup};
use shared::config::{Acquirer, Kind, Secret};
use shared::payment::Payment;
use shared::payment::life::{Outcome, Status};
use std::time::Duration;
use time::OffsetDateTime;
use uuid::Uuid;

/// 2026-12-01 00:00:00 UTC.
const FIRST_CALL_AT: i64 = 1_796_083_200;
/// When the list begins: a minute before.
const SINCE: &str = "1796083140";

fn payment(amount_minor: i64, currency: &str) -> Payment {
    let at = OffsetDateTime::from_unix_timestamp(FIRST_CALL_AT).expect("a time");
    Payment {
        merchant_id: Uuid::from_u128(1),
        id: Uuid::from_u128(0xabc),
        payment_intent_id: "order-1".to_owned(),
        idempotency_key: "key-1".to_owned(),
        status: Status::Unknown,
        amount_minor,
        currency: currency.to_owned(),
        payment_method_id: "pm_1".to_owned(),
        acquirer: "stripe".to_owned(),
        metadata: None,
        traceparent: None,
        transaction_id: None,
        decline_code: None,
        decline_message: None,
        failure_code: None,
        failure_message: None,
        attempt: 1,
        lease_until: None,
        first_call_at: Some(at),
        unknown_at: None,
        in_review: false,
        version: 1,
        created_at: at,
        updated_at: at,
        final_at: None,
    }
}

fn client(url: &str, change: impl FnOnce(&mut Acquirer)) -> AcquirerClient {
    let mut profile = Acquirer::at(url);
    (profile.kind, profile.lookup, profile.keys) = (Kind::Stripe, Lookup::ByReference, Keys::Honoured);
    profile.credential = Some(Secret("sk_test_1".to_owned()));
    change(&mut profile);
    AcquirerClient::new("stripe", &profile).expect("a client")
}

fn ask<'a>(payment: &'a Payment, transaction_id: Option<&'a str>) -> Ask<'a> {
    Ask { payment, transaction_id, request_id: Uuid::from_u128(7), deadline: Instant::now() + Duration::from_secs(8) }
}

/// An intent of the payment that [`payment`] makes.
fn intent(id: &str, status: &str) -> String {
    let reference = provider_key(Uuid::from_u128(0xabc));
    format!(
        r#"{{"object":"payment_intent","id":"{id}","status":"{status}","amount":1999,"currency":"eur","metadata":{{"payonce_payment_id":"{reference}"}}}}"#
    )
}

fn foreign(id: &str) -> String {
    format!(r#"{{"object":"payment_intent","id":"{id}","metadata":{{}}}}"#)
}

fn page(intents: &[String], has_more: bool) -> String {
    format!(r#"{{"object":"list","data":[{}],"has_more":{has_more}}}"#, intents.join(","))
}

/// One page of the list, `after` an intent.
fn list(server: &mut ServerGuard, after: Option<&str>, body: String) -> Mock {
    let after = after.map(|after| format!("&starting_after={after}")).unwrap_or_default();
    let page = format!("/v1/payment_intents?limit=100&created%5Bgte%5D={SINCE}{after}");
    server.mock("GET", page.as_str()).with_body(body)
}

fn search(server: &mut ServerGuard, body: String) -> Mock {
    let query = search_query(&provider_key(Uuid::from_u128(0xabc)));
    server
        .mock("GET", "/v1/payment_intents/search")
        .match_query(Matcher::AllOf(vec![
            Matcher::UrlEncoded("limit".to_owned(), "100".to_owned()),
            Matcher::UrlEncoded("query".to_owned(), query),
        ]))
        .with_body(body)
}

/// A list that never ends.
async fn endless(server: &mut ServerGuard) -> Mock {
    let any = Matcher::Any;
    let endless = server.mock("GET", "/v1/payment_intents").match_query(any).with_body(page(&[foreign("pi_9")], true));
    endless.expect(MOST_PAGES).create_async().await
}

#[tokio::test]
async fn a_charge_is_one_form_with_our_key_the_credential_and_the_pinned_version() {
    let mut server = mockito::Server::new_async().await;
    let reference = provider_key(Uuid::from_u128(0xabc));
    let form = [
        ("amount", "1999"),
        ("currency", "eur"),
        ("payment_method", "pm_1"),
        ("payment_method_types[]", "card"),
        ("confirm", "true"),
        ("metadata[payonce_payment_id]", &reference),
    ];
    let form = form.map(|(name, value)| Matcher::UrlEncoded(name.to_owned(), value.to_owned()));
    let charge = server
        .mock("POST", "/v1/payment_intents")
        .match_header("content-type", "application/x-www-form-urlencoded")
        .match_header("idempotency-key", reference.as_str())
        .match_header("stripe-version", API_VERSION)
        .match_header("authorization", "Bearer sk_test_1")
        .match_body(Matcher::AllOf(form.to_vec()))
        .with_body(intent("pi_1", "succeeded"))
        .create_async()
        .await;
    let answer = client(&server.url(), |_| {}).charge(ask(&payment(1999, "EUR"), None), false).await;
    charge.assert_async().await;
    assert_eq!((answer.outcome, answer.transaction_id.as_deref()), (Outcome::Success, Some("pi_1")));
}

#[tokio::test]
async fn an_intent_whose_id_is_known_is_asked_for_by_it() {
    let mut server = mockito::Server::new_async().await;
    let one = server.mock("GET", "/v1/payment_intents/pi_1").with_body(intent("pi_1", "requires_action"));
    let one = one.match_header("stripe-version", API_VERSION).create_async().await;
    let answer = client(&server.url(), |_| {}).lookup(ask(&payment(1999, "EUR"), Some("pi_1"))).await;
    one.assert_async().await;
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Processing, Some("requires_action")));
}

#[tokio::test]
async fn else_it_is_looked_for_in_the_list_since_the_first_call_page_by_page() {
    let mut server = mockito::Server::new_async().await;
    let first = list(&mut server, None, page(&[foreign("pi_9"), foreign("pi_8")], true)).expect(2).create_async().await;
    let second = list(&mut server, Some("pi_8"), page(&[intent("pi_7", "succeeded")], false));
    let second = second.expect(2).create_async().await;
    let (bank, payment) = (client(&server.url(), |_| {}), payment(1999, "EUR"));
    let found = bank.lookup(ask(&payment, Some("../x"))).await;
    assert_eq!((found.outcome, found.transaction_id.as_deref()), (Outcome::Success, Some("pi_7")));
    let listed = bank.list(ask(&payment, Some("pi_7"))).await.expect("it can list");
    assert_eq!(listed, found, "the scanner is told of all of them, whatever id is known");
    first.assert_async().await;
    second.assert_async().await;
}

#[tokio::test]
async fn it_is_absent_only_when_the_whole_list_was_seen() {
    let mut server = mockito::Server::new_async().await;
    let (bank, payment) = (client(&server.url(), |_| {}), payment(1999, "EUR"));
    let whole = list(&mut server, None, page(&[foreign("pi_9")], false)).create_async().await;
    assert_eq!(bank.lookup(ask(&payment, None)).await.outcome, Outcome::NotFound);
    whole.remove_async().await;
    list(&mut server, None, page(&[foreign("pi_9")], true)).create_async().await;
    list(&mut server, Some("pi_9"), String::new()).with_status(500).create_async().await;
    let answer = bank.lookup(ask(&payment, None)).await;
    assert_eq!((answer.outcome, answer.http_status), (Outcome::Unknown, Some(500)));
}

#[tokio::test]
async fn a_list_that_is_too_long_is_searched_and_only_a_known_lag_makes_that_a_proof() {
    let mut server = mockito::Server::new_async().await;
    let payment = payment(1999, "EUR");
    let pages = endless(&mut server).await;
    let nothing = search(&mut server, page(&[], false)).create_async().await;
    let answer = client(&server.url(), |_| {}).lookup(ask(&payment, None)).await;
    assert_eq!((answer.outcome, answer.code.as_deref()), (Outcome::Unknown, Some("search_lags")));
    pages.assert_async().await;
    let lagging = client(&server.url(), |profile| profile.lookup_lag_ms = 60_000);
    assert_eq!(lagging.lookup(ask(&payment, None)).await.outcome, Outcome::NotFound);
    nothing.remove_async().await;
    search(&mut server, page(&[intent("pi_1", "succeeded")], false)).create_async().await;
    let answer = client(&server.url(), |_| {}).lookup(ask(&payment, None)).await;
    assert_eq!((answer.outcome, answer.transaction_id.as_deref()), (Outcome::Success, Some("pi_1")));
}

#[tokio::test]
async fn paging_ends_in_time_for_a_search() {
    let mut server = mockito::Server::new_async().await;
    let pages = endless(&mut server).await.expect(1);
    search(&mut server, page(&[intent("pi_1", "succeeded")], false)).create_async().await;
    let payment = payment(1999, "EUR");
    let soon = Ask { deadline: Instant::now() + Duration::from_secs(4), ..ask(&payment, None) };
    let answer = client(&server.url(), |_| {}).lookup(soon).await;
    pages.assert_async().await;
    assert_eq!(answer.outcome, Outcome::Success, "two calls of 3.5 s do not fit into 4 s, one does");
}

#[tokio::test]
async fn a_server_without_the_filter_is_asked_for_the_whole_list() {
    let mut server = mockito::Server::new_async().await;
    let unfiltered = Matcher::Regex("^limit=100$".to_owned());
    let whole = server.mock("GET", "/v1/payment_intents").match_query(unfiltered);
    let whole = whole.with_body(page(&[intent("pi_1", "succeeded")], false)).create_async().await;
    let refused = r#"{"error":{"type":"invalid_request_error","message":"Unexpected created"}}"#;
    list(&mut server, None, refused.to_owned()).with_status(400).create_async().await;
    let answer = client(&server.url(), |_| {}).lookup(ask(&payment(1999, "EUR"), None)).await;
    whole.assert_async().await;
    assert_eq!(answer.outcome, Outcome::Success);
}

#[tokio::test]
async fn a_probe_is_a_list_of_one() {
    let mut server = mockito::Server::new_async().await;
    let one = server.mock("GET", "/v1/payment_intents?limit=1").with_body(page(&[], false)).create_async().await;
    assert_eq!(client(&server.url(), |_| {}).probe().await, Ok(200));
    one.assert_async().await;
}

#[test]
fn amounts_are_told_as_stripe_counts_them_or_not_at_all() {
    let bank = client("http://127.0.0.1:1", |_| {});
    let told = |amount, currency| bank.amount(&payment(amount, currency)).ok();
    let same = [("EUR", 1999), ("HUF", 1999), ("TWD", 1999), ("JPY", 500), ("KRW", 500), ("CLP", 500), ("XOF", 500)];
    for (currency, amount) in same {
        assert_eq!(told(amount, currency), Some(amount), "{currency}");
    }
    assert_eq!([told(5, "ISK"), told(5, "UGX"), told(1200, "MGA")], [Some(500), Some(500), Some(12)]);
    assert_eq!([told(5120, "KWD"), told(5124, "KWD"), told(1250, "MGA")], [Some(5120), None, None]);
    let whole = client("http://127.0.0.1:1", |profile| profile.exponent_overrides = [("UGX".to_owned(), 0)].into());
    assert_eq!(whole.amount(&payment(5, "UGX")).ok(), Some(5), "the profile is stronger");
}
