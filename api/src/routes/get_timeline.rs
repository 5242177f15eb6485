//! `GET /v1/payments/{id}/timeline`: a payment's life in order.

use super::get_payment::{Problems, not_found, parse};
use crate::Api;
use crate::auth::Caller;
use crate::patience::patiently;
use crate::problem::Problem;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Serialize;
use shared::payment::PaymentKey;
use shared::payment::timeline::{self, Entry};
use std::sync::Arc;
use tracing::{Span, field};
use utoipa::ToSchema;
use uuid::Uuid;

/// A payment's life.
#[derive(Debug, Serialize, ToSchema)]
pub struct Timeline {
    /// Always `timeline`.
    object: &'static str,
    /// The payment.
    payment_id: Uuid,
    /// In order; of more than 1,000 the latest.
    data: Vec<Entry>,
}

/// Serves `GET /v1/payments/{id}/timeline`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/v1/payments/{id}/timeline", get(get_timeline))
}

/// A payment's life in order
///
/// What was done for the payment, by whom, and what came of it: for support, not for programs to decide by. Entries
/// go when they are old; the payment itself stays.
#[utoipa::path(get, path = "/v1/payments/{id}/timeline", tag = "payments", security(("api_key" = [])),
    params(("id" = Uuid, Path, description = "The payment's id")),
    responses((status = 200, description = "What happened so far", body = Timeline), Problems))]
pub async fn get_timeline(
    State(api): State<Arc<Api>>,
    Caller(caller): Caller,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Timeline>, Problem> {
    let payment_id = id.ok().and_then(|Path(id)| parse(&id)).ok_or_else(not_found)?;
    Span::current().record("payment_id", field::display(payment_id));
    let of = PaymentKey { merchant_id: caller.merchant_id, payment_id };
    let payment = api.payment(of).await?.ok_or_else(not_found)?;
    let entries = patiently(timeline::of(&api.pool, &payment)).await?;
    let data = entries.into_iter().filter_map(Entry::for_merchant).collect();
    Ok(Json(Timeline { object: "timeline", payment_id, data }))
}
