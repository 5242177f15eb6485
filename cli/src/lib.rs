//! The one binary, `payonce`, as a library: `payonce dev` is the test harness kept alive, so tests and
//! benchmarks start their [`stack::Stack`] from here too.
//!
//! Architecture invariant: nothing about payments is decided here. Commands read the configuration,
//! put the crates together, and say in sentences what came of it.

mod acting;
pub mod bench;
pub mod commands;
pub mod database;
pub mod demo;
pub mod failure;
mod output;
mod password;
pub mod profiles;
pub mod shutdown;
pub mod stack;
mod table;
mod today;

pub use failure::Failure;

use clap::Parser;
use commands::Command;
use std::process::ExitCode;

/// A payment service that never charges twice.
#[derive(Debug, Parser)]
#[command(name = "payonce", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

/// Runs a command to its end. A failure is told on the standard error, in sentences.
pub async fn main_with(args: Args) -> ExitCode {
    args.command.run().await.unwrap_or_else(|failure| {
        output::complain(&failure);
        failure.exit_code()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn no_two_arguments_are_in_each_others_way() {
        Args::command().debug_assert();
    }
}
