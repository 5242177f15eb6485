//! What every step needs.

use crate::acquirer::{AcquirerClient, ClientError};
use crate::faults::Faults;
use crate::sinks::Sink;
use rand::RngExt;
use shared::committer::{Committer, Verdict, Write, WriteError};
use shared::config::{self, Config};
use shared::queue::Step;
use shared::queue::wake::Notifier;
use shared::telemetry::Metrics;
use sqlx::PgPool;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The rest between two tries to write while the database is away.
const OUTAGE_REST: Duration = Duration::from_millis(200);

/// What a worker process is given.
#[derive(Clone)]
pub struct Services {
    /// The database.
    pub pool: PgPool,
    /// The way in for every write; steps use [`Context::write`].
    pub committer: Committer,
    /// The way to wake others.
    pub notifier: Notifier,
    /// The process's metrics.
    pub metrics: Arc<Metrics>,
    /// The configuration.
    pub config: Arc<Config>,
    /// The worker's name, unique per incarnation: see [`incarnation`].
    pub name: String,
    /// Nothing, but in tests.
    pub faults: Faults,
}

/// A name for this incarnation of a worker: host, process id and a random part, so that a new process
/// is never taken for an old one.
#[must_use]
pub fn incarnation() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_else(|_| "worker".to_owned());
    let random: u32 = rand::rng().random();
    format!("{}-{}-{random:08x}", host.trim(), std::process::id())
}

/// What every step needs: the process's services, and the clients made from its configuration.
pub struct Context {
    services: Services,
    /// The acquirers, by profile name.
    pub acquirers: BTreeMap<String, AcquirerClient>,
    /// The sinks, by name.
    pub sinks: BTreeMap<String, Sink>,
}

impl Deref for Context {
    type Target = Services;

    fn deref(&self) -> &Services {
        &self.services
    }
}

impl Context {
    /// Builds the clients of all configured acquirers and sinks.
    ///
    /// # Errors
    /// When a client cannot be built.
    pub fn new(services: Services) -> Result<Self, ClientError> {
        let config = &services.config;
        let acquirers = config
            .acquirers
            .iter()
            .map(|(name, profile)| Ok((name.clone(), AcquirerClient::new(name, profile)?)))
            .collect::<Result<_, ClientError>>()?;
        let sinks = config.sinks.iter().filter_map(|name| Some((name.clone(), Sink::named(name)?))).collect();
        Ok(Self { services, acquirers, sinks })
    }

    /// How long a claim lasts.
    #[must_use]
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.config.worker.lease_ms)
    }

    /// The budget of a step.
    #[must_use]
    pub fn budget(&self, step: Step) -> &config::Step {
        self.config.steps.of(step)
    }

    /// Writes a transition of a claim that ends at `lease_until`, waiting out a database that is away
    /// for as long as the claim lasts.
    pub async fn write(&self, write: Write, lease_until: Instant) -> Written {
        self.faults.point("before a commit").await;
        let written = loop {
            match self.committer.write(write.clone()).await {
                Ok(Verdict::Applied(_)) => break Written::Applied,
                Ok(Verdict::Stale) => {
                    self.metrics.stale();
                    break Written::Stale;
                }
                Err(error @ WriteError::Refused { .. }) => {
                    tracing::error!(%error, "a transition was refused; its job comes again when the lease has lapsed");
                    break Written::Refused;
                }
                Err(error) if Instant::now() + OUTAGE_REST >= lease_until => {
                    tracing::error!(%error, "the database stayed away for the rest of the lease; the job comes again");
                    break Written::Lost;
                }
                Err(error) => {
                    tracing::warn!(%error, "the database is away; the transition waits");
                    tokio::time::sleep(OUTAGE_REST).await;
                }
            }
        };
        self.faults.point("after a commit").await;
        written
    }
}

/// What became of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is committed.
    Applied,
    /// Somebody else has the payment; nothing was written.
    Stale,
    /// The database refused it; nothing was written.
    Refused,
    /// Not written, or nobody knows; the job comes again when the lease has lapsed.
    Lost,
}

/// A rest, spread by ±10 % so that what failed together does not come back together.
#[must_use]
pub fn jittered(rest: Duration) -> Duration {
    rest.mul_f64(rand::rng().random_range(0.9..1.1))
}
