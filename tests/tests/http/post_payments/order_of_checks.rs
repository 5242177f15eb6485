//! 401, then 429, then the key, then the body, then the claim, where 422 comes before 409.

use crate::network::Wire;
use crate::{assert_problem, order, post_bytes, send, stored, world};
use reqwest::Method;
use shared::merchant;
use tests::{Answer, Client, World, eventually};

/// A POST of this key in which nothing else is right.
async fn post_nonsense(client: &Client, key: &str) -> Answer {
    let headers = [("Idempotency-Key", key), ("Content-Type", "text/plain"), ("Prefer", "wait=5")];
    send(client, Method::POST, "/v1/payments", &headers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_credential_is_looked_at_first() {
    let (world, api) = world().await;
    let stranger = Client::new(&api.base_url, "payonce_sk_nobody");
    assert_problem(&post_nonsense(&stranger, "two words").await, 401, "unauthorized");
    assert_problem(&stranger.post("key-1", &order(1, "pm_ok")).await, 401, "unauthorized");
    // Before the body is there at all.
    let mut wire = Wire::to(&api).await;
    wire.send("POST /v1/payments HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1000\r\n\r\n").await;
    assert!(wire.rest().await.starts_with("HTTP/1.1 401 "));
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_comes_after_the_credential_and_before_the_key() {
    let mut world = World::new().await;
    world.config.api.requests_per_second = 1;
    let api = world.api().await;
    // However slow this machine is: each of these takes a token, and they come back at one per second.
    let limited = eventually("the limit", || async {
        let answer = post_nonsense(&api.client, "two words").await;
        match answer.status {
            429 => Some(answer),
            _ => {
                assert_problem(&answer, 400, "idempotency_key_invalid");
                None
            }
        }
    })
    .await;
    assert_problem(&limited, 429, "rate_limited");
    assert_eq!((limited.header("Retry-After"), limited.json["retryable"].as_bool()), ("1", Some(true)));
    // Whoever is nobody cannot be told about limits, and another key has its own.
    let stranger = Client::new(&api.base_url, "payonce_sk_nobody");
    for _ in 0..5 {
        assert_problem(&post_nonsense(&stranger, "two words").await, 401, "unauthorized");
    }
    let second = merchant::add_key(&world.database.pool, world.merchant_id).await.expect("a key");
    let second = Client::new(&api.base_url, second.reveal());
    assert_eq!(second.post("key-1", &order(1, "pm_ok")).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_looked_at_before_the_body() {
    let (world, api) = world().await;
    let missing = send(&api.client, Method::POST, "/v1/payments", &[("Content-Type", "text/plain")]).await;
    assert_problem(&missing, 400, "idempotency_key_missing");
    assert_problem(&post_nonsense(&api.client, "two words").await, 400, "idempotency_key_invalid");
    assert_problem(&post_bytes(&api.client, "two words", "{").await, 400, "idempotency_key_invalid");
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_body_is_looked_at_before_the_claim() {
    let (_world, api) = world().await;
    assert_eq!(api.client.post("key-1", &order(1, "pm_ok")).await.status, 202);
    // With a good body each of these would hear 409 or 422.
    assert_problem(&post_nonsense(&api.client, "key-1").await, 415, "unsupported_media_type");
    assert_problem(&post_bytes(&api.client, "key-1", "{").await, 400, "invalid_request");
    assert_problem(&post_bytes(&api.client, "key-2", order(1, "two words").to_string()).await, 400, "invalid_request");
    assert_problem(&post_bytes(&api.client, "key-1", " ".repeat(64 * 1024 + 1)).await, 413, "payload_too_large");
    assert_problem(&api.client.post("key-1", &order(1, "pm_other")).await, 422, "idempotency_key_reuse");
    assert_problem(&api.client.post("key-1", &order(1, "pm_ok")).await, 409, "payment_in_progress");
}
