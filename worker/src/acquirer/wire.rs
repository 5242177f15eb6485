//! The way to an acquirer: one HTTP client per profile, and the clocks over every call.

use super::{Ask, ClientError};
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use shared::acquirer::Answer;
use shared::config;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

/// The most of a body that is read: no honest answer about one charge is longer.
const BODY_CAP: usize = 256 * 1024;

/// Chooses the TLS implementation of this process's HTTP clients.
pub fn install_tls() {
    // Fails only when one is chosen already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The HTTP client of one profile, and how long one call may take.
pub(super) struct Wire {
    client: Client,
    call_budget: Duration,
}

impl Wire {
    /// It follows no redirects (a charge must not be repeated at an address that nobody configured) and asks
    /// no proxy that the environment names.
    pub(super) fn new(name: &str, profile: &config::Acquirer) -> Result<Self, ClientError> {
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
        Ok(Self { client, call_budget: Duration::from_millis(profile.connect_ms + profile.read_ms) })
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    pub(super) const fn call_budget(&self) -> Duration {
        self.call_budget
    }

    /// One call under both clocks: its own budget and the claim's deadline, whichever ends first. The
    /// clock covers the body too: an acquirer that trickles bytes does not hold the worker.
    pub(super) async fn call(&self, request: RequestBuilder, deadline: Instant) -> Result<(u16, Vec<u8>), Answer> {
        self.call_up_to(BODY_CAP, request, deadline).await
    }

    /// The same for an answer that may have `cap` bytes.
    pub(super) async fn call_up_to(
        &self,
        cap: usize,
        request: RequestBuilder,
        deadline: Instant,
    ) -> Result<(u16, Vec<u8>), Answer> {
        let until = deadline.min(Instant::now() + self.call_budget);
        let answer = timeout_at(until, async { read_capped(request.send().await?, cap).await }).await;
        match answer {
            Ok(Ok(Read::Whole(status, body))) => Ok((status, body)),
            Ok(Ok(Read::TooLong(status))) => {
                let message = format!("the acquirer's answer is longer than {} KiB", cap / 1024);
                Err(Answer::unknown(Some(status), "answer_too_long", &message))
            }
            Ok(Err(error)) => Err(lost(&error)),
            Err(_) => Err(Answer::unknown(None, "timeout", "the acquirer did not answer in time")),
        }
    }
}

/// Lets both sides' logs and traces meet.
pub(super) fn with_ids(request: RequestBuilder, ask: Ask<'_>) -> RequestBuilder {
    let request = request.header("X-Request-Id", ask.request_id.to_string());
    match ask.payment.traceparent.as_deref().and_then(|parent| child_of(parent, ask.request_id)) {
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

async fn read_capped(mut response: Response, cap: usize) -> reqwest::Result<Read> {
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > cap {
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
