//! Logs and metrics.

pub mod gauges;

use crate::config::LogFormat;
use crate::db::in_time;
use crate::payment::call::Kind;
use crate::payment::life::Outcome;
use crate::queue::Step;
use crate::retention::What;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, LabelSetEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use sqlx::PgPool;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// What is shown unless `RUST_LOG` says otherwise. That a pool found one of its connections dead is not:
/// what an outage means for payments we say ourselves, and at the end of a process it means nothing.
const FILTER: &str = "info,sqlx=warn,sqlx_core::pool::connection=error,apalis=warn,apalis_core=warn";

/// Starts logging to the standard error. `RUST_LOG` sets what is shown; without it everything from
/// `info` up.
pub fn start_logging(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(FILTER));
    let registry = tracing_subscriber::registry().with(filter);
    let writer = std::io::stderr;
    // A second start in one process (tests) keeps the first.
    let _ = match format {
        LogFormat::Pretty => {
            let colours = std::io::stderr().is_terminal();
            let layer = tracing_subscriber::fmt::layer().with_target(false).with_ansi(colours).with_writer(writer);
            registry.with(layer).try_init()
        }
        LogFormat::Json => {
            let layer = tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(writer);
            registry.with(layer).try_init()
        }
    };
}

/// Labels as pairs of a static name and a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Labels<const N: usize>([(&'static str, String); N]);

impl<const N: usize> EncodeLabelSet for Labels<N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.0.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>().encode(encoder)
    }
}

type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram>;

/// The metrics of one process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    lag: Histogram,
    takeovers: Counter,
    stale: Counter,
    steps: Histograms<2>,
    calls: Counters<3>,
    requests: Counters<2>,
    request_seconds: Histograms<1>,
    commits: Counter,
    commit_rows: Histogram,
    database_up: Gauge,
    listener_up: Family<Labels<1>, Gauge>,
    circuits: Family<Labels<2>, Gauge>,
    contracts: Family<Labels<1>, Gauge>,
    unserved: Family<Labels<1>, Gauge>,
    webhooks: Counters<2>,
    purged: Counters<1>,
    gauges: gauges::Gauges,
}

fn buckets(from: f64, times: f64, count: u16) -> impl Iterator<Item = f64> {
    prometheus_client::metrics::histogram::exponential_buckets(from, times, count)
}

fn fast() -> Histogram {
    Histogram::new(buckets(0.001, 2.0, 14))
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let lag = Histogram::new(buckets(0.1, 4.0, 12));
        let (takeovers, stale, commits) = (Counter::default(), Counter::default(), Counter::default());
        let steps = Histograms::new_with_constructor(fast as fn() -> Histogram);
        let request_seconds = Histograms::new_with_constructor(fast as fn() -> Histogram);
        let (calls, requests, webhooks) = (Counters::default(), Counters::default(), Counters::default());
        let purged = Counters::default();
        let commit_rows = Histogram::new(buckets(1.0, 2.0, 9));
        let (database_up, listener_up) = (Gauge::default(), Family::default());
        let (circuits, contracts, unserved) =
            (Family::default(), Family::default(), Family::<Labels<1>, Gauge>::default());
        registry.register_with_unit(
            "payonce_reconciliation_lag",
            "From the lapse of a lease, or the outcome becoming unknown, to the final state",
            Unit::Seconds,
            lag.clone(),
        );
        registry.register(
            "payonce_key_takeovers",
            "Claims of a payment whose previous owner may have called the acquirer and never said what came of it",
            takeovers.clone(),
        );
        registry.register(
            "payonce_stale_attempts",
            "Writes that found their fence or state moved on, and changed nothing",
            stale.clone(),
        );
        registry.register_with_unit("payonce_step", "How long a step took", Unit::Seconds, steps.clone());
        registry.register("payonce_provider_calls", "Calls to an acquirer by what they taught us", calls.clone());
        registry.register("payonce_http_requests", "Requests answered", requests.clone());
        registry.register_with_unit(
            "payonce_http_request",
            "From the request's head to the answer's",
            Unit::Seconds,
            request_seconds.clone(),
        );
        registry.register("payonce_commits", "Transactions of the group committer", commits.clone());
        registry.register(
            "payonce_commit_rows",
            "Transitions in one transaction of the group committer",
            commit_rows.clone(),
        );
        registry.register("payonce_database_up", "1 while the database answers the queue", database_up.clone());
        registry.register(
            "payonce_listener_up",
            "1 while the LISTEN connection of the channel lives",
            listener_up.clone(),
        );
        registry.register(
            "payonce_acquirer_circuit",
            "1 for the state in which this process has the acquirer: closed (in use), open (away), half_open (tried)",
            circuits.clone(),
        );
        registry.register(
            "payonce_acquirer_contract_stale",
            "1 when nobody has verified the acquirer's contract for longer than contract_max_age_days",
            contracts.clone(),
        );
        registry.register(
            "payonce_lanes_unserved",
            "1 for each lane whose jobs wait for an acquirer or a sink that this worker does not know",
            unserved.clone(),
        );
        registry.register(
            "payonce_acquirer_webhooks",
            "Messages of acquirers, by what became of them",
            webhooks.clone(),
        );
        registry.register("payonce_purged", "Rows that were old enough and are gone", purged.clone());
        let gauges = gauges::Gauges::register(&mut registry);
        Self {
            registry,
            lag,
            takeovers,
            stale,
            steps,
            calls,
            requests,
            request_seconds,
            commits,
            commit_rows,
            database_up,
            listener_up,
            circuits,
            contracts,
            unserved,
            webhooks,
            purged,
            gauges,
        }
    }
}

