//! `GET /v1/payments/{id}`.

use crate::{assert_problem, ended, get_with, heard, in_doubt, order, path_of, until_somebody_waits, world};
use shared::merchant;
use shared::payment::life::Status;
use tests::{Answer, Client, eventually};
use uuid::Uuid;

#[track_caller]
fn assert_unchanged(answer: &Answer, etag: &str) {
    assert_eq!((answer.status, answer.text.as_str(), answer.header("ETag")), (304, "", etag));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_200_in_every_state_with_its_version_as_etag() {
    let (world, api) = world().await;
    let unknown = in_doubt(&world, &api.client, 1, "pm_processing_forever").await;
    let pending = api.client.post("key-2", &order(2, "pm_ok")).await;
    for (payment_id, status) in [(unknown.payment_id(), "UNKNOWN"), (pending.payment_id(), "PENDING")] {
        let open = api.client.get(&path_of(payment_id)).await;
        assert_eq!((open.status, open.json["status"].as_str()), (200, Some(status)), "{}", open.text);
        assert_eq!(open.header("ETag"), format!("\"{}\"", open.json["version"]));
        assert_eq!((open.header("Retry-After"), open.header("Content-Type")), ("1", "application/json"));
    }
    let _worker = world.worker();
    for (n, (method, end)) in crate::ENDS.into_iter().enumerate() {
        let last = ended(&api.client, 10 + n, method, end).await;
        let path = path_of(last.payment_id());
        let answer = api.client.get(&path).await;
        assert_eq!((answer.status, &answer.text), (200, &last.text));
        assert_eq!((answer.header("ETag"), answer.header("Retry-After")), ("\"2\"", ""), "{end}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_client_has_is_304_until_it_changes() {
    let (world, api) = world().await;
    let path = path_of(api.client.post("key-1", &order(1, "pm_ok")).await.payment_id());
    for has in ["\"1\"", "W/\"1\"", "\"7\", \"1\"", "*"] {
        let answer = get_with(&api.client, &path, &[("If-None-Match", has)]).await;
        assert_unchanged(&answer, "\"1\"");
        assert_eq!(answer.header("Retry-After"), "1", "it is not final");
    }
    for has_not in ["\"2\"", "1", "\"x\"", ""] {
        assert_eq!(get_with(&api.client, &path, &[("If-None-Match", has_not)]).await.status, 200, "{has_not}");
    }
    let worker = world.worker();
    let paid = api.client.pay("key-1", &order(1, "pm_ok")).await;
    worker.stop().await;
    let changed = get_with(&api.client, &path, &[("If-None-Match", "\"1\"")]).await;
    assert_eq!((changed.status, changed.header("ETag"), &changed.text), (200, "\"2\"", &paid.text));
    let unchanged = get_with(&api.client, &path, &[("If-None-Match", "\"2\"")]).await;
    assert_unchanged(&unchanged, "\"2\"");
    assert_eq!(unchanged.header("Retry-After"), "", "it never changes again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_returns_as_soon_as_the_payment_changes() {
    let (world, api) = world().await;
    let path = path_of(api.client.post("key-1", &order(1, "pm_ok")).await.payment_id());
    let reading = |headers: &'static [(&str, &str)]| {
        let (client, path) = (api.client.clone(), path.clone());
        tokio::spawn(async move { get_with(&client, &path, headers).await })
    };
    // Both wait: neither knows another version than the current one.
    let without = reading(&[("Prefer", "wait=25")]);
    let with = reading(&[("Prefer", "wait=25"), ("If-None-Match", "\"1\"")]);
    until_somebody_waits(&world.database.pool).await;
    let _worker = world.worker();
    for reading in [without, with] {
        // One that had waited in vain would say version 1 or 304.
        let answer = heard(reading).await;
        assert_eq!((answer.status, answer.json["status"].as_str()), (200, Some("PAID")), "{}", answer.text);
        assert_eq!((answer.header("Preference-Applied"), answer.header("ETag")), ("wait=25", "\"2\""));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_returns_when_a_payment_becomes_unknown() {
    let (world, api) = world().await;
    let path = path_of(api.client.post("key-1", &order(1, "pm_processing_forever")).await.payment_id());
    let client = api.client.clone();
    let reading = tokio::spawn(async move { get_with(&client, &path, &[("Prefer", "wait=25")]).await });
    until_somebody_waits(&world.database.pool).await;
    let _worker = world.worker();
    let answer = heard(reading).await;
    assert_eq!((answer.status, answer.json["status"].as_str()), (200, Some("UNKNOWN")), "{}", answer.text);
    assert_eq!((answer.header("Retry-After"), answer.header("ETag")), ("1", "\"2\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_waits_in_vain_says_what_it_would_have_said_at_once() {
    let (_world, api) = world().await;
    let accepted = api.client.post("key-1", &order(1, "pm_ok")).await;
    let path = path_of(accepted.payment_id());
    let same = get_with(&api.client, &path, &[("Prefer", "wait=1")]).await;
    assert_eq!((same.status, &same.text), (200, &accepted.text));
    assert_eq!((same.header("Preference-Applied"), same.header("Retry-After")), ("wait=1", "1"));
    let unchanged = get_with(&api.client, &path, &[("Prefer", "wait=1"), ("If-None-Match", "\"1\"")]).await;
    assert_unchanged(&unchanged, "\"1\"");
    assert_eq!(unchanged.header("Preference-Applied"), "wait=1");
}

/// Case 10: an answer that is not ours is not believed, and whoever polls sees that a person has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_a_person_looks_at_says_so() {
    let (world, api) = world().await;
    let path = path_of(api.client.post("key-1", &order(1, "pm_wrong_amount")).await.payment_id());
    let _worker = world.worker();
    let in_review = eventually("in review", || async {
        Some(api.client.get(&path).await).filter(|answer| answer.json["in_review"] == true)
    })
    .await;
    assert_eq!((in_review.status, in_review.json["status"].as_str()), (200, Some("UNKNOWN")), "{}", in_review.text);
    assert_eq!(in_review.header("Retry-After"), "1", "one day it ends");
    let repeat = api.client.post("key-1", &order(1, "pm_wrong_amount")).await;
    assert_eq!((repeat.status, &repeat.text), (202, &in_review.text));
}

/// None of these waits: a test of 25 s would be killed by its client's patience.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_what_is_news_already_or_cannot_change() {
    let (world, api) = world().await;
    let path = path_of(api.client.post("key-1", &order(1, "pm_ok")).await.payment_id());
    let at_once = async |headers: &[(&str, &str)]| {
        let asking = get_with(&api.client, &path, headers);
        tokio::time::timeout(std::time::Duration::from_secs(15), asking).await.expect("at once")
    };
    let news = at_once(&[("Prefer", "wait=25"), ("If-None-Match", "\"7\"")]).await;
    assert_eq!((news.status, news.header("ETag")), (200, "\"1\""), "{}", news.text);
    let _worker = world.worker();
    world.until(news.payment_id(), Status::Paid).await;
    let last = at_once(&[("Prefer", "wait=60")]).await;
    assert_eq!((last.status, last.header("Preference-Applied")), (200, "wait=25"), "25 s are the longest");
    assert_unchanged(&at_once(&[("Prefer", "wait=25"), ("If-None-Match", "\"2\"")]).await, "\"2\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_and_what_is_another_merchants_are_the_same_404() {
    let (world, api) = world().await;
    let mine = api.client.post("key-1", &order(1, "pm_ok")).await.payment_id();
    let (_, key) = merchant::create(&world.database.pool, "another").await.expect("a merchant");
    let another = Client::new(&api.base_url, key.reveal());
    let theirs = another.get(&path_of(mine)).await;
    let nobodys = another.get(&path_of(Uuid::now_v7())).await;
    for answer in [&theirs, &nobodys] {
        assert_problem(answer, 404, "payment_not_found");
        assert_eq!(answer.json["payment_id"], serde_json::Value::Null, "no hint that it exists");
    }
    assert_eq!(theirs.json["detail"], nobodys.json["detail"]);
    // Not even with a wait, or a guess at the version.
    let waiting = get_with(&another, &path_of(mine), &[("Prefer", "wait=25"), ("If-None-Match", "*")]).await;
    assert_problem(&waiting, 404, "payment_not_found");
    let upper_case = mine.to_string().to_uppercase();
    for id in ["x", "%ff", "%00", "0", "..%2f", &upper_case, &mine.simple().to_string(), &format!("{mine}%20")] {
        assert_problem(&api.client.get(&format!("/v1/payments/{id}")).await, 404, "payment_not_found");
    }
}
