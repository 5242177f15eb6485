//! `payonce api`

use super::{ConfigFile, needs_acquirers};
use crate::database;
use crate::failure::Failure;
use crate::output::say;
use crate::shutdown::Shutdown;
use crate::stack::{Api, Ports};
use shared::config::Config;
use shared::telemetry::{self, Metrics};
use std::net::SocketAddr;
use std::sync::Arc;

/// Run an API instance.
///
/// Any number of instances may stand behind a load balancer. SIGTERM and SIGINT let it finish what it
/// accepted; a second signal stops it at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Listen here instead of at `api.listen` of the configuration; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let mut config = args.config.load()?;
    config.api.listen = args.listen.unwrap_or(config.api.listen);
    needs_acquirers(&config)?;
    telemetry::start_logging(config.log_format);
    let shutdown = Shutdown::on_signals()?;
    match shutdown.unless_requested(start(config)).await {
        Some(api) => serve(api?, &shutdown).await,
        None => Ok(()),
    }
}

async fn start(config: Config) -> Result<Api, Failure> {
    // Only to see that it is there, a primary, and migrated; the instance makes its own connections.
    database::open(&config, 1).await?.close().await;
    let ports = Ports::bind(&config).await?;
    Api::start(&Arc::new(config), &Arc::new(Metrics::default()), ports)
}

async fn serve(mut api: Api, shutdown: &Shutdown) -> Result<(), Failure> {
    say(format_args!("payonce api ready on {}", api.url()));
    tokio::select! {
        failure = api.failed() => Err(failure),
        () = shutdown.requested() => api.stop().await,
    }
}
