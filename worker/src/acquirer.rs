//! The client of the plain HTTP acquirer (design: profile kind `http`). Every way in which a call can
//! go wrong comes back as an [`Answer`] that proves nothing; there is no `Err` to be retried by
//! somebody who does not know what a retry costs.

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use shared::acquirer::{Answer, Contract, Expected, Lookup, classify_charge, classify_lookup, provider_key};
use shared::config;
use shared::payment::Payment;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// The most of a body that is read: no honest answer is longer.
const BODY_CAP: usize = 256 * 1024;

/// Why a client cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The credential has characters that no header can carry.
    #[error("acquirers.{0}.credential has characters that an HTTP header cannot carry")]
    Credential(String),
    /// The HTTP client.
    #[error("no HTTP client for acquirers.{0}: {1}")]
    Build(String, reqwest::Error),
}

/// Chooses the TLS implementation of this process's HTTP clients.
pub fn install_tls() {
    // Fails only when one is chosen already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// One configured acquirer.
#[derive(Clone, Debug)]
pub struct HttpAcquirer {
    client: Client,
    charges: String,
    contract: Contract,
    call_budget: Duration,
    deadline: Duration,
}

impl HttpAcquirer {
    /// Builds the client of a profile. It follows no redirects (a charge must not be repeated at an
    /// address that nobody configured) and asks no proxy that the environment names.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn new(name: &str, profile: &config::Acquirer) -> Result<Self, ClientError> {
        install_tls();
        let mut headers = HeaderMap::new();
        if let Some(credential) = &profile.credential {
            let value = HeaderValue::from_str(&format!("Bearer {}", credential.0));
            let mut value = value.map_err(|_| ClientError::Credential(name.to_owned()))?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .http1_only()
            .tcp_nodelay(true)
            .connect_timeout(Duration::from_millis(profile.connect_ms))
            .default_headers(headers)
            .build()
            .map_err(|error| ClientError::Build(name.to_owned(), error))?;
        Ok(Self {
            client,
            charges: format!("{}/charges", profile.base_url.trim_end_matches('/')),
            contract: profile.contract(),
            call_budget: Duration::from_millis(profile.connect_ms + profile.read_ms),
            deadline: Duration::from_millis(profile.deadline_ms),
        })
    }

    /// What this acquirer promises.
    #[must_use]
    pub const fn contract(&self) -> &Contract {
        &self.contract
    }

    /// The longest that one call may take.
    #[must_use]
    pub const fn call_budget(&self) -> Duration {
        self.call_budget
    }

    /// The longest that one claim may spend with this acquirer.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sends the charge. `sent_before`: an earlier send may have reached the acquirer.
    pub async fn charge(&self, payment: &Payment, request_id: Uuid, sent_before: bool, deadline: Instant) -> Answer {
        let key = provider_key(payment.id);
        let body = serde_json::json!({
            "reference": key,
            "amount_minor": payment.amount_minor,
            "currency": payment.currency,
            "payment_method_id": payment.payment_method_id,
        });
        let request = self.client.post(&self.charges).header("Idempotency-Key", &key).json(&body);
        match self.call(with_ids(request, payment, request_id), deadline).await {
            Ok((status, body)) => classify_charge(status, &body, expected(payment, &key), sent_before),
            Err(lost) => lost,
        }
    }

    /// Asks what became of the charge.
    pub async fn lookup(&self, payment: &Payment, request_id: Uuid, deadline: Instant) -> Answer {
        let key = provider_key(payment.id);
        let request = self.client.get(&self.charges).query(&[(self.lookup_by(), &key)]);
        match self.call(with_ids(request, payment, request_id), deadline).await {
            Ok((status, body)) => classify_lookup(status, &body, expected(payment, &key)),
            Err(lost) => lost,
        }
    }

    /// Asks for a charge that nobody ever made, to see whether the acquirer is there: the HTTP status.
    ///
    /// # Errors
    /// Why nobody answered.
    pub async fn probe(&self) -> Result<u16, String> {
        let nobodys = Uuid::new_v4().simple().to_string();
        let request = self.client.get(&self.charges).query(&[(self.lookup_by(), nobodys)]);
        match self.call(request, Instant::now() + self.deadline).await {
            Ok((status, _)) => Ok(status),
            Err(lost) => lost.http_status.ok_or_else(|| lost.message.unwrap_or_default()),
        }
    }

    /// The query parameter that a charge is found by.
    const fn lookup_by(&self) -> &'static str {
        match self.contract.lookup {
            Lookup::ByKey => "idempotency_key",
            Lookup::ByReference => "reference",
        }
    }

    /// One call under both clocks: its own budget and the claim's deadline, whichever ends first. The
    /// clock covers the body too: an acquirer that trickles bytes does not hold the worker.
    async fn call(&self, request: RequestBuilder, deadline: Instant) -> Result<(u16, Vec<u8>), Answer> {
        let until = deadline.min(Instant::now() + self.call_budget);
        let answer = timeout_at(until, async { read_capped(request.send().await?).await }).await;
        match answer {
            Ok(Ok(Read::Whole(status, body))) => Ok((status, body)),
            Ok(Ok(Read::TooLong(status))) => {
                Err(Answer::unknown(Some(status), "answer_too_long", "the acquirer's answer is longer than 256 KiB"))
            }
            Ok(Err(error)) => Err(lost(&error)),
            Err(_) => Err(Answer::unknown(None, "timeout", "the acquirer did not answer in time")),
        }
    }
}

fn expected<'a>(payment: &'a Payment, key: &'a str) -> Expected<'a> {
    Expected { reference: key, amount_minor: payment.amount_minor, currency: &payment.currency }
}

/// Lets both sides' logs and traces meet.
fn with_ids(request: RequestBuilder, payment: &Payment, request_id: Uuid) -> RequestBuilder {
    let request = request.header("X-Request-Id", request_id.to_string());
    match payment.traceparent.as_deref().and_then(|parent| child_of(parent, request_id)) {
        Some(traceparent) => request.header("traceparent", traceparent),
        None => request,
    }
}

/// The W3C trace context of a call, a child of the POST's: same trace, a span id of its own.
fn child_of(traceparent: &str, request_id: Uuid) -> Option<String> {
    let mut parts = traceparent.split('-');
    let (version, trace, _, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let (_, span) = request_id.as_u64_pair();
    Some(format!("{version}-{trace}-{span:016x}-{flags}"))
}

enum Read {
    Whole(u16, Vec<u8>),
    TooLong(u16),
}

async fn read_capped(mut response: Response) -> reqwest::Result<Read> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > BODY_CAP {
            return Ok(Read::TooLong(status));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Read::Whole(status, body))
}

/// The road was cut: nothing was heard, whatever was sent.
fn lost(error: &reqwest::Error) -> Answer {
    let (code, message) = if error.is_connect() {
        ("no_connection", "no connection to the acquirer")
    } else if error.is_timeout() {
        ("timeout", "the acquirer did not answer in time")
    } else {
        ("connection_lost", "the connection to the acquirer was lost before its answer was whole")
    };
    Answer::unknown(None, code, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_a_child_span_of_the_post() {
        let request = Uuid::from_u128(0x1122_3344_5566_7788_99aa_bbcc_ddee_ff00);
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let child = child_of(parent, request).expect("a child");
        assert_eq!(child, "00-4bf92f3577b34da6a3ce929d0e0e4736-99aabbccddeeff00-01");
    }
}
