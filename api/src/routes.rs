//! The paths, one file each. Every module owns its `router()`.

pub mod acquirer_webhooks;
pub mod create_payment;
pub mod docs;
pub mod events;
pub mod get_payment;
pub mod get_timeline;
pub mod health;
pub mod list_payments;
pub mod metrics;
pub mod ops;

use crate::Api;
use crate::problem::{Code, Problem};
use axum::Router;
use std::sync::Arc;

/// Version 1 of the contract.
pub fn v1() -> Router<Arc<Api>> {
    Router::new()
        .merge(create_payment::router())
        .merge(list_payments::router())
        .merge(get_payment::router())
        .merge(get_timeline::router())
        .merge(events::router())
        .merge(acquirer_webhooks::router())
}

/// The answer to an unknown path.
pub async fn no_such_path() -> Problem {
    Problem::new(Code::NotFound, "there is no such path")
}

/// The answer to a known path and another method; the router adds `Allow`.
pub async fn no_such_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this path does not answer this method; see the Allow header")
}
