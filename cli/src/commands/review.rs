//! `payonce review`

mod bulk;
mod filters;
mod subject;

pub(super) use bulk::{Many, run as run_many};
pub(super) use filters::Filters;
pub(super) use subject::Subject;

use super::ConfigFile;
use super::payment::Shown;
use crate::failure::Failure;
use crate::output::{say, second};
use crate::table::table;
use crate::{acting, database};
use clap::{Subcommand, ValueEnum};
use serde_json::{Value, json};
use shared::config::{Acquirer, Config};
use shared::operator::Action as Right;
use shared::payment::Payment;
use shared::review::Review;
use shared::review::bulk::Bulk;
use shared::review::case::Case;
use shared::review::decision::{self, Decision, DecisionState, Proposal, Wanted};
use shared::review::desk::{self, Done};
use shared::review::listed::{self, Filter, Listed};
use sqlx::PgPool;
use std::process::ExitCode;
use uuid::Uuid;

/// What scripts are told.
pub(super) const EXIT_CODES: &str = "Exit codes: 0 done, or done before by you; 1 failed; 2 the arguments are at fault; \
    3 the state of things does not allow it; 4 there is no such thing; 5 you may not.\n\
    Deeds need an operator's token in PAYONCE_OPERATOR_TOKEN.";

/// What a machine could not decide: see it, ask, send again, decide
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
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
    /// List the open reviews, the oldest first
    List {
        #[command(flatten)]
        filters: Filters,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=10_000))]
        limit: i64,
    },
    /// Show a review with its payment, and what can be done now
    Show {
        /// A review's id, or a payment's
        id: String,
    },
    /// Have the acquirer asked now what became of a payment, or of many; never a charge
    Ask(Many),
    /// Send the same charge once more with the same key, where the acquirer's contract protects that
    Resend {
        /// A review's id, or a payment's
        id: String,
        #[command(flatten)]
        why: Why,
    },
    /// Say what became of a payment (--as), or close a review in which nothing is left to decide
    Resolve(Resolve),
    /// Give a review to an operator
    Assign {
        /// The review's id, or that of a payment with one open review
        id: String,
        /// The operator's name
        #[arg(long, value_name = "NAME", required_unless_present = "nobody")]
        to: Option<String>,
        /// Take it from whoever has it
        #[arg(long, conflicts_with = "to")]
        nobody: bool,
    },
    /// Leave a note for those who look next
    Comment {
        /// A review's id, or a payment's
        id: String,
        /// The note
        text: String,
    },
    /// Approve what another operator proposed
    Approve {
        /// The decision's id, or that of its review or payment
        id: String,
        #[command(flatten)]
        why: Why,
    },
    /// Reject what another operator proposed
    Reject {
        /// The decision's id, or that of its review or payment
        id: String,
        #[command(flatten)]
        why: Why,
    },
}

/// The reason of a deed.
#[derive(Debug, clap::Args)]
struct Why {
    /// Why: whoever looks at this in a year must understand it
    #[arg(long = "why", value_name = "TEXT")]
    text: String,
}

#[derive(Debug, clap::Args)]
struct Resolve {
    /// A review's id, or a payment's
    id: String,
    #[command(flatten)]
    why: Why,
    /// What the payment is to be; the acquirer is asked once more before it counts
    #[arg(long = "as", value_name = "OUTCOME")]
    outcome: Option<Outcome>,
    /// With --as paid: the acquirer's id of the charge
    #[arg(long, value_name = "ID", requires = "outcome")]
    transaction_id: Option<String>,
    /// With --as declined or failed: the code that the merchant is shown
    #[arg(long, requires = "outcome")]
    code: Option<String>,
    /// What proves it, such as the acquirer's written word
    #[arg(long, value_name = "TEXT", requires = "outcome")]
    evidence: Option<String>,
    /// The payment's version that you looked at; refused when it changed since. Without it: the present one
    #[arg(long, value_name = "N", requires = "outcome")]
    version: Option<i32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Outcome {
    Paid,
    Declined,
    Failed,
}

pub async fn run(args: Args) -> Result<ExitCode, Failure> {
    let config = args.config.load()?;
    let pool = database::open(&config, 2).await?;
    let asked = Asked { pool: &pool, config: &config, json: args.json };
    let text = match args.action {
        Action::List { filters, limit } => list(&asked, &filters.read(&pool).await?, limit).await?,
        Action::Show { id } => show(&asked, &id).await?,
        Action::Ask(many) if many.all() => return run_many(&pool, Bulk::Ask, many, args.json).await,
        Action::Ask(many) => {
            let (id, why) = many.one()?;
            asked.ask(&id, &why).await?
        }
        Action::Resend { id, why } => asked.resend(&id, &why.text).await?,
        Action::Resolve(resolve) => asked.resolve(resolve).await?,
        Action::Assign { id, to, .. } => asked.assign(&id, to.as_deref()).await?,
        Action::Comment { id, text } => asked.comment(&id, &text).await?,
        Action::Approve { id, why } => asked.decide(&id, &why.text, DecisionState::Approved).await?,
        Action::Reject { id, why } => asked.decide(&id, &why.text, DecisionState::Rejected).await?,
    };
    say(text);
    Ok(ExitCode::SUCCESS)
}

/// What every action stands on.
struct Asked<'a> {
    pool: &'a PgPool,
    config: &'a Config,
    json: bool,
}

