//! The chaos test as a program: `cargo run --release -p tests --bin chaos -- --payments 20000 --kills 200 --seed 1`.
//!
//! Started as `chaos payonce …` it is `payonce`: the processes that it kills are always of the same build.

use clap::Parser;
use cli::shutdown::Shutdown;
use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tests::chaos::{Storm, run};

/// Kill, stop and restart everything under clients who pay, and see whether all that must hold does
#[derive(Debug, Parser)]
#[command(name = "chaos")]
struct Args {
    /// How many intents are to be paid
    #[arg(long, default_value_t = 2_000)]
    payments: usize,
    /// How often an api or a worker is killed; other blows come in proportion
    #[arg(long, default_value_t = 40)]
    kills: usize,
    /// What intents, clients and the order of blows are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Pay through an acquirer that has no idempotency keys: every second send would be a second charge
    #[arg(long)]
    no_keys: bool,
    /// Keep what the processes log in this directory
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut args: Vec<_> = std::env::args_os().collect();
    if args.get(1).is_some_and(|first| first == "payonce") {
        args.remove(1);
        end_with_the_standard_input();
        return cli::main_with(cli::Args::parse_from(args)).await;
    }
    storm(Args::parse_from(args)).await
}

async fn storm(args: Args) -> ExitCode {
    let program = std::env::current_exe().expect("a program knows where it is");
    let Args { payments, kills, seed, no_keys, logs } = args;
    let storm = Storm { payments, kills, seed, keys: !no_keys, program, logs };
    if let Some(logs) = &storm.logs {
        std::fs::create_dir_all(logs).expect("the directory of the logs can be made");
    }
    let shutdown = Shutdown::on_signals().expect("signals can be listened to");
    let deadline = storm.deadline();
    match shutdown.unless_requested(tokio::time::timeout(deadline, run(storm))).await {
        Some(Ok(report)) => {
            print!("{report}");
            if report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Some(Err(_)) => late(seed, deadline),
        None => ExitCode::from(130),
    }
}

fn late(seed: u64, deadline: Duration) -> ExitCode {
    println!("VIOLATED: the storm of seed {seed} did not end within {} s", deadline.as_secs());
    ExitCode::FAILURE
}

/// However the harness ends, also by SIGKILL, this process does not outlive it: the kernel closes the pipe.
fn end_with_the_standard_input() {
    std::thread::spawn(|| {
        let mut nothing = [0; 1];
        while std::io::stdin().read(&mut nothing).is_ok_and(|length| length > 0) {}
        std::process::exit(1);
    });
}
