use crate::{assert_problem, world};
use tests::Answer;
use tests::client::body;

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_400_and_says_so() {
    let (world, api) = world().await;
    let request = api.client.request(reqwest::Method::POST, "/v1/payments").json(&body("order-1", "pm_ok"));
    let answer = Answer::of(request.send().await.expect("an answer")).await;
    assert_problem(&answer, 400, "idempotency_key_missing");
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_none_is_400_and_makes_no_payment() {
    let (world, api) = world().await;
    let (long, quoted) = ("k".repeat(256), format!("\"{}\"", "k".repeat(256)));
    let keys: [&[u8]; 8] = [
        b"",
        b"   ",
        b"two words",
        b"\"two words\"",
        "schl\u{fc}ssel".as_bytes(),
        long.as_bytes(),
        quoted.as_bytes(),
        b"\"open",
    ];
    for key in keys {
        let value = reqwest::header::HeaderValue::from_bytes(key).expect("a header");
        let request = api.client.request(reqwest::Method::POST, "/v1/payments").header("Idempotency-Key", value);
        let answer = Answer::of(request.json(&body("order-1", "pm_ok")).send().await.expect("an answer")).await;
        assert_eq!(answer.status, 400, "{key:?}: {}", answer.text);
        assert!(answer.code().starts_with("idempotency_key_"), "{key:?}: {}", answer.text);
    }
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_key_lines_are_400_and_make_no_payment() {
    let (world, api) = world().await;
    let request = api.client.request(reqwest::Method::POST, "/v1/payments").json(&body("order-1", "pm_ok"));
    let request = request.header("Idempotency-Key", "key-1").header("Idempotency-Key", "key-1");
    let answer = Answer::of(request.send().await.expect("an answer")).await;
    assert_problem(&answer, 400, "idempotency_key_invalid");
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_key_is_accepted_and_repeated() {
    let (_world, api) = world().await;
    let key = "~".repeat(255);
    let first = api.client.post(&key, &body("order-1", "pm_ok")).await;
    assert_eq!(first.status, 202, "{}", first.text);
    assert_problem(&api.client.post(&key, &body("order-1", "pm_ok")).await, 409, "payment_in_progress");
}
