use shared::queue::wake::{JOBS, Wake};
use std::sync::Arc;
use std::time::Duration;
use tests::road::State;
use tests::{Road, World, eventually};

const LISTENERS: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'";

async fn notify(world: &World) {
    world.run("NOTIFY payonce_jobs").await;
}

/// Whether a rest is ended by notifications rather than by its time.
async fn hears(wake: &mut Wake, world: &World) -> bool {
    wake.about_to_read();
    let rest = tokio::spawn(wake.rest(Duration::from_secs(3600)));
    eventually("it is heard", || async {
        notify(world).await;
        rest.is_finished().then_some(())
    })
    .await;
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_was_killed_is_replaced_and_work_is_found_meanwhile() {
    let world = World::new().await;
    let api = world.api().await;
    let _worker = world.worker();
    eventually("both listen", || async { (world.count(LISTENERS).await == 2).then_some(()) }).await;
    world
        .run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        )
        .await;
    let paid = api.client.pay("key-1", &tests::client::body("order-1", "pm_ok")).await;
    assert_eq!(paid.json["status"], "PAID", "{}", paid.text);
    eventually("both listen again", || async { (world.count(LISTENERS).await == 2).then_some(()) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_open_listener_is_found_out_and_replaced() {
    let world = World::new().await;
    let road = Road::to(&world.database.url).await;
    let mut wake = Wake::start(road.url.clone(), JOBS, Arc::default());
    assert!(hears(&mut wake, &world).await);
    // From here on the old connection stays open and nothing passes.
    road.becomes(State::Frozen);
    assert!(hears(&mut wake, &world).await, "a new connection was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wake_up_during_a_read_ends_the_rest_after_it() {
    let world = World::new().await;
    let mut wake = Wake::start(world.database.url.clone(), JOBS, Arc::default());
    assert!(hears(&mut wake, &world).await);
    wake.about_to_read();
    let seen = tokio::spawn(wake.rest(Duration::from_secs(3600)));
    notify(&world).await;
    seen.await.expect("heard");
    // Not noted as read since: the next rest ends at once, whenever it begins.
    wake.rest(Duration::from_secs(3600)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_commits_are_few_notifications_and_none_carries_a_payload() {
    let world = World::new().await;
    let mut listener = sqlx::postgres::PgListener::connect(&world.database.url).await.expect("a listener");
    listener.listen(JOBS).await.expect("listening");
    let notifier = shared::queue::wake::Notifier::start(&world.database.pool);
    let began = std::time::Instant::now();
    for _ in 0..500 {
        notifier.jobs();
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
    let took = began.elapsed();
    let mut heard = 0;
    while let Ok(notification) = tokio::time::timeout(Duration::from_millis(200), listener.recv()).await {
        assert_eq!(notification.expect("heard").payload(), "");
        heard += 1;
    }
    let most = took.as_millis() / 10 + 2;
    assert!(heard > 0 && heard <= most, "{heard} notifications in {took:?}, at most one in 10 ms: {most}");
}

#[test]
fn no_two_incarnations_of_a_worker_share_a_name() {
    assert_ne!(worker::context::incarnation(), worker::context::incarnation());
}
