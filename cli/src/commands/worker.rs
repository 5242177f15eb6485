//! `payonce worker`

use super::{ConfigFile, needs_acquirers};
use crate::failure::Failure;
use crate::output::say;
use crate::shutdown::Shutdown;
use crate::stack::{Parts, Stack};
use shared::telemetry;
use std::num::NonZeroUsize;

/// Run a worker
///
/// Any number of workers may share a database. SIGTERM and SIGINT let it finish what it runs and take
/// nothing new; a second signal stops it at once, and its payments are taken over when its leases lapse.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Charge so many payments at once, instead of steps.charge.concurrency of the configuration
    #[arg(long, value_name = "N")]
    concurrency: Option<NonZeroUsize>,
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let mut config = args.config.load()?;
    if let Some(concurrency) = args.concurrency {
        config.steps.charge.concurrency = concurrency.get();
    }
    needs_acquirers(&config)?;
    telemetry::start_logging(config.log_format);
    let shutdown = Shutdown::on_signals()?;
    let starting = Stack::start(config, Parts { workers: 1, ..Parts::default() });
    let Some(stack) = shutdown.unless_requested(starting).await.transpose()? else { return Ok(()) };
    for name in stack.worker_names() {
        say(format_args!("payonce worker ready as {name}"));
    }
    stack.run_until(&shutdown).await
}
