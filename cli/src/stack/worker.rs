//! A worker.

use super::engine::{self, Engine};
use super::part::Part;
use crate::failure::Failure;
use shared::config::Config;
use shared::queue::wake::{JOBS, Wake};
use shared::telemetry::Metrics;
use std::sync::Arc;
use worker::acquirer::AcquirerClient;

/// A worker.
#[derive(Debug)]
pub struct Worker {
    name: String,
    running: Part,
}

impl Worker {
    /// Starts one, with a pool, a committer and a name of its own.
    ///
    /// # Errors
    /// What it lacks.
    pub fn start(config: &Arc<Config>, metrics: &Arc<Metrics>) -> Result<Self, Failure> {
        // Before anybody is told that it is ready.
        for (name, profile) in &config.acquirers {
            AcquirerClient::new(name, profile)?;
        }
        let name = worker::context::incarnation();
        let Engine { pool, notifier, committer } = Engine::start(config, metrics, "payonce worker")?;
        let wake = Wake::start(config.listen()?.to_owned(), JOBS, metrics.clone());
        let services = worker::Services {
            pool: pool.clone(),
            committer,
            notifier,
            metrics: metrics.clone(),
            config: config.clone(),
            name: name.clone(),
            // None: a type that differs with the build.
            faults: Default::default(),
        };
        let what = format!("the worker {name}");
        let running = Part::start(what.clone(), |stopped| async move {
            let ended = worker::run(services, wake, stopped).await;
            engine::close(&pool).await;
            ended.map_err(|error| Failure::Ended { what, why: error.to_string() })
        });
        Ok(Self { name, running })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes nothing new, lets what runs end, hands back what was never started, and ends.
    ///
    /// # Errors
    /// What it failed with.
    pub async fn stop(self) -> Result<(), Failure> {
        self.running.stop().await
    }

    /// Waits until it ends by itself, which it should not.
    pub async fn failed(&mut self) -> Failure {
        self.running.failed().await
    }
}
