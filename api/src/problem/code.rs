//! The words that clients decide by: one per kind of error, stable, each with what to do about it.

use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// The `code` of a problem. Clients branch on it and on nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// 400: the body, a query parameter or a header is at fault; `errors` lists every fault.
    InvalidRequest,
    /// 400: no `Idempotency-Key` header.
    IdempotencyKeyMissing,
    /// 400: an `Idempotency-Key` that is not one key.
    IdempotencyKeyInvalid,
    /// 401: no credential, or one that is unknown, expired or revoked, or whose operator is disabled.
    Unauthorized,
    /// 401: an acquirer's message whose signature does not hold.
    WebhookSignatureInvalid,
    /// 403: the operator's role is not enough; `required_role` is.
    Forbidden,
    /// 404: no such path.
    NotFound,
    /// 404: no such payment of this merchant.
    PaymentNotFound,
    /// 405: the path exists, not for this method.
    MethodNotAllowed,
    /// 408: the body did not arrive in time.
    RequestTimeout,
    /// 409: this very request is being worked on. Never means refused.
    PaymentInProgress,
    /// 409: another key has a live payment of this intent.
    PaymentAttemptExists,
    /// 409: the intent is paid.
    PaymentAlreadyPaid,
    /// 413: the body is longer than 64 KiB.
    PayloadTooLarge,
    /// 415: the body is not said to be JSON.
    UnsupportedMediaType,
    /// 422: the key was used for a request with other business fields.
    IdempotencyKeyReuse,
    /// 429: more requests per second than this credential may send.
    RateLimited,
    /// 500: a fault of ours.
    InternalError,
    /// 503: the database is away, or the fate of a commit is unknown.
    DatabaseUnavailable,
    /// 503: this instance should get no requests now.
    NotReady,
}

/// What a code means.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    /// The HTTP status.
    pub status: StatusCode,
    /// For people; the same for every occurrence.
    pub title: &'static str,
    /// Whether the same request may succeed later, unchanged.
    pub retryable: bool,
    /// What the client should do.
    pub advice: &'static str,
}

const fn repeat(status: StatusCode, title: &'static str, advice: &'static str) -> Meaning {
    Meaning { status, title, retryable: true, advice }
}

const fn refuse(status: StatusCode, title: &'static str, advice: &'static str) -> Meaning {
    Meaning { status, title, retryable: false, advice }
}

impl Code {
    /// All codes, by status.
    pub const ALL: [Self; 20] = [
        Self::InvalidRequest,
        Self::IdempotencyKeyMissing,
        Self::IdempotencyKeyInvalid,
        Self::Unauthorized,
        Self::WebhookSignatureInvalid,
        Self::Forbidden,
        Self::NotFound,
        Self::PaymentNotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::PaymentInProgress,
        Self::PaymentAttemptExists,
        Self::PaymentAlreadyPaid,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::IdempotencyKeyReuse,
        Self::RateLimited,
        Self::InternalError,
        Self::DatabaseUnavailable,
        Self::NotReady,
    ];

