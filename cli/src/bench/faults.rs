//! `payonce bench --faults`: payments through an acquirer that fails in every way it knows, one shipped contract after
//! the other; then the acquirer's own books and ours are laid side by side.

use super::load::{Load, Progress};
use super::{Counters, Target};
use crate::demo;
use crate::profiles::Played;
use crate::stack::{Parts, Stack};
use crate::table::table;
use sandbox::acquirer::{Acquirer, LedgerView, Method, Settings, fault_of};
use sandbox::postgres;
use serde::Serialize;
use shared::acquirer::provider_key;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;
use uuid::Uuid;

/// Clients and charges at once.
const CONCURRENCY: usize = 64;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// How many payments.
    pub payments: u32,
    /// The share of them that meets a fault: all kinds alike.
    pub rate: f64,
    /// The seed of the faults.
    pub seed: u64,
}

/// What came of one contract.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    /// The profile.
    pub profile: &'static str,
    /// Payments by what became of them: a final status, or `in review`.
    pub ended: BTreeMap<String, usize>,
    /// Reviews by reason and by the fault that the seed dealt the payment.
    pub reviews: BTreeMap<String, BTreeMap<String, usize>>,
    /// References for which money moved more than once.
    pub duplicates: Vec<String>,
    /// Among the payments, those that the acquirer itself charged twice for one POST (`pm_double_charge`).
    pub doubled_by_the_acquirer: usize,
    /// Everything else that must not be, in sentences.
    pub violations: Vec<String>,
    /// How long it took until nothing was left to do, in seconds.
    pub seconds: f64,
}

impl Outcome {
    /// Whether everything holds that must.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.duplicates.is_empty() && self.violations.is_empty()
    }
}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// Sends a storm through one contract.
///
/// # Errors
/// When the stack cannot be started or read, or a payment is not accepted.
pub async fn run(played: Played, storm: Storm) -> Result<Outcome, Failed> {
    let played = played.hurried();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let settings = Settings { seed: storm.seed, faults: faults(storm.rate), ..played.settings.clone() };
    let mut config = played.config()?;
    config.api.listen = any;
    config.sinks.clear();
    let acquirer = Some((any, settings.clone()));
    let postgres = Some(postgres::Options::default());
    let stack = Stack::start(config, Parts { api: true, workers: 2, acquirer, postgres }).await?;
    let (_, key) = demo::merchant(stack.pool()).await?;
    let target = Target {
        api_url: stack.api_url().to_owned(),
        api_key: key.reveal().to_owned(),
        database_url: stack.database_url().to_owned(),
    };
    let began = Instant::now();
    Load::new(&target, CONCURRENCY)?.post(storm.payments, &Progress::new(played.name, storm.payments)).await?;
    Counters::connect(&target.database_url)?.drained(&Progress::new("drain", storm.payments)).await?;
    let seconds = began.elapsed().as_secs_f64();
    let payments = payments(stack.pool()).await?;
    let books = stack.acquirer().map(Acquirer::ledger_with_entries).ok_or("there is no acquirer")?;
    stack.stop().await?;
    Ok(Outcome { profile: played.name, seconds, ..judge(&payments, &books, &settings, storm.payments) })
}

/// Every kind of fault at its share of the rate.
fn faults(rate: f64) -> BTreeMap<Method, f64> {
    let kinds: Vec<Method> = Method::ALL.iter().copied().filter(|method| *method != Method::Ok).collect();
    #[expect(clippy::cast_precision_loss, reason = "there are a few dozen")]
    let share = rate / kinds.len() as f64;
    kinds.into_iter().map(|kind| (kind, share)).collect()
}

/// A payment as our books have it.
#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    status: String,
    transaction_id: Option<String>,
    payment_method_id: String,
    leased: bool,
    reasons: Vec<String>,
}

async fn payments(pool: &sqlx::PgPool) -> sqlx::Result<Vec<Row>> {
    sqlx::query_as(
        "SELECT p.id, p.status, p.transaction_id, p.payment_method_id, p.lease_until IS NOT NULL AS leased,
                COALESCE(array_agg(r.reason) FILTER (WHERE r.reason IS NOT NULL), '{}') AS reasons
         FROM payments p LEFT JOIN reviews r ON r.merchant_id = p.merchant_id AND r.payment_id = p.id AND r.state = 'OPEN'
         GROUP BY p.merchant_id, p.id",
    )
    .fetch_all(pool)
    .await
}

