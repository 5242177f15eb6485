//! `GET /v1/payments/{id}`: one payment, in every state.

use crate::Api;
use crate::auth::Caller;
use crate::conditional::{Has, etag};
use crate::draining::Draining;
use crate::patience::patiently;
use crate::prefer::{self, PREFERENCE_APPLIED};
use crate::problem::{Code, Problem, RETRY_AFTER_S};
use crate::wait::{Until, Waited};
use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use shared::payment::body::PaymentBody;
use shared::payment::{Payment, PaymentKey, read};
use std::sync::Arc;
use std::time::Duration;
use tracing::{Span, field};
use uuid::Uuid;

/// The longest `Prefer: wait` of a GET, in seconds.
const LONGEST_WAIT_S: u32 = 25;

crate::openapi::problems!(pub Problems:
    Unauthorized, PaymentNotFound, RateLimited, InternalError, DatabaseUnavailable);

/// Serves `GET /v1/payments/{id}`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/v1/payments/{id}", get(get_payment))
}

/// One payment
///
/// With `Prefer: wait=N` it answers as soon as the payment changes: from the version in
/// `If-None-Match`, or else from the current one. A final payment is answered at once.
#[utoipa::path(get, path = "/v1/payments/{id}", tag = "payments", security(("api_key" = [])),
    params(
        ("id" = Uuid, Path, description = "The payment's id"),
        ("If-None-Match" = Option<String>, Header, example = "\"1\"", description = "The `ETag` that is known"),
        ("Prefer" = Option<String>, Header, example = "wait=20",
            description = "`wait=N`: wait up to N seconds (at most 25) for a change")),
    responses(
        (status = 200, description = "The payment, in every state", body = PaymentBody,
            headers(("ETag" = String, description = "The version, in quotes"),
                ("Retry-After" = u32, description = "Seconds; while it is not final"),
                ("Preference-Applied" = String, description = "When a wait was honoured"))),
        (status = 304, description = "Nothing changed",
            headers(("ETag" = String), ("Retry-After" = u32, description = "Seconds; while it is not final"),
                ("Preference-Applied" = String, description = "When a wait was honoured, in vain"))),
        Problems))]
pub async fn get_payment(
    State(api): State<Arc<Api>>,
    Caller(caller): Caller,
    id: Result<Path<String>, PathRejection>,
    draining: Draining,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let payment_id = id.ok().and_then(|Path(id)| parse(&id)).ok_or_else(not_found)?;
    Span::current().record("payment_id", field::display(payment_id));
    let of = PaymentKey { merchant_id: caller.merchant_id, payment_id };
    let payment = api.payment(of).await?.ok_or_else(not_found)?;
    let known = Has::of(&headers);
    let (payment, waited_s) = match prefer::wait_s(&headers, LONGEST_WAIT_S) {
        Some(seconds) => api.wait_for_a_change(payment, &known, seconds, &draining).await?,
        None => (payment, None),
    };
    let mut response = answer(&payment, &known);
    if let Some(applied) = waited_s.and_then(|seconds| HeaderValue::from_str(&format!("wait={seconds}")).ok()) {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied);
    }
    Ok(response)
}

/// An id in the form that we write, and no other of the many ways to write a UUID.
pub(super) fn parse(id: &str) -> Option<Uuid> {
    Uuid::try_parse(id).ok().filter(|uuid| uuid.to_string() == id)
}

pub(super) fn not_found() -> Problem {
    Problem::new(Code::PaymentNotFound, "this merchant has no payment of this id")
}

impl Api {
    pub(super) async fn payment(&self, of: PaymentKey) -> Result<Option<Payment>, Problem> {
        patiently(read::one(&self.pool, of)).await
    }

    /// Waits until the payment is another one than the client knows; tells how it is then, and how long
    /// was allowed to be waited, where it was.
    async fn wait_for_a_change(
        &self,
        payment: Payment,
        known: &Has,
        seconds: u32,
        draining: &Draining,
    ) -> Result<(Payment, Option<u32>), Problem> {
        let is_news = matches!(known, Has::Versions(_)) && !known.has(payment.version);
        if is_news || payment.status.is_final() {
            return Ok((payment, Some(seconds)));
        }
        let (of, until) = (payment.key(), Until::ChangedFrom(payment.version));
        match self.waiting_room.wait(of, until, Duration::from_secs(seconds.into()), draining).await {
            Waited::NoRoom => Ok((payment, None)),
            Waited::InVain => Ok((payment, Some(seconds))),
            Waited::Happened => Ok((self.payment(of).await?.unwrap_or(payment), Some(seconds))),
        }
    }
}

fn answer(payment: &Payment, known: &Has) -> Response {
    let mut response = if known.has(payment.version) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], PaymentBody::from(payment).to_json()).into_response()
    };
    response.headers_mut().insert(header::ETAG, etag(payment.version));
    if !payment.status.is_final() {
        response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_id_has_one_form() {
        let id = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001";
        assert!(parse(id).is_some());
        for other in ["", "x", "0199aaaabbbb7ccc8dddeeeeffff0001", &id.to_uppercase(), &format!("{{{id}}}")] {
            assert!(parse(other).is_none(), "{other}");
        }
    }
}
