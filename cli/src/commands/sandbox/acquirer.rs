//! `payonce sandbox acquirer`

use crate::failure::Failure;
use crate::output::say;
use crate::shutdown::Shutdown;
use crate::stack::listen;
use sandbox::acquirer::{InvalidSettings, Settings};
use sandbox::profiles::Profile;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Run the simulated acquirer alone
///
/// It books what it is told to, shows its books at /ledger, and fails on demand: by magic payment
/// methods (`payonce sandbox methods`), and by the settings below, which PUT /faults changes while it
/// runs. Flags go over --faults.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The port; 0 takes any free one
    #[arg(long, default_value_t = 8081)]
    port: u16,
    /// The IP address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// Play this shipped contract (sandbox/profiles), such as stripe_like; the file and the flags go over it
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// A JSON file with any of the settings, as PUT /faults takes them
    #[arg(long = "faults", value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    settings: Flags,
}

/// One flag for each setting; serialised it is a patch like that of `PUT /faults`, but for the `null` of
/// each flag that is not given.
#[derive(Debug, clap::Args, Serialize)]
#[command(next_help_heading = "Settings")]
struct Flags {
    /// Whether a repeat with the same key is answered from the first one; if not, every POST charges
    #[arg(long, value_name = "BOOL")]
    keys_honoured: Option<bool>,
    /// How long a key is remembered [default: for ever]
    #[arg(long, value_name = "MS")]
    key_ttl_ms: Option<u64>,
    /// What a charge can be found by: by_key, by_reference, by_both or none [default: by_both]
    #[arg(long, value_name = "WAY")]
    lookup: Option<String>,
    /// How long a new charge is hidden from look-ups [default: 0]
    #[arg(long, value_name = "MS")]
    lookup_lag_ms: Option<u64>,
    /// How long every call takes: a number, or JSON such as {"distribution":"exponential","mean_ms":50} [default: 0]
    #[arg(long, value_name = "MS|JSON", value_parser = json)]
    latency_ms: Option<Value>,
    /// The seed of everything random [default: 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// The rate of a fault among payments without a magic method, such as reset=0.01; may be repeated
    #[arg(long = "fault", value_name = "NAME=RATE", value_parser = rate)]
    #[serde(serialize_with = "as_map")]
    faults: Vec<(String, f64)>,
    /// Whether a fault acts on every POST of its payment, not on the first only
    #[arg(long, value_name = "BOOL")]
    faults_repeat: Option<bool>,
    /// How long pm_timeout_* withhold the answer [default: 8000]
    #[arg(long, value_name = "MS")]
    hold_ms: Option<u64>,
    /// When pm_timeout_after_charge books, after the receipt [default: 0]
    #[arg(long, value_name = "MS")]
    book_after_ms: Option<u64>,
    /// How long pm_processing_then_ok is processing [default: 500]
    #[arg(long, value_name = "MS")]
    processing_ms: Option<u64>,
    /// How many look-ups of pm_not_found_then_ok say 404 first [default: 2]
    #[arg(long, value_name = "N")]
    not_found_times: Option<u32>,
}

fn json(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(text)
}

fn rate(text: &str) -> Result<(String, f64), String> {
    let (name, rate) = text.split_once('=').ok_or("it looks like reset=0.01")?;
    let rate = rate.parse().map_err(|_| format!("{rate:?} is no number"))?;
    Ok((name.to_owned(), rate))
}

fn as_map<S: Serializer>(faults: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    if faults.is_empty() {
        return serializer.serialize_none();
    }
    serializer.collect_map(faults.iter().map(|(name, rate)| (name, rate)))
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let shutdown = Shutdown::on_signals()?;
    let settings = settings(&args)?;
    let acquirer = listen::acquirer(SocketAddr::new(args.listen, args.port), settings, "--port and --listen").await?;
    say(format_args!("payonce sandbox acquirer ready on {}", listen::url(acquirer.addr())));
    shutdown.requested().await;
    acquirer.stop().await;
    Ok(())
}

/// The defaults or a profile, over them the file, over it the flags.
fn settings(args: &Args) -> Result<Settings, Failure> {
    let file = args.file.as_deref().map_or(Ok(Value::Object(Map::new())), read)?;
    let mut flags = serde_json::to_value(&args.settings).map_err(InvalidSettings::from)?;
    if let Some(flags) = flags.as_object_mut() {
        flags.retain(|_, value| !value.is_null());
    }
    let profile = args.profile.as_deref().map(Profile::named).transpose()?;
    Ok(profile.map(Profile::settings).unwrap_or_default().merged(file)?.merged(flags)?)
}

fn read(path: &Path) -> Result<Value, Failure> {
    let path = path.to_owned();
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).map_err(|source| Failure::Json { path, source }),
        Err(source) => Err(Failure::File { what: "read", path, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use sandbox::acquirer::{Latency, Lookup, Method};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn of(line: &[&str]) -> Result<Settings, Failure> {
        settings(&Line::parse_from([&["acquirer"], line].concat()).args)
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        assert_eq!(of(&[]).unwrap(), Settings::default());
    }

    #[test]
    fn every_flag_sets_its_setting() {
        let line = "--keys-honoured false --key-ttl-ms 1 --lookup by_key --lookup-lag-ms 2 --latency-ms 3 --seed 4 \
                    --fault reset=0.5 --fault 503=0.25 --faults-repeat true --hold-ms 5 --book-after-ms 6 \
                    --processing-ms 7 --not-found-times 8";
        let wanted = Settings {
            keys_honoured: false,
            key_ttl_ms: Some(1),
            lookup: Lookup::ByKey,
            lookup_lag_ms: 2,
            latency_ms: Latency::Fixed { ms: 3 },
            seed: 4,
            faults: [(Method::Reset, 0.5), (Method::Unavailable, 0.25)].into(),
            faults_repeat: true,
            hold_ms: 5,
            book_after_ms: 6,
            processing_ms: 7,
            not_found_times: 8,
            ..Settings::default()
        };
        assert_eq!(of(&line.split_whitespace().collect::<Vec<_>>()).unwrap(), wanted);
    }

    #[test]
    fn an_unknown_fault_is_named_with_those_that_exist() {
        let error = of(&["--fault", "rest=0.1"]).unwrap_err().to_string();
        assert!(error.contains("unknown fault `rest`") && error.contains("reset"), "{error}");
    }

    #[test]
    fn a_latency_may_be_a_distribution() {
        let latency = of(&["--latency-ms", r#"{"distribution":"exponential","mean_ms":50}"#]).unwrap().latency_ms;
        assert_eq!(latency, Latency::Exponential { mean_ms: 50 });
    }
}
