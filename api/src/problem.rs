//! Every error that leaves the API: RFC 9457 `application/problem+json`, without exception.
//!
//! Which error is for what:
//! - the request is at fault and nothing was stored: [`Problem::invalid`] with every fault, or the
//!   [`Code`] of the header or limit that was not kept;
//! - the operator's role is not enough: `From<Forbidden>` names the one that is;
//! - the request meets a payment that exists: [`Problem::about`] with the payment, so that the client
//!   can follow it;
//! - the database is away, or a commit's fate is unknown: `From<sqlx::Error>` and `From<WriteError>`
//!   say 503, and the repeat with the same key finds out. Never used once a claim is known;
//! - everything else is a fault of ours: [`Problem::internal`]. The log hears the details, the client
//!   a request id.
//!
//! A [`Problem`] becomes a response without a body; [`Problem::render`] writes the body where the
//! request's id is known.

mod code;
mod fault;

pub use code::Code;
#[cfg(test)]
pub use fault::Place;
pub use fault::{Fault, Faults};

use crate::request_id::RequestId;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use serde::Serialize;
use shared::committer::WriteError;
use shared::operator::{Forbidden, Role};
use shared::payment::Payment;
use shared::payment::life::Status;
use std::borrow::Cow;
use utoipa::ToSchema;
use uuid::Uuid;

/// How long a client should rest before it repeats, in seconds.
pub const RETRY_AFTER_S: u32 = 1;

/// An error on its way out.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    detail: Cow<'static, str>,
    payment_id: Option<Uuid>,
    payment_status: Option<Status>,
    required_role: Option<Role>,
    mismatched_fields: Vec<&'static str>,
    errors: Vec<Fault>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// An error as clients see it (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'a> {
    /// Where the kind of error is explained: `/docs#<code>`.
    r#type: String,
    /// The kind of error, for people.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// This occurrence, for people.
    detail: &'a str,
    /// This occurrence: the path and, as its fragment, the request id.
    instance: String,
    /// The kind of error, for programs.
    code: Code,
    /// Whether the same request may succeed later, unchanged and with the same key.
    retryable: bool,
    /// Names this request in our logs.
    request_id: &'a str,
    /// The payment that the request met.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payment_id: Option<Uuid>,
    /// Its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    payment_status: Option<Status>,
    /// The least role that may do this.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    required_role: Option<Role>,
    /// The business fields that differ from the key's first request; names only.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    mismatched_fields: &'a [&'static str],
    /// Everything that is wrong with the request.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [Fault],
}

impl Problem {
    /// An error of this kind; `detail` tells of this occurrence and holds nothing secret.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            detail: detail.into(),
            payment_id: None,
            payment_status: None,
            required_role: None,
            mismatched_fields: Vec::new(),
            errors: Vec::new(),
            headers: Vec::new(),
        }
    }

    /// The request has these faults.
    #[must_use]
    pub fn invalid(errors: Vec<Fault>) -> Self {
        let detail = match errors.as_slice() {
            [fault] => fault.detail.clone(),
            faults => format!("{} faults; `errors` lists them", faults.len()),
        };
        Self { errors, ..Self::new(Code::InvalidRequest, detail) }
    }

    /// The request meets this payment.
    #[must_use]
    pub fn about(code: Code, payment: &Payment, detail: &'static str) -> Self {
        let problem = Self { payment_status: Some(payment.status), ..Self::new(code, detail) };
        problem.of_payment(payment.id)
    }

    /// A fault of ours. Whoever calls this has logged what happened.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(Code::InternalError, "the request could not be answered; the log knows why under this request id")
    }

    /// The database cannot be asked. Whoever calls this has logged what happened.
    #[must_use]
    pub fn database_unavailable() -> Self {
        let detail = "the database did not answer; repeat with the same key to learn what became of the request";
        Self::new(Code::DatabaseUnavailable, detail).retry_after(RETRY_AFTER_S)
    }

    /// Names the payment, and where to follow it.
    #[must_use]
    pub fn of_payment(mut self, payment_id: Uuid) -> Self {
        self.payment_id = Some(payment_id);
        self.header(header::LOCATION, format!("/v1/payments/{payment_id}"))
    }

    /// The fields that differ from the key's first request.
    #[must_use]
    pub fn mismatched(mut self, fields: Vec<&'static str>) -> Self {
        self.mismatched_fields = fields;
        self
    }

    /// When to repeat, in seconds.
    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        self.header(header::RETRY_AFTER, seconds.to_string())
    }

    /// Adds a header. A value that cannot stand in one is left out.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: impl TryInto<HeaderValue>) -> Self {
        if let Ok(value) = value.try_into() {
            self.headers.push((name, value));
        }
        self
    }

    /// The media type of every problem.
    pub const MEDIA_TYPE: &str = "application/problem+json";

    /// Its kind.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Gives a response that carries a problem its body, and tells which problem. Other responses pass
    /// as they are.
    pub fn render(response: &mut Response, request_id: &RequestId, path: &str) -> Option<Code> {
        let problem = response.extensions_mut().remove::<Self>()?;
        let json = serde_json::to_string(&problem.body(request_id, path)).unwrap_or_default();
        *response.body_mut() = json.into();
        let kind = HeaderValue::from_static(Self::MEDIA_TYPE);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        Some(problem.code)
    }

    fn body<'a>(&'a self, request_id: &'a RequestId, path: &str) -> ProblemBody<'a> {
        let meaning = self.code.meaning();
        ProblemBody {
            r#type: format!("/docs#{}", self.code.as_str()),
            title: meaning.title,
            status: meaning.status.as_u16(),
            detail: &self.detail,
            instance: format!("{path}#{}", request_id.as_str()),
            code: self.code,
            retryable: meaning.retryable,
            request_id: request_id.as_str(),
            payment_id: self.payment_id,
            payment_status: self.payment_status,
            required_role: self.required_role,
            mismatched_fields: &self.mismatched_fields,
            errors: &self.errors,
        }
    }

    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.code.meaning().status
    }
}

impl IntoResponse for Problem {
    fn into_response(mut self) -> Response {
        let mut response = self.status().into_response();
        response.headers_mut().extend(std::mem::take(&mut self.headers).into_iter().map(|(n, v)| (Some(n), v)));
        response.extensions_mut().insert(self);
        response
    }
}

impl From<Forbidden> for Problem {
    fn from(forbidden: Forbidden) -> Self {
        let required_role = Some(forbidden.action.least_role());
        Self { required_role, ..Self::new(Code::Forbidden, forbidden.to_string()) }
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        if shared::db::is_outage(&error) {
            tracing::warn!(%error, "the database is away");
            return Self::database_unavailable();
        }
        tracing::error!(%error, "a query failed");
        Self::internal()
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Unavailable(reason) => {
                tracing::warn!(reason, "the database could not take a write");
                Self::database_unavailable()
            }
            // The request was checked, so this is a fault of ours. Nothing was stored.
            WriteError::Refused { constraint, message } => {
                tracing::error!(constraint, message, "the database refused a checked request");
                Self::internal()
            }
        }
    }
}