impl Asked<'_> {
    fn acquirer(&self, payment: &Payment) -> Option<&Acquirer> {
        self.config.acquirers.get(&payment.acquirer)
    }

    async fn ask(&self, id: &str, why: &str) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Ask).await?;
        let subject = Subject::find(self.pool, id).await?;
        let done = desk::ask(self.pool, subject.of, &by, why).await?;
        Ok(told(done, "a worker asks the acquirer now; look again in a moment", self.json))
    }

    async fn resend(&self, id: &str, why: &str) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Resend).await?;
        let subject = Subject::find(self.pool, id).await?;
        let payment = subject.payment(self.pool).await?;
        let done = desk::resend(self.pool, subject.of, &by, why, self.acquirer(&payment)).await?;
        Ok(told(done, "a worker sends the same charge once more, with the same key; look again in a moment", self.json))
    }

    async fn assign(&self, id: &str, to: Option<&str>) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Assign).await?;
        let subject = Subject::find(self.pool, id).await?;
        let review = subject.review(self.pool).await?;
        let done = desk::assign(self.pool, subject.of.merchant_id, review, to, &by).await?;
        let has_it = to.map_or("nobody looks after it now".to_owned(), |name| format!("{name} looks after it now"));
        Ok(told(done, &has_it, self.json))
    }

    async fn comment(&self, id: &str, text: &str) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Comment).await?;
        let subject = Subject::find(self.pool, id).await?;
        desk::comment(self.pool, subject.of, &by, text).await?;
        Ok(told(Done::Now, "the note was left", self.json))
    }

    async fn resolve(&self, resolve: Resolve) -> Result<String, Failure> {
        match resolve.outcome {
            Some(outcome) => self.propose(outcome, resolve).await,
            None => self.close(&resolve).await,
        }
    }

    async fn close(&self, resolve: &Resolve) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Resolve).await?;
        let subject = Subject::find(self.pool, &resolve.id).await?;
        let review = subject.review(self.pool).await?;
        let done = desk::resolve(self.pool, subject.of.merchant_id, review, &by, &resolve.why.text).await?;
        Ok(told(done, "the review is closed", self.json))
    }

    async fn propose(&self, outcome: Outcome, resolve: Resolve) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Propose).await?;
        let subject = Subject::find(self.pool, &resolve.id).await?;
        let payment = subject.payment(self.pool).await?;
        let code = resolve.code.unwrap_or_default();
        let proposal = Proposal {
            wanted: match outcome {
                Outcome::Paid => Wanted::Paid { transaction_id: resolve.transaction_id.unwrap_or_default() },
                Outcome::Declined => Wanted::Declined { code },
                Outcome::Failed => Wanted::Failed { code },
            },
            payment_version: resolve.version.unwrap_or(payment.version),
            reason: resolve.why.text,
            evidence: resolve.evidence,
        };
        let asks = self.acquirer(&payment).is_some_and(|acquirer| acquirer.contract().can_be_asked());
        let rules = &self.config.review;
        let (decision, done) = decision::propose(self.pool, subject.of, &proposal, &by, rules, asks).await?;
        Ok(decided(&decision, done, self.json))
    }

    async fn decide(&self, id: &str, why: &str, to: DecisionState) -> Result<String, Failure> {
        let by = acting::operator(self.pool, Right::Approve).await?;
        let (merchant_id, decision_id) = subject::decision(self.pool, id).await?;
        let (decision, done) = match to {
            DecisionState::Approved => decision::approve(self.pool, merchant_id, decision_id, &by, why).await?,
            _ => decision::reject(self.pool, merchant_id, decision_id, &by, why).await?,
        };
        Ok(decided(&decision, done, self.json))
    }
}

/// What became of a deed.
pub(super) fn told(done: Done, what: &str, json: bool) -> String {
    match (json, done) {
        (true, _) => json!({"done": done_word(done)}).to_string(),
        (false, Done::Now) => format!("Done: {what}."),
        (false, Done::Before) => "It was done before; nothing was changed.".to_owned(),
    }
}

