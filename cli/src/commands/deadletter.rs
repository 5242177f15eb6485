//! `payonce deadletter`

use super::ConfigFile;
use super::review::{self, EXIT_CODES, Filters, Many, Subject};
use crate::failure::Failure;
use crate::output::say;
use crate::{acting, database};
use clap::Subcommand;
use shared::operator::Action as Right;
use shared::review::bulk::Bulk;
use shared::review::{Reason, desk};
use std::process::ExitCode;

/// What a step gave up because its budget was spent: see it, take it up again
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the dead letters, the oldest first
    List {
        #[command(flatten)]
        filters: Filters,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
    /// Take one up again, or many: an event goes to the same sink, a payment is looked up; never a charge
    Replay(Many),
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let config = args.config.load()?;
    let pool = database::open(&config, 2).await?;
    match args.action {
        Action::List { filters, limit } => {
            let filter = filters.read(&pool).await?;
            let about = |reason: Reason| Failure::Usage(format!("{} is no reason of a dead letter", reason.as_str()));
            let filter = Bulk::Replay.of(filter).map_err(about)?;
            say(review::listing(&pool, &filter, limit, args.json).await?);
        }
        Action::Replay(many) if many.all() => return review::run_many(&pool, Bulk::Replay, many, args.json).await,
        Action::Replay(many) => {
            let (id, why) = many.one()?;
            let by = acting::operator(&pool, Right::Redeliver).await?;
            let subject = Subject::find(&pool, &id).await?;
            let letter = subject.review(&pool).await?;
            let done = desk::replay(&pool, subject.of.merchant_id, letter, &by, &why).await?;
            say(review::told(done, "a worker takes it up now, with a fresh budget", args.json));
        }
    }
    Ok(ExitCode::SUCCESS)
}
