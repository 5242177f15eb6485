//! Wake-ups: NOTIFY tells that something is due; the poll finds everything without it.
//!
//! A notification carries no payload and is sent after the commit, on its own, at most once per
//! 10 ms: a NOTIFY inside a commit would make all commits queue on one lock.

use crate::db::{in_time, within};
use crate::telemetry::Metrics;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sqlx::PgPool;
use sqlx::postgres::PgListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

/// Something may be due.
pub const JOBS: &str = "payonce_jobs";
/// Some payment changed visibly.
pub const PAYMENTS: &str = "payonce_payments";

/// The least time between two notifications of one process on one channel.
const COALESCE: Duration = Duration::from_millis(10);
/// A listener that heard nothing for this long is asked whether it still lives.
const SILENCE: Duration = Duration::from_secs(5);
/// How long it may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// The rest before a lost listener is replaced.
const REPLACE_REST: Duration = Duration::from_millis(500);

/// Sends wake-ups, coalesced. Cheap to clone; its tasks end with the last handle.
#[derive(Clone, Debug)]
pub struct Notifier {
    jobs: Arc<Notify>,
    payments: Arc<Notify>,
    _alive: watch::Sender<()>,
}

impl Notifier {
    /// Starts sending on `pool`.
    #[must_use]
    pub fn start(pool: &PgPool) -> Self {
        let (alive, _) = watch::channel(());
        let (jobs, payments) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        tokio::spawn(send(pool.clone(), JOBS, jobs.clone(), alive.subscribe()));
        tokio::spawn(send(pool.clone(), PAYMENTS, payments.clone(), alive.subscribe()));
        Self { jobs, payments, _alive: alive }
    }

    /// Jobs may be due.
    pub fn jobs(&self) {
        self.jobs.notify_one();
    }

    /// Payments changed.
    pub fn payments(&self) {
        self.payments.notify_one();
    }
}

async fn send(pool: PgPool, channel: &'static str, asked: Arc<Notify>, mut alive: watch::Receiver<()>) {
    loop {
        tokio::select! {
            () = asked.notified() => {}
            _ = alive.changed() => return,
        }
        if let Err(error) = in_time(sqlx::query!("SELECT pg_notify($1, '')", channel).execute(&pool)).await {
            tracing::debug!(channel, %error, "a wake-up was not sent; the poll finds the work");
        }
        sleep(COALESCE).await;
    }
}

/// Hears wake-ups of one channel. Cheap to clone; every clone hears every wake-up.
#[derive(Clone, Debug)]
pub struct Wake {
    heard: watch::Receiver<u64>,
    seen: u64,
}

impl Wake {
    /// Starts listening on a connection of its own, so that a transaction-mode pooler in front of
    /// Postgres can stay in front of everything else. A listener that died is replaced.
    #[must_use]
    pub fn start(listen_url: String, channel: &'static str, metrics: Arc<Metrics>) -> Self {
        let (tell, heard) = watch::channel(0);
        tokio::spawn(listen(listen_url, channel, metrics, tell));
        Self { heard, seen: 0 }
    }

    /// Notes, before the table is read, which wake-ups that reading covers.
    pub fn about_to_read(&mut self) {
        self.seen = *self.heard.borrow();
    }

    /// Waits for a wake-up since [`Self::about_to_read`], `most` at the longest: none falls between a
    /// read that found nothing and the rest after it.
    #[must_use]
    pub fn rest(&self, most: Duration) -> BoxFuture<'static, ()> {
        let (mut heard, seen) = (self.heard.clone(), self.seen);
        async move {
            // When the listener's task is gone only the poll is left.
            let gone = matches!(timeout(most, heard.wait_for(|count| *count != seen)).await, Ok(Err(_)));
            if gone {
                sleep(most).await;
            }
        }
        .boxed()
    }
}

async fn listen(url: String, channel: &'static str, metrics: Arc<Metrics>, tell: watch::Sender<u64>) {
    while !tell.is_closed() {
        match PgListener::connect(&url).await {
            Ok(listener) => {
                if let Err(error) = hear(listener, channel, &metrics, &tell).await {
                    tracing::warn!(channel, %error, "the listener was lost; it is replaced, and until then the poll finds the work");
                }
            }
            Err(error) => tracing::warn!(channel, %error, "cannot listen; the poll finds the work"),
        }
        metrics.listener_up(channel, false);
        sleep(REPLACE_REST).await;
    }
}

/// Hears until the connection is lost. A half-open one answers no question, and counts as lost.
async fn hear(
    mut listener: PgListener,
    channel: &'static str,
    metrics: &Metrics,
    tell: &watch::Sender<u64>,
) -> sqlx::Result<()> {
    listener.ignore_pool_close_event(true);
    within(ANSWER, listener.listen(channel)).await?;
    metrics.listener_up(channel, true);
    while !tell.is_closed() {
        tell.send_modify(|count| *count += 1);
        let heard = tokio::select! {
            heard = timeout(SILENCE, listener.try_recv()) => heard,
            // At once, so that a database that is stopped next is not missed by a listener of nobody.
            () = tell.closed() => return Ok(()),
        };
        match heard {
            Ok(Ok(Some(_))) => {}
            Ok(Ok(None)) => {
                return Err(sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into()));
            }
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                within(ANSWER, sqlx::query("SELECT 1").execute(&mut listener)).await?;
            }
        }
    }
    Ok(())
}
