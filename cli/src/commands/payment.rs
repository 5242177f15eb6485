//! `payonce payment`

use super::ConfigFile;
use crate::database;
use crate::failure::Failure;
use crate::output::{say, second};
use crate::table::table;
use clap::Subcommand;
use serde_json::{Value, json};
use shared::config::Config;
use shared::payment::read::{self, Found};
use shared::payment::request::key_hash;
use shared::payment::timeline::Entry;
use shared::queue::Step;
use shared::queue::left::Left;
use shared::review::Review;
use shared::review::case::Case;
use sqlx::PgPool;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use uuid::Uuid;

/// The most refused payments of one intent and merchant that are shown.
const MOST_REFUSED: i64 = 20;

/// Show a payment: what is known of it, what is left to do, and its life in order
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show a payment, whoever's it is
    Show {
        /// The payment's id, also as the 32 digits that the acquirer knows as our reference
        id: String,
        /// ID is a payment intent's: show all its payments, oldest first
        #[arg(long)]
        intent: bool,
    },
}

pub async fn run(args: Args) -> Result<(), Failure> {
    let config = args.config.load()?;
    let pool = database::open(&config, 1).await?;
    let Action::Show { id, intent } = args.action;
    let mut known = Vec::new();
    for found in find(&pool, &id, intent).await? {
        known.extend(Case::read(&pool, &found).await?.map(Shown));
    }
    if known.is_empty() {
        return Err(Failure::NoPayment(id));
    }
    say(match args.json {
        true if intent => json!(known.iter().map(|shown| shown.0.body(&config.steps)).collect::<Vec<_>>()).to_string(),
        true => json!(known[0].0.body(&config.steps)).to_string(),
        false => known.iter().map(|known| known.text(&config)).collect::<Vec<_>>().join("\n\n\n"),
    });
    Ok(())
}

async fn find(pool: &PgPool, id: &str, intent: bool) -> sqlx::Result<Vec<Found>> {
    if intent {
        return read::anyones_of_intent(pool, id, MOST_REFUSED).await;
    }
    match Uuid::try_parse(id) {
        Ok(id) => Ok(read::anyones(pool, id).await?.into_iter().collect()),
        Err(_) => Ok(vec![]),
    }
}

/// A payment to be shown.
pub struct Shown(pub Case);

impl Shown {
    pub fn text(&self, config: &Config) -> String {
        let mut parts = vec![self.facts()];
        if !self.0.left.is_empty() {
            let lines: Vec<String> = self.0.left.iter().map(|left| format!("  {}", step_text(left, config))).collect();
            parts.push(format!("left to do\n{}", lines.join("\n")));
        }
        let row = |r: &Review| [second(r.opened_at), r.reason.as_str().to_owned(), r.detail.clone()];
        let rows: Vec<_> = self.0.open_reviews().map(row).collect();
        if !rows.is_empty() {
            parts.push(format!("before a person\n{}", table(["SINCE", "REASON", "DETAIL"], &rows)));
        }
        let row = |e: &Entry| [exact(e.at), e.actor.clone(), e.kind.as_str().to_owned(), members(&e.detail)];
        parts.push(table(["AT", "WHO", "WHAT", "DETAIL"], &self.0.timeline.iter().map(row).collect::<Vec<_>>()));
        parts.join("\n\n")
    }

    fn facts(&self) -> String {
        let of = &self.0.payment;
        let review = if of.in_review { ", in review" } else { "" };
        let mut lines = vec![
            ("payment", of.id.to_string()),
            ("merchant", format!("{} ({})", self.0.merchant, of.merchant_id)),
            ("intent", of.payment_intent_id.clone()),
            ("status", format!("{}{review}, version {}, attempt {}", of.status, of.version, of.attempt)),
            ("amount", format!("{} minor units of {}", of.amount_minor, of.currency)),
            ("acquirer", of.acquirer.clone()),
            ("key hash", key_hash(&of.idempotency_key)),
        ];
        let mut also = |what: &'static str, value: Option<String>| lines.extend(value.map(|value| (what, value)));
        also("transaction", of.transaction_id.clone());
        also("declined", refusal(of.decline_code.as_ref(), of.decline_message.as_ref()));
        also("failed", refusal(of.failure_code.as_ref(), of.failure_message.as_ref()));
        also("metadata", of.metadata.as_ref().map(members));
        also("created", Some(second(of.created_at)));
        also("first call", of.first_call_at.map(second));
        also("unknown", of.unknown_at.map(second));
        also("leased to", of.lease_until.map(second));
        also("final", of.final_at.map(second));
        lines.iter().map(|(what, value)| format!("{what:<12}{value}")).collect::<Vec<_>>().join("\n")
    }
}

