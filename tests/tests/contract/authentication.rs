use crate::{assert_problem, world};
use shared::merchant;
use tests::client::body;
use tests::{Answer, Client, World};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_credential_of_ours_everything_is_401() {
    let (_world, api) = world().await;
    let wrong = format!("payonce_sk_{}", "0".repeat(64));
    for path in ["/v1/payments", "/v1/payments/01890a5d-ac96-774b-bcce-b302099a8057", "/v1/events"] {
        let bare = Answer::of(api.client.http.get(format!("{}{path}", api.base_url)).send().await.expect("sent")).await;
        assert_problem(&bare, 401, "unauthorized");
        assert!(bare.header("WWW-Authenticate").starts_with("Bearer"), "{:?}", bare.headers);
        for credential in ["", "nonsense", &wrong] {
            assert_problem(&Client::new(&api.base_url, credential).get(path).await, 401, "unauthorized");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_credential_is_checked_before_key_and_body() {
    let (_world, api) = world().await;
    let stranger = Client::new(&api.base_url, "nonsense");
    let post = |client: &Client| client.request(reqwest::Method::POST, "/v1/payments").body("{");
    let answer = Answer::of(post(&stranger).send().await.expect("sent")).await;
    assert_problem(&answer, 401, "unauthorized");
    // With a credential the key comes before the body.
    let no_key =
        Answer::of(post(&api.client).header("Content-Type", "application/json").send().await.expect("sent")).await;
    assert_problem(&no_key, 400, "idempotency_key_missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_refused_from_the_next_request_on() {
    let (world, api) = world().await;
    let pool = &world.database.pool;
    let second = merchant::add_key(pool, world.merchant_id).await.expect("a key");
    let client = Client::new(&api.base_url, second.reveal());
    assert_eq!(client.post("key-1", &body("order-1", "pm_ok")).await.status, 202);
    let keys = merchant::keys(pool, world.merchant_id).await.expect("keys");
    merchant::revoke(pool, world.merchant_id, &keys[1].id.to_string()).await.expect("revoked");
    assert_problem(&client.post("key-1", &body("order-1", "pm_ok")).await, 401, "unauthorized");
    assert_eq!(api.client.get("/v1/payments").await.status, 200, "the other key still works");
}

#[tokio::test(flavor = "multi_thread")]
async fn merchants_do_not_see_each_other_and_share_no_keys() {
    let (world, api) = world().await;
    let mine = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let (_, key) = merchant::create(&world.database.pool, "another").await.expect("a merchant");
    let other = Client::new(&api.base_url, key.reveal());
    assert_problem(&other.get(&crate::location(mine.payment_id())).await, 404, "payment_not_found");
    assert_eq!(other.get("/v1/payments").await.json["data"], serde_json::json!([]));
    let theirs = other.post("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!(theirs.status, 202, "the same key and intent of another merchant: {}", theirs.text);
    assert_ne!(theirs.payment_id(), mine.payment_id());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limited_key_hears_429_before_its_request_is_looked_at() {
    let mut world = World::new().await;
    world.config.api.requests_per_second = 2;
    let api = world.api().await;
    let mut limited = None;
    for _ in 0..20 {
        let answer =
            Answer::of(api.client.request(reqwest::Method::POST, "/v1/payments").send().await.expect("sent")).await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
        assert_eq!(answer.status, 400, "{}", answer.text);
    }
    let limited = limited.expect("a limit of 2 per second stops 20 at once");
    assert_problem(&limited, 429, "rate_limited");
    assert!(!limited.header("Retry-After").is_empty());
}
