//! `payonce doctor`

mod acquirers;
mod clock;
mod contracts;
mod database;
mod listening;

use super::ConfigFile;
use crate::failure::Failure;
use crate::output::say;
use shared::config::{Config, Refused};
use std::fmt;
use std::process::ExitCode;

/// Check configuration, database and acquirers, and say what to do about each fault
///
/// Changes nothing and charges nothing. The exit code is 0 when all is well or only worth a look (!),
/// 1 when something is wrong (✗).
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
}

/// What one check found.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    what: String,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Good,
    Doubtful,
    Bad,
}

impl Finding {
    fn new(mark: Mark, what: &str, words: impl fmt::Display) -> Self {
        Self { mark, what: what.to_owned(), words: words.to_string() }
    }

    fn good(what: &str, words: impl fmt::Display) -> Self {
        Self::new(Mark::Good, what, words)
    }

    fn doubtful(what: &str, words: impl fmt::Display) -> Self {
        Self::new(Mark::Doubtful, what, words)
    }

    fn bad(what: &str, words: impl fmt::Display) -> Self {
        Self::new(Mark::Bad, what, words)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.mark {
            Mark::Good => '✓',
            Mark::Doubtful => '!',
            Mark::Bad => '✗',
        };
        write!(f, "{mark} {:<14} {}", self.what, self.words)
    }
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let findings = match args.config.load() {
        Ok(config) => of_service(&config).await,
        Err(refused) => of_refusal(refused),
    };
    let sick = findings.iter().any(|finding| finding.mark == Mark::Bad);
    Ok(if sick { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// All the rest hangs on the configuration.
fn of_refusal(Refused(faults): Refused) -> Vec<Finding> {
    faults.into_iter().map(|fault| told(Finding::bad("configuration", fault))).collect()
}

/// Each finding is told as it is made: some take seconds.
async fn of_service(config: &Config) -> Vec<Finding> {
    let mut findings = vec![told(of_configuration(config))];
    findings.extend(database::check(config).await.into_iter().map(told));
    findings.extend(acquirers::check(config).await.into_iter().map(told));
    findings.extend(contracts::check(config).into_iter().map(told));
    if !config.acquirers.is_empty() {
        say(format_args!("\nWhat the acquirers promise (docs/provider-contracts.md):\n\n{}", contracts::table(config)));
    }
    findings
}

fn of_configuration(config: &Config) -> Finding {
    match config.database() {
        Ok(_) => Finding::good("configuration", "every key is known, and the times agree with each other"),
        Err(Refused(faults)) => Finding::bad("configuration", faults.join("; ")),
    }
}

fn told(finding: Finding) -> Finding {
    say(&finding);
    finding
}
