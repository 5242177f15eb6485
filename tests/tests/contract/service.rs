use crate::{paid, world};
use sandbox::postgres::{Options, Postgres, find_binaries};
use shared::payment::life::Status;
use tests::World;

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_design_is_there() {
    let (world, api) = world().await;
    let (_worker, _) = paid(&world, &api, 1, "pm_ok", Status::Paid).await;
    // Every process counts for itself: the API here, the worker's calls and steps there.
    let text = api.client.get("/metrics").await.text;
    let names = [
        "payonce_payments_unknown ",
        "payonce_payments_unknown_oldest_seconds ",
        "payonce_reconciliation_lag_seconds_count ",
        "payonce_key_takeovers_total ",
        "payonce_stale_attempts_total ",
        "payonce_manual_review_open{reason=\"conflicted\"} ",
        "payonce_jobs_due{step=\"charge\"} ",
        "payonce_job_oldest_due_seconds{step=\"publish\"} ",
        "payonce_http_requests_total{route=\"/v1/payments\",status=\"201\"} 1",
        "payonce_http_request_seconds_count{route=\"/v1/payments\"} 1",
        "payonce_database_up 1",
    ];
    for name in names {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name}\n{text}");
    }
    let worker = _worker.metrics.render(&world.database.pool).await;
    for name in [
        "payonce_step_seconds_count{step=\"charge\",outcome=\"PAID\"} 1",
        "payonce_provider_calls_total{acquirer=\"default\",kind=\"charge\",outcome=\"SUCCESS\"} 1",
    ] {
        assert!(worker.lines().any(|line| line.starts_with(name)), "{name}\n{worker}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_describes_itself() {
    let (_world, api) = world().await;
    let contract = api.client.get("/openapi.json").await;
    assert!(contract.json["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{}", contract.text);
    for path in ["/v1/payments", "/v1/payments/{id}", "/v1/events", "/healthz", "/readyz"] {
        assert!(contract.json["paths"][path].is_object(), "{path}");
    }
    for status in ["201", "202", "400", "401", "409", "413", "415", "422", "429", "503"] {
        assert!(contract.json["paths"]["/v1/payments"]["post"]["responses"][status].is_object(), "{status}");
    }
    let page = api.client.get("/docs").await;
    assert!(page.status == 200 && page.header("Content-Type").starts_with("text/html"), "{:?}", page.headers);
    assert!(!page.text.contains("https://") && !page.text.contains("//cdn"), "nothing comes from elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_on_a_standby_is_not_ready() {
    let primary = Postgres::start(Options::default()).await.expect("a server");
    let binaries = find_binaries().expect("binaries");
    let folder = tempfile::Builder::new().prefix("payonce-standby").tempdir_in("/var/tmp").expect("a directory");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("a mode");
    let data = folder.path().join("pgdata");
    let copied = std::process::Command::new(binaries.directory.join("pg_basebackup"))
        .args(["-h", "127.0.0.1", "-U", "postgres", "-R", "-X", "stream", "-c", "fast"])
        .args(["-p", &primary.port().to_string(), "-D"])
        .arg(&data)
        .status()
        .expect("pg_basebackup runs");
    assert!(copied.success());
    let standby = Postgres::start(Options { data: Some(folder.path().to_owned()), ..Options::default() }).await;
    let standby = standby.expect("a standby");
    let mut world = World::new().await;
    world.database = tests::database::Database::at(&standby.url("postgres"));
    let api = world.api().await;
    let ready = api.client.get("/readyz").await;
    assert_eq!(ready.status, 503, "{}", ready.text);
    assert_eq!(api.client.get("/healthz").await.status, 200, "alive all the same");
}
