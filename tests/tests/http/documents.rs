//! `GET /openapi.json` and `GET /docs`: the contract, and that the service keeps to it.

use crate::operators::operator;
use crate::{assert_problem, ended, get_with, in_doubt, order, path_of, post_bytes, send, world};
use reqwest::Method;
use serde_json::Value;
use shared::config::Secret;
use shared::operator::Role;
use shared::payment::life::Status;
use std::collections::BTreeSet;
use tests::{Answer, Client, World};
use uuid::Uuid;

/// Every route there is.
const ROUTES: [(&str, &str); 13] = [
    ("get", "/docs"),
    ("get", "/healthz"),
    ("get", "/metrics"),
    ("get", "/openapi.json"),
    ("get", "/ops/api/v1/me"),
    ("get", "/ops/api/v1/operators"),
    ("get", "/readyz"),
    ("post", "/v1/acquirers/{name}/webhooks"),
    ("get", "/v1/events"),
    ("get", "/v1/payments"),
    ("post", "/v1/payments"),
    ("get", "/v1/payments/{id}"),
    ("get", "/v1/payments/{id}/timeline"),
];

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_is_openapi_3_1_and_has_every_route() {
    let mut world = World::new().await;
    world.config.acquirers.get_mut("default").expect("there").webhook_secret = Some(Secret("secret".to_owned()));
    let api = world.api().await;
    let contract = api.client.get("/openapi.json").await;
    assert_eq!((contract.status, contract.header("Content-Type")), (200, "application/json"));
    assert!(contract.json["openapi"].as_str().is_some_and(|version| version.starts_with("3.1.")), "{}", contract.text);
    let mut routes = Vec::new();
    for (path, operations) in contract.json["paths"].as_object().expect("paths") {
        routes
            .extend(operations.as_object().expect("operations").keys().map(|method| (method.as_str(), path.as_str())));
    }
    routes.sort_by_key(|(method, path)| (*path, *method));
    assert_eq!(routes, ROUTES);
    for (method, path) in ROUTES {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
        let answer = send(
            &api.client,
            method,
            &path.replace("{id}", &Uuid::nil().to_string()).replace("{name}", "default"),
            &[],
        )
        .await;
        assert!(!["not_found", "method_not_allowed"].contains(&answer.code()), "{path}: {}", answer.text);
    }
    // Whoever makes a client of it needs the credential's form and no outside file.
    for credential in ["api_key", "operator_token"] {
        assert_eq!(contract.json["components"]["securitySchemes"][credential]["scheme"], "bearer");
    }
    for reference in contract.text.split("\"$ref\":\"").skip(1) {
        let target =
            reference.split('"').next().and_then(|target| target.strip_prefix('#')).expect("a local reference");
        assert!(contract.json.pointer(target).is_some(), "{target}");
    }
}

/// One answer of every kind that can be had without breaking anything.
async fn tour(world: &World, api: &tests::Api) -> Vec<(&'static str, &'static str, Answer)> {
    let client = &api.client;
    let nobody = Client::new(&api.base_url, "nobody");
    let worker = world.worker();
    let paid = ended(client, 1, "pm_ok", Status::Paid).await;
    let declined = ended(client, 2, "pm_declined", Status::Declined).await;
    let replayed = client.post("key-1", &order(1, "pm_ok")).await;
    worker.stop().await;
    in_doubt(world, client, 3, "pm_processing_forever").await;
    let awaiting = client.post("key-3", &order(3, "pm_processing_forever")).await;
    let accepted = client.try_post("key-4", &order(4, "pm_ok"), Some("wait=0")).await.expect("an answer");
    let path = path_of(accepted.payment_id());
    let posts = [
        paid,
        declined,
        replayed,
        awaiting,
        accepted,
        client.post("key-4", &order(4, "pm_ok")).await,
        client.post("key-4", &order(5, "pm_ok")).await,
        client.post("key-5", &order(4, "pm_ok")).await,
        client.post("key-5", &order(1, "pm_ok")).await,
        client.post("two words", &order(6, "pm_ok")).await,
        send(client, Method::POST, "/v1/payments", &[]).await,
        send(client, Method::POST, "/v1/payments", &[("Idempotency-Key", "key-6")]).await,
        post_bytes(client, "key-6", "{\"amount_minor\":0}").await,
        post_bytes(client, "key-6", " ".repeat(70_000)).await,
        nobody.post("key-6", &order(6, "pm_ok")).await,
    ];
    let gets = [
        client.get(&path).await,
        get_with(client, &path, &[("If-None-Match", "\"1\""), ("Prefer", "wait=0")]).await,
        client.get("/v1/payments/nonsense").await,
        nobody.get(&path).await,
    ];
    let timeline = format!("{path}/timeline");
    let timelines =
        [client.get(&timeline).await, client.get("/v1/payments/nonsense/timeline").await, nobody.get(&timeline).await];
    let lists =
        [client.get("/v1/payments").await, client.get("/v1/payments?limit=0").await, nobody.get("/v1/payments").await];
    let feeds =
        [client.get("/v1/events").await, client.get("/v1/events?limit=0").await, nobody.get("/v1/events").await];
    let (viewer, approver) = (operator(world, api, Role::Viewer).await, operator(world, api, Role::Approver).await);
    let (me, all) = ("/ops/api/v1/me", "/ops/api/v1/operators");
    let ops = [
        (me, viewer.get(me).await),
        (me, nobody.get(me).await),
        (all, approver.get(all).await),
        (all, viewer.get(all).await),
        (all, nobody.get(all).await),
    ];
    let operations = ["/docs", "/healthz", "/metrics", "/openapi.json", "/readyz"];
    let mut tour = Vec::new();
    tour.extend(posts.map(|answer| ("post", "/v1/payments", answer)));
    tour.extend(gets.map(|answer| ("get", "/v1/payments/{id}", answer)));
    tour.extend(timelines.map(|answer| ("get", "/v1/payments/{id}/timeline", answer)));
    tour.extend(lists.map(|answer| ("get", "/v1/payments", answer)));
    tour.extend(feeds.map(|answer| ("get", "/v1/events", answer)));
    tour.extend(ops.map(|(path, answer)| ("get", path, answer)));
    for path in operations {
        tour.push(("get", path, client.get(path).await));
    }
    tour
}

