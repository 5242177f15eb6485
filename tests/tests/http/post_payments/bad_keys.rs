//! The `Idempotency-Key` header: exactly one key of 1 to 255 visible ASCII characters.

use crate::{assert_problem, order, stored, world};
use reqwest::Method;
use reqwest::header::HeaderValue;
use tests::{Answer, Client};

/// Posts with these lines of the header.
async fn post_with(client: &Client, lines: &[&[u8]]) -> Answer {
    let line = |bytes: &&[u8]| HeaderValue::from_bytes(bytes).expect("bytes that a header can hold");
    let request = client.request(Method::POST, "/v1/payments").json(&order(1, "pm_ok"));
    let request = lines.iter().map(line).fold(request, |request, value| request.header("Idempotency-Key", value));
    Answer::of(request.send().await.expect("an answer")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_key_is_400_and_says_that_it_is_missing() {
    let (world, api) = world().await;
    assert_problem(&post_with(&api.client, &[]).await, 400, "idempotency_key_missing");
    assert_eq!(stored(&world).await, [0, 0]);
}

/// Case 13: never a 500, and never two payments.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_one_key_is_400_and_makes_no_payment() {
    let (world, api) = world().await;
    let (long, longer, quoted) = ("k".repeat(256), "k".repeat(8_000), format!("\"{}\"", "k".repeat(256)));
    let (two_bytes_each, unicode) = ("é".repeat(127), "ключ".to_owned());
    let lines: [&[&[u8]]; 24] = [
        &[b""],
        &[b"   "],
        &[b"\"\""],
        &[b"two words"],
        &[b"\"two words\""],
        &[b"tab\tinside"],
        &[b"key-1, key-1"],
        &[two_bytes_each.as_bytes()],
        &[unicode.as_bytes()],
        &[b"latin\xe9"],
        &[long.as_bytes()],
        &[longer.as_bytes()],
        &[quoted.as_bytes()],
        &[b"\""],
        &[b"\"open"],
        &[b"\"a\"b"],
        &[b"\"a\";p=1"],
        &[b"\"a\\b\""],
        &[b"\"a\\"],
        // Two lines are no key, also when they say the same or one of them says nothing.
        &[b"key-1", b"key-1"],
        &[b"key-1", b"key-2"],
        &[b"key-1", b""],
        &[b"", b"key-1"],
        &[b"\"key-1\"", b"key-1"],
    ];
    for key in lines {
        let answer = post_with(&api.client, key).await;
        assert_eq!((answer.status, answer.code()), (400, "idempotency_key_invalid"), "{key:?}: {}", answer.text);
        assert_problem(&answer, 400, "idempotency_key_invalid");
        assert!(!answer.text.contains("key-1"), "a key is not repeated in an answer: {}", answer.text);
    }
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_visible_character_and_255_of_them_are_a_key() {
    let (world, api) = world().await;
    let all: String = ('!'..='~').filter(|c| *c != '"').chain(['"']).collect();
    let keys = [all, "k".repeat(255), "~".repeat(255), "'; DROP TABLE payments; --".replace(' ', "+"), "0".to_owned()];
    for (n, key) in keys.iter().enumerate() {
        let first = api.client.post(key, &order(n, "pm_ok")).await;
        assert_eq!(first.status, 202, "{key}: {}", first.text);
        let repeat = api.client.post(key, &order(n, "pm_ok")).await;
        assert_problem(&repeat, 409, "payment_in_progress");
        assert_eq!(repeat.payment_id(), first.payment_id());
    }
    assert_eq!(stored(&world).await, [5, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_differ_in_case_alone_are_two_keys() {
    let (world, api) = world().await;
    assert_eq!(api.client.post("Key-1", &order(1, "pm_ok")).await.status, 202);
    assert_eq!(api.client.post("key-1", &order(2, "pm_ok")).await.status, 202);
    assert_eq!(stored(&world).await, [2, 2]);
}
