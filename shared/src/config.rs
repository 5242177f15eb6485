//! Configuration: `payonce.toml`, over it `PAYONCE_*`, over both `DATABASE_URL`. Unknown keys are
//! refused, and every fault of a file is listed at once.
//!
//! All times are in milliseconds (`_ms`), seconds (`_s`) or hours (`_h`), as their names say.

mod acquirer;
mod layers;

pub use acquirer::{Acquirer, Kind, RESEND_REST_MS};

use crate::queue;
use crate::retention::What;
use figment::Figment;
use figment::providers::{Env, Format, Serialized, Toml};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Everything that can be set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Where the database is; `DATABASE_URL` wins.
    pub database_url: Option<Secret>,
    /// Where LISTEN connects; set it when `database_url` leads through a transaction-mode pooler.
    pub listen_url: Option<Secret>,
    /// The most connections of one process.
    pub database_connections: u32,
    /// How log lines look.
    pub log_format: LogFormat,
    /// The API.
    pub api: Api,
    /// The workers.
    pub worker: Worker,
    /// Each step's budget.
    pub steps: Steps,
    /// How long a completed idempotency key is kept, at least.
    pub key_retention_h: u64,
    /// How long everything else is kept.
    pub retention: Retention,
    /// How long clients may go on repeating a request; no longer than keys are kept.
    pub client_retry_window_h: u64,
    /// The profile that takes payments which name none.
    pub default_acquirer: String,
    /// What people may decide alone.
    pub review: ReviewRules,
    /// A contract that was last verified longer ago than this is warned of.
    pub contract_max_age_days: u16,
    /// The acquirers, by name.
    pub acquirers: BTreeMap<String, Acquirer>,
    /// Where events go beside the feed: `log`.
    pub sinks: Vec<String>,
}

/// A text that is not shown in logs or `Debug`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// For collectors.
    Json,
}

/// The API.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Api {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where `/metrics` listens; absent: beside the API.
    pub metrics_listen: Option<SocketAddr>,
    /// The most connections at once.
    pub connections: usize,
    /// The most requests per second of one API key or operator's token, 0 for no limit; more hear 429.
    pub requests_per_second: u32,
    /// How long a client may take to send its request.
    pub request_timeout_ms: u64,
}

/// The workers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worker {
    /// Where `/metrics` and `/healthz` listen; absent: nowhere.
    pub metrics_listen: Option<SocketAddr>,
    /// How long a claim lasts.
    pub lease_ms: u64,
    /// How often the sweep looks for payments without a job.
    pub sweep_ms: u64,
    /// How long an UNKNOWN payment rests before it is looked up.
    pub grace_ms: u64,
    /// How long a shutdown waits for what runs; then the leases lapse by themselves.
    pub shutdown_ms: u64,
    /// How many recent payments per second are searched for a second charge; 0: none.
    pub duplicate_scan_per_second: u32,
    /// How old a payment is when it is searched: old enough for the acquirer's lists to show everything.
    pub duplicate_scan_after_s: u64,
    /// Older payments are no longer searched.
    pub duplicate_scan_within_h: u64,
}

/// What people may decide alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReviewRules {
    /// Forcing the state of a payment above this amount, in the minor unit, takes two people; by currency.
    pub four_eyes_above_minor: BTreeMap<String, i64>,
    /// The same for all other currencies.
    pub four_eyes_default_minor: i64,
}

/// How long what payments leave behind is kept, counted from when they became final; 0: for ever. Payments
/// themselves are never deleted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// The most rows per second that one worker looks through and deletes; 0: it deletes nothing, keys neither.
    pub rows_per_second: u32,
    /// How often it looks for what has become old enough.
    pub every_ms: u64,
    /// Calls to acquirers.
    pub provider_calls_h: u64,
    /// The lines of history.
    pub payment_history_h: u64,
    /// Events that every sink has, and their deliveries.
    pub events_h: u64,
    /// What acquirers told us.
    pub acquirer_webhooks_h: u64,
}

