//! `GET /healthz` and `GET /readyz`.

use crate::{assert_problem, order, path_of, world, world_on_own_server};
use sandbox::postgres::{Options, Postgres};
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;
use tests::database::Database;
use tests::{Answer, eventually};
use tokio::process::Command;

#[track_caller]
fn assert_not_ready(answer: &Answer, why: &str) {
    assert_problem(answer, 503, "not_ready");
    assert!(answer.json["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{why}: {}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_on_a_migrated_primary_is_alive_and_ready_for_everyone() {
    let (_world, api) = world().await;
    for (path, status) in [("/healthz", "alive"), ("/readyz", "ready")] {
        // Load balancers have no credential.
        let url = format!("{}{path}", api.base_url);
        let answer = Answer::of(api.client.http.get(url).send().await.expect("an answer")).await;
        assert_eq!((answer.status, answer.json["status"].as_str()), (200, Some(status)), "{}", answer.text);
        assert_eq!(answer.header("Cache-Control"), "no-store");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_an_instance_is_alive_and_not_ready() {
    let (mut postgres, world) = world_on_own_server().await;
    let api = world.api().await;
    assert_eq!(api.client.get("/readyz").await.status, 200);
    postgres.stop().await.expect("it stops");
    for _ in 0..3 {
        assert_not_ready(&api.client.get("/readyz").await, "database");
        assert_eq!(api.client.get("/healthz").await.status, 200, "a restart would not bring it back");
    }
    let metrics = api.client.get("/metrics").await;
    assert!(metrics.status == 200 && metrics.text.contains("\npayonce_database_up 0\n"), "{}", metrics.text);
    postgres.restart().await.expect("it comes back");
    eventually("ready again", || async { (api.client.get("/readyz").await.status == 200).then_some(()) }).await;
    assert!(api.client.get("/metrics").await.text.contains("\npayonce_database_up 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_migrations_of_this_build_an_instance_is_not_ready() {
    let (world, api) = world().await;
    world.run("DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)").await;
    assert_not_ready(&api.client.get("/readyz").await, "payonce migrate");
    world.run("DROP TABLE _sqlx_migrations").await;
    assert_not_ready(&api.client.get("/readyz").await, "payonce migrate");
}

/// A streaming replica of `primary`; `None` where the machine's Postgres came without its tools.
async fn standby_of(primary: &Postgres) -> Option<(TempDir, Postgres)> {
    let basebackup = primary.binaries().directory.join("pg_basebackup");
    if !basebackup.is_file() {
        eprintln!("skipped: there is no {}", basebackup.display());
        return None;
    }
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    // Started by root, the server runs as a user who must get in.
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let copied = Command::new(basebackup)
        .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &primary.port().to_string()])
        .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--pgdata"])
        .arg(directory.path().join("pgdata"))
        .output()
        .await
        .expect("it runs");
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let options = Options { data: Some(directory.path().to_owned()), ..Options::default() };
    let standby = Postgres::start(options).await.unwrap_or_else(|error| panic!("{error}"));
    Some((directory, standby))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_on_a_standby_is_not_ready_and_reads_nothing_until_it_is_the_primary() {
    let (mut primary, mut world) = world_on_own_server().await;
    let accepted = world.api().await.client.post("key-1", &order(1, "pm_ok")).await;
    let Some((_directory, standby)) = standby_of(&primary).await else { return };
    world.database = Database::at(&standby.url("postgres"));
    let api = world.api().await;
    assert_not_ready(&api.client.get("/readyz").await, "standby");
    assert_eq!(api.client.get("/healthz").await.status, 200);
    // The payment is there, and may have changed on the primary: nothing is said about it.
    let path = path_of(accepted.payment_id());
    let (read, repeat) =
        tokio::join!(api.client.get(&path), async { api.client.post("key-1", &order(1, "pm_ok")).await });
    assert_problem(&read, 503, "database_unavailable");
    assert_problem(&repeat, 503, "database_unavailable");
    // It takes over.
    primary.stop().await.expect("it stops");
    let mut admin = sqlx::postgres::PgListener::connect(&standby.url("postgres")).await.expect("a connection");
    sqlx::query("SELECT pg_promote()").execute(&mut admin).await.expect("promoted");
    eventually("ready", || async { (api.client.get("/readyz").await.status == 200).then_some(()) }).await;
    let read =
        eventually("it answers", || async { Some(api.client.get(&path).await).filter(|a| a.status != 503) }).await;
    assert_eq!((read.status, &read.text), (200, &accepted.text), "what was accepted was not lost");
    assert_problem(&api.client.post("key-1", &order(1, "pm_ok")).await, 409, "payment_in_progress");
    assert_eq!(api.client.post("key-2", &order(2, "pm_ok")).await.status, 202);
}
