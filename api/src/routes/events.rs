//! `GET /v1/events`: the outbox as a feed. A consumer reads on from where it stopped and misses nothing.

use crate::Api;
use crate::auth::Caller;
use crate::cursor;
use crate::patience::patiently;
use crate::problem::Problem;
use crate::query::Query;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::Uri;
use serde::Serialize;
use shared::outbox::{self, CloudEvent, Cursor, Event};
use std::sync::Arc;
use utoipa::ToSchema;
use uuid::Uuid;

crate::openapi::problems!(pub Problems:
    InvalidRequest, Unauthorized, RateLimited, InternalError, DatabaseUnavailable);

/// Before the first event.
const BEGINNING: Cursor = Cursor { tx: 0, id: Uuid::nil() };

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventList<'a> {
    /// Always `list`.
    object: &'static str,
    /// Oldest first; CloudEvents 1.0.
    data: Vec<CloudEvent<'a>>,
    /// Where to read on, now or later; also of an empty page.
    next_cursor: String,
}

/// Serves `GET /v1/events`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/v1/events", get(list_events))
}

/// What became of payments, oldest first
///
/// Store `next_cursor` with what you made of the page, and go on from there. Events may come twice, to
/// you or through other sinks: an event's `id` never changes.
#[utoipa::path(get, path = "/v1/events", tag = "events", security(("api_key" = [])),
    params(
        ("after" = Option<String>, Query, description = "`next_cursor` of the page before; absent: from the beginning"),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Entries of a page; 20 when absent")),
    responses((status = 200, description = "A page", body = EventList), Problems))]
pub async fn list_events(State(api): State<Arc<Api>>, Caller(caller): Caller, uri: Uri) -> Result<Response, Problem> {
    let mut query = Query::of(&uri);
    let after = query.take("after", "the next_cursor of a page of events", cursor::to_event);
    let limit = query.limit();
    query.done()?;
    let entries = patiently(outbox::feed(&api.pool, caller.merchant_id, after.as_ref(), limit)).await?;
    let reached = entries.last().map(|(_, cursor)| cursor).or(after.as_ref()).unwrap_or(&BEGINNING);
    page(&entries, reached)
}

fn page(entries: &[(Event, Cursor)], reached: &Cursor) -> Result<Response, Problem> {
    let data: serde_json::Result<Vec<_>> = entries.iter().map(|(event, _)| event.to_cloud_event()).collect();
    let data = data.map_err(|error| {
        tracing::error!(%error, "a stored event is not JSON");
        Problem::internal()
    })?;
    Ok(Json(EventList { object: "list", data, next_cursor: cursor::of_event(reached) }).into_response())
}