/// One step's budget and width.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// How many run at once in one process.
    pub concurrency: usize,
    /// The most deliveries that are executed; spent: a person decides.
    pub deliveries: i32,
    /// The rest before each next delivery; the last one repeats. Each is jittered by ±10 %.
    pub backoff_ms: Vec<u64>,
}

/// Each step's budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Steps {
    /// Sending the charge.
    pub charge: Step,
    /// Asking the acquirer.
    pub lookup: Step,
    /// Writing the outcome.
    pub settle: Step,
    /// Bringing an event to a sink.
    pub publish: Step,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database_url: None,
            listen_url: None,
            database_connections: 12,
            log_format: LogFormat::Pretty,
            api: Api::default(),
            worker: Worker::default(),
            steps: Steps::default(),
            key_retention_h: 7 * 24,
            retention: Retention::default(),
            client_retry_window_h: 24,
            default_acquirer: "default".to_owned(),
            review: ReviewRules::default(),
            contract_max_age_days: 180,
            acquirers: BTreeMap::new(),
            sinks: vec!["log".to_owned()],
        }
    }
}

impl Default for Api {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            metrics_listen: None,
            connections: 4096,
            requests_per_second: 0,
            request_timeout_ms: 10_000,
        }
    }
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            metrics_listen: None,
            lease_ms: 30_000,
            sweep_ms: 1_000,
            grace_ms: 30_000,
            shutdown_ms: 20_000,
            duplicate_scan_per_second: 1,
            duplicate_scan_after_s: 600,
            duplicate_scan_within_h: 24,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        const YEAR_H: u64 = 365 * 24;
        Self {
            rows_per_second: 10_000,
            every_ms: 600_000,
            provider_calls_h: 3 * YEAR_H,
            payment_history_h: 0,
            events_h: 90 * 24,
            acquirer_webhooks_h: YEAR_H,
        }
    }
}

impl Default for Steps {
    fn default() -> Self {
        let minutes = |m: u64| m * 60_000;
        Self {
            charge: Step { concurrency: 64, deliveries: 5, backoff_ms: vec![1_000] },
            lookup: Step {
                concurrency: 16,
                deliveries: 60,
                backoff_ms: vec![5_000, 15_000, 30_000, minutes(1), minutes(5), minutes(15), minutes(60)],
            },
            settle: Step { concurrency: 16, deliveries: 10, backoff_ms: vec![1_000] },
            publish: Step {
                concurrency: 32,
                deliveries: 20,
                backoff_ms: vec![1_000, 5_000, 30_000, minutes(5), minutes(30), minutes(120)],
            },
        }
    }
}

impl Retention {
    const fn ages(&self) -> [(&'static str, u64); 4] {
        [
            ("provider_calls_h", self.provider_calls_h),
            ("payment_history_h", self.payment_history_h),
            ("events_h", self.events_h),
            ("acquirer_webhooks_h", self.acquirer_webhooks_h),
        ]
    }
}

impl Steps {
    /// A step's budget.
    #[must_use]
    pub const fn of(&self, step: queue::Step) -> &Step {
        match step {
            queue::Step::Charge => &self.charge,
            queue::Step::Lookup => &self.lookup,
            queue::Step::Settle => &self.settle,
            queue::Step::Publish => &self.publish,
        }
    }
}

impl Step {
    /// How long the whole budget lasts by its rests alone, without jitter.
    fn longest_ms(&self) -> u64 {
        let rest = |deliveries| u64::try_from(self.backoff(deliveries).as_millis()).unwrap_or(u64::MAX);
        (1..self.deliveries).map(rest).fold(0, u64::saturating_add)
    }

