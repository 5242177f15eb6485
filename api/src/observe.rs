//! What happens around every request: its id, its span, its metrics, and a problem's body. A panic
//! ends here, as a 500.

use crate::problem::Problem;
use crate::request_id::{RequestId, X_REQUEST_ID};
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::{HeaderValue, header};
use shared::telemetry::Metrics;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};

/// How requests to no known path are counted.
const NO_ROUTE: &str = "none";

/// The outermost layer.
pub async fn observe(State(metrics): State<Arc<Metrics>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let request_id = RequestId::of(request.headers());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let path = request.uri().path().to_owned();
    let span = span(&request, &request_id, route);
    let mut response = answer(request, next).instrument(span.clone()).await;
    if let Some(code) = Problem::render(&mut response, &request_id, &path) {
        span.record("problem", code.as_str());
    }
    response.headers_mut().insert(X_REQUEST_ID, request_id.to_header());
    // Payments change, and nobody on the way should keep them.
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let status = response.status().as_u16();
    metrics.http_request(route, status, began.elapsed());
    span.record("status", status);
    span.in_scope(|| tracing::debug!(took_us = began.elapsed().as_micros(), "answered"));
    response
}

/// Handlers add what they learn: whose request it is, which key and which payment it concerns.
fn span(request: &Request, request_id: &RequestId, route: &str) -> Span {
    info_span!(
        "request",
        request_id = request_id.as_str(),
        method = request.method().as_str(),
        route,
        merchant_id = Empty,
        operator_id = Empty,
        key_hash = Empty,
        payment_id = Empty,
        status = Empty,
        problem = Empty,
    )
}

async fn answer(request: Request, next: Next) -> Response {
    AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
        // The panic's own words are on the standard error already.
        tracing::error!("a handler panicked");
        Problem::internal().into_response()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use http::StatusCode;
    use serde_json::Value;
    use tower::ServiceExt;

    async fn broken() {
        panic!("a bug");
    }

    /// What a router with one broken path answers.
    async fn ask(request: http::request::Builder) -> (StatusCode, http::HeaderMap, Value) {
        let app: Router = crate::finish(Router::new().route("/broken", get(broken)), Arc::default());
        let response = app.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        (parts.status, parts.headers, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_without_details() {
        let (status, headers, body) = ask(http::Request::get("/broken")).await;
        assert_eq!((status, &body["code"]), (StatusCode::INTERNAL_SERVER_ERROR, &"internal_error".into()));
        assert_eq!(headers[header::CONTENT_TYPE], Problem::MEDIA_TYPE);
        assert_eq!(headers[X_REQUEST_ID], body["request_id"].as_str().unwrap());
        assert!(!body.to_string().contains("a bug"));
    }

    #[tokio::test]
    async fn an_unknown_path_and_an_unknown_method_are_problems() {
        let (status, _, body) = ask(http::Request::get("/nowhere?secret=1")).await;
        assert_eq!((status, &body["code"]), (StatusCode::NOT_FOUND, &"not_found".into()));
        assert!(!body.to_string().contains("secret"));
        let (status, headers, body) = ask(http::Request::delete("/healthz")).await;
        assert_eq!((status, &body["code"]), (StatusCode::METHOD_NOT_ALLOWED, &"method_not_allowed".into()));
        assert_eq!(headers[header::ALLOW], "GET,HEAD");
    }

    #[tokio::test]
    async fn the_clients_request_id_comes_back() {
        let (_, headers, body) = ask(http::Request::get("/nowhere").header(X_REQUEST_ID, "checkout-7")).await;
        assert_eq!(
            (&headers[X_REQUEST_ID], &body["request_id"]),
            (&HeaderValue::from_static("checkout-7"), &"checkout-7".into())
        );
        assert_eq!(body["instance"], "/nowhere#checkout-7");
        assert_eq!(headers[header::CACHE_CONTROL], "no-store");
    }
}
