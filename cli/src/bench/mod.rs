//! `payonce bench`: how fast, how many commits, how much WAL, how long a payment waits. It drives the
//! real API over HTTP; figures come from the client's clock and from Postgres' own counters.

mod counters;
mod embedded;
pub mod faults;
mod load;
mod report;

use crate::profiles::Played;
use clap::Parser;
use counters::Counters;
use embedded::Embedded;
use faults::Storm;
use load::{Load, Progress};
use report::{Millis, Report};
use serde::Deserialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Measures payonce.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// How many payments each phase makes.
    #[arg(long, default_value_t = 5000)]
    payments: u32,
    /// How many requests, and how many charges, are on their way at once.
    #[arg(long, default_value_t = 64)]
    concurrency: usize,
    /// How long the embedded acquirer takes to answer, in milliseconds.
    #[arg(long, default_value_t = 0)]
    acquirer_ms: u64,
    /// The steady phase: payments per second.
    #[arg(long, default_value_t = 50)]
    rate: u32,
    /// The steady phase: seconds; 0 leaves it out.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Drive the running stack that wrote this file (`payonce dev --info FILE`) instead of an embedded one.
    #[arg(long, value_name = "FILE")]
    info: Option<PathBuf>,
    /// Instead: send the payments through an acquirer that fails in every way it knows, for each shipped contract or
    /// the one of --profile, and compare its books with ours. Ends with 1 when something is there that must not be.
    #[arg(long, conflicts_with_all = ["info", "acquirer_ms", "rate", "seconds", "concurrency"])]
    faults: bool,
    /// With --faults: this shipped contract only, such as checkout_like.
    #[arg(long, value_name = "NAME", requires = "faults")]
    profile: Option<String>,
    /// With --faults: the share of payments that meet a fault.
    #[arg(long, value_name = "SHARE", requires = "faults", default_value_t = 0.2, value_parser = share)]
    fault_rate: f64,
    /// With --faults: which payments meet which faults.
    #[arg(long, value_name = "N", requires = "faults", default_value_t = 1)]
    seed: u64,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// What is driven: the fields of `payonce dev --info` that matter here.
#[derive(Clone, Debug, Deserialize)]
struct Target {
    api_url: String,
    api_key: String,
    database_url: String,
}

fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text.parse().map_err(|_| format!("{text:?} is no number"))?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share is from 0 to 1".to_owned()) }
}

/// Runs the bench and prints its report.
///
/// # Errors
/// When the stack cannot be started or read, a payment is not accepted, or `--faults` found what must not be.
pub async fn run(args: Args) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if args.faults {
        return storms(&args).await;
    }
    let report = match &args.info {
        Some(file) => against_running(&args, serde_json::from_slice(&std::fs::read(file)?)?).await?,
        None => against_embedded(&args).await?,
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{report}");
    }
    Ok(())
}

async fn storms(args: &Args) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let storm = Storm { payments: args.payments, rate: args.fault_rate, seed: args.seed };
    let played: Vec<Played> = match &args.profile {
        Some(name) => vec![Played::named(name)?],
        None => Played::all().collect(),
    };
    let mut broken = Vec::new();
    for played in played {
        let outcome = faults::run(played, storm).await?;
        if !outcome.holds() {
            broken.push(outcome.profile);
        }
        if args.json {
            println!("{}", serde_json::to_string(&outcome)?);
        } else {
            println!("{outcome}");
        }
    }
    if broken.is_empty() {
        Ok(())
    } else {
        Err(format!("something is there that must not be: {}", broken.join(", ")).into())
    }
}

type Outcome = Result<Report, Box<dyn std::error::Error + Send + Sync>>;

/// Accepts everything before a worker is there, lets it drain, then accepts and drains at once.
async fn against_embedded(args: &Args) -> Outcome {
    let mut stack = Embedded::start(args.acquirer_ms, args.concurrency).await?;
    let target = stack.target();
    let load = Load::new(&target, args.concurrency)?;
    let counters = Counters::connect(&target.database_url)?;
    let before = counters.read().await?;
    load.post(args.payments, &Progress::new("accept", args.payments)).await?;
    let began = Instant::now();
    stack.work()?;
    counters.drained(&Progress::new("drain", args.payments)).await?;
    let drained = rate(args.payments, began.elapsed());
    let cost = counters.read().await?.since(&before).per(args.payments);
    let sustained = sustained(args, &load, &counters).await?;
    let steady = steady(args, &load, &counters).await?;
    let report = Report::new(drained, sustained, cost, steady);
    stack.stop().await?;
    Ok(report)
}

/// A running stack cannot be told to wait: drained is what it does under the same load.
async fn against_running(args: &Args, target: Target) -> Outcome {
    let load = Load::new(&target, args.concurrency)?;
    let counters = Counters::connect(&target.database_url)?;
    let before = counters.read().await?;
    let sustained = sustained(args, &load, &counters).await?;
    let cost = counters.read().await?.since(&before).per(args.payments);
    let steady = steady(args, &load, &counters).await?;
    Ok(Report::new(sustained, sustained, cost, steady))
}

/// Accepting over HTTP and draining at the same time, until nothing is left to do.
async fn sustained(
    args: &Args,
    load: &Load,
    counters: &Counters,
) -> Result<f64, Box<dyn std::error::Error + Send + Sync>> {
    let began = Instant::now();
    load.post(args.payments, &Progress::new("accept and drain", args.payments)).await?;
    counters.drained(&Progress::new("drain the rest", args.payments)).await?;
    Ok(rate(args.payments, began.elapsed()))
}

/// A steady trickle: how long one payment takes when nothing else is in its way.
async fn steady(
    args: &Args,
    load: &Load,
    counters: &Counters,
) -> Result<Option<(Millis, Millis)>, Box<dyn std::error::Error + Send + Sync>> {
    if args.seconds == 0 || args.rate == 0 {
        return Ok(None);
    }
    // Autovacuum and checkpoints of the phases before are not this one's.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let count = args.rate * args.seconds;
    let latencies = load.trickle(args.rate, count, &Progress::new("steady", count)).await?;
    counters.drained(&Progress::new("drain the rest", 0)).await?;
    Ok(Some(latencies))
}

fn rate(payments: u32, took: Duration) -> f64 {
    f64::from(payments) / took.as_secs_f64()
}
