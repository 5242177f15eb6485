//! A stack of the bench's own: everything in this process, Postgres beside it, fsync and
//! synchronous_commit on.

use super::Target;
use crate::demo;
use crate::failure::Failure;
use crate::stack::{Parts, Stack};
use sandbox::acquirer::{Latency, Settings};
use sandbox::postgres;
use shared::config::{Acquirer, Config};
use std::net::{Ipv4Addr, SocketAddr};

/// Places at the acquirer's gate beside those of the charges.
const LOOKUPS: usize = 64;

/// The running stack, at first without a worker.
pub(super) struct Embedded {
    stack: Stack,
    target: Target,
}

impl Embedded {
    pub(super) async fn start(acquirer_ms: u64, concurrency: usize) -> Result<Self, Failure> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = Config::default();
        config.api.listen = any;
        config.steps.charge.concurrency = concurrency;
        // The stack lets every profile lead to its acquirer.
        let acquirer = Acquirer { concurrency: concurrency + LOOKUPS, ..Acquirer::at("http://127.0.0.1") };
        config.acquirers.insert(config.default_acquirer.clone(), acquirer);
        let settings = Settings { latency_ms: Latency::Fixed { ms: acquirer_ms }, ..Settings::default() };
        let parts = Parts {
            api: true,
            workers: 0,
            acquirer: Some((any, settings)),
            postgres: Some(postgres::Options::default()),
        };
        let stack = Stack::start(config.checked()?, parts).await?;
        let (_, key) = demo::merchant(stack.pool()).await?;
        let target = Target {
            api_url: stack.api_url().to_owned(),
            api_key: key.reveal().to_owned(),
            database_url: stack.database_url().to_owned(),
        };
        Ok(Self { stack, target })
    }

    pub(super) fn target(&self) -> Target {
        self.target.clone()
    }

    /// Lets a worker begin.
    pub(super) fn work(&mut self) -> Result<(), Failure> {
        self.stack.add_worker()
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.stack.stop().await
    }
}