/// Lays the books side by side.
fn judge(payments: &[Row], books: &LedgerView, settings: &Settings, accepted: u32) -> Outcome {
    let mut outcome = Outcome::default();
    let mut booked: HashMap<&str, Vec<&str>> = HashMap::new();
    for entry in books.entries.iter().flatten().filter(|entry| entry.status == "approved") {
        booked.entry(&entry.reference).or_default().push(&entry.transaction_id);
    }
    for payment in payments {
        let reference = provider_key(payment.id);
        let fault = fault_of(settings, &payment.payment_method_id, &reference);
        let charges = booked.remove(reference.as_str()).unwrap_or_default();
        count(&mut outcome, payment, fault);
        match charges.as_slice() {
            [_, _, ..] if fault == Method::DoubleCharge => outcome.doubled_by_the_acquirer += 1,
            [_, _, ..] => outcome.duplicates.push(reference.clone()),
            _ => {}
        }
        outcome
            .violations
            .extend(violations(payment, fault, &charges).map(|what| format!("{reference} ({fault}): {what}")));
    }
    if payments.len() != accepted as usize {
        outcome.violations.push(format!("{accepted} were accepted, and {} are on record", payments.len()));
    }
    outcome
        .violations
        .extend(booked.keys().map(|reference| format!("{reference}: charged, and not one of our payments")));
    outcome
}

fn count(outcome: &mut Outcome, payment: &Row, fault: Method) {
    let ended = if payment.status == "UNKNOWN" && !payment.reasons.is_empty() { "in review" } else { &payment.status };
    *outcome.ended.entry(ended.to_owned()).or_default() += 1;
    for reason in &payment.reasons {
        *outcome.reviews.entry(reason.clone()).or_default().entry(fault.fault_name().to_owned()).or_default() += 1;
    }
}

/// What must not be of one payment.
fn violations<'a>(payment: &'a Row, fault: Method, charges: &'a [&str]) -> impl Iterator<Item = &'static str> + 'a {
    let open = matches!(payment.status.as_str(), "PENDING" | "UNKNOWN");
    let charged = payment.transaction_id.as_deref().is_some_and(|id| charges.contains(&id));
    let checks = [
        (payment.status == "PAID" && !charged, "PAID, and the acquirer has no such charge"),
        (matches!(payment.status.as_str(), "DECLINED" | "FAILED") && !charges.is_empty(), "refused, and money moved"),
        (open && payment.reasons.is_empty(), "neither final nor in front of a person"),
        (payment.leased, "still leased"),
        (fault == Method::Ok && !payment.reasons.is_empty(), "in review, and nothing went wrong with it"),
    ];
    checks.into_iter().filter(|(violated, _)| *violated).map(|(_, what)| what)
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended: Vec<String> = self.ended.iter().map(|(what, count)| format!("{count} {what}")).collect();
        writeln!(f, "{}: {} in {:.0} s", self.profile, ended.join(", "), self.seconds)?;
        write!(f, "  charged twice: {}", self.duplicates.len())?;
        match self.doubled_by_the_acquirer {
            0 => writeln!(f)?,
            doubled => writeln!(f, " (and {doubled} that the acquirer doubled for one POST)")?,
        }
        let rows: Vec<[String; 3]> = self
            .reviews
            .iter()
            .flat_map(|(reason, faults)| {
                faults.iter().map(move |(fault, count)| [format!("  {reason}"), fault.clone(), count.to_string()])
            })
            .collect();
        if !rows.is_empty() {
            writeln!(f, "{}", table(["  IN REVIEW AS", "BECAUSE OF", "PAYMENTS"], &rows))?;
        }
        for violation in &self.violations {
            writeln!(f, "  VIOLATED: {violation}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(status: &str, transaction_id: Option<&str>, reasons: &[&str]) -> Row {
        Row {
            id: Uuid::nil(),
            status: status.to_owned(),
            transaction_id: transaction_id.map(str::to_owned),
            payment_method_id: "card".to_owned(),
            leased: false,
            reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        }
    }

    #[test]
    fn what_must_not_be_is_told() {
        let told = |row: Row, charges: &[&str]| violations(&row, Method::Reset, charges).collect::<Vec<_>>();
        assert_eq!(told(row("PAID", Some("t1"), &[]), &["t1"]), Vec::<&str>::new());
        assert_eq!(told(row("PAID", Some("t1"), &[]), &[]), ["PAID, and the acquirer has no such charge"]);
        assert_eq!(told(row("FAILED", None, &[]), &["t1"]), ["refused, and money moved"]);
        assert_eq!(told(row("UNKNOWN", None, &[]), &[]), ["neither final nor in front of a person"]);
        assert_eq!(told(row("UNKNOWN", None, &["conflicted"]), &["t1"]), Vec::<&str>::new());
        let unexplained: Vec<_> = violations(&row("UNKNOWN", None, &["conflicted"]), Method::Ok, &[]).collect();
        assert_eq!(unexplained, ["in review, and nothing went wrong with it"]);
    }
}
