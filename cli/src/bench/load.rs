//! The load: checkouts, as many as wanted.

use super::Target;
use super::report::Millis;
use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

/// Why a payment of the bench did not go through.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// No answer.
    #[error("the API did not answer: {0}")]
    Http(#[from] reqwest::Error),
    /// Not the answer that a healthy stack gives.
    #[error("the API answered {status}: {body}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The body.
        body: String,
    },
}

/// A bar on a terminal, nothing elsewhere.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(what: &'static str, count: u32) -> Self {
        let bar = ProgressBar::new(u64::from(count)).with_message(what);
        let style = ProgressStyle::with_template("{msg:18} {wide_bar} {pos}/{len} {per_sec}");
        Self(style.map_or(bar.clone(), |style| bar.with_style(style)))
    }

    fn one_more(&self) {
        self.0.inc(1);
    }

    pub(super) fn left(&self, left: i64) {
        let length = self.0.length().unwrap_or_default();
        self.0.set_position(length.saturating_sub(left.unsigned_abs()));
    }
}

/// Posts payments, each with an intent and a key of its own.
#[derive(Clone)]
pub(super) struct Load {
    http: reqwest::Client,
    api_url: String,
    api_key: String,
    concurrency: usize,
}

impl Load {
    pub(super) fn new(target: &Target, concurrency: usize) -> Result<Self, LoadError> {
        worker::acquirer::install_tls();
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        let (api_url, api_key) = (target.api_url.clone(), target.api_key.clone());
        Ok(Self { http, api_url, api_key, concurrency })
    }

    /// Posts `count` payments, `concurrency` at once.
    pub(super) async fn post(&self, count: u32, progress: &Progress) -> Result<(), LoadError> {
        let next = Arc::new(AtomicU32::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..self.concurrency {
            let (load, next, bar) = (self.clone(), next.clone(), progress.0.clone());
            clients.spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    load.one().await?;
                    bar.inc(1);
                }
                Ok::<_, LoadError>(())
            });
        }
        while let Some(client) = clients.join_next().await {
            client.expect("a client of the bench does not panic")?;
        }
        Ok(())
    }

    /// Posts `count` payments at a steady rate, whatever the answers take, and follows each to PAID.
    /// Returns how long it took to be accepted, and from there until the client heard that it is PAID.
    pub(super) async fn trickle(
        &self,
        rate: u32,
        count: u32,
        progress: &Progress,
    ) -> Result<(Millis, Millis), LoadError> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut payments = JoinSet::new();
        for _ in 0..count {
            ticks.tick().await;
            let load = self.clone();
            payments.spawn(async move {
                let (accepted, location) = load.one().await?;
                Ok::<_, LoadError>((accepted, load.until_paid(&location).await?))
            });
        }
        let (mut accepted, mut paid) = (histogram(), histogram());
        let micros = |took: Duration| u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        while let Some(payment) = payments.join_next().await {
            let (accepting, paying) = payment.expect("a payment of the bench does not panic")?;
            accepted.saturating_record(micros(accepting));
            paid.saturating_record(micros(paying));
            progress.one_more();
        }
        Ok((Millis::of(&accepted), Millis::of(&paid)))
    }

    /// Posts one payment. Returns how long its acceptance took, and where it is.
    async fn one(&self) -> Result<(Duration, String), LoadError> {
        let id = Uuid::new_v4();
        let body = json!({
            "payment_intent_id": format!("bench-{}", id.simple()),
            "amount_minor": 1999,
            "currency": "EUR",
            // No two by one card: some acquirers take these for one.
            "payment_method_id": format!("card_{}", id.simple()),
        });
        let post = self.http.post(format!("{}/v1/payments", self.api_url)).bearer_auth(&self.api_key);
        let began = Instant::now();
        let answer = post.header("Idempotency-Key", id.to_string()).json(&body).send().await?;
        let status = answer.status().as_u16();
        let location = answer.headers().get("Location").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = answer.text().await?;
        let took = began.elapsed();
        match location {
            Some(location) if status == 202 => Ok((took, location)),
            _ => Err(LoadError::Refused { status, body }),
        }
    }

    /// Follows a payment that was just accepted until it is PAID.
    async fn until_paid(&self, location: &str) -> Result<Duration, LoadError> {
        let began = Instant::now();
        let get = self.http.get(format!("{}{location}", self.api_url)).bearer_auth(&self.api_key);
        let answer = get.header("If-None-Match", "\"1\"").header("Prefer", "wait=8").send().await?;
        let status = answer.status().as_u16();
        let body = answer.text().await?;
        let took = began.elapsed();
        if body.contains("\"status\":\"PAID\"") { Ok(took) } else { Err(LoadError::Refused { status, body }) }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}
