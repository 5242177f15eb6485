//! Who calls: merchants and their API keys.

use crate::{assert_problem, ended, order, stored, world};
use shared::merchant;
use shared::payment::life::Status;
use tests::{Answer, Client};

/// Asks with these `Authorization` lines.
async fn ask(client: &Client, path: &str, lines: &[&str]) -> Answer {
    let request = client.http.get(format!("{}{path}", client.base_url));
    let request = lines.iter().fold(request, |request, line| request.header("Authorization", *line));
    Answer::of(request.send().await.expect("an answer")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_one_credential_of_ours_every_v1_path_is_401() {
    let (world, api) = world().await;
    let good = format!("Bearer {}", world.api_key);
    let unknown = format!("Bearer payonce_sk_{}", "0".repeat(64));
    let cut = &good[..good.len() - 1];
    let (longer, long) = (format!("{good}0"), format!("Bearer {}", "x".repeat(5_000)));
    let basic = format!("Basic {}", world.api_key);
    let hash = "Bearer \\xdeadbeef";
    let lines: [&[&str]; 11] = [
        &[],
        &[""],
        &["Bearer"],
        &["Bearer "],
        &[&unknown],
        &[cut],
        &[&longer],
        &[&long],
        &[&basic],
        &[hash],
        &[&good, &good],
    ];
    for path in ["/v1/payments", "/v1/payments/0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "/v1/events"] {
        for credential in lines {
            let answer = ask(&api.client, path, credential).await;
            assert_problem(&answer, 401, "unauthorized");
            assert!(answer.header("WWW-Authenticate").starts_with("Bearer "), "{:?}", answer.headers);
            assert!(!answer.text.contains("payonce_sk_"), "a credential is not repeated: {}", answer.text);
        }
    }
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let answer = ask(&api.client, "/v1/payments", &[&format!("{scheme} {}", world.api_key)]).await;
        assert_eq!(answer.status, 200, "{scheme}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_is_401_from_the_next_request_on() {
    let (world, api) = world().await;
    let another = world.api().await;
    let pool = &world.database.pool;
    assert_eq!(another.client.post("key-1", &order(1, "pm_ok")).await.status, 202);
    let keys = merchant::keys(pool, world.merchant_id).await.expect("keys");
    merchant::revoke(pool, world.merchant_id, &keys[0].prefix).await.expect("revoked");
    for client in [&api.client, &another.client] {
        assert_problem(&client.get("/v1/payments").await, 401, "unauthorized");
        assert_problem(&client.post("key-1", &order(1, "pm_ok")).await, 401, "unauthorized");
        assert_problem(&client.post("key-2", &order(2, "pm_ok")).await, 401, "unauthorized");
    }
    assert_eq!(stored(&world).await, [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_rotates_its_keys_without_a_gap() {
    let (world, api) = world().await;
    let pool = &world.database.pool;
    let first = api.client.post("key-1", &order(1, "pm_ok")).await;
    let new = merchant::add_key(pool, world.merchant_id).await.expect("a key");
    let new = Client::new(&api.base_url, new.reveal());
    // Both are live, and they are the same merchant: same payments, same idempotency keys.
    let repeat = new.post("key-1", &order(1, "pm_ok")).await;
    assert_problem(&repeat, 409, "payment_in_progress");
    assert_eq!(repeat.payment_id(), first.payment_id());
    assert_eq!(api.client.get("/v1/payments").await.text, new.get("/v1/payments").await.text);
    let old = merchant::keys(pool, world.merchant_id).await.expect("keys")[0].id;
    merchant::revoke(pool, world.merchant_id, &old.to_string()).await.expect("revoked");
    assert_problem(&api.client.get("/v1/payments").await, 401, "unauthorized");
    let _worker = world.worker();
    let end = new.pay("key-1", &order(1, "pm_ok")).await;
    assert_eq!((end.status, end.payment_id()), (201, first.payment_id()), "{}", end.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_merchants_share_no_keys_and_no_intents() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let (_, key) = merchant::create(&world.database.pool, "another").await.expect("a merchant");
    let another = Client::new(&api.base_url, key.reveal());
    let mine = ended(&api.client, 1, "pm_ok", Status::Paid).await;
    let theirs = ended(&another, 1, "pm_ok", Status::Paid).await;
    assert_ne!(mine.payment_id(), theirs.payment_id());
    assert_eq!((mine.header("Idempotent-Replayed"), theirs.header("Idempotent-Replayed")), ("", ""));
    // Nor does one hear what the other's request was.
    assert_eq!(another.post("key-1", &order(1, "pm_ok")).await.text, theirs.text);
    assert_eq!(another.post("key-2", &order(2, "pm_declined")).await.status, 202);
    assert_eq!(api.client.post("key-2", &order(3, "pm_ok")).await.status, 202);
    assert_eq!(world.acquirer.ledger_of(&shared::acquirer::provider_key(theirs.payment_id())).charges, 1);
}
