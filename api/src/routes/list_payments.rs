//! `GET /v1/payments`: a merchant's payments, newest first.

use crate::Api;
use crate::auth::Caller;
use crate::patience::patiently;
use crate::problem::Problem;
use crate::query::Query;
use crate::{cursor, idempotency_key};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use http::Uri;
use serde::Serialize;
use shared::payment::body::PaymentBody;
use shared::payment::life::Status;
use shared::payment::read::{self, Filter};
use std::sync::Arc;
use utoipa::ToSchema;

crate::openapi::problems!(pub Problems:
    InvalidRequest, Unauthorized, RateLimited, InternalError, DatabaseUnavailable);

/// A page of payments.
#[derive(Debug, Serialize, ToSchema)]
pub struct PaymentList {
    /// Always `list`.
    object: &'static str,
    /// Newest first.
    data: Vec<PaymentBody>,
    /// For the next page; `null` on the last one.
    next_cursor: Option<String>,
}

/// Serves `GET /v1/payments`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/v1/payments", get(list_payments))
}

/// Payments, newest first
///
/// All filters may be combined.
#[utoipa::path(get, path = "/v1/payments", tag = "payments", security(("api_key" = [])),
    params(
        ("payment_intent_id" = Option<String>, Query, description = "Only those of this intent"),
        ("idempotency_key" = Option<String>, Query, description = "Only the one that this key made"),
        ("status" = Option<Status>, Query, description = "Only those in this state"),
        ("limit" = Option<u8>, Query, minimum = 1, maximum = 100, description = "Entries of a page; 20 when absent"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` of the page before")),
    responses((status = 200, description = "A page", body = PaymentList), Problems))]
pub async fn list_payments(
    State(api): State<Arc<Api>>,
    Caller(caller): Caller,
    uri: Uri,
) -> Result<Json<PaymentList>, Problem> {
    let filter = filter(&uri)?;
    // One more than asked for tells whether there is a next page.
    let asked = Filter { limit: filter.limit + 1, ..filter.clone() };
    let mut payments = patiently(read::list(&api.pool, caller.merchant_id, &asked)).await?;
    let page = usize::try_from(filter.limit).unwrap_or_default();
    let more = payments.len() > page;
    payments.truncate(page);
    let next_cursor = payments.last().filter(|_| more).map(|last| cursor::of_payment(last.id));
    Ok(Json(PaymentList { object: "list", data: payments.iter().map(PaymentBody::from).collect(), next_cursor }))
}

fn filter(uri: &Uri) -> Result<Filter, Problem> {
    let mut query = Query::of(uri);
    let intent = |text: &str| is_intent(text).then(|| text.to_owned());
    let filter = Filter {
        payment_intent_id: query.take("payment_intent_id", "1 to 64 visible ASCII characters", intent),
        idempotency_key: query
            .take("idempotency_key", "one idempotency key", |text| idempotency_key::parse(text.as_bytes()).ok()),
        status: query.take("status", "PENDING, UNKNOWN, PAID, DECLINED or FAILED", |text| text.parse::<Status>().ok()),
        before: query.take("cursor", "the next_cursor of a page of payments", cursor::to_payment),
        limit: query.limit(),
    };
    query.done()?;
    Ok(filter)
}

fn is_intent(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Code;

    fn read(query: &str) -> Result<Filter, Problem> {
        filter(&format!("/v1/payments?{query}").parse().unwrap())
    }

    #[test]
    fn every_filter_is_read() {
        let filter = read("payment_intent_id=order-1&idempotency_key=%22k%22&status=PAID&limit=5").unwrap();
        assert_eq!(filter.payment_intent_id.as_deref(), Some("order-1"));
        assert_eq!(filter.idempotency_key.as_deref(), Some("k"));
        assert_eq!((filter.status, filter.limit, filter.before), (Some(Status::Paid), 5, None));
    }

    #[test]
    fn whatever_cannot_be_meant_is_refused() {
        for query in
            ["status=paid", "status=", "cursor=x", "limit=0", "idempotency_key=a%20b", "payment_intent_id=", "q=1"]
        {
            assert_eq!(read(query).unwrap_err().code(), Code::InvalidRequest, "{query}");
        }
    }
}
