//! The HTTP API: accepting payments, reading them, the feed of events, and what operators look at.
//!
//! Architecture invariant: the API never calls an acquirer and holds no state that another instance
//! would miss. Any number of instances may stand behind a load balancer; the database's unique
//! constraints are what they share.

mod auth;
mod body;
mod conditional;
mod currency;
mod cursor;
mod draining;
mod idempotency_key;
mod limits;
mod observe;
mod openapi;
mod patience;
mod payload;
mod prefer;
mod problem;
mod query;
mod request_id;
mod routes;
mod server;
mod strict_json;
mod traceparent;
mod wait;

pub use server::serve;

use axum::{Router, middleware};
use routes::metrics::Scrape;
use shared::committer::Committer;
use shared::config::Config;
use shared::queue::wake::Wake;
use shared::telemetry::Metrics;
use shared::{merchant, operator};
use sqlx::PgPool;
use std::sync::Arc;

/// What the API stands on.
pub struct Services {
    /// The primary.
    pub pool: PgPool,
    /// Takes what is accepted.
    pub committer: Committer,
    /// Counts requests, and shows everything else.
    pub metrics: Arc<Metrics>,
    /// Wake-ups of the channel [`shared::queue::wake::PAYMENTS`].
    pub changes: Wake,
    /// The configuration.
    pub config: Arc<Config>,
}

/// What handlers share.
struct Api {
    pool: PgPool,
    committer: Committer,
    config: Arc<Config>,
    merchants: auth::Gate<merchant::Caller>,
    operators: auth::Gate<operator::Caller>,
    limits: limits::Limits,
    waiting_room: wait::WaitingRoom,
    metrics: Arc<Metrics>,
}

/// The whole API; `/metrics` is part of it unless it has a listener of its own. Must be called inside
/// a Tokio runtime: it starts the tasks that look credentials up and look after waiting requests, and
/// they end with the router.
pub fn app(services: Services) -> Router {
    let Services { pool, committer, metrics, changes, config } = services;
    let mut routes =
        routes::v1().merge(routes::ops::router()).merge(routes::health::ready()).merge(routes::docs::router());
    if config.api.metrics_listen.is_none() {
        routes = routes.merge(routes::metrics::router(Scrape::new(pool.clone(), metrics.clone())));
    }
    let api = Api {
        merchants: auth::Gate::start(pool.clone()),
        operators: auth::Gate::start(pool.clone()),
        limits: limits::Limits::new(config.api.requests_per_second),
        waiting_room: wait::WaitingRoom::open(pool.clone(), changes),
        metrics: metrics.clone(),
        pool,
        committer,
        config,
    };
    finish(routes.with_state(Arc::new(api)), metrics)
}

/// `/metrics` and `/healthz` for a listener of their own, of the API or of a worker.
pub fn metrics_app(pool: PgPool, metrics: Arc<Metrics>) -> Router {
    finish(routes::metrics::router(Scrape::new(pool, metrics.clone())), metrics)
}

/// What every router ends with: liveness, answers to unknown paths and methods, the outermost layer.
fn finish(routes: Router, metrics: Arc<Metrics>) -> Router {
    routes
        .merge(routes::health::alive())
        .fallback(routes::no_such_path)
        .method_not_allowed_fallback(routes::no_such_method)
        .layer(middleware::from_fn_with_state(metrics, observe::observe))
}
