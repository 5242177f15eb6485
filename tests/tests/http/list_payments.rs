//! `GET /v1/payments`.

use crate::{ENDS, assert_problem, ended, in_doubt, order, world};
use serde_json::{Value, json};
use shared::merchant;
use tests::{Answer, Client};
use uuid::Uuid;

/// The ids of a page.
fn ids(page: &Answer) -> Vec<Uuid> {
    assert_eq!((page.status, &page.json["object"]), (200, &json!("list")), "{}", page.text);
    let id = |payment: &Value| payment["id"].as_str().expect("an id").parse().expect("a UUID");
    page.json["data"].as_array().expect("a list").iter().map(id).collect()
}

/// Everything that a query finds, page by page; `between` happens after each page.
async fn walk(client: &Client, query: &str, limit: usize, mut between: impl AsyncFnMut()) -> Vec<Uuid> {
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/payments?limit={limit}{query}{cursor}")).await;
        let ids = ids(&page);
        seen.extend(&ids);
        between().await;
        match page.json["next_cursor"].as_str() {
            Some(next) => {
                assert_eq!(ids.len(), limit, "only the last page is shorter");
                cursor = format!("&cursor={next}");
            }
            None => return seen,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_pages_together_miss_no_payment_and_double_none() {
    let (world, api) = world().await;
    let mut posted = Vec::new();
    for n in 0..24 {
        posted.insert(0, api.client.post(&format!("key-{n}"), &order(n, "pm_ok")).await.payment_id());
    }
    for limit in [1, 5, 6, 24, 25, 100] {
        assert_eq!(walk(&api.client, "", limit, async || {}).await, posted, "newest first, {limit} a page");
    }
    assert_eq!(ids(&api.client.get("/v1/payments").await), posted[..20], "20 when nothing is said");
    // What is posted, and what changes, meanwhile does not move what was there.
    let _worker = world.worker();
    let mut n = 24;
    let seen = walk(&api.client, "", 5, async || {
        ended(&api.client, n, "pm_ok", shared::payment::life::Status::Paid).await;
        n += 1;
    })
    .await;
    assert_eq!(seen, posted);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_alone_and_together_finds_what_it_names() {
    let (world, api) = world().await;
    let unknown = in_doubt(&world, &api.client, 4, "pm_processing_forever").await.payment_id();
    let worker = world.worker();
    // Three attempts at one intent: declined, failed, paid.
    let [mut declined, mut failed, mut paid] = [Uuid::nil(); 3];
    for (key, method, id) in
        [("key-a", "pm_declined", &mut declined), ("key-b", "pm_rejected", &mut failed), ("key-c", "pm_ok", &mut paid)]
    {
        *id = api.client.pay(key, &order(1, method)).await.payment_id();
    }
    let [paid_2, declined_2, failed_2] = {
        let mut ids = Vec::new();
        for (n, (method, end)) in ENDS.into_iter().enumerate() {
            ids.push(ended(&api.client, 10 + n, method, end).await.payment_id());
        }
        ids.try_into().expect("three")
    };
    worker.stop().await;
    let pending = api.client.post("key-p", &order(5, "pm_ok")).await.payment_id();
    let all = vec![pending, failed_2, declined_2, paid_2, paid, failed, declined, unknown];
    let cases = [
        ("", all),
        ("&payment_intent_id=order-1", vec![paid, failed, declined]),
        ("&payment_intent_id=order-4", vec![unknown]),
        ("&payment_intent_id=order-none", vec![]),
        ("&idempotency_key=key-a", vec![declined]),
        ("&idempotency_key=%22key-a%22", vec![declined]),
        ("&idempotency_key=key-none", vec![]),
        ("&status=PENDING", vec![pending]),
        ("&status=UNKNOWN", vec![unknown]),
        ("&status=PAID", vec![paid_2, paid]),
        ("&status=DECLINED", vec![declined_2, declined]),
        ("&status=FAILED", vec![failed_2, failed]),
        ("&payment_intent_id=order-1&status=FAILED", vec![failed]),
        ("&payment_intent_id=order-1&status=PAID", vec![paid]),
        ("&payment_intent_id=order-1&status=PENDING", vec![]),
        ("&payment_intent_id=order-1&idempotency_key=key-c", vec![paid]),
        ("&payment_intent_id=order-5&idempotency_key=key-c", vec![]),
        ("&payment_intent_id=order-1&idempotency_key=key-c&status=PAID", vec![paid]),
        ("&idempotency_key=key-c&status=DECLINED", vec![]),
    ];
    for (query, expected) in cases {
        for limit in [1, 2, 100] {
            assert_eq!(walk(&api.client, query, limit, async || {}).await, expected, "{limit}{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_the_payment_as_it_is_read_alone() {
    let (world, api) = world().await;
    let unknown = in_doubt(&world, &api.client, 1, "pm_processing_forever").await;
    api.client.post("key-2", &order(2, "pm_ok")).await;
    let page = api.client.get("/v1/payments").await;
    assert_eq!(page.json["next_cursor"], Value::Null);
    for (entry, n) in page.json["data"].as_array().expect("a list").iter().zip([2, 1]) {
        assert_eq!(entry["payment_intent_id"], format!("order-{n}"));
        let alone = api.client.get(&format!("/v1/payments/{}", entry["id"].as_str().expect("an id"))).await;
        assert_eq!(entry, &alone.json);
    }
    assert_eq!(page.json["data"][1]["id"], unknown.payment_id().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_finds_its_own_payments_alone() {
    let (world, api) = world().await;
    api.client.post("key-1", &order(1, "pm_ok")).await;
    let (_, key) = merchant::create(&world.database.pool, "another").await.expect("a merchant");
    let another = Client::new(&api.base_url, key.reveal());
    let theirs = another.post("key-2", &order(2, "pm_ok")).await.payment_id();
    assert_eq!(ids(&another.get("/v1/payments").await), [theirs]);
    for query in ["payment_intent_id=order-1", "idempotency_key=key-1", "status=PENDING&payment_intent_id=order-1"] {
        assert!(ids(&another.get(&format!("/v1/payments?{query}")).await).is_empty(), "{query}");
    }
    // Not with the other's cursor either.
    let page = api.client.get("/v1/payments?limit=1").await;
    assert_eq!(page.json["next_cursor"], Value::Null);
    let cursor = format!("p_{}", Uuid::max().simple());
    assert_eq!(ids(&another.get(&format!("/v1/payments?cursor={cursor}")).await), [theirs]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_none_is_400_and_named() {
    let (_world, api) = world().await;
    let long = format!("payment_intent_id={}", "x".repeat(65));
    let cases = [
        ("limit=0", "limit invalid_value"),
        ("limit=101", "limit invalid_value"),
        ("limit=-1", "limit invalid_value"),
        ("limit=1.5", "limit invalid_value"),
        ("limit=", "limit invalid_value"),
        ("limit=5&limit=5", "limit duplicate_parameter"),
        ("status=paid", "status invalid_value"),
        ("status=", "status invalid_value"),
        ("status=PAID,FAILED", "status invalid_value"),
        ("cursor=", "cursor invalid_value"),
        ("cursor=nonsense", "cursor invalid_value"),
        ("cursor=p_0199", "cursor invalid_value"),
        ("cursor=e_1_0199aaaabbbb7ccc8dddeeeeffff0001", "cursor invalid_value"),
        ("payment_intent_id=", "payment_intent_id invalid_value"),
        ("payment_intent_id=two%20words", "payment_intent_id invalid_value"),
        (long.as_str(), "payment_intent_id invalid_value"),
        ("idempotency_key=", "idempotency_key invalid_value"),
        ("idempotency_key=two+words", "idempotency_key invalid_value"),
        ("idempotency_key=%C3%A9", "idempotency_key invalid_value"),
        ("idempotency_key=%FF", "idempotency_key invalid_value"),
        ("satus=PAID", "satus unknown_parameter"),
        ("merchant_id=x", "merchant_id unknown_parameter"),
    ];
    for (query, fault) in cases {
        let answer = api.client.get(&format!("/v1/payments?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert_problem(&answer, 400, "invalid_request");
        let errors = answer.json["errors"].as_array().expect("errors");
        let faults: Vec<_> = errors
            .iter()
            .map(|e| format!("{} {}", e["parameter"].as_str().expect("a name"), e["code"].as_str().expect("a code")))
            .collect();
        assert_eq!(faults, [fault], "{query}");
    }
    let both = api.client.get("/v1/payments?limit=0&status=x&cursor=x").await;
    assert_eq!(both.json["errors"].as_array().map(Vec::len), Some(3), "all at once: {}", both.text);
}
