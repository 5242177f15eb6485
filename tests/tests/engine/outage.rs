use sandbox::acquirer::{Latency, Settings};
use sandbox::postgres::{Options, Postgres};
use shared::db;
use shared::payment::life::Status;
use tests::database::Database;
use tests::{World, eventually};

const PAYMENTS: usize = 60;

/// A world on a server of its own, which can be stopped.
async fn own_server() -> (Postgres, World) {
    let postgres = Postgres::start(Options::default()).await.expect("a server");
    let database = Database::at(&postgres.url("postgres"));
    db::migrate(&database.pool).await.expect("migrations");
    let settings = Settings { latency_ms: Latency::Fixed { ms: 30 }, ..Settings::default() };
    (postgres, World::on(database, settings).await)
}

async fn until_paid(world: &World, count: i64) {
    let paid = || async {
        sqlx::query_scalar::<_, i64>("SELECT count(*) FROM payments WHERE status = 'PAID'")
            .fetch_one(&world.database.pool)
            .await
            .ok()
    };
    eventually("so many are paid", || async { paid().await.filter(|paid| *paid >= count).map(drop) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_stops_and_comes_back_ends_no_worker_and_loses_nothing() {
    let (mut postgres, mut world) = own_server().await;
    world.config.steps.charge.concurrency = 8;
    let ids = crate::post(&world, PAYMENTS).await;
    let worker = world.worker();
    until_paid(&world, 5).await;
    postgres.stop().await.expect("it stops");
    postgres.restart().await.expect("it comes back");
    until_paid(&world, 25).await;
    // Not even a goodbye this time.
    postgres.kill().await.expect("it dies");
    postgres.restart().await.expect("it comes back");
    for id in ids {
        world.until(id, Status::Paid).await;
    }
    world.until_idle().await;
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.duplicates.len()), (PAYMENTS as u64, 0), "{ledger:?}");
    assert_eq!(world.count("SELECT count(*) FROM events").await, PAYMENTS as i64);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_while_the_database_is_away_is_told_to_come_again_and_then_accepted() {
    let (mut postgres, world) = own_server().await;
    let api = world.api().await;
    let request = tests::client::body("order-1", "pm_ok");
    postgres.stop().await.expect("it stops");
    let away = api.client.post("key-1", &request).await;
    assert_eq!((away.status, away.code()), (503, "database_unavailable"), "{}", away.text);
    assert!(!away.header("Retry-After").is_empty() && away.json["retryable"] == true, "{}", away.text);
    assert_eq!(api.client.get("/readyz").await.status, 503);
    assert_eq!(api.client.get("/healthz").await.status, 200);
    postgres.restart().await.expect("it comes back");
    assert_eq!(world.count("SELECT count(*) FROM idempotency_keys").await, 0, "nothing was stored");
    let accepted = eventually("it is accepted", || async {
        let answer = api.client.post("key-1", &request).await;
        (answer.status == 202).then_some(answer)
    })
    .await;
    assert_eq!(accepted.json["status"], "PENDING");
    eventually("ready", || async { (api.client.get("/readyz").await.status == 200).then_some(()) }).await;
}