impl Metrics {
    /// A payment that was in doubt is final.
    pub fn reconciled(&self, lag: Duration) {
        self.lag.observe(lag.as_secs_f64());
    }

    /// A payment was claimed that its previous owner may have sent.
    pub fn takeover(&self) {
        self.takeovers.inc();
    }

    /// A write was stale.
    pub fn stale(&self) {
        self.stale.inc();
    }

    /// Stale writes so far.
    #[must_use]
    pub fn stale_attempts(&self) -> u64 {
        self.stale.get()
    }

    /// A step ran.
    pub fn step(&self, step: Step, outcome: &'static str, took: Duration) {
        let labels = Labels([("step", step.as_str().to_owned()), ("outcome", outcome.to_owned())]);
        self.steps.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// The acquirer was called.
    pub fn provider_call(&self, acquirer: &str, kind: Kind, outcome: Outcome) {
        let labels = Labels([
            ("acquirer", acquirer.to_owned()),
            ("kind", kind.as_str().to_owned()),
            ("outcome", outcome.as_str().to_owned()),
        ]);
        self.calls.get_or_create(&labels).inc();
    }

    /// A request was answered. `route` is the pattern, never the path.
    pub fn http_request(&self, route: &str, status: u16, took: Duration) {
        let labels = Labels([("route", route.to_owned()), ("status", status.to_string())]);
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&Labels([("route", route.to_owned())])).observe(took.as_secs_f64());
    }

    /// A transaction of the committer carried so many transitions.
    #[expect(clippy::cast_precision_loss, reason = "a batch has at most hundreds of rows")]
    pub fn commits(&self, rows: usize) {
        self.commits.inc();
        self.commit_rows.observe(rows as f64);
    }

    /// Whether the database answers.
    pub fn database_up(&self, up: bool) {
        self.database_up.set(i64::from(up));
    }

    /// Whether a LISTEN connection lives.
    pub fn listener_up(&self, channel: &'static str, up: bool) {
        self.listener_up.get_or_create(&Labels([("channel", channel.to_owned())])).set(i64::from(up));
    }

    /// In which state this process has an acquirer.
    pub fn circuit(&self, acquirer: &str, state: &'static str) {
        for word in ["closed", "open", "half_open"] {
            let labels = Labels([("acquirer", acquirer.to_owned()), ("state", word.to_owned())]);
            self.circuits.get_or_create(&labels).set(i64::from(word == state));
        }
        self.gauges.park(acquirer, state != "closed");
    }

    /// An acquirer told us something.
    pub fn acquirer_webhook(&self, acquirer: &str, result: &'static str) {
        let labels = Labels([("acquirer", acquirer.to_owned()), ("result", result.to_owned())]);
        self.webhooks.get_or_create(&labels).inc();
    }

    /// Rows are gone that were old enough.
    pub fn purged(&self, what: What, rows: u64) {
        self.purged.get_or_create(&Labels([("what", what.gone().to_owned())])).inc_by(rows);
    }

    /// The lanes with jobs that this worker does not serve.
    pub fn unserved(&self, lanes: &BTreeSet<String>) {
        self.unserved.clear();
        for lane in lanes {
            self.unserved.get_or_create(&Labels([("lane", lane.clone())])).set(1);
        }
    }

    /// Whether an acquirer's contract should be verified again.
    pub fn contract_stale(&self, acquirer: &str, stale: bool) {
        self.contracts.get_or_create(&Labels([("acquirer", acquirer.to_owned())])).set(i64::from(stale));
    }

    /// The Prometheus text, the database's gauges read anew. While the database is away their last
    /// values are left out and `payonce_database_up` is 0.
    pub async fn render(&self, pool: &PgPool) -> String {
        match in_time(self.gauges.read(pool)).await {
            Ok(()) => self.database_up(true),
            Err(error) => {
                tracing::warn!(%error, "the gauges cannot be read");
                self.gauges.clear();
                self.database_up(false);
            }
        }
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("the metrics cannot be written as text");
        }
        text
    }
}
