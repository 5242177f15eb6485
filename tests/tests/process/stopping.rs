use crate::program::{Program, command};
use sandbox::acquirer::{Latency, Settings};
use tests::client::body;
use tests::{Client, World, eventually};

const LEASED: &str = "SELECT count(*) FROM payments WHERE lease_until > now()";

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_told_to_stop_ends_what_runs_and_leaves_nothing_leased() {
    let world = World::with(Settings { latency_ms: Latency::Fixed { ms: 100 }, ..Settings::default() }).await;
    let api = world.api().await;
    for index in 0..60 {
        api.client.post(&format!("key-{index}"), &body(&format!("order-{index}"), "pm_ok")).await;
    }
    let mut worker = Program::start(command(&world, &["worker", "--concurrency", "8"]));
    worker.ready().await;
    eventually("it works", || async { (world.count(LEASED).await > 0).then_some(()) }).await;
    worker.signal("TERM");
    assert_eq!(worker.ended().await, Some(0));
    assert_eq!(world.count(LEASED).await, 0);
    assert_eq!(world.count("SELECT count(*) FROM jobs WHERE claimed_by IS NOT NULL AND run_at > now()").await, 0);
    assert_eq!(world.count("SELECT count(*) FROM provider_calls WHERE finished_at IS NULL").await, 0);
    let paid = world.count("SELECT count(*) FROM payments WHERE status = 'PAID'").await;
    assert_eq!(world.acquirer.ledger().charges as i64, paid, "every charge is on record");
    assert!(paid < 60, "it was stopped in the middle");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_a_worker_at_once() {
    let world = World::with(Settings { latency_ms: Latency::Fixed { ms: 250 }, ..Settings::default() }).await;
    let api = world.api().await;
    for index in 0..20 {
        api.client.post(&format!("key-{index}"), &body(&format!("order-{index}"), "pm_ok")).await;
    }
    let mut worker = Program::start(command(&world, &["worker", "--concurrency", "20"]));
    worker.ready().await;
    eventually("it works", || async { (world.count(LEASED).await == 20).then_some(()) }).await;
    worker.signal("INT");
    worker.signal("TERM");
    let code = worker.ended().await;
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    assert!(world.count(LEASED).await > 0, "its leases lapse by themselves");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_that_is_told_to_stop_answers_what_it_accepted() {
    let world = World::new().await;
    let mut api = Program::start(command(&world, &["api"]));
    let line = api.ready().await;
    let client = Client::new(line.rsplit(' ').next().expect("a URL"), &world.api_key);
    let waiting = tokio::spawn(async move { client.pay("key-1", &body("order-1", "pm_ok")).await });
    eventually("it was accepted", || async { (world.count("SELECT count(*) FROM payments").await == 1).then_some(()) })
        .await;
    api.signal("TERM");
    let answer = waiting.await.expect("an answer");
    assert_eq!((answer.status, answer.json["status"].as_str()), (202, Some("PENDING")), "{}", answer.text);
    assert_eq!(api.ended().await, Some(0));
}
