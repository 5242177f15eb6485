//! The service in one process, whole or in parts: what `payonce dev` keeps alive and what tests and
//! benchmarks start; of one part each `payonce api` and `payonce worker` are made.

mod api;
mod engine;
pub mod listen;
pub mod part;
mod worker;

pub use self::api::{Api, Ports};
pub use self::worker::Worker;

use crate::database;
use crate::failure::Failure;
use crate::shutdown::Shutdown;
use crate::today::today;
use futures_util::future::{join_all, select_all};
use part::Part;
use sandbox::acquirer::{self, Acquirer};
use sandbox::postgres::{self, Postgres};
use shared::config::{Config, Kind, Secret};
use shared::telemetry::Metrics;
use sqlx::PgPool;
use std::net::SocketAddr;
use std::sync::Arc;
use uuid::Uuid;

/// Connections of the stack's own pool, for whoever wants to look in.
const OWN_CONNECTIONS: u32 = 4;
/// Connections beside the pools: listeners, migrations, people.
const SPARE_CONNECTIONS: u32 = 40;

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// An API, at `api.listen` of the configuration.
    pub api: bool,
    /// How many workers, each with a pool, a committer and a name of its own.
    pub workers: usize,
    /// A simulated acquirer, and where it listens. All profiles of the configuration then lead to it.
    pub acquirer: Option<(SocketAddr, acquirer::Settings)>,
    /// An embedded Postgres, which gets this build's migrations, instead of the configuration's
    /// database, which must have them.
    pub postgres: Option<postgres::Options>,
}

/// A running stack. Stop it with [`Stack::stop`]; dropped, it ends less orderly but leaves no server
/// behind.
pub struct Stack {
    api: Option<Api>,
    workers: Vec<Worker>,
    worker_metrics: Option<Part>,
    acquirer: Option<Acquirer>,
    pool: PgPool,
    metrics: Arc<Metrics>,
    config: Arc<Config>,
    // The last field, so that it is the last to go.
    postgres: Option<Postgres>,
}

impl Stack {
    /// Starts the parts. Addresses are taken first, so that a taken one is told before a database is
    /// made.
    ///
    /// # Errors
    /// What did not start, and what to do.
    pub async fn start(mut config: Config, parts: Parts) -> Result<Self, Failure> {
        let ports = if parts.api { Some(Ports::bind(&config).await?) } else { None };
        let metrics_listen = config.worker.metrics_listen.filter(|_| parts.workers > 0);
        let metrics_port = listen::bind_if("/metrics of the workers", metrics_listen, "worker.metrics_listen").await?;
        let acquirer = match parts.acquirer {
            Some((listen, settings)) => {
                let api_url = ports.as_ref().map(Ports::api_url).transpose()?;
                Some(start_acquirer(listen, settings, &mut config, api_url.as_deref()).await?)
            }
            None => None,
        };
        let postgres = match parts.postgres {
            Some(options) => Some(start_postgres(options, parts.workers, &mut config).await?),
            None => None,
        };
        let pool = database::open(&config, OWN_CONNECTIONS).await?;
        let (config, metrics) = (Arc::new(config), Arc::new(Metrics::default()));
        let (api, workers, worker_metrics) = (None, Vec::new(), None);
        let mut stack = Self { api, workers, worker_metrics, acquirer, pool, metrics, config, postgres };
        stack.api = ports.map(|ports| Api::start(&stack.config, &stack.metrics, ports)).transpose()?;
        stack.worker_metrics =
            metrics_port.map(|listener| listen::serve_metrics(listener, &stack.config, &stack.pool, &stack.metrics));
        for _ in 0..parts.workers {
            stack.add_worker()?;
        }
        Ok(stack)
    }

    /// Starts one more worker.
    ///
    /// # Errors
    /// When its parts cannot be built.
    pub fn add_worker(&mut self) -> Result<(), Failure> {
        self.workers.push(Worker::start(&self.config, &self.metrics)?);
        Ok(())
    }

    /// Stops all workers: what runs ends, nothing stays leased.
    ///
    /// # Errors
    /// The first of their failures.
    pub async fn stop_workers(&mut self) -> Result<(), Failure> {
        let stopped = join_all(self.workers.drain(..).map(Worker::stop)).await;
        stopped.into_iter().collect()
    }

