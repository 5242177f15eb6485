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
    url: String,
    api_key: String,
    concurrency: usize,
}

impl Load {
    pub(super) fn new(target: &Target, concurrency: usize) -> Result<Self, LoadError> {
        worker::acquirer::install_tls();
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        let url = format!("{}/v1/payments", target.api_url);
        Ok(Self { http, url, api_key: target.api_key.clone(), concurrency })
    }

    /// Posts `count` payments, `concurrency` at once.
    pub(super) async fn post(&self, count: u32, progress: &Progress) -> Result<(), LoadError> {
        let next = Arc::new(AtomicU32::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..self.concurrency {
            let (load, next, bar) = (self.clone(), next.clone(), progress.0.clone());
            clients.spawn(async move {
                while next.fetch_add(1, Ordering::Relaxed) < count {
                    load.one(None).await?;
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

    /// Posts `count` payments at a steady rate, whatever the answers take; every other one waits for
    /// PAID. Returns how long acceptance and payment took.
    pub(super) async fn trickle(
        &self,
        rate: u32,
        count: u32,
        progress: &Progress,
    ) -> Result<(Millis, Millis), LoadError> {
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut requests = JoinSet::new();
        for index in 0..count {
            ticks.tick().await;
            let load = self.clone();
            let waits = index % 2 == 1;
            requests.spawn(async move { Ok::<_, LoadError>((waits, load.one(waits.then_some("wait=8")).await?)) });
        }
        let (mut accepted, mut paid) = (histogram(), histogram());
        while let Some(request) = requests.join_next().await {
            let (waited, took) = request.expect("a request of the bench does not panic")?;
            let histogram = if waited { &mut paid } else { &mut accepted };
            histogram.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            progress.one_more();
        }
        Ok((Millis::of(&accepted), Millis::of(&paid)))
    }

    async fn one(&self, prefer: Option<&str>) -> Result<Duration, LoadError> {
        let id = Uuid::new_v4();
        let body = json!({
            "payment_intent_id": format!("bench-{}", id.simple()),
            "amount_minor": 1999,
            "currency": "EUR",
            "payment_method_id": "pm_ok",
        });
        let mut request =
            self.http.post(&self.url).bearer_auth(&self.api_key).header("Idempotency-Key", id.to_string()).json(&body);
        if let Some(prefer) = prefer {
            request = request.header("Prefer", prefer);
        }
        let began = Instant::now();
        let answer = request.send().await?;
        let status = answer.status().as_u16();
        let body = answer.text().await?;
        let took = began.elapsed();
        let expected = if prefer.is_some() { 201 } else { 202 };
        if status == expected { Ok(took) } else { Err(LoadError::Refused { status, body }) }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are in order")
}
