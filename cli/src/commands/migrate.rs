//! `payonce migrate`

use super::ConfigFile;
use crate::database;
use crate::failure::Failure;
use crate::output::say;

/// Bring the database's schema to this version's state
///
/// Safe to run from several processes at once: one works, the others wait.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.config.load()?;
    let migrated = database::migrate(&config).await?;
    for (version, name) in &migrated.applied {
        say(format_args!("applied {version:04} {name}"));
    }
    let begin = if migrated.applied.is_empty() { "nothing to apply" } else { "done" };
    say(format_args!("{begin}: {} is at migration {:04}", database::address(config.listen()?), migrated.at));
    Ok(())
}
