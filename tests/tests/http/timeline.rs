//! `GET /v1/payments/{id}/timeline`: a payment's life in order, as its merchant may see it.

use crate::events::Reader;
use crate::{assert_problem, ended, in_doubt, path_of, world};
use serde_json::Value;
use shared::merchant;
use shared::payment::life::Status;
use shared::payment::timeline;
use tests::{Api, Client, World};
use uuid::Uuid;

async fn timeline_of(api: &Api, payment_id: Uuid) -> Vec<Value> {
    let answer = api.client.get(&format!("{}/timeline", path_of(payment_id))).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        (&answer.json["object"], &answer.json["payment_id"]),
        (&"timeline".into(), &payment_id.to_string().into())
    );
    answer.json["data"].as_array().expect("entries").clone()
}

/// Who did what, in order.
fn told(entries: &[Value]) -> Vec<String> {
    let word = |entry: &Value, name: &str| entry[name].as_str().expect("a word").to_owned();
    entries.iter().map(|entry| format!("{} {}", word(entry, "actor"), word(entry, "kind"))).collect()
}

/// The details of all entries of a kind.
fn details<'a>(entries: &'a [Value], kind: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| entry["kind"] == kind).map(|entry| &entry["detail"]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_payment_is_accepted_charged_settled_and_told_of() {
    let (world, api) = world().await;
    let worker = world.worker();
    let paid = ended(&api.client, 1, "pm_ok", Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    let entries = timeline_of(&api, paid.payment_id()).await;
    let life = ["client accepted", "payonce charge", "payonce changed", "payonce event", "payonce delivered"];
    assert_eq!(told(&entries), life);
    let [accepted, charge, changed, event, delivered] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((&accepted["detail"]["from"], &accepted["detail"]["to"]), (&Value::Null, &"PENDING".into()));
    let call = &charge["detail"];
    assert_eq!((&call["outcome"], &call["http_status"], &call["attempt"]), (&"SUCCESS".into(), &201.into(), &1.into()));
    assert_eq!(call["transaction_id"], paid.json["transaction_id"]);
    assert!(call["duration_ms"].is_u64() && call["request_id"].is_string(), "{call}");
    let (from, to) = (&changed["detail"]["from"], &changed["detail"]["to"]);
    assert_eq!((from, to, &changed["detail"]["version"]), (&"PENDING".into(), &"PAID".into(), &2.into()));
    let mut feed = Reader::new(&api.client, 20);
    feed.until(1).await;
    assert_eq!(feed.ids(), [event["detail"]["event_id"].as_str().expect("an id")]);
    assert_eq!((&event["detail"]["type"], &delivered["detail"]["sink"]), (&"payments.succeeded".into(), &"log".into()));
    let times: Vec<&str> = entries.iter().map(|entry| entry["at"].as_str().expect("a time")).collect();
    assert!(times[0] < times[1] && times[1] < times[2] && times[2] < times[4], "{times:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_doubt_shows_every_call_and_what_it_taught() {
    let (world, api) = world().await;
    let payment_id = in_doubt(&world, &api.client, 1, "pm_500_after_charge").await.payment_id();
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    let entries = timeline_of(&api, payment_id).await;
    let charges = details(&entries, "charge");
    assert!(charges.iter().all(|call| call["outcome"] == "UNKNOWN" && call["http_status"] == 500), "{charges:?}");
    let lookups = details(&entries, "lookup");
    assert_eq!(lookups.last().expect("a look-up")["outcome"], "SUCCESS");
    let changes: Vec<_> = details(&entries, "changed").iter().map(|change| change["to"].clone()).collect();
    assert_eq!(changes, ["UNKNOWN", "PAID"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_under_way_has_no_outcome_yet() {
    let (world, api) = world().await;
    let payment_id = api.client.post("key-1", &crate::order(1, "pm_ok")).await.payment_id();
    let by_hand = tests::ByHand::start(&world, worker::faults::Faults::default());
    by_hand.claim_one(shared::queue::Step::Charge).await;
    let entries = timeline_of(&api, payment_id).await;
    assert_eq!(told(&entries), ["client accepted", "payonce charge"]);
    assert_eq!((&entries[1]["detail"]["outcome"], &entries[1]["detail"]["duration_ms"]), (&Value::Null, &Value::Null));
    // Whoever runs the service sees which worker is at it.
    let whole = timeline::of(&world.database.pool, &world.payment(payment_id).await).await.expect("a timeline");
    assert_eq!(whole[1].actor, "by hand");
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_and_the_acquirers_messages_are_in_it_without_what_people_wrote() {
    let (world, api) = world().await;
    let worker = world.worker();
    let declined = ended(&api.client, 1, "pm_declined", Status::Declined).await.payment_id();
    world.until_idle().await;
    worker.stop().await;
    world
        .run(
            "INSERT INTO acquirer_webhooks (merchant_id, payment_id, acquirer, message_id, type, outcome, transaction_id)
             SELECT merchant_id, id, 'default', 'msg_1', 'charge.approved', 'SUCCESS', 'txn_9' FROM payments;
             INSERT INTO reviews (merchant_id, payment_id, reason, detail, state, opened_at, resolution, resolved_by, resolved_at)
             SELECT merchant_id, id, 'late_success', 'ask Ann at the bank', 'RESOLVED', now() + interval '1 s',
                    'resolved', 'ann', now() + interval '2 s'
             FROM payments;
             INSERT INTO payment_history (merchant_id, payment_id, version, from_status, to_status, attempt, actor, reason, at)
             SELECT merchant_id, id, 99, status, status, attempt, 'operator ann', 'the clerk was rude', now() + interval '3 s'
             FROM payments",
        )
        .await;
    let entries = timeline_of(&api, declined).await;
    let last = ["acquirer acquirer_webhook", "payonce review_opened", "operator review_resolved", "operator changed"];
    assert_eq!(told(&entries)[5..], last);
    assert_eq!(details(&entries, "review_opened")[0]["reason"], "late_success");
    assert_eq!(details(&entries, "acquirer_webhook")[0]["transaction_id"], "txn_9");
    let text = serde_json::to_string(&entries).expect("JSON");
    for note in ["Ann", "ann", "rude"] {
        assert!(!text.contains(note), "{note}: {text}");
    }
    let whole = timeline::of(&world.database.pool, &world.payment(declined).await).await.expect("a timeline");
    let text = serde_json::to_string(&whole).expect("JSON");
    assert!(text.contains("ask Ann at the bank") && text.contains("the clerk was rude"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_keys_nor_means_of_payment_nor_names_of_machines_are_in_it() {
    let (world, api) = world().await;
    let key = "a-key-that-is-nobodys-business";
    let payment_id = api.client.post(key, &crate::order(1, "pm_ok")).await.payment_id();
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    world.until_idle().await;
    worker.stop().await;
    let whole = timeline::of(&world.database.pool, &world.payment(payment_id).await).await.expect("a timeline");
    let whole = serde_json::to_string(&whole).expect("JSON");
    let seen = serde_json::to_string(&timeline_of(&api, payment_id).await).expect("JSON");
    for text in [&whole, &seen] {
        assert!(!text.contains(key) && !text.contains("pm_ok") && !text.contains(&world.api_key), "{text}");
    }
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert!(!seen.contains(&format!("{}-", host.trim())) && !seen.contains("key_scope"), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_merchants_payment_has_none() {
    let (world, api) = world().await;
    let (_, key) = merchant::create(&world.database.pool, "another").await.expect("a merchant");
    let another = Client::new(&api.base_url, key.reveal());
    let mine = api.client.post("key-1", &crate::order(1, "pm_ok")).await.payment_id();
    for (client, path) in [
        (&another, format!("{}/timeline", path_of(mine))),
        (&api.client, format!("{}/timeline", path_of(Uuid::now_v7()))),
        (&api.client, "/v1/payments/nonsense/timeline".to_owned()),
    ] {
        assert_problem(&client.get(&path).await, 404, "payment_not_found");
    }
    assert_problem(
        &Client::new(&api.base_url, "nobody").get(&format!("{}/timeline", path_of(mine))).await,
        401,
        "unauthorized",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_very_long_life_the_latest_thousand_entries_are_told() {
    let (world, api): (World, Api) = world().await;
    let payment_id = api.client.post("key-1", &crate::order(1, "pm_ok")).await.payment_id();
    world
        .run(
            "INSERT INTO acquirer_webhooks (merchant_id, payment_id, acquirer, message_id, type, received_at)
             SELECT merchant_id, id, 'default', 'msg_' || n, 'charge.processing', now() + n * interval '1 s'
             FROM payments CROSS JOIN generate_series(1, 1001) AS n",
        )
        .await;
    let entries = timeline_of(&api, payment_id).await;
    assert_eq!(entries.len(), 1_000);
    assert_eq!(
        (&entries[0]["detail"]["message_id"], &entries[999]["detail"]["message_id"]),
        (&"msg_2".into(), &"msg_1001".into())
    );
}