    /// The rest after the `deliveries`-th delivery, without jitter.
    #[must_use]
    pub fn backoff(&self, deliveries: i32) -> Duration {
        let index = usize::try_from(deliveries.max(1) - 1).unwrap_or_default();
        let rest = self.backoff_ms.get(index).or(self.backoff_ms.last());
        Duration::from_millis(rest.copied().unwrap_or(1_000))
    }
}

/// Everything that is wrong with a configuration, at once.
#[derive(Debug, thiserror::Error)]
#[error("the configuration is refused:\n{}", .0.iter().map(|fault| format!("  - {fault}")).collect::<Vec<_>>().join("\n"))]
pub struct Refused(pub Vec<String>);

impl Config {
    /// Reads the configuration: `file` (or `payonce.toml` where it exists), `PAYONCE_*` (`__` between
    /// levels: `PAYONCE_API__LISTEN`), `DATABASE_URL`.
    ///
    /// # Errors
    /// [`Refused`], with every fault.
    pub fn load(file: Option<&Path>) -> Result<Self, Refused> {
        match file {
            Some(_) => Self::load_over(&Self::default(), file),
            None => {
                Self::layered(Figment::from(Serialized::defaults(Self::default())).merge(Toml::file("payonce.toml")))
            }
        }
    }

    /// Reads the configuration over other defaults, and no file but `file`.
    ///
    /// # Errors
    /// [`Refused`], with every fault.
    pub fn load_over(defaults: &Self, file: Option<&Path>) -> Result<Self, Refused> {
        let figment = Figment::from(Serialized::defaults(defaults));
        match file {
            Some(path) if !path.is_file() => {
                Err(Refused(vec![format!("there is no file {}; check --config", path.display())]))
            }
            Some(path) => Self::layered(figment.merge(Toml::file_exact(path))),
            None => Self::layered(figment),
        }
    }

    fn layered(files: Figment) -> Result<Self, Refused> {
        let mut layers = files.merge(Env::prefixed("PAYONCE_").ignore(&["config", "operator_token"]).split("__"));
        if let Ok(url) = std::env::var("DATABASE_URL") {
            layers = layers.merge(Serialized::default("database_url", url));
        }
        let (mut config, mut faults) = layers::read(&layers).map_err(Refused)?;
        for (name, acquirer) in &mut config.acquirers {
            acquirer.read_files(&format!("acquirers.{name}"), &mut faults);
        }
        faults.extend(config.faults());
        if faults.is_empty() { Ok(config) } else { Err(Refused(faults)) }
    }

    /// Checks the times against each other.
    ///
    /// # Errors
    /// [`Refused`], with every fault and its numbers.
    pub fn checked(self) -> Result<Self, Refused> {
        let faults = self.faults();
        if faults.is_empty() { Ok(self) } else { Err(Refused(faults)) }
    }

    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut need = |holds: bool, fault: String| {
            if !holds {
                faults.push(fault);
            }
        };
        need(
            self.client_retry_window_h <= self.key_retention_h,
            format!(
                "client_retry_window_h = {} is longer than key_retention_h = {}: a repeat after the purge would be a new payment",
                self.client_retry_window_h, self.key_retention_h
            ),
        );
        need(
            self.acquirers.is_empty() || self.acquirers.contains_key(&self.default_acquirer),
            format!("default_acquirer = {:?} is not one of [acquirers]", self.default_acquirer),
        );
        for sink in &self.sinks {
            need(sink == "log", format!("sinks: {sink:?} is not known; known: log"));
        }
        let times = [
            ("worker.sweep_ms", self.worker.sweep_ms),
            ("worker.lease_ms", self.worker.lease_ms),
            ("retention.every_ms", self.retention.every_ms),
        ];
        for (name, value) in times {
            need(value > 0, format!("{name} = 0: it must be at least 1"));
        }
        for (name, age_h) in self.retention.ages() {
            need(
                age_h == 0 || age_h >= self.key_retention_h,
                format!(
                    "retention.{name} = {age_h} is shorter than key_retention_h = {}: an answer would be repeated of which nobody knows any more how it came about",
                    self.key_retention_h
                ),
            );
        }
        need(
            self.database_connections >= 4,
            format!("database_connections = {}: at least 4", self.database_connections),
        );
        let steps = [
            ("charge", &self.steps.charge),
            ("lookup", &self.steps.lookup),
            ("settle", &self.steps.settle),
            ("publish", &self.steps.publish),
        ];
        for (name, step) in steps {
            need(step.concurrency > 0, format!("steps.{name}.concurrency = 0: nothing would ever run"));
            need(step.deliveries > 0, format!("steps.{name}.deliveries = {}: nothing would ever run", step.deliveries));
            need(!step.backoff_ms.is_empty(), format!("steps.{name}.backoff_ms is empty: give at least one rest"));
        }
        for (name, acquirer) in &self.acquirers {
            acquirer.check(&format!("acquirers.{name}"), self, &mut need);
        }
        faults
    }

