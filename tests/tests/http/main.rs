//! The HTTP contract, laid out like its URLs: what a client may rely on, asked over real connections of
//! api instances, workers, an acquirer and a database.

mod acquirer_webhooks;
mod documents;
mod events;
mod get_payment;
mod health;
mod list_payments;
mod merchants;
mod metrics;
mod network;
mod operators;
mod post_payments;
mod problems;
mod routing;
mod slow_clients;
mod stopping;
mod timeline;

use reqwest::Method;
use sandbox::acquirer::Settings;
use sandbox::postgres::{Options, Postgres};
use serde_json::Value;
use shared::db;
use shared::payment::life::Status;
use sqlx::{PgPool, Postgres as Db, Transaction};
use tests::client::body;
use tests::database::Database;
use tests::{Answer, Api, Client, World, eventually};
use uuid::Uuid;

/// The ways to end, each with the payment method that leads there.
const ENDS: [(&str, Status); 3] =
    [("pm_ok", Status::Paid), ("pm_declined", Status::Declined), ("pm_rejected", Status::Failed)];

/// A world with an api instance. Payments stay PENDING until a worker is started.
async fn world() -> (World, Api) {
    let world = World::new().await;
    let api = world.api().await;
    (world, api)
}

/// A world on a server of its own, which can be stopped.
async fn world_on_own_server() -> (Postgres, World) {
    let postgres = Postgres::start(Options::default()).await.unwrap_or_else(|error| panic!("{error}"));
    let database = Database::at(&postgres.url("postgres"));
    db::migrate(&database.pool).await.expect("the migrations run");
    let world = World::on(database, Settings::default()).await;
    (postgres, world)
}

/// The request of `order-N`.
fn order(n: usize, method: &str) -> Value {
    body(&format!("order-{n}"), method)
}

/// Where a payment is.
fn path_of(payment_id: Uuid) -> String {
    format!("/v1/payments/{payment_id}")
}

/// Sends a request of this method with these headers.
async fn send(client: &Client, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let request =
        headers.iter().fold(client.request(method, path), |request, (name, value)| request.header(*name, *value));
    Answer::of(request.send().await.expect("an answer")).await
}

/// Gets a path with these headers.
async fn get_with(client: &Client, path: &str, headers: &[(&str, &str)]) -> Answer {
    send(client, Method::GET, path, headers).await
}

/// Posts these bytes as they are.
async fn post_bytes(client: &Client, key: &str, bytes: impl Into<reqwest::Body>) -> Answer {
    let request = client.request(Method::POST, "/v1/payments").header("Idempotency-Key", key);
    let request = request.header("Content-Type", "application/json").body(bytes);
    Answer::of(request.send().await.expect("an answer")).await
}

/// Pays `order-N` with `key-N` to this end; a worker must run.
async fn ended(client: &Client, n: usize, method: &str, end: Status) -> Answer {
    let answer = client.pay(&format!("key-{n}"), &order(n, method)).await;
    assert_eq!((answer.status, answer.json["status"].as_str()), (201, Some(end.as_str())), "{}", answer.text);
    answer
}

/// Posts `order-N` with `key-N` and brings it to UNKNOWN, where it stays while no worker runs.
async fn in_doubt(world: &World, client: &Client, n: usize, method: &str) -> Answer {
    let accepted = client.post(&format!("key-{n}"), &order(n, method)).await;
    let worker = world.worker();
    world.until(accepted.payment_id(), Status::Unknown).await;
    worker.stop().await;
    accepted
}

/// Every problem is one: the standard members, ours, and the request's id to quote.
#[track_caller]
fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code()), (status, code), "{}", answer.text);
    assert_eq!(answer.header("Content-Type"), "application/problem+json");
    assert_eq!(answer.header("Cache-Control"), "no-store");
    assert_eq!(answer.json["type"], format!("/docs#{code}"));
    assert_eq!(answer.json["status"], status);
    assert!(answer.json["retryable"].is_boolean(), "{}", answer.text);
    for member in ["title", "detail", "instance", "request_id"] {
        assert!(answer.json[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {}", answer.text);
    }
    assert_eq!(answer.json["request_id"], answer.header("X-Request-Id"));
}

/// A problem that names a payment, and where it is.
#[track_caller]
fn assert_about(answer: &Answer, payment_id: Uuid) {
    assert_eq!(answer.json["payment_id"], payment_id.to_string(), "{}", answer.text);
    assert_eq!(answer.header("Location"), path_of(payment_id));
}

/// The answer to a request that waits, as soon as it is there.
async fn heard<T>(asking: tokio::task::JoinHandle<T>) -> T {
    asking.await.expect("no panic")
}

/// How many rows there are that a POST makes.
async fn stored(world: &World) -> [i64; 2] {
    let keys = world.count("SELECT count(*) FROM idempotency_keys").await;
    [keys, world.count("SELECT count(*) FROM payments").await]
}

/// Keeps whoever accepts a payment in the middle of it, until this is rolled back. Reading goes on.
async fn hold_accepts(world: &World) -> Transaction<'static, Db> {
    let mut held = world.database.pool.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE payments IN SHARE MODE").execute(&mut *held).await.expect("the lock");
    held
}

/// Waits until at least so many connections of the world's database wait for a lock.
async fn until_held(world: &World, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("somebody waits for a lock", || async { (world.count(sql).await >= count).then_some(()) }).await;
}

/// Waits until an api instance has looked for what somebody waits for (`Prefer: wait`).
async fn until_somebody_waits(pool: &PgPool) {
    // A parameter: as a literal it would find the text of this very statement.
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE $1";
    let looked = || async {
        let looks = sqlx::query_scalar::<_, i64>(sql).bind("%p.version, p.status%").fetch_one(pool).await;
        looks.ok().filter(|count| *count > 0)
    };
    eventually("somebody waits for a payment", looked).await;
}
