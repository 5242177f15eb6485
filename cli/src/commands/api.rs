//! `payonce api`

use super::{ConfigFile, needs_acquirers};
use crate::failure::Failure;
use crate::output::say;
use crate::shutdown::Shutdown;
use crate::stack::{Parts, Stack};
use shared::telemetry;
use std::net::SocketAddr;

/// Run an API instance
///
/// Any number of instances may stand behind a load balancer. SIGTERM and SIGINT let it finish what it
/// accepted; a second signal stops it at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Listen here instead of at api.listen of the configuration; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let mut config = args.config.load()?;
    config.api.listen = args.listen.unwrap_or(config.api.listen);
    needs_acquirers(&config)?;
    telemetry::start_logging(config.log_format);
    let shutdown = Shutdown::on_signals()?;
    let starting = Stack::start(config, Parts { api: true, ..Parts::default() });
    let Some(stack) = shutdown.unless_requested(starting).await.transpose()? else { return Ok(()) };
    say(format_args!("payonce api ready on {}", stack.api_url()));
    stack.run_until(&shutdown).await
}