fn refusal(code: Option<&String>, message: Option<&String>) -> Option<String> {
    Some([code?.as_str(), message.map_or("", String::as_str)].join(" ").trim_end().to_owned())
}

/// Such as "lookup at default: 3 of 60 look-ups, next in 4 min".
fn step_text(left: &Left, config: &Config) -> String {
    let (what, budget) = match left.step {
        Step::Charge => ("tries", &config.steps.charge),
        Step::Lookup => ("look-ups", &config.steps.lookup),
        Step::Settle => ("tries", &config.steps.settle),
        Step::Publish => ("deliveries", &config.steps.publish),
    };
    let at = if left.route.is_empty() { String::new() } else { format!(" at {}", left.route) };
    let next = match &left.claimed_by {
        Some(worker) if left.due_in_s > 0.0 => format!("{worker} is at it, for {} at most", span(left.due_in_s)),
        Some(worker) => format!("next now: {worker} let its lease lapse"),
        None => {
            format!("next {}", if left.due_in_s < 1.0 { "now".into() } else { format!("in {}", span(left.due_in_s)) })
        }
    };
    format!("{}{at}: {} of {} {what}, {next}", left.step.as_str(), left.deliveries, budget.deliveries)
}

/// A span of time in its largest unit.
fn span(seconds: f64) -> String {
    let units = [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min")];
    let unit = units.into_iter().find(|(length, _)| seconds >= *length);
    let (length, unit) = unit.unwrap_or((1.0, "s"));
    format!("{:.0} {unit}", (seconds / length).max(1.0))
}

/// The members of an object that have a value, on one line.
fn members(object: &Value) -> String {
    let members = object.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let line = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    };
    members.map(line).collect::<Vec<_>>().join(" ")
}

/// A time in UTC, as the database has it.
fn exact(at: OffsetDateTime) -> String {
    at.format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(step: Step, route: &str, due_in_s: f64, claimed_by: Option<&str>) -> String {
        let claimed_by = claimed_by.map(str::to_owned);
        let run_at = OffsetDateTime::UNIX_EPOCH;
        let left = Left { step, route: route.to_owned(), run_at, due_in_s, deliveries: 3, claimed_by };
        step_text(&left, &Config::default())
    }

    #[test]
    fn a_budget_says_what_is_spent_and_when_the_next_is() {
        assert_eq!(left(Step::Lookup, "bank", 250.0, None), "lookup at bank: 3 of 60 look-ups, next in 4 min");
        assert_eq!(left(Step::Publish, "log", -3.0, None), "publish at log: 3 of 20 deliveries, next now");
        let at_it = left(Step::Charge, "bank", 28.0, Some("host-1-ab"));
        assert_eq!(at_it, "charge at bank: 3 of 5 tries, host-1-ab is at it, for 28 s at most");
        let lapsed = left(Step::Settle, "", -1.0, Some("host-1-ab"));
        assert_eq!(lapsed, "settle: 3 of 10 tries, next now: host-1-ab let its lease lapse");
    }

    #[test]
    fn a_span_is_told_in_its_largest_unit() {
        let told = [0.2, 59.0, 60.0, 7_300.0, 200_000.0].map(span);
        assert_eq!(told, ["1 s", "59 s", "1 min", "2 h", "2 d"]);
    }

    #[test]
    fn what_has_no_value_is_left_out_of_a_line() {
        assert_eq!(members(&json!({"a": null, "b": "x y", "c": 7})), "b=x y c=7");
    }
}