    /// The word itself; also the anchor on the docs page.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::IdempotencyKeyMissing => "idempotency_key_missing",
            Self::IdempotencyKeyInvalid => "idempotency_key_invalid",
            Self::Unauthorized => "unauthorized",
            Self::WebhookSignatureInvalid => "webhook_signature_invalid",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not_found",
            Self::PaymentNotFound => "payment_not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::RequestTimeout => "request_timeout",
            Self::PaymentInProgress => "payment_in_progress",
            Self::PaymentAttemptExists => "payment_attempt_exists",
            Self::PaymentAlreadyPaid => "payment_already_paid",
            Self::PayloadTooLarge => "payload_too_large",
            Self::UnsupportedMediaType => "unsupported_media_type",
            Self::IdempotencyKeyReuse => "idempotency_key_reuse",
            Self::RateLimited => "rate_limited",
            Self::InternalError => "internal_error",
            Self::DatabaseUnavailable => "database_unavailable",
            Self::NotReady => "not_ready",
        }
    }

    /// What it means and what to do.
    #[must_use]
    pub const fn meaning(self) -> Meaning {
        match self {
            Self::InvalidRequest => refuse(
                StatusCode::BAD_REQUEST,
                "The request is not valid",
                "Correct every fault listed in `errors`. Nothing was stored: the same idempotency key may be used.",
            ),
            Self::IdempotencyKeyMissing => refuse(
                StatusCode::BAD_REQUEST,
                "The Idempotency-Key header is missing",
                "Make one key per payment intent when the shopper presses “Pay”, store it, and send it with every repeat.",
            ),
            Self::IdempotencyKeyInvalid => refuse(
                StatusCode::BAD_REQUEST,
                "The Idempotency-Key header is not one key",
                "Send exactly one header with 1 to 255 visible ASCII characters, bare or as a quoted string.",
            ),
            Self::Unauthorized => refuse(
                StatusCode::UNAUTHORIZED,
                "The credential is missing, unknown, expired or revoked",
                "Send `Authorization: Bearer` with a live API key of the merchant; under /ops, with a live token of an operator who is not disabled.",
            ),
            Self::WebhookSignatureInvalid => refuse(
                StatusCode::UNAUTHORIZED,
                "The signature does not hold",
                "For acquirers: sign time and body with the secret that both sides have, within 5 minutes. For operators: compare webhook_secret, and the clocks.",
            ),
            Self::Forbidden => refuse(
                StatusCode::FORBIDDEN,
                "The operator's role is not enough",
                "Let an operator with `required_role` do it, or have this one given that role with `payonce operator role`. Nothing was changed.",
            ),
            Self::NotFound => refuse(
                StatusCode::NOT_FOUND,
                "There is no such path",
                "Compare the path with this page; the API lives under /v1, and that of operators under /ops/api/v1.",
            ),
            Self::PaymentNotFound => refuse(
                StatusCode::NOT_FOUND,
                "There is no such payment",
                "Check the id and whose API key is used: a merchant sees its own payments only.",
            ),
            Self::MethodNotAllowed => refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "The path does not answer this method",
                "Use one of the methods in the `Allow` header.",
            ),
            Self::RequestTimeout => repeat(
                StatusCode::REQUEST_TIMEOUT,
                "The request did not arrive in time",
                "Repeat it with the same idempotency key. Nothing was stored.",
            ),
            Self::PaymentInProgress => repeat(
                StatusCode::CONFLICT,
                "The payment is being worked on",
                "It is not refused. Repeat with the same key after `Retry-After`, or follow `Location`.",
            ),
            Self::PaymentAttemptExists => refuse(
                StatusCode::CONFLICT,
                "Another attempt to pay this intent is live",
                "Follow the payment in `payment_id`. A new attempt with a new key is accepted once it is DECLINED or FAILED.",
            ),
            Self::PaymentAlreadyPaid => refuse(
                StatusCode::CONFLICT,
                "The intent is paid",
                "Show the shopper the payment in `payment_id`. An intent is paid once.",
            ),
            Self::PayloadTooLarge => refuse(
                StatusCode::PAYLOAD_TOO_LARGE,
                "The body is too long",
                "Keep the body within 64 KiB; it is metadata that grows.",
            ),
            Self::UnsupportedMediaType => refuse(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "The body is not said to be JSON",
                "Send `Content-Type: application/json`.",
            ),
            Self::IdempotencyKeyReuse => refuse(
                StatusCode::UNPROCESSABLE_ENTITY,
                "The key belongs to another request",
                "The fields in `mismatched_fields` differ from the first request with this key. Use a new key for a new attempt.",
            ),
            Self::RateLimited => repeat(
                StatusCode::TOO_MANY_REQUESTS,
                "Too many requests",
                "Wait for `Retry-After`, then repeat with the same idempotency key.",
            ),
            Self::InternalError => repeat(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Something went wrong on our side",
                "Repeat with the same idempotency key: it finds out what became of the request. If it lasts, tell us the `request_id`.",
            ),
            Self::DatabaseUnavailable => repeat(
                StatusCode::SERVICE_UNAVAILABLE,
                "The database cannot be asked at the moment",
                "Repeat with the same idempotency key after `Retry-After`: the repeat finds out what became of the request.",
            ),
            Self::NotReady => repeat(
                StatusCode::SERVICE_UNAVAILABLE,
                "This instance is not ready",
                "For load balancers: send requests to another instance. For operators: do what `detail` says.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn a_code_is_written_the_same_in_json_and_in_rust() {
        for code in Code::ALL {
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("{:?}", code.as_str()));
        }
    }

    #[test]
    fn only_what_may_succeed_unchanged_is_retryable() {
        let retryable: Vec<_> = Code::ALL.into_iter().filter(|code| code.meaning().retryable).collect();
        assert_eq!(retryable.iter().filter(|code| code.meaning().status.is_client_error()).count(), 3);
        assert!(retryable.contains(&Code::PaymentInProgress) && !retryable.contains(&Code::IdempotencyKeyReuse));
    }
}
