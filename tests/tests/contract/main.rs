//! The HTTP contract, row by row, over real connections.

mod authentication;
mod bad_bodies;
mod bad_keys;
mod posts;
mod problems;
mod reads;
mod service;

use shared::payment::life::Status;
use tests::client::body;
use tests::{Answer, Api, Worker, World};
use uuid::Uuid;

/// A world with an API; payments stay PENDING until a worker is started.
async fn world() -> (World, Api) {
    let world = World::new().await;
    let api = world.api().await;
    (world, api)
}

/// Pays an order to its end.
async fn paid(world: &World, api: &Api, n: u32, method: &str, end: Status) -> (Worker, Answer) {
    let worker = world.worker();
    let answer = api.client.pay(&format!("key-{n}"), &body(&format!("order-{n}"), method)).await;
    assert_eq!((answer.status, answer.json["status"].as_str()), (201, Some(end.as_str())), "{}", answer.text);
    (worker, answer)
}

/// A POST with every header in the caller's hand.
async fn raw_post(api: &Api, key: &str, body: impl Into<reqwest::Body>, content_type: &str) -> Answer {
    let request = api.client.request(reqwest::Method::POST, "/v1/payments");
    let request = request.header("Idempotency-Key", key).header("Content-Type", content_type).body(body);
    Answer::of(request.send().await.expect("an answer")).await
}

/// Every problem is one: its type, its standard members, and a request id to quote.
fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text);
    assert_eq!(answer.header("Content-Type"), "application/problem+json");
    assert_eq!(answer.json["status"], status);
    for member in ["type", "title", "detail", "instance", "request_id"] {
        assert!(answer.json[member].is_string(), "{member}: {}", answer.text);
    }
    assert_eq!(answer.json["request_id"], answer.header("X-Request-Id"));
    assert!(answer.json["retryable"].is_boolean(), "{}", answer.text);
}

/// The id as text.
fn location(payment_id: Uuid) -> String {
    format!("/v1/payments/{payment_id}")
}
