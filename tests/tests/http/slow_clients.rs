//! Clients that never come to an end: none holds a place for longer than the configured time.

use crate::network::{Wire, head};
use crate::{stored, world};
use serde_json::Value;
use std::time::{Duration, Instant};
use tests::{Api, World};
use tokio::time::timeout;

/// Much less than the limit that an api instance has when nothing is configured.
const SOON: Duration = Duration::from_secs(6);

/// A world whose api instance waits 300 ms for a request.
async fn impatient_world() -> (World, Api) {
    let mut world = World::new().await;
    world.config.api.request_timeout_ms = 300;
    let api = world.api().await;
    (world, api)
}

/// Asserts 408 as a problem.
#[track_caller]
fn assert_late(heard: &str) {
    let (head, body) = heard.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {heard:?}"));
    assert!(head.starts_with("HTTP/1.1 408 ") && head.contains("application/problem+json"), "{heard}");
    let problem: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {heard}"));
    assert_eq!((&problem["code"], &problem["retryable"]), (&"request_timeout".into(), &true.into()), "{heard}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_is_cut_off() {
    let (world, api) = impatient_world().await;
    let head = head(&world, 100);
    for begun in ["", "P", &head[..head.len() - 2]] {
        let began = Instant::now();
        let mut wire = Wire::to(&api).await;
        wire.send(begun).await;
        let heard = wire.rest().await;
        assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 408 "), "{heard}");
        assert!(began.elapsed() < SOON, "{begun:?} took {:?}", began.elapsed());
    }
    // Nor does one byte after the other, each in time, keep a place.
    let began = Instant::now();
    let mut wire = Wire::to(&api).await;
    wire.send("GET /healthz HTTP/1.1\r\nX-Endless: ").await;
    wire.trickle(b'x').await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_end_is_408_and_nothing_is_stored() {
    let (world, api) = impatient_world().await;
    for begun in ["", "{", "{\"payment_intent_id\":\"order-1\",\"amount_minor\":1999"] {
        let began = Instant::now();
        let mut wire = Wire::to(&api).await;
        wire.send(&head(&world, 1_000)).await;
        wire.send(begun).await;
        assert_late(&wire.rest().await);
        assert!(began.elapsed() < SOON, "{begun:?} took {:?}", began.elapsed());
    }
    let began = Instant::now();
    let mut wire = Wire::to(&api).await;
    wire.send(&head(&world, 50_000)).await;
    wire.trickle(b' ').await;
    assert!(began.elapsed() < SOON, "one byte after the other: {:?}", began.elapsed());
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_in_endless_pieces_is_cut_off() {
    let (world, api) = impatient_world().await;
    let chunked = head(&world, 0).replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let mut wire = Wire::to(&api).await;
    wire.send(&chunked).await;
    wire.send("1\r\n{\r\n").await;
    assert_late(&wire.rest().await);
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_breaks_off_stores_nothing() {
    let (world, api) = world().await;
    let whole = crate::order(1, "pm_ok").to_string();
    let mut wire = Wire::to(&api).await;
    // All of it but for the last byte, which would only be a space.
    wire.send(&head(&world, whole.len() + 1)).await;
    wire.send(&whole).await;
    wire.end().await;
    let heard = wire.rest().await;
    assert!(heard.is_empty() || heard.starts_with("HTTP/1.1 400 "), "{heard}");
    assert_eq!(stored(&world).await, [0, 0]);
    assert_eq!(api.client.post("key-1", &crate::order(1, "pm_ok")).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_hold_up_nobody_else() {
    let (world, api) = world().await;
    let mut slow = Vec::new();
    for n in 0..50 {
        let mut wire = Wire::to(&api).await;
        wire.send(if n % 2 == 0 { "GET / HT" } else { "" }).await;
        slow.push(wire);
        let mut wire = Wire::to(&api).await;
        wire.send(&head(&world, 100)).await;
        slow.push(wire);
    }
    assert_eq!(api.client.post("key-1", &crate::order(1, "pm_ok")).await.status, 202);
    drop(slow);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_places_that_silent_clients_took_are_free_again_in_time() {
    let mut world = World::new().await;
    world.config.api.request_timeout_ms = 300;
    world.config.api.connections = 3;
    let api = world.api().await;
    let silent = [Wire::to(&api).await, Wire::to(&api).await, Wire::to(&api).await];
    let request = crate::order(1, "pm_ok");
    let answer = timeout(SOON, api.client.post("key-1", &request)).await.expect("a place");
    assert_eq!(answer.status, 202, "{}", answer.text);
    drop(silent);
}
