//! `GET /healthz` and `GET /readyz`: for whoever restarts instances, and whoever sends them requests.

use crate::Api;
use crate::draining::Draining;
use crate::problem::{Code, Problem};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use shared::db::{self, DbError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use utoipa::ToSchema;

/// Probes give up early; so do we, and say why.
const PATIENCE: Duration = Duration::from_millis(900);

crate::openapi::problems!(pub Problems: NotReady, InternalError);

/// How it is.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `alive` or `ready`.
    status: &'static str,
}

/// Serves `/healthz`.
pub fn alive<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/healthz", get(healthz))
}

/// Serves `/readyz`.
pub fn ready() -> Router<Arc<Api>> {
    Router::new().route("/readyz", get(readyz))
}

/// Whether this process is alive
///
/// It is when it answers. Nothing else is asked: a restart does not bring a database back.
#[utoipa::path(get, path = "/healthz", tag = "operations",
    responses((status = 200, description = "Alive", body = Health)))]
pub async fn healthz() -> Json<Health> {
    Json(Health { status: "alive" })
}

/// Whether this instance should get requests
///
/// It should when the database is a primary with the migrations of this build, and no shutdown has begun.
#[utoipa::path(get, path = "/readyz", tag = "operations",
    responses((status = 200, description = "Ready", body = Health), Problems))]
pub async fn readyz(State(api): State<Arc<Api>>, draining: Draining) -> Result<Json<Health>, Problem> {
    if draining.has_begun() {
        return Err(Problem::new(Code::NotReady, "this instance is shutting down"));
    }
    match timeout(PATIENCE, db::ready(&api.pool)).await {
        Ok(Ok(())) => Ok(Json(Health { status: "ready" })),
        Ok(Err(error)) => Err(not_ready(&error)),
        Err(_) => Err(Problem::new(Code::NotReady, UNREACHABLE)),
    }
}

const UNREACHABLE: &str =
    "the database does not answer; check that Postgres runs, can be reached from here and accepts this user";

/// The database's own words stay in the log; ours say what to do.
fn not_ready(error: &DbError) -> Problem {
    tracing::warn!(%error, "not ready");
    match error {
        DbError::Standby | DbError::Outdated { .. } => Problem::new(Code::NotReady, error.to_string()),
        DbError::Url(_) | DbError::Unreachable(_) | DbError::Migration(_) => Problem::new(Code::NotReady, UNREACHABLE),
    }
}
