use crate::{assert_problem, location, paid, world};
use shared::payment::life::Status;
use std::collections::HashSet;
use tests::client::body;
use tests::{Answer, Api};

async fn get_with(api: &Api, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = api.client.request(reqwest::Method::GET, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    Answer::of(request.send().await.expect("an answer")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_read_in_every_state_with_its_version_as_etag() {
    let (world, api) = world().await;
    let accepted = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let path = location(accepted.payment_id());
    let pending = api.client.get(&path).await;
    assert_eq!((pending.status, pending.header("ETag"), pending.header("Retry-After")), (200, "\"1\"", "1"));
    assert_eq!(pending.text, accepted.text);
    let unchanged = get_with(&api, &path, &[("If-None-Match", "\"1\"")]).await;
    assert_eq!((unchanged.status, unchanged.text.as_str()), (304, ""));
    let _worker = world.worker();
    world.until(accepted.payment_id(), Status::Paid).await;
    let changed = get_with(&api, &path, &[("If-None-Match", "\"1\"")]).await;
    assert_eq!((changed.status, changed.header("ETag"), changed.header("Retry-After")), (200, "\"2\"", ""));
    assert_eq!(changed.json["status"], "PAID");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_returns_as_soon_as_the_payment_changes() {
    let (world, api) = world().await;
    let accepted = api.client.post("key-1", &body("order-1", "pm_ok")).await;
    let path = location(accepted.payment_id());
    let in_vain = get_with(&api, &path, &[("If-None-Match", "\"1\""), ("Prefer", "wait=1")]).await;
    assert_eq!(in_vain.status, 304, "{}", in_vain.text);
    let waiting = get_with(&api, &path, &[("Prefer", "wait=25")]);
    let (_worker, heard) = tokio::join!(async { world.worker() }, waiting);
    assert_eq!((heard.status, heard.json["status"].as_str()), (200, Some("PAID")), "{}", heard.text);
    let at_once = get_with(&api, &path, &[("If-None-Match", "\"2\""), ("Prefer", "wait=25")]).await;
    assert_eq!(at_once.status, 304, "a final payment does not change: nobody waits for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_404() {
    let (_world, api) = world().await;
    for path in ["/v1/payments/01890a5d-ac96-774b-bcce-b302099a8057", "/v1/payments/nonsense", "/v1/payments/%ff"] {
        assert_problem(&api.client.get(path).await, 404, "payment_not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_is_walked_by_its_cursor_and_misses_and_doubles_none() {
    let (_world, api) = world().await;
    let mut posted = HashSet::new();
    for n in 0..25 {
        posted.insert(api.client.post(&format!("key-{n}"), &body(&format!("order-{n}"), "pm_ok")).await.payment_id());
    }
    let (mut seen, mut path) = (Vec::new(), "/v1/payments?limit=10".to_owned());
    loop {
        let page = api.client.get(&path).await;
        assert_eq!((page.status, &page.json["object"]), (200, &"list".into()), "{}", page.text);
        let ids = page.json["data"].as_array().expect("a list").iter();
        seen.extend(ids.map(|payment| payment["id"].as_str().expect("an id").parse::<uuid::Uuid>().expect("a UUID")));
        let Some(cursor) = page.json["next_cursor"].as_str() else { break };
        path = format!("/v1/payments?limit=10&cursor={cursor}");
    }
    assert_eq!(seen.len(), 25, "none twice");
    assert_eq!(seen.iter().copied().collect::<HashSet<_>>(), posted, "none missed");
    assert!(seen.is_sorted_by(|newer, older| newer > older), "newest first");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_finds_what_it_names() {
    let (world, api) = world().await;
    let (worker, declined) = paid(&world, &api, 1, "pm_declined", Status::Declined).await;
    let again = api.client.pay("key-again", &body("order-1", "pm_ok")).await;
    worker.stop().await;
    let (worker, failed) = paid(&world, &api, 2, "pm_rejected", Status::Failed).await;
    worker.stop().await;
    let pending = api.client.post("key-3", &body("order-3", "pm_ok")).await;
    let cases = [
        ("payment_intent_id=order-1", vec![&again, &declined]),
        ("payment_intent_id=order-1&status=PAID", vec![&again]),
        ("idempotency_key=key-1", vec![&declined]),
        ("idempotency_key=key-1&status=PAID", vec![]),
        ("status=PAID", vec![&again]),
        ("status=DECLINED", vec![&declined]),
        ("status=FAILED", vec![&failed]),
        ("status=PENDING", vec![&pending]),
        ("status=UNKNOWN", vec![]),
    ];
    for (query, expected) in cases {
        let page = api.client.get(&format!("/v1/payments?{query}")).await;
        let ids: Vec<_> = page.json["data"].as_array().expect("a list").iter().map(|p| p["id"].clone()).collect();
        let expected: Vec<_> = expected.iter().map(|answer| answer.json["id"].clone()).collect();
        assert_eq!(ids, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_none_is_400_and_named() {
    let (_world, api) = world().await;
    for query in ["limit=0", "limit=101", "limit=x", "status=paid", "cursor=nonsense", "colour=red", "limit=1&limit=2"]
    {
        let answer = api.client.get(&format!("/v1/payments?{query}")).await;
        assert_problem(&answer, 400, "invalid_request");
        let name = query.split('=').next().expect("a name");
        assert!(answer.json["errors"].to_string().contains(name), "{query}: {}", answer.text);
    }
    assert_problem(&api.client.get("/v1/events?after=nonsense").await, 400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_tells_every_end_as_a_cloud_event_and_goes_on_from_its_cursor() {
    let (world, api) = world().await;
    let (worker, first) = paid(&world, &api, 1, "pm_ok", Status::Paid).await;
    let page = tests::eventually("the event is there", || async {
        let page = api.client.get("/v1/events?limit=1").await;
        (!page.json["data"].as_array().expect("a list").is_empty()).then_some(page)
    })
    .await;
    let event = &page.json["data"][0];
    let expected = [
        ("specversion", "1.0"),
        ("type", "payments.succeeded"),
        ("subject", "order-1"),
        ("datacontenttype", "application/json"),
    ];
    for (member, value) in expected {
        assert_eq!(event[member], value, "{event}");
    }
    assert!(event["id"].is_string() && event["source"].is_string() && event["time"].is_string(), "{event}");
    assert_eq!(event["data"], first.json, "the payment, as the client heard it");
    let cursor = page.json["next_cursor"].as_str().expect("a cursor").to_owned();
    let nothing_new = api.client.get(&format!("/v1/events?after={cursor}")).await;
    assert_eq!(nothing_new.json["data"], serde_json::json!([]));
    assert!(nothing_new.json["next_cursor"].is_string(), "a consumer polls on from here");
    worker.stop().await;
    let (_worker, _) = paid(&world, &api, 2, "pm_declined", Status::Declined).await;
    let rest = tests::eventually("the next one", || async {
        let page = api.client.get(&format!("/v1/events?after={cursor}")).await;
        (!page.json["data"].as_array().expect("a list").is_empty()).then_some(page)
    })
    .await;
    assert_eq!(rest.json["data"].as_array().expect("a list").len(), 1, "none twice");
    assert_eq!(rest.json["data"][0]["type"], "payments.declined");
}