    /// Waits until something that should run on ends by itself.
    pub async fn failed(&mut self) -> Failure {
        let api = self.api.iter_mut().map(|api| Box::pin(api.failed()) as part::Failing<'_>);
        let workers = self.workers.iter_mut().map(|worker| Box::pin(worker.failed()) as part::Failing<'_>);
        let metrics = self.worker_metrics.iter_mut().map(|part| Box::pin(part.failed()) as part::Failing<'_>);
        let all: Vec<_> = api.chain(workers).chain(metrics).collect();
        if all.is_empty() { std::future::pending().await } else { select_all(all).await.0 }
    }

    /// Runs until the stop is requested, or something ends by itself; then stops everything.
    ///
    /// # Errors
    /// What ended by itself, or did not stop.
    pub async fn run_until(mut self, shutdown: &Shutdown) -> Result<(), Failure> {
        let failure = tokio::select! {
            failure = self.failed() => Some(failure),
            () = shutdown.requested() => None,
        };
        let stopped = self.stop().await;
        failure.map_or(stopped, Err)
    }

    /// Stops everything in order: the API finishes what it accepted, workers what they run, then the
    /// acquirer and the database go.
    ///
    /// # Errors
    /// The first failure; everything is stopped all the same.
    pub async fn stop(mut self) -> Result<(), Failure> {
        let api = match self.api.take() {
            Some(api) => api.stop().await,
            None => Ok(()),
        };
        let workers = self.stop_workers().await;
        let metrics = match self.worker_metrics.take() {
            Some(part) => part.stop().await,
            None => Ok(()),
        };
        if let Some(acquirer) = self.acquirer.take() {
            acquirer.stop().await;
        }
        engine::close(&self.pool).await;
        let postgres = match &mut self.postgres {
            Some(postgres) => postgres.stop().await.map_err(Failure::from),
            None => Ok(()),
        };
        api.and(workers).and(metrics).and(postgres)
    }

    /// The API's address; `""` without one.
    #[must_use]
    pub fn api_url(&self) -> &str {
        self.api.as_ref().map_or("", Api::url)
    }

    /// Where `/metrics` of this process is; `""` without an API.
    #[must_use]
    pub fn metrics_url(&self) -> &str {
        self.api.as_ref().map_or("", Api::metrics_url)
    }

    /// The simulated acquirer's address; `""` without one.
    #[must_use]
    pub fn acquirer_url(&self) -> String {
        self.acquirer.as_ref().map(|acquirer| listen::url(acquirer.addr())).unwrap_or_default()
    }

    /// The database's URL, password and all.
    #[must_use]
    pub fn database_url(&self) -> &str {
        self.config.database_url.as_ref().map_or("", |url| &url.0)
    }

    /// The names of the workers.
    pub fn worker_names(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(Worker::name)
    }

    /// The simulated acquirer.
    #[must_use]
    pub const fn acquirer(&self) -> Option<&Acquirer> {
        self.acquirer.as_ref()
    }

    /// The embedded Postgres.
    #[must_use]
    pub const fn postgres(&self) -> Option<&Postgres> {
        self.postgres.as_ref()
    }

    /// The embedded Postgres, to stop and start it under the others.
    pub const fn postgres_mut(&mut self) -> Option<&mut Postgres> {
        self.postgres.as_mut()
    }

    /// A pool for looking in.
    #[must_use]
    pub const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// What all parts of this process count.
    #[must_use]
    pub const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The configuration that the parts run with.
    #[must_use]
    pub const fn config(&self) -> &Arc<Config> {
        &self.config
    }
}

/// Whatever the configuration says: with a simulated acquirer nothing is ever sent to another one,
/// and no credential to it. One that tells of its charges tells this stack's API.
async fn start_acquirer(
    listen: SocketAddr,
    mut settings: acquirer::Settings,
    config: &mut Config,
    api_url: Option<&str>,
) -> Result<Acquirer, Failure> {
    let secret = Uuid::new_v4().to_string();
    let tells = settings.webhook_url.take().and(api_url);
    settings.webhook_url = tells.map(|url| format!("{url}/v1/acquirers/{}/webhooks", config.default_acquirer));
    settings.webhook_secret = tells.map(|_| secret.as_str().into());
    let acquirer = listen::acquirer(listen, settings, "--acquirer-listen").await?;
    for profile in config.acquirers.values_mut() {
        profile.kind = Kind::Http;
        profile.base_url = listen::url(acquirer.addr());
        profile.credential = None;
        // It plays its contract to the letter, so there is nothing to warn of.
        profile.verified_on = Some(today());
        profile.webhook_secret = tells.map(|_| Secret(secret.clone()));
    }
    Ok(acquirer)
}

async fn start_postgres(
    mut options: postgres::Options,
    workers: usize,
    config: &mut Config,
) -> Result<Postgres, Failure> {
    let processes = u32::try_from(workers).unwrap_or(u32::MAX).saturating_add(2);
    let connections = processes.saturating_mul(config.database_connections).saturating_add(SPARE_CONNECTIONS);
    options.settings.insert(0, ("max_connections".to_owned(), connections.to_string()));
    let postgres = Postgres::start(options).await?;
    config.database_url = Some(Secret(postgres.url("postgres")));
    config.listen_url = None;
    database::migrate(config).await?;
    Ok(postgres)
}
