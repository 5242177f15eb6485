//! The subcommands, one file each.

mod api;
mod deadletter;
pub mod dev;
mod doctor;
mod merchant;
mod migrate;
mod operator;
mod payment;
mod review;
mod sandbox;
mod worker;

use crate::bench;
use crate::failure::Failure;
use clap::Subcommand;
use shared::config::{Config, Refused};
use std::path::PathBuf;
use std::process::ExitCode;

/// What to do.
#[derive(Debug, Subcommand)]
#[expect(missing_docs, reason = "the arguments of each say what it is")]
pub enum Command {
    Dev(dev::Args),
    Api(api::Args),
    Worker(worker::Args),
    Migrate(migrate::Args),
    Merchant(merchant::Args),
    Operator(operator::Args),
    Payment(payment::Args),
    Review(review::Args),
    Deadletter(deadletter::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Sandbox(sandbox::Args),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// Why it was not done.
    pub async fn run(self) -> Result<ExitCode, Failure> {
        let done = match self {
            Self::Dev(args) => dev::run(args).await,
            Self::Api(args) => api::run(args).await,
            Self::Worker(args) => worker::run(args).await,
            Self::Migrate(args) => migrate::run(args).await,
            Self::Merchant(args) => merchant::run(args).await,
            Self::Operator(args) => operator::run(args).await,
            Self::Payment(args) => payment::run(args).await,
            Self::Review(args) => return review::run(args).await,
            Self::Deadletter(args) => return deadletter::run(args).await,
            Self::Doctor(args) => return doctor::run(args).await,
            Self::Bench(args) => bench::run(args).await.map_err(Failure::Bench),
            Self::Sandbox(args) => sandbox::run(args).await,
        };
        done.map(|()| ExitCode::SUCCESS)
    }
}

/// Where the configuration is.
#[derive(Debug, clap::Args)]
pub struct ConfigFile {
    /// Read this configuration file instead of payonce.toml; PAYONCE_* variables and DATABASE_URL go over it
    #[arg(long = "config", value_name = "FILE", env = "PAYONCE_CONFIG")]
    file: Option<PathBuf>,
}

impl ConfigFile {
    fn load(&self) -> Result<Config, Refused> {
        Config::load(self.file.as_deref())
    }
}

/// Refuses a configuration that could accept payments and never charge them.
fn needs_acquirers(config: &Config) -> Result<(), Failure> {
    if config.acquirers.is_empty() { Err(Failure::NoAcquirer) } else { Ok(()) }
}