/// The schema that `schema` is or refers to.
fn resolved<'a>(contract: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    target.map_or(schema, |target| contract.pointer(target).expect("a schema"))
}

/// That `body` has the members that its schema asks for, and no others.
fn assert_members(contract: &Value, schema: &Value, body: &Value) {
    let schema = resolved(contract, schema);
    let (Some(properties), Some(members)) = (schema["properties"].as_object(), body.as_object()) else { return };
    for required in schema["required"].as_array().into_iter().flatten() {
        let name = required.as_str().expect("a name");
        assert!(members.contains_key(name), "{name} is missing in {body}");
    }
    for (name, value) in members {
        let schema = properties.get(name).unwrap_or_else(|| panic!("{name} is not documented: {body}"));
        assert_members(contract, schema, value);
        for entry in value.as_array().into_iter().flatten() {
            assert_members(contract, &schema["items"], entry);
        }
    }
}

/// That the contract has this answer of an operation: its status, its headers, its kind and its members.
#[track_caller]
fn assert_documented(contract: &Value, operation: &Value, answer: &Answer) {
    const HEADERS: [&str; 7] = [
        "ETag",
        "Idempotent-Replayed",
        "Location",
        "Preference-Applied",
        "Retry-After",
        "WWW-Authenticate",
        "X-Request-Id",
    ];
    let what = format!("{} {}", answer.status, answer.text);
    let response = &operation["responses"][answer.status.to_string()];
    assert!(response.is_object(), "{what}");
    for header in HEADERS.into_iter().filter(|header| answer.headers.contains_key(*header)) {
        assert!(response["headers"][header].is_object(), "{header} of {what}");
    }
    let contents = response["content"].as_object().into_iter().flatten();
    let kind = |content: &str| content.split(';').next().map(str::to_owned);
    let content = contents.into_iter().find(|(name, _)| kind(name) == kind(answer.header("Content-Type")));
    match content {
        Some((_, content)) => assert_members(contract, &content["schema"], &answer.json),
        None => assert_eq!((answer.text.as_str(), answer.header("Content-Type")), ("", ""), "{what}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_answers_stands_in_the_contract() {
    let (world, api) = world().await;
    let contract = api.client.get("/openapi.json").await.json;
    let mut posted = BTreeSet::new();
    for (method, path, answer) in tour(&world, &api).await {
        assert_documented(&contract, &contract["paths"][path][method], &answer);
        if method == "post" {
            posted.insert(answer.status);
        }
    }
    assert!(posted.iter().eq(&[201, 202, 400, 401, 409, 413, 415, 422]), "every kind was seen: {posted:?}");
}

/// The values of an attribute in a page.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!("{name}=\"");
    page.split(begin.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_is_whole_without_the_outside_world() {
    let (_world, api) = world().await;
    let page = api.client.get("/docs").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert!(page.header("Content-Type").starts_with("text/html"), "{:?}", page.headers);
    assert!(page.header("Content-Security-Policy").contains("default-src 'none'"), "{:?}", page.headers);
    let sources: Vec<_> = attributes(&page.text, "src").into_iter().chain(attributes(&page.text, "href")).collect();
    assert!(sources.len() >= 3, "a script, a style, the contract: {sources:?}");
    let mut texts = vec![page.text.clone()];
    for source in sources.into_iter().filter(|source| !source.starts_with('#')) {
        assert!(source.starts_with('/') && !source.starts_with("//"), "{source}");
        let asset = api.client.get(source).await;
        assert_eq!(asset.status, 200, "{source}");
        assert_eq!(asset.header("X-Content-Type-Options"), "nosniff", "{source}");
        texts.push(asset.text);
    }
    for text in texts {
        for elsewhere in ["http:", "https:", "\"//", "'//", "(//", "@import"] {
            assert!(!text.contains(elsewhere), "{elsewhere}: {text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_type_of_a_problem_leads_to_its_explanation() {
    let (_world, api) = world().await;
    let problem = api.client.get("/v1/nothing").await;
    assert_problem(&problem, 404, "not_found");
    let (path, anchor) = problem.json["type"].as_str().and_then(|link| link.split_once('#')).expect("a link");
    let page = api.client.get(path).await;
    assert!(page.text.contains(&format!("id=\"{anchor}\"")), "{anchor}");
}