fn done_word(done: Done) -> &'static str {
    if done == Done::Now { "now" } else { "before" }
}

fn decided(decision: &Decision, done: Done, json: bool) -> String {
    if json {
        return json!({"done": done_word(done), "decision": decision}).to_string();
    }
    let (id, status) = (decision.id, decision.wanted.status());
    match decision.state {
        DecisionState::Proposed => format!(
            "Decision {id} ({status}) waits for another person: `payonce review approve {id} --why …`, by an approver."
        ),
        DecisionState::Approved => {
            format!("Decision {id} ({status}) is approved: a worker asks the acquirer once more and applies it.")
        }
        state => {
            let word = json!(state).as_str().unwrap_or_default().to_lowercase();
            let note = decision.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
            format!("Decision {id} ({status}) is {word}{note}.")
        }
    }
}

/// The open reviews of a filter, as a table or as JSON.
pub(super) async fn listing(pool: &PgPool, filter: &Filter, limit: i64, json: bool) -> Result<String, Failure> {
    let (rows, all) = (listed::list(pool, filter, None, limit).await?, listed::count(pool, filter, i64::MAX).await?);
    if json {
        return Ok(json!({"object": "list", "data": rows, "count": all}).to_string());
    }
    if rows.is_empty() {
        return Ok("No review is open that matches.".to_owned());
    }
    let line = |of: &Listed| {
        let review = &of.review;
        [
            review.id.to_string(),
            second(review.opened_at),
            review.reason.as_str().to_owned(),
            of.merchant.clone(),
            of.payment_intent_id.clone(),
            format!("{} {}", of.amount_minor, of.currency),
            of.payment_status.to_string(),
            review.assigned_to.clone().unwrap_or_default(),
            of.decision.as_ref().map(|one| format!("{} by {}", one.outcome, one.proposed_by)).unwrap_or_default(),
        ]
    };
    let heads = ["REVIEW", "SINCE", "REASON", "MERCHANT", "INTENT", "MINOR UNITS", "STATUS", "ASSIGNED", "DECISION"];
    let lines: Vec<_> = rows.iter().map(line).collect();
    let more = if rows.len() as i64 == all { String::new() } else { "; --limit shows more".to_owned() };
    Ok(format!("{}\n\n{} of {all}{more}", table(heads, &lines), rows.len()))
}

async fn list(asked: &Asked<'_>, filter: &Filter, limit: i64) -> Result<String, Failure> {
    listing(asked.pool, filter, limit, asked.json).await
}

async fn show(asked: &Asked<'_>, id: &str) -> Result<String, Failure> {
    let subject = Subject::find(asked.pool, id).await?;
    let found = subject.found();
    let case = Case::read(asked.pool, &found).await?.ok_or_else(|| Failure::NoReview(id.to_owned()))?;
    let review = subject.of_case(&case);
    let actions = case.actions(asked.pool, review, asked.acquirer(&case.payment)).await?;
    if asked.json {
        let mut body = json!(case.body(&asked.config.steps));
        body["review"] = json!(review);
        let action = |action: &shared::review::audit::Action| json!({"action": action, "does": action.does()});
        body["actions"] = actions.iter().map(action).collect::<Vec<Value>>().into();
        return Ok(body.to_string());
    }
    let rows: Vec<_> = actions.iter().map(|action| [action.as_str().to_owned(), action.does().to_owned()]).collect();
    let decision = case.open_decision().map(|open| format!("{}\n\n", decided(open, Done::Now, false)));
    let about = review.map(|review| format!("{}\n\n", described(review)));
    let can = table(["CAN BE DONE NOW", "WHAT IT DOES"], &rows);
    let (about, decision) = (about.unwrap_or_default(), decision.unwrap_or_default());
    Ok(format!("{about}{}\n\n{decision}{can}", Shown(case).text(asked.config)))
}

fn described(review: &Review) -> String {
    let line = |what: &str, value: String| format!("{what:<12}{value}");
    let mut lines = vec![
        line("review", review.id.to_string()),
        line("reason", review.reason.as_str().to_owned()),
        line("detail", review.detail.clone()),
        line("since", second(review.opened_at)),
    ];
    lines.extend(review.assigned_to.clone().map(|name| line("assigned to", name)));
    if let (Some(by), Some(resolution)) = (&review.resolved_by, &review.resolution) {
        lines.push(line("resolved", format!("{resolution}, by {by}")));
    }
    lines.join("\n")
}

/// Reads a review's or payment's id.
fn id_of(text: &str) -> Option<Uuid> {
    Uuid::try_parse(text).ok()
}
