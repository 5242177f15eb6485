//! Every answer of the acquirer, the good ones and the broken ones.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::json;

use super::behaviour::Answer;
use super::broken;
use super::charge::Charge;
use super::ledger::Status;
use super::order::Unreadable;
use super::refusal::Refusal;

/// The answer to a POST. `charge` is absent when nothing was booked.
pub(super) fn respond(answer: Answer, charge: Option<Charge>, replayed: bool) -> Response {
    match (answer, charge) {
        (Answer::Reset, _) => broken::reset(),
        (Answer::ServerError, _) => error(StatusCode::INTERNAL_SERVER_ERROR, "internal_error"),
        (Answer::Unavailable, _) => error(StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        (Answer::TooManyRequests, _) => too_many_requests(),
        (Answer::NotJson, _) => raw("application/json", r#"{"transaction_id": "txn_"#),
        (Answer::Html, _) => raw("text/html", "<!doctype html><p>Please log in.</p>"),
        (Answer::Redirect, _) => redirect(),
        (Answer::Empty, _) => StatusCode::OK.into_response(),
        (Answer::CutShort, Some(charge)) => broken::cut_short(to_json(&charge)),
        (Answer::Trickle, Some(charge)) => broken::trickle(to_json(&charge)),
        (Answer::Huge, Some(charge)) => broken::huge(to_json(&charge)),
        (Answer::Array, Some(charge)) => with_json(StatusCode::OK, &[charge]),
        (_, Some(charge)) => with_json(status(&charge, replayed), &charge),
        (_, None) => error(StatusCode::GATEWAY_TIMEOUT, "timeout"),
    }
}

fn status(charge: &Charge, replayed: bool) -> StatusCode {
    match charge.booked {
        Status::Approved if replayed => StatusCode::OK,
        Status::Approved => StatusCode::CREATED,
        Status::Declined => StatusCode::PAYMENT_REQUIRED,
        Status::Rejected => StatusCode::UNPROCESSABLE_ENTITY,
        Status::Processing => StatusCode::ACCEPTED,
    }
}

/// The answer to a look-up; `as_list`: a list also of one charge or none.
pub(super) fn found(charges: Vec<Charge>, as_list: bool) -> Response {
    match charges.as_slice() {
        [] if !as_list => error(StatusCode::NOT_FOUND, "not_found"),
        [charge] if !as_list => with_json(StatusCode::OK, charge),
        _ => with_json(StatusCode::OK, &json!({ "data": charges })),
    }
}

/// A refusal that the contract words.
pub(super) fn refused(refusal: &Refusal, resource_id: &str) -> Response {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::CONFLICT);
    json_of(status, refusal.body_about(resource_id))
}

/// What an acquirer without keys says to what it takes for a repeat: nothing about a charge.
pub(super) fn duplicate() -> Response {
    let message = "declined: a payment of the same amount by the same card was approved a moment ago";
    explained(StatusCode::PAYMENT_REQUIRED, "duplicate_transaction", message)
}

pub(super) fn unreadable(unreadable: &Unreadable) -> Response {
    explained(StatusCode::BAD_REQUEST, unreadable.code(), &unreadable.to_string())
}

pub(super) fn bad_lookup() -> Response {
    let message = "ask by either idempotency_key or reference";
    explained(StatusCode::BAD_REQUEST, "invalid_request", message)
}

pub(super) fn lookup_unsupported() -> Response {
    error(StatusCode::NOT_IMPLEMENTED, "lookup_unsupported")
}

pub(super) fn unknown_path() -> Response {
    error(StatusCode::NOT_FOUND, "unknown_path")
}

/// An error with its name only.
fn error(status: StatusCode, name: &str) -> Response {
    with_json(status, &json!({ "error": name }))
}

/// An error with a sentence.
pub(super) fn explained(status: StatusCode, name: &str, message: &str) -> Response {
    with_json(status, &json!({ "error": name, "message": message }))
}

fn too_many_requests() -> Response {
    let mut response = error(StatusCode::TOO_MANY_REQUESTS, "too_many_requests");
    let retry_after = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, retry_after);
    response
}

fn redirect() -> Response {
    let mut response = StatusCode::TEMPORARY_REDIRECT.into_response();
    let elsewhere = HeaderValue::from_static("/moved/charges");
    response.headers_mut().insert(LOCATION, elsewhere);
    response
}

fn raw(content_type: &'static str, body: &'static str) -> Response {
    ([(CONTENT_TYPE, content_type)], body).into_response()
}

/// A JSON answer.
pub(super) fn with_json(status: StatusCode, value: &impl Serialize) -> Response {
    json_of(status, to_json(value))
}

fn json_of(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

pub(super) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the acquirer's answers have string keys only")
}