    /// How long these rows are kept; `None`: for ever.
    #[must_use]
    pub fn age(&self, what: What) -> Option<Duration> {
        let age_h = match what {
            What::IdempotencyKeys | What::LateKeys => return Some(hours(self.key_retention_h)),
            What::ProviderCalls => self.retention.provider_calls_h,
            What::PaymentHistory => self.retention.payment_history_h,
            What::Events => self.retention.events_h,
            What::AcquirerWebhooks => self.retention.acquirer_webhooks_h,
        };
        (age_h > 0).then(|| hours(age_h))
    }

    /// Where the database is.
    ///
    /// # Errors
    /// [`Refused`] when nothing says.
    pub fn database(&self) -> Result<&str, Refused> {
        let url = self.database_url.as_ref().map(|url| url.0.as_str());
        url.ok_or_else(|| Refused(vec!["no database: set DATABASE_URL, or database_url in payonce.toml".to_owned()]))
    }

    /// Where LISTEN connects.
    ///
    /// # Errors
    /// [`Refused`] when nothing says.
    pub fn listen(&self) -> Result<&str, Refused> {
        self.listen_url.as_ref().map_or_else(|| self.database(), |url| Ok(&url.0))
    }
}

fn hours(count: u64) -> Duration {
    Duration::from_secs(count.saturating_mul(3_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::default();
        config.acquirers.insert("default".to_owned(), Acquirer::at("http://127.0.0.1:1"));
        change(&mut config);
        config.checked().err().map(|refused| refused.0).unwrap_or_default()
    }

    #[test]
    fn the_defaults_agree_with_each_other() {
        assert_eq!(faults(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn every_fault_is_listed_at_once_with_its_numbers() {
        let found = faults(|config| {
            config.client_retry_window_h = 200;
            config.worker.lease_ms = 8_000;
            let acquirer = config.acquirers.get_mut("default").expect("there");
            acquirer.give_up_after_h = 24;
            acquirer.read_ms = 4_000;
        });
        assert_eq!(found.len(), 4, "{found:#?}");
        for numbers in ["200 is longer than key_retention_h = 168", "9400 ms", "lease_ms = 8000", "24 - 1 = 23"] {
            assert!(found.iter().any(|fault| fault.contains(numbers)), "{numbers}: {found:#?}");
        }
    }

    #[test]
    fn nothing_is_forgotten_before_the_answer_is() {
        let found = faults(|config| {
            config.retention.events_h = 167;
            config.retention.provider_calls_h = 168;
        });
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].contains("retention.events_h = 167") && found[0].contains("168"), "{found:#?}");
    }

    #[test]
    fn rows_are_kept_for_their_hours_and_0_is_for_ever() {
        let config = Config::default();
        let ages = [What::IdempotencyKeys, What::PaymentHistory].map(|what| config.age(what).map(|age| age.as_secs()));
        assert_eq!(ages, [Some(7 * 24 * 3_600), None]);
    }

    #[test]
    fn the_last_rest_of_a_schedule_repeats() {
        let step = Step { concurrency: 1, deliveries: 9, backoff_ms: vec![10, 20] };
        assert_eq!([1, 2, 3, 9].map(|n| step.backoff(n).as_millis()), [10, 20, 20, 20]);
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(format!("{:?}", Secret("hunter2".to_owned())), "(secret)");
    }
}
