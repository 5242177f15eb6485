//! What operators and their scripts do, under `/ops/api/v1`, one file each.

pub mod me;
pub mod operators;

use crate::Api;
use axum::Router;
use std::sync::Arc;

/// Version 1 of the operators' contract.
pub fn router() -> Router<Arc<Api>> {
    Router::new().merge(me::router()).merge(operators::router())
}
