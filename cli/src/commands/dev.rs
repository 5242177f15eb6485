//! `payonce dev`: the test harness, kept alive.

mod defaults;
mod info;

pub use info::Info;

use crate::database;
use crate::demo;
use crate::failure::Failure;
use crate::output::say;
use crate::profiles::Played;
use crate::shutdown::Shutdown;
use crate::stack::{Parts, Stack};
use sandbox::acquirer::Settings;
use sandbox::postgres::Options;
use shared::config::Config;
use shared::telemetry;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Run everything in one process, to try it
///
/// Starts a database (an embedded Postgres, unless DATABASE_URL is set), a simulated acquirer, the API,
/// workers, a demo merchant and a demo operator, and prints what to open and a curl to paste. All acquirers of the
/// configuration lead to the simulated one, and a payonce.toml nearby is not read unless --config names
/// it: nothing here can move real money. Ctrl-C stops everything; a second Ctrl-C stops it at once.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Keep the embedded database in this directory; without, it goes when this ends
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Run so many workers
    #[arg(long, value_name = "N", default_value_t = 1)]
    workers: usize,
    /// Where the API listens, 127.0.0.1:8080 unless configured; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Where the simulated acquirer listens; port 0 takes any free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8081")]
    acquirer_listen: SocketAddr,
    /// Let the simulated acquirer play this shipped contract (sandbox/profiles), such as adyen_like
    #[arg(long, value_name = "NAME", conflicts_with = "config")]
    profile: Option<String>,
    /// Write addresses, the API key and the operator's token to this file as JSON, once all is up
    #[arg(long, value_name = "FILE")]
    info: Option<PathBuf>,
    /// Read this configuration file over the short times of dev; PAYONCE_* variables and DATABASE_URL go over it
    #[arg(long, value_name = "FILE", env = "PAYONCE_CONFIG")]
    config: Option<PathBuf>,
}

/// Runs it until it is told to stop.
///
/// # Errors
/// What did not start, or ended by itself.
pub async fn run(args: Args) -> Result<(), Failure> {
    let played = args.profile.as_deref().map(Played::named).transpose()?;
    let config = configuration(&args, played.as_ref())?;
    telemetry::start_logging(config.log_format);
    let shutdown = Shutdown::on_signals()?;
    let starting = start(config, &args, played.map(|played| played.settings).unwrap_or_default());
    let Some((stack, info)) = shutdown.unless_requested(starting).await.transpose()? else { return Ok(()) };
    say(info.welcome(&stack, args.data.as_deref()));
    stack.run_until(&shutdown).await
}

fn configuration(args: &Args, played: Option<&Played>) -> Result<Config, Failure> {
    let mut defaults = defaults::short_times();
    if let Some(played) = played {
        defaults.default_acquirer = played.name.to_owned();
        defaults.acquirers = [(played.name.to_owned(), played.acquirer.clone())].into();
    }
    let mut config = Config::load_over(&defaults, args.config.as_deref())?;
    config.api.listen = args.listen.unwrap_or(config.api.listen);
    Ok(config)
}

async fn start(config: Config, args: &Args, settings: Settings) -> Result<(Stack, Info), Failure> {
    if let Some(file) = &args.info {
        info::prepare(file)?;
    }
    let postgres = postgres(&config, args.data.as_deref()).await?;
    let parts = Parts { api: true, workers: args.workers, acquirer: Some((args.acquirer_listen, settings)), postgres };
    let stack = Stack::start(config, parts).await?;
    match introduce(&stack, args.info.as_deref()).await {
        Ok(info) => Ok((stack, info)),
        Err(failure) => {
            // What the stop may have to say is worth less than the failure.
            let _ = stack.stop().await;
            Err(failure)
        }
    }
}

async fn introduce(stack: &Stack, file: Option<&Path>) -> Result<Info, Failure> {
    let (_, token) = demo::operator(stack.pool()).await?;
    let info = Info::of(stack, &demo::merchant(stack.pool()).await?, &token);
    if let Some(file) = file {
        info.write(file)?;
    }
    Ok(info)
}

/// An embedded Postgres, unless a database is given; that one must be there to play with, and gets this
/// build's migrations too.
async fn postgres(config: &Config, data: Option<&Path>) -> Result<Option<Options>, Failure> {
    match (&config.database_url, data) {
        (None, data) => Ok(Some(Options { data: data.map(Path::to_owned), ..Options::default() })),
        (Some(_), Some(_)) => Err(Failure::TwoDatabases),
        (Some(_), None) => {
            demo::refuse_strangers(config).await?;
            database::migrate(config).await?;
            Ok(None)
        }
    }
}
