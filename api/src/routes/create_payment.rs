//! `POST /v1/payments`: the request that must never charge twice, however often it comes.
//!
//! The order of checks is part of the contract: 401, 429, the key, the body, then the claim, where the
//! unique constraints decide; of a taken key 422 comes before 409.

use crate::Api;
use crate::auth::Caller;
use crate::body::PaymentRequest;
use crate::draining::Draining;
use crate::patience::patiently;
use crate::prefer::{self, PREFERENCE_APPLIED};
use crate::problem::{Code, Fault, Problem, RETRY_AFTER_S};
use crate::wait::{Until, Waited};
use crate::{idempotency_key, payload, traceparent};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use shared::merchant::Routing;
use shared::payment::Payment;
use shared::payment::accept::{self, Accept, Accepted};
use shared::payment::body::PaymentBody;
use shared::payment::request::key_hash;
use std::sync::Arc;
use std::time::Duration;
use tracing::{Span, field};
use uuid::Uuid;

/// The longest `Prefer: wait` of a POST, in seconds.
const LONGEST_WAIT_S: u32 = 8;

const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

crate::openapi::problems!(pub Problems:
    InvalidRequest, IdempotencyKeyMissing, IdempotencyKeyInvalid, Unauthorized, RequestTimeout, PaymentInProgress,
    PaymentAttemptExists, PaymentAlreadyPaid, PayloadTooLarge, UnsupportedMediaType, IdempotencyKeyReuse, RateLimited,
    InternalError, DatabaseUnavailable);

/// Serves `POST /v1/payments`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/v1/payments", post(create_payment))
}

/// Pay an intent, once
///
/// Send it again with the same `Idempotency-Key` until the answer is final: 201 with a payment that is
/// PAID, DECLINED or FAILED. A repeat never makes a second payment. UNKNOWN means that the outcome is
/// being found out; show the shopper "processing".
#[utoipa::path(post, path = "/v1/payments", tag = "payments", security(("api_key" = [])),
    params(
        ("Idempotency-Key" = String, Header, min_length = 1, max_length = 255, pattern = "^[!-~]+$",
            description = "One key per payment intent, bare or as an RFC 8941 quoted string. Make it when the shopper presses “Pay”, store it before sending, keep it until a final answer."),
        ("Prefer" = Option<String>, Header, example = "wait=5",
            description = "`wait=N`: wait up to N seconds (at most 8) for the final answer"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context; goes on with the calls to the acquirer and the event"),
        ("X-Request-Id" = Option<String>, Header, description = "1–128 of letters, digits, `.`, `_`, `-`; else one is made")),
    request_body(content = PaymentRequest, description = "At most 64 KiB. Unknown and doubled members are refused."),
    responses(
        (status = 201, description = "The payment is final. A repeat hears the stored answer, byte for byte.", body = PaymentBody,
            headers(("Location" = String), ("Preference-Applied" = String, description = "When a wait was honoured"),
                ("Idempotent-Replayed" = String, description = "`true` when this request did not make the payment"))),
        (status = 202, description = "Accepted; or, for a repeat, the current payment whose outcome is unknown.", body = PaymentBody,
            headers(("Location" = String), ("Retry-After" = u32, description = "Seconds"),
                ("Preference-Applied" = String, description = "When a wait was honoured, in vain"),
                ("Idempotent-Replayed" = String, description = "`true` when this request did not make the payment"))),
        Problems))]
pub async fn create_payment(
    State(api): State<Arc<Api>>,
    Caller(caller): Caller,
    draining: Draining,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut accept = read(&api, caller.merchant_id, &parts.headers, body).await?;
    let accepted = match route(&api, &caller.routing, accept.request.acquirer.as_deref()) {
        Ok(acquirer) => {
            accept.acquirer = acquirer;
            patiently(accept::accept(&api.committer, &api.pool, accept.clone())).await?
        }
        // It may have had a way when its key was taken; a repeat hears what became of it.
        Err(no_way) => patiently(accept::of_key(&api.pool, &accept)).await?.ok_or(no_way)?,
    };
    let role = Role::of(&accepted);
    let wish_s = prefer::wait_s(&parts.headers, LONGEST_WAIT_S);
    let (accepted, waited_s) = match wish_s {
        Some(seconds) => api.wait_for_the_end(accept, accepted, seconds, &draining).await,
        None => (accepted, None),
    };
    let mut response = answer(accepted, role).into_response();
    if let Some(seconds) = waited_s {
        response.headers_mut().insert(PREFERENCE_APPLIED, applied(seconds));
    }
    Ok(response)
}

fn applied(seconds: u32) -> HeaderValue {
    HeaderValue::from_str(&format!("wait={seconds}")).unwrap_or_else(|_| HeaderValue::from_static("wait"))
}

