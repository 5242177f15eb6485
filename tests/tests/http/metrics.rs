//! `GET /metrics`, of an api instance and of a worker.

use crate::{ended, get_with, in_doubt, order, path_of, world};
use shared::payment::life::Status;
use tests::{Answer, Client, World};
use tokio::net::TcpListener;

/// What a scrape says; a scraper has no credential.
async fn scrape(base_url: &str) -> String {
    let answer = Client::new(base_url, "").get("/metrics").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert!(answer.header("Content-Type").starts_with("application/openmetrics-text;"), "{:?}", answer.headers);
    assert!(answer.text.ends_with("# EOF\n"));
    answer.text
}

/// The samples that begin like this: `name{labels} value`.
#[track_caller]
fn assert_samples(text: &str, samples: &[&str]) {
    for sample in samples {
        assert!(text.lines().any(|line| line.starts_with(sample)), "{sample}\n{text}");
    }
}

/// A worker's metrics, on a listener of their own.
async fn serve_worker(world: &World, worker: &tests::Worker) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let app = api::metrics_app(world.database.pool.clone(), worker.metrics.clone());
    let config = world.config.api.clone();
    tokio::spawn(async move { api::serve(listener, app, &config, std::future::pending()).await });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_design_is_there_after_some_payments() {
    let (world, api) = world().await;
    let worker = world.worker();
    ended(&api.client, 1, "pm_ok", Status::Paid).await;
    ended(&api.client, 2, "pm_declined", Status::Declined).await;
    world.until_idle().await;
    let workers = scrape(&serve_worker(&world, &worker).await).await;
    worker.stop().await;
    in_doubt(&world, &api.client, 3, "pm_processing_forever").await;
    api.client.post("key-4", &order(4, "pm_ok")).await;
    world.run("UPDATE deliveries SET state = 'PENDING', delivered_at = NULL").await;
    let apis = scrape(&api.base_url).await;
    // What the database knows, everybody shows.
    for text in [&workers, &apis] {
        assert_samples(
            text,
            &[
                "payonce_payments_unknown ",
                "payonce_payments_unknown_oldest_seconds ",
                "payonce_manual_review_open{reason=\"unknown_past_window\"} 0",
                "payonce_manual_review_open{reason=\"delivery_exhausted\"} 0",
                "payonce_jobs_due{step=\"charge\"} ",
                "payonce_jobs_due{step=\"lookup\"} ",
                "payonce_jobs_due{step=\"settle\"} ",
                "payonce_jobs_due{step=\"publish\"} ",
                "payonce_job_oldest_due_seconds{step=\"charge\"} ",
                "payonce_reconciliation_lag_seconds_count ",
                "payonce_key_takeovers_total ",
                "payonce_stale_attempts_total ",
                "payonce_database_up 1",
            ],
        );
    }
    assert_samples(
        &apis,
        &[
            "payonce_payments_unknown 1",
            "payonce_jobs_due{step=\"charge\"} 1",
            "payonce_events_undelivered{sink=\"log\"} 2",
            "payonce_http_requests_total{route=\"/v1/payments\",status=\"201\"} 2",
            "payonce_http_requests_total{route=\"/v1/payments\",status=\"202\"} 2",
            "payonce_http_request_seconds_count{route=\"/v1/payments\"} 4",
            "payonce_http_request_seconds_sum{route=\"/v1/payments\"} ",
            "payonce_http_request_seconds_bucket{le=\"+Inf\",route=\"/v1/payments\"} 4",
        ],
    );
    assert_samples(
        &workers,
        &[
            "payonce_step_seconds_count{step=\"charge\",outcome=\"PAID\"} 1",
            "payonce_step_seconds_count{step=\"publish\",outcome=",
            "payonce_provider_calls_total{acquirer=\"default\",kind=\"charge\",outcome=\"SUCCESS\"} 1",
            "payonce_provider_calls_total{acquirer=\"default\",kind=\"charge\",outcome=\"DECLINED\"} 1",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_route_and_status_and_never_by_path() {
    let (_world, api) = world().await;
    let accepted = api.client.post("key-1", &order(1, "pm_ok")).await;
    api.client.post("key-1", &order(1, "pm_ok")).await;
    api.client.post("key-1", &order(1, "pm_other")).await;
    let path = path_of(accepted.payment_id());
    api.client.get(&path).await;
    get_with(&api.client, &path, &[("If-None-Match", "\"1\"")]).await;
    api.client.get("/v1/payments/nonsense").await;
    api.client.get("/v1/nothing-here").await;
    api.client.get("/v1/events?limit=0").await;
    Client::new(&api.base_url, "nobody").get("/v1/events").await;
    let delete = api.client.request(reqwest::Method::DELETE, "/v1/events");
    Answer::of(delete.send().await.expect("an answer")).await;
    let text = scrape(&api.base_url).await;
    let counted =
        |route: &str, status: u16| format!("payonce_http_requests_total{{route=\"{route}\",status=\"{status}\"}} 1");
    let expected = [
        counted("/v1/payments", 202),
        counted("/v1/payments", 409),
        counted("/v1/payments", 422),
        counted("/v1/payments/{id}", 200),
        counted("/v1/payments/{id}", 304),
        counted("/v1/payments/{id}", 404),
        counted("none", 404),
        counted("/v1/events", 400),
        counted("/v1/events", 401),
        counted("/v1/events", 405),
    ];
    assert_samples(&text, &expected.each_ref().map(String::as_str));
    for secret in [&accepted.payment_id().to_string(), "nothing-here", "key-1", "order-1", "pm_ok"] {
        assert!(!text.contains(secret), "{secret}\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_listener_of_their_own_they_are_not_on_the_api() {
    let (mut world, _) = world().await;
    world.config.api.metrics_listen = Some(([127, 0, 0, 1], 0).into());
    let api = world.api().await;
    crate::assert_problem(&api.client.get("/metrics").await, 404, "not_found");
    assert_eq!(api.client.get("/healthz").await.status, 200);
}
