//! Errors that belong to no route, and what all errors have in common.

use crate::{assert_problem, get_with, order, send, world};
use reqwest::Method;
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_path_is_a_problem_with_or_without_a_credential() {
    let (_world, api) = world().await;
    let stranger = tests::Client::new(&api.base_url, "nobody");
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/payments/",
        "/v1/payments/x/y",
        "/v2/payments",
        "//v1/payments",
        "/V1/payments",
        "/%ff",
    ] {
        for client in [&api.client, &stranger] {
            for method in [Method::GET, Method::POST] {
                assert_problem(&send(client, method, path, &[]).await, 404, "not_found");
            }
        }
    }
    let secret = api.client.get("/nowhere?api_key=payonce_sk_secret").await;
    assert!(!secret.text.contains("payonce_sk_secret"), "{}", secret.text);
    let head = send(&api.client, Method::HEAD, "/nowhere", &[]).await;
    assert_eq!((head.status, head.text.as_str(), head.header("Content-Type")), (404, "", "application/problem+json"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_a_path_does_not_answer_is_a_problem_that_names_those_it_does() {
    let (_world, api) = world().await;
    let id = Uuid::now_v7();
    let cases: [(String, &[&str]); 7] = [
        ("/v1/payments".to_owned(), &["GET", "HEAD", "POST"]),
        (format!("/v1/payments/{id}"), &["GET", "HEAD"]),
        ("/v1/events".to_owned(), &["GET", "HEAD"]),
        ("/healthz".to_owned(), &["GET", "HEAD"]),
        ("/readyz".to_owned(), &["GET", "HEAD"]),
        ("/metrics".to_owned(), &["GET", "HEAD"]),
        ("/openapi.json".to_owned(), &["GET", "HEAD"]),
    ];
    for (path, allowed) in cases {
        for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::POST] {
            if allowed.contains(&method.as_str()) {
                continue;
            }
            let answer = send(&api.client, method, &path, &[]).await;
            assert_problem(&answer, 405, "method_not_allowed");
            let mut allow: Vec<_> = answer.header("Allow").split(',').map(str::trim).collect();
            allow.sort_unstable();
            assert_eq!(allow, allowed, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_is_taken_over_when_it_is_sane_and_made_when_it_is_not() {
    let (_world, api) = world().await;
    let longest = "x".repeat(128);
    for sane in ["checkout-7f.3_A", &longest] {
        let answer = get_with(&api.client, "/v1/payments/nonsense", &[("X-Request-Id", sane)]).await;
        assert_problem(&answer, 404, "payment_not_found");
        assert_eq!(answer.header("X-Request-Id"), sane);
        assert_eq!(answer.json["instance"], format!("/v1/payments/nonsense#{sane}"));
    }
    let too_long = "x".repeat(129);
    let mut made = Vec::new();
    for insane in ["", "two words", "a\"b", "a#b", "a=b", &too_long] {
        let answer = get_with(&api.client, "/v1/payments", &[("X-Request-Id", insane)]).await;
        assert_eq!(answer.status, 200);
        made.push(answer.header("X-Request-Id").parse::<Uuid>().expect("a new one"));
    }
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), 6, "each request has its own");
    // A good answer bears it too.
    assert!(!api.client.post("key-1", &order(1, "pm_ok")).await.header("X-Request-Id").is_empty());
}
