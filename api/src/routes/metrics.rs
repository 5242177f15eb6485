//! `GET /metrics`: for Prometheus.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header;
use shared::telemetry::Metrics;
use sqlx::PgPool;
use std::sync::Arc;
use tokio::sync::Mutex;

/// OpenMetrics, the text that Prometheus prefers.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What a scrape needs. One scrape reads at a time, however many ask.
#[derive(Clone)]
pub struct Scrape {
    pool: PgPool,
    metrics: Arc<Metrics>,
    turn: Arc<Mutex<()>>,
}

impl Scrape {
    /// Shows `metrics`, and what the database behind `pool` knows.
    #[must_use]
    pub fn new(pool: PgPool, metrics: Arc<Metrics>) -> Self {
        Self { pool, metrics, turn: Arc::default() }
    }
}

/// Serves `/metrics`.
pub fn router<S: Clone + Send + Sync + 'static>(scrape: Scrape) -> Router<S> {
    Router::new().route("/metrics", get(metrics)).with_state(scrape)
}

/// Metrics of this process and of the whole service
///
/// OpenMetrics text. It has a listener of its own where `api.metrics_listen` is set.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = OPEN_METRICS)))]
pub async fn metrics(State(scrape): State<Scrape>) -> Response {
    let _turn = scrape.turn.lock().await;
    let text = scrape.metrics.render(&scrape.pool).await;
    ([(header::CONTENT_TYPE, OPEN_METRICS)], text).into_response()
}
