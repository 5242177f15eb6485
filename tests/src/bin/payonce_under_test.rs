//! The binary `payonce`, built for the tests of this package: Cargo tells them where it is.

use clap::Parser;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    cli::main_with(cli::Args::parse()).await
}
