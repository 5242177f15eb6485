//! `POST /v1/acquirers/{name}/webhooks`: acquirers tell us that something happened, and we ask.

use crate::Api;
use crate::patience::patiently;
use crate::payload;
use crate::problem::{Code, Fault, Problem};
use axum::Router;
use axum::extract::{Path, Request, State};
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use shared::acquirer::webhook::{self, Message, Unsigned};
use shared::config::Acquirer;
use shared::db;
use shared::payment::told;
use std::sync::Arc;
use std::time::Duration;

crate::openapi::problems!(pub Problems:
    InvalidRequest, WebhookSignatureInvalid, NotFound, RequestTimeout, PayloadTooLarge, UnsupportedMediaType, InternalError,
    DatabaseUnavailable);

/// Serves `POST /v1/acquirers/{name}/webhooks`.
pub fn router() -> Router<Arc<Api>> {
    Router::new().route("/v1/acquirers/{name}/webhooks", post(take_webhook))
}

/// Tell us of a charge (for acquirers)
///
/// It decides nothing: a payment that is not final is asked about at once, and a contradiction to one that is goes
/// before a person. Repeats are harmless. The answer is the same whatever it names.
#[utoipa::path(post, path = "/v1/acquirers/{name}/webhooks", tag = "operations",
    params(
        ("name" = String, Path, description = "The acquirer's profile name; it needs a webhook_secret"),
        ("Acquirer-Signature" = Option<String>, Header,
            description = "`t=<seconds since 1970>,v1=<hex of HMAC-SHA256(secret, \"<t>.<body>\")>`; of a Stripe profile `Stripe-Signature`")),
    request_body(content = serde_json::Value, description = "The acquirer's message, at most 64 KiB"),
    responses((status = 202, description = "Taken"), Problems))]
pub async fn take_webhook(
    State(api): State<Arc<Api>>,
    Path(name): Path<String>,
    request: Request,
) -> Result<StatusCode, Problem> {
    let profile = api.config.acquirers.get(&name);
    let with_secret = profile.and_then(|profile| Some((profile, profile.webhook_secret.as_ref()?.0.as_str())));
    let Some((profile, secret)) = with_secret else {
        tracing::warn!(
            acquirer = name,
            "a webhook for an acquirer without a profile here, or without a webhook_secret"
        );
        return Err(Problem::new(Code::NotFound, "there is no such path"));
    };
    let (parts, body) = request.into_parts();
    let patience = Duration::from_millis(api.config.api.request_timeout_ms);
    let body = payload::read(&parts.headers, body, patience).await?;
    let message = believed(&api, profile, secret, &parts.headers, &body).await.inspect_err(|problem| {
        if problem.code() != Code::DatabaseUnavailable {
            api.metrics.acquirer_webhook(&name, "refused");
        }
    })?;
    let told = patiently(told::take(&api.pool, &api.committer, &name, &message)).await?;
    api.metrics.acquirer_webhook(&name, told.as_str());
    tracing::info!(
        acquirer = name,
        message_id = message.id,
        r#type = message.r#type,
        result = told.as_str(),
        "an acquirer told us"
    );
    Ok(StatusCode::ACCEPTED)
}

/// The message, if it is the acquirer's own.
async fn believed(
    api: &Api,
    profile: &Acquirer,
    secret: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Message, Problem> {
    let unsigned = |why: Unsigned| Problem::new(Code::WebhookSignatureInvalid, why.to_string());
    let mut lines = headers.get_all(webhook::signature_header(profile.kind)).iter();
    let signature = match (lines.next().map(|line| line.to_str()), lines.next()) {
        (Some(Ok(line)), None) => line,
        _ => return Err(unsigned(Unsigned::Malformed)),
    };
    let now = patiently(db::now(&api.pool)).await?;
    webhook::verify(secret, signature, body, now).map_err(unsigned)?;
    let unreadable = |_| {
        Problem::invalid(vec![Fault::in_body(&[], "malformed_json", "this is not a message with an id and a type")])
    };
    webhook::read(profile.kind, body).map_err(unreadable)
}
