//! `payonce`: see `payonce --help`.

use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    cli::main_with(cli::Args::parse()).await
}
