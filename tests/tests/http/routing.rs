//! Which acquirer a payment goes to.

use crate::{assert_problem, order, path_of, stored};
use serde_json::Value;
use shared::config::Acquirer;
use shared::merchant::{self, Routing};
use tests::{Answer, Api, World};

/// A world with the acquirers `default` and `second`.
async fn world() -> (World, Api) {
    let mut world = World::new().await;
    let second = Acquirer::at(&world.acquirer.base_url());
    world.config.acquirers.insert("second".to_owned(), second);
    let api = world.api().await;
    (world, api)
}

async fn route(world: &World, default: Option<&str>, allowed: Option<&[&str]>) {
    let acquirers = allowed.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
    let routing = Routing { default_acquirer: default.map(str::to_owned), acquirers };
    merchant::route(&world.database.pool, world.merchant_id, &routing).await.expect("routed");
}

fn by(n: usize, acquirer: &str) -> Value {
    let mut body = order(n, "pm_ok");
    body["acquirer"] = acquirer.into();
    body
}

fn fault(answer: &Answer) -> String {
    assert_problem(answer, 400, "invalid_request");
    let fault = &answer.json["errors"][0];
    format!("{} {}", fault["pointer"].as_str().expect("a pointer"), fault["code"].as_str().expect("a code"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_names_no_acquirer_goes_to_the_merchant_s_and_else_to_the_service_s() {
    let (world, api) = world().await;
    let to = async |n| api.client.post(&format!("key-{n}"), &order(n, "pm_ok")).await.json["acquirer"].clone();
    assert_eq!(to(1).await, "default");
    route(&world, Some("second"), None).await;
    assert_eq!(to(2).await, "second");
    assert_eq!(api.client.post("key-3", &by(3, "default")).await.json["acquirer"], "default", "it may use all");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_a_merchant_may_not_use_is_one_that_does_not_exist() {
    let (world, api) = world().await;
    route(&world, None, Some(&["second"])).await;
    let forbidden = api.client.post("key-1", &by(1, "default")).await;
    let unknown = api.client.post("key-1", &by(1, "nobody")).await;
    assert_eq!(fault(&forbidden), "/acquirer unknown_acquirer");
    assert_eq!((fault(&unknown), &unknown.json["detail"]), (fault(&forbidden), &forbidden.json["detail"]));
    assert_eq!(stored(&world).await, [0, 0]);
    assert_eq!(api.client.post("key-1", &by(1, "second")).await.status, 202, "the key was not used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_default_that_it_may_use_a_merchant_has_to_name_one() {
    let (world, api) = world().await;
    route(&world, None, Some(&["second"])).await;
    assert_eq!(fault(&api.client.post("key-1", &order(1, "pm_ok")).await), "/acquirer missing");
    let refused = Routing { default_acquirer: Some("default".to_owned()), acquirers: Some(vec!["second".to_owned()]) };
    let refused = merchant::route(&world.database.pool, world.merchant_id, &refused).await.unwrap_err();
    assert!(refused.to_string().contains("--allow default"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_finds_its_payment_whatever_became_of_the_routing() {
    let (world, api) = world().await;
    let named = api.client.post("key-1", &by(1, "default")).await;
    let unnamed = api.client.post("key-2", &order(2, "pm_ok")).await;
    route(&world, None, Some(&["second"])).await;
    let repeats = [("key-1", by(1, "default"), &named), ("key-2", order(2, "pm_ok"), &unnamed)];
    for (key, body, first) in repeats {
        let repeat = api.client.post(key, &body).await;
        assert_problem(&repeat, 409, "payment_in_progress");
        assert_eq!(repeat.header("Location"), path_of(first.payment_id()));
    }
    let other = api.client.post("key-1", &by(3, "default")).await;
    assert_problem(&other, 422, "idempotency_key_reuse");
}
