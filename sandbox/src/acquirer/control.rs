//! The acquirer's levers for tests and demonstrations: `/ledger`, `/faults`, `/healthz`.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;

use super::answers;
use super::desk::Desk;

/// What part of the books to show.
#[derive(Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    entries: bool,
    reference: Option<String>,
}

pub(super) async fn ledger(State(desk): State<Arc<Desk>>, Query(part): Query<Part>) -> Response {
    let now_ms = desk.clock.now_ms();
    match part.reference {
        Some(reference) => {
            let view = desk.ledger().reference_view(&reference, now_ms);
            answers::with_json(StatusCode::OK, &view)
        }
        None => {
            let view = desk.ledger().view(now_ms, part.entries);
            answers::with_json(StatusCode::OK, &view)
        }
    }
}

pub(super) async fn reset_ledger(State(desk): State<Arc<Desk>>) -> StatusCode {
    desk.ledger().reset();
    StatusCode::NO_CONTENT
}

pub(super) async fn faults(State(desk): State<Arc<Desk>>) -> Response {
    answers::with_json(StatusCode::OK, &*desk.settings())
}

pub(super) async fn change_faults(State(desk): State<Arc<Desk>>, body: Bytes) -> Response {
    let changed = serde_json::from_slice(&body)
        .map_err(Into::into)
        .and_then(|patch| desk.change_settings(|settings| settings.merged(patch)));
    match changed {
        Ok(settings) => answers::with_json(StatusCode::OK, &*settings),
        Err(invalid) => {
            let message = invalid.to_string();
            answers::explained(StatusCode::BAD_REQUEST, "invalid_settings", &message)
        }
    }
}

pub(super) async fn health() -> &'static str {
    "ok\n"
}
