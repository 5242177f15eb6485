//! `payonce payment show`.

use crate::program::{command, ran};
use serde_json::Value;
use shared::payment::life::Status;
use tests::World;
use tests::client::body;
use tests::program::Ended;
use uuid::Uuid;

async fn shown(world: &World, args: &[&str]) -> Ended {
    let ended = ran(command(world, &[&["payment", "show"], args].concat())).await;
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended
}

/// A payment in doubt, whose next look-up is four minutes away.
async fn in_doubt(world: &World) -> Uuid {
    let api = world.api().await;
    let payment_id =
        api.client.post("key-nobodys-business", &body("order-1", "pm_processing_forever")).await.payment_id();
    let worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    worker.stop().await;
    world.run("UPDATE jobs SET run_at = now() + interval '250 s', deliveries = 3").await;
    payment_id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_is_shown_whole_with_its_budget_and_its_life() {
    let world = World::new().await;
    let payment_id = in_doubt(&world).await;
    world
        .run(
            "INSERT INTO reviews (merchant_id, payment_id, reason, detail)
             SELECT merchant_id, id, 'stuck_processing', 'the acquirer is still processing it' FROM payments",
        )
        .await;
    let text = shown(&world, &[&payment_id.to_string()]).await.stdout;
    for part in [
        "merchant    demo (",
        "intent      order-1",
        "status      UNKNOWN, version 2, attempt",
        "amount      1999 minor units of EUR",
        "lookup at default: 3 of 60 look-ups, next in 4 min",
        "stuck_processing  the acquirer is still processing it",
        "client",
        "accepted",
        "outcome=PROCESSING",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("key-nobodys-business") && !text.contains("pm_processing"), "{text}");
    // As the acquirer knows it.
    let reference = shared::acquirer::provider_key(payment_id);
    assert!(shown(&world, &[&reference]).await.stdout.contains("order-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn for_programs_it_is_json() {
    let world = World::new().await;
    let payment_id = in_doubt(&world).await;
    let text = shown(&world, &[&payment_id.to_string(), "--json"]).await.stdout;
    let json: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&json["merchant"], &json["payment"]["status"]), (&"demo".into(), &"UNKNOWN".into()));
    let step = &json["steps"][0];
    assert_eq!((&step["step"], &step["deliveries"], &step["budget"]), (&"lookup".into(), &3.into(), &60.into()));
    assert!(step["due_in_s"].as_f64().is_some_and(|due| (200.0..=250.0).contains(&due)), "{step}");
    assert_eq!((&json["timeline"][0]["kind"], &json["reviews"]), (&"accepted".into(), &Value::Array(vec![])));
    assert_eq!(json["payment"]["key_hash"].as_str().map(str::len), Some(12));
    assert!(!text.contains("key-nobodys-business") && !text.contains("payment_method_id"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_intent_is_shown_with_all_its_payments_oldest_first() {
    let world = World::new().await;
    let api = world.api().await;
    let worker = world.worker();
    let declined = api.client.pay("key-1", &body("order-1", "pm_declined")).await.payment_id();
    let paid = api.client.pay("key-2", &body("order-1", "pm_ok")).await.payment_id();
    worker.stop().await;
    let json: Value =
        serde_json::from_str(&shown(&world, &["order-1", "--intent", "--json"]).await.stdout).expect("JSON");
    let ids: Vec<_> = json.as_array().expect("a list").iter().map(|of| of["payment"]["id"].clone()).collect();
    assert_eq!(ids, [declined.to_string(), paid.to_string()]);
    let text = shown(&world, &["order-1", "--intent"]).await.stdout;
    assert!(text.contains("status      DECLINED") && text.contains("status      PAID"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_a_failure_that_says_how_to_ask() {
    let world = World::new().await;
    for args in [&["nonsense"][..], &["0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001"], &["order-9", "--intent"]] {
        let ended = ran(command(&world, &[&["payment", "show"], args].concat())).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{args:?}");
        assert!(ended.stderr.contains("there is no payment") && ended.stderr.contains("--intent"), "{}", ended.stderr);
    }
}
