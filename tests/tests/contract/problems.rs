use crate::{assert_problem, world};
use tests::{Answer, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_problems_too() {
    let (_world, api) = world().await;
    assert_problem(&api.client.get("/v1/nothing").await, 404, "not_found");
    let request = api.client.request(reqwest::Method::DELETE, "/v1/payments");
    let answer = Answer::of(request.send().await.expect("an answer")).await;
    assert_problem(&answer, 405, "method_not_allowed");
    assert!(answer.header("Allow").contains("POST") && answer.header("Allow").contains("GET"), "{:?}", answer.headers);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sane_request_id_is_echoed_and_another_one_replaced() {
    let (_world, api) = world().await;
    for (sent, echoed) in [("checkout-42", true), ("with space", false)] {
        let request = api.client.request(reqwest::Method::GET, "/v1/payments").header("X-Request-Id", sent);
        let answer = Answer::of(request.send().await.expect("an answer")).await;
        assert_eq!(answer.header("X-Request-Id") == sent, echoed, "{:?}", answer.headers);
        assert!(!answer.header("X-Request-Id").is_empty());
    }
}

/// What the server says to a client that sends `text` and then nothing, until it closes.
async fn heard_by_a_slow_client(world: &World, text: &str) -> String {
    let api = world.api().await;
    let mut stream = TcpStream::connect(api.base_url.trim_start_matches("http://")).await.expect("a connection");
    stream.write_all(text.replace("KEY", &world.api_key).as_bytes()).await.expect("sent");
    let mut heard = String::new();
    let reading = tokio::time::timeout(std::time::Duration::from_secs(20), stream.read_to_string(&mut heard));
    reading.await.expect("the server does not wait for ever").expect("text");
    heard
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_ends_its_request_is_cut_off() {
    let mut world = World::new().await;
    world.config.api.request_timeout_ms = 300;
    heard_by_a_slow_client(&world, "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bea").await;
    let head = "POST /v1/payments HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer KEY\r\nIdempotency-Key: key-1\r\n\
                Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"payment_intent_id\"";
    let heard = heard_by_a_slow_client(&world, head).await;
    assert!(heard.starts_with("HTTP/1.1 408") && heard.contains("application/problem+json"), "{heard}");
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}
