//! A graceful stop: whoever was accepted hears so, and nobody new is.

use crate::{get_with, heard, hold_accepts, order, path_of, stored, until_held, until_somebody_waits, world};
use std::time::Duration;
use tests::{Client, eventually};
use tokio::net::TcpStream;

/// Less than the waits in here.
const SOON: Duration = Duration::from_secs(6);

/// Waits until nobody new is let in.
async fn until_closed(base_url: &str) {
    let address = base_url.trim_start_matches("http://");
    eventually("the port is closed", || async { TcpStream::connect(address).await.is_err().then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_that_waits_is_answered_when_the_api_stops() {
    let (world, api) = world().await;
    let another = world.api().await;
    let client = api.client.clone();
    let posting = tokio::spawn(async move { client.pay("key-1", &order(1, "pm_ok")).await });
    until_somebody_waits(&world.database.pool).await;
    tokio::time::timeout(SOON, api.stop()).await.expect("it does not wait for the payment's end");
    let answer = heard(posting).await;
    assert_eq!((answer.status, answer.json["status"].as_str()), (202, Some("PENDING")), "{}", answer.text);
    assert_eq!((answer.header("Location"), answer.header("Retry-After")), (path_of(answer.payment_id()).as_str(), "1"));
    // It goes on where it was left.
    let _worker = world.worker();
    let end = another.client.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((end.status, end.payment_id()), (201, answer.payment_id()), "{}", end.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_in_the_middle_of_being_accepted_is_answered_when_the_api_stops() {
    let (world, api) = world().await;
    let held = hold_accepts(&world).await;
    let (client, base_url) = (api.client.clone(), api.base_url.clone());
    let posting = tokio::spawn(async move { client.pay("key-1", &order(1, "pm_ok")).await });
    until_held(&world, 1).await;
    let stopping = tokio::spawn(api.stop());
    until_closed(&base_url).await;
    assert!(!stopping.is_finished(), "it finishes what it accepted");
    held.rollback().await.expect("let go");
    let answer = heard(posting).await;
    assert_eq!((answer.status, answer.json["status"].as_str()), (202, Some("PENDING")), "{}", answer.text);
    heard(stopping).await;
    assert_eq!(stored(&world).await, [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_is_answered_when_the_api_stops() {
    let (world, api) = world().await;
    let accepted = api.client.post("key-1", &order(1, "pm_ok")).await;
    let (client, path) = (api.client.clone(), path_of(accepted.payment_id()));
    let reading = tokio::spawn(async move { get_with(&client, &path, &[("Prefer", "wait=25")]).await });
    until_somebody_waits(&world.database.pool).await;
    tokio::time::timeout(SOON, api.stop()).await.expect("it does not wait for a change");
    let answer = heard(reading).await;
    assert_eq!((answer.status, &answer.text), (200, &accepted.text));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_api_lets_nobody_in_and_ends_its_idle_connections() {
    let (world, api) = world().await;
    let (client, base_url) = (api.client.clone(), api.base_url.clone());
    // This one leaves a connection open, to be used again.
    assert_eq!(client.get("/healthz").await.status, 200);
    let silent = TcpStream::connect(base_url.trim_start_matches("http://")).await.expect("a connection");
    tokio::time::timeout(SOON, api.stop()).await.expect("nobody has asked it for anything");
    drop(silent);
    assert!(client.try_post("key-1", &order(1, "pm_ok"), None).await.is_err());
    assert!(Client::new(&base_url, &world.api_key).try_post("key-1", &order(1, "pm_ok"), None).await.is_err());
    assert_eq!(stored(&world).await, [0, 0]);
}