/// Reads and checks a request; its way to an acquirer is not chosen yet.
async fn read(api: &Api, merchant_id: Uuid, headers: &HeaderMap, body: axum::body::Body) -> Result<Accept, Problem> {
    let idempotency_key = idempotency_key::of(headers)?;
    Span::current().record("key_hash", key_hash(&idempotency_key));
    let patience = Duration::from_millis(api.config.api.request_timeout_ms);
    let body = payload::read(headers, body, patience).await?;
    let (request, metadata) = PaymentRequest::read(&body).map_err(Problem::invalid)?.into_parts();
    Ok(Accept {
        merchant_id,
        payment_id: Uuid::now_v7(),
        idempotency_key,
        acquirer: String::new(),
        request,
        metadata,
        traceparent: traceparent::of(headers),
    })
}

/// The acquirer of a new payment: the one that was asked for, or the merchant's default, or the service's.
fn route(api: &Api, routing: &Routing, asked: Option<&str>) -> Result<String, Problem> {
    let refused = |code, detail| Problem::invalid(vec![Fault::in_body(&["acquirer"], code, detail)]);
    match asked {
        Some(name) if api.config.acquirers.contains_key(name) && routing.allows(name) => Ok(name.to_owned()),
        Some(_) => Err(refused("unknown_acquirer", "acquirer must be the name of an acquirer that you may use")),
        None => routing
            .default_of(&api.config.default_acquirer)
            .map(str::to_owned)
            .ok_or_else(|| refused("missing", "acquirer is missing: none of those that you may use is your default")),
    }
}

/// What a request is to its payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The one that made it.
    First,
    /// A later one with the same key.
    Repeat,
}

impl Role {
    const fn of(accepted: &Accepted) -> Self {
        if matches!(accepted, Accepted::Created(_)) { Self::First } else { Self::Repeat }
    }
}

impl Api {
    /// Waits while the payment is not final, and tells where it has come; with it how long was allowed
    /// to be waited for, where it was. The claim is known by now: whatever fails in here, the answer is
    /// what is known.
    async fn wait_for_the_end(
        &self,
        accept: Accept,
        accepted: Accepted,
        seconds: u32,
        draining: &Draining,
    ) -> (Accepted, Option<u32>) {
        let (Accepted::Created(payment) | Accepted::AwaitingResult(payment) | Accepted::InProgress(payment)) =
            &accepted
        else {
            return (accepted, None);
        };
        let most = Duration::from_secs(seconds.into());
        if self.waiting_room.wait(payment.key(), Until::Final, most, draining).await == Waited::NoRoom {
            return (accepted, None);
        }
        // In vain or not: it may have become UNKNOWN meanwhile.
        match patiently(accept::of_key(&self.pool, &accept)).await {
            Ok(Some(now)) => (now, Some(seconds)),
            Ok(None) | Err(_) => (accepted, Some(seconds)),
        }
    }
}

/// The rows of the contract.
fn answer(accepted: Accepted, role: Role) -> Result<Response, Problem> {
    Span::current().record("payment_id", field::display(payment_id(&accepted)));
    match accepted {
        Accepted::Created(payment) => Ok(open(&payment, Role::First)),
        Accepted::AwaitingResult(payment) => Ok(open(&payment, role)),
        Accepted::InProgress(payment) => match role {
            Role::First => Ok(open(&payment, role)),
            Role::Repeat => Err(in_progress(&payment)),
        },
        Accepted::Replay { payment_id, code, body } => Ok(stored(payment_id, code, body, role)),
        Accepted::HashMismatch { payment_id, fields } => {
            let detail = "this idempotency key was used for a request with other business fields";
            Err(Problem::new(Code::IdempotencyKeyReuse, detail).of_payment(payment_id).mismatched(fields))
        }
        Accepted::IntentLive(payment) => {
            let detail = "another idempotency key has a live payment of this intent";
            Err(Problem::about(Code::PaymentAttemptExists, &payment, detail))
        }
        Accepted::IntentPaid(payment) => {
            let detail = "this intent is paid";
            Err(Problem::about(Code::PaymentAlreadyPaid, &payment, detail))
        }
    }
}

fn payment_id(accepted: &Accepted) -> Uuid {
    match accepted {
        Accepted::Created(payment)
        | Accepted::AwaitingResult(payment)
        | Accepted::InProgress(payment)
        | Accepted::IntentLive(payment)
        | Accepted::IntentPaid(payment) => payment.id,
        Accepted::Replay { payment_id, .. } | Accepted::HashMismatch { payment_id, .. } => *payment_id,
    }
}

/// A payment that is not final.
fn open(payment: &Payment, role: Role) -> Response {
    let mut response = json(StatusCode::ACCEPTED, payment.id, PaymentBody::from(payment).to_json(), role);
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S.into());
    response
}

/// A stored answer, byte for byte.
fn stored(payment_id: Uuid, code: u16, body: String, role: Role) -> Response {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::CREATED);
    json(status, payment_id, body, role)
}

fn json(status: StatusCode, payment_id: Uuid, body: String, role: Role) -> Response {
    let location = format!("/v1/payments/{payment_id}");
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::LOCATION, location.as_str())];
    let mut response = (status, headers, body).into_response();
    if role == Role::Repeat {
        response.headers_mut().insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

fn in_progress(payment: &Payment) -> Problem {
    let detail = "the first request with this key is being worked on; it is not refused: repeat with the same key";
    Problem::about(Code::PaymentInProgress, payment, detail).retry_after(RETRY_AFTER_S)
}
