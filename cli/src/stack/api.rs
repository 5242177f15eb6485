//! An API instance.

use super::engine::{self, Engine};
use super::listen;
use super::part::Part;
use crate::failure::Failure;
use futures_util::future::{Either, select};
use shared::config::Config;
use shared::queue::wake::{PAYMENTS, Wake};
use shared::telemetry::Metrics;
use std::pin::pin;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The addresses of an API instance, taken.
#[derive(Debug)]
pub struct Ports {
    api: TcpListener,
    metrics: Option<TcpListener>,
}

impl Ports {
    /// Takes `api.listen`, and `api.metrics_listen` where it is set.
    ///
    /// # Errors
    /// [`Failure::Listen`].
    pub async fn bind(config: &Config) -> Result<Self, Failure> {
        let api = listen::bind("the API", config.api.listen, "--listen").await?;
        let metrics = config.api.metrics_listen;
        let metrics = listen::bind_if("/metrics of the API", metrics, "api.metrics_listen").await?;
        Ok(Self { api, metrics })
    }

    /// Where the API will be.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn api_url(&self) -> Result<String, Failure> {
        listen::url_of(&self.api)
    }
}

/// An API instance.
#[derive(Debug)]
pub struct Api {
    url: String,
    metrics_url: String,
    serving: Part,
    metrics: Option<Part>,
}

impl Api {
    /// Starts one, with a pool and a committer of its own.
    ///
    /// # Errors
    /// What it lacks.
    pub fn start(config: &Arc<Config>, metrics: &Arc<Metrics>, ports: Ports) -> Result<Self, Failure> {
        let url = listen::url_of(&ports.api)?;
        let metrics_url = ports.metrics.as_ref().map_or(Ok(url.clone()), listen::url_of)?;
        let Engine { pool, committer, .. } = Engine::start(config, metrics, "payonce api")?;
        let metrics_part = ports.metrics.map(|listener| listen::serve_metrics(listener, config, &pool, metrics));
        let changes = Wake::start(config.listen()?.to_owned(), PAYMENTS, metrics.clone());
        let services =
            api::Services { pool: pool.clone(), committer, metrics: metrics.clone(), changes, config: config.clone() };
        let (app, config) = (api::app(services), config.clone());
        let serving = Part::start("the API", |stopped| async move {
            let served = api::serve(ports.api, app, &config.api, stopped).await;
            engine::close(&pool).await;
            served.map_err(|source| Failure::System { what: "serve the API", source })
        });
        Ok(Self { url, metrics_url: format!("{metrics_url}/metrics"), serving, metrics: metrics_part })
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where its metrics are.
    #[must_use]
    pub fn metrics_url(&self) -> &str {
        &self.metrics_url
    }

    /// Finishes what it accepted, and ends.
    ///
    /// # Errors
    /// What it failed with.
    pub async fn stop(self) -> Result<(), Failure> {
        let served = self.serving.stop().await;
        match self.metrics {
            Some(part) => served.and(part.stop().await),
            None => served,
        }
    }

    /// Waits until it ends by itself, which it should not.
    pub async fn failed(&mut self) -> Failure {
        let Some(metrics) = &mut self.metrics else { return self.serving.failed().await };
        match select(pin!(self.serving.failed()), pin!(metrics.failed())).await {
            Either::Left((failure, _)) | Either::Right((failure, _)) => failure,
        }
    }
}
