//! The same for many, after a look at how many.

use super::{Filters, listing};
use crate::acting;
use crate::failure::Failure;
use crate::output::say;
use crate::table::table;
use serde_json::json;
use shared::operator::Action as Right;
use shared::review::Reason;
use shared::review::bulk::{Bulk, Tally};
use shared::review::listed;
use sqlx::PgPool;
use std::process::ExitCode;

/// How many are acted on between two looks at the list.
const PAGE: i64 = 500;
/// How many a dry run shows.
const SHOWN: i64 = 20;

/// One, or all that match
#[derive(Debug, clap::Args)]
pub struct Many {
    /// A review's id, or a payment's
    #[arg(required_unless_present = "all")]
    id: Option<String>,
    /// All open reviews that match the filters; with --dry-run or --yes
    #[arg(long, conflicts_with = "id")]
    all: bool,
    #[command(flatten)]
    filters: Filters,
    /// With --all: show how many there are, and do nothing
    #[arg(long, requires = "all", conflicts_with = "yes")]
    dry_run: bool,
    /// With --all: do it
    #[arg(long, requires = "all")]
    yes: bool,
    /// Why: whoever looks at this in a year must understand it
    #[arg(long, value_name = "TEXT", required_unless_present = "dry_run")]
    why: Option<String>,
}

impl Many {
    /// Whether it is about many.
    pub const fn all(&self) -> bool {
        self.all
    }

    /// The one that it is about, and why.
    pub fn one(self) -> Result<(String, String), Failure> {
        if !self.filters.are_none() {
            return Err(Failure::Usage("filters choose among many: give --all, or an id without filters".to_owned()));
        }
        Ok((self.id.unwrap_or_default(), self.why.unwrap_or_default()))
    }
}

/// Shows how many, or acts on all. Exit code 3: some could not be acted on.
pub async fn run(pool: &PgPool, bulk: Bulk, many: Many, json: bool) -> Result<ExitCode, Failure> {
    let filter = many.filters.read(pool).await?;
    let other = |reason: Reason| Failure::Usage(format!("this is never done about {}", reason.as_str()));
    let filter = bulk.of(filter).map_err(other)?;
    if many.dry_run {
        say(listing(pool, &filter, SHOWN, json).await?);
        return Ok(ExitCode::SUCCESS);
    }
    if !many.yes {
        let count = listed::count(pool, &filter, i64::MAX).await?;
        return Err(Failure::Usage(format!(
            "{count} open reviews match: --dry-run shows them, --yes does it; nothing was done"
        )));
    }
    let right = if bulk == Bulk::Ask { Right::Ask } else { Right::Redeliver };
    let by = acting::operator(pool, right).await?;
    let mut all = Tally::default();
    loop {
        let page = bulk.run(pool, &filter, all.next, PAGE, &by, many.why.as_deref().unwrap_or_default()).await?;
        all.done += page.done;
        all.before += page.before;
        all.refused.extend(page.refused);
        all.next = page.next;
        if all.next.is_none() {
            break;
        }
    }
    say(told(&all, json));
    Ok(if all.refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn told(tally: &Tally, json: bool) -> String {
    if json {
        let refused: Vec<_> =
            tally.refused.iter().map(|(id, why)| json!({"review_id": id, "why": why.to_string()})).collect();
        return json!({"done": tally.done, "done_before": tally.before, "refused": refused}).to_string();
    }
    let counts = format!("{} done, {} done before, {} refused", tally.done, tally.before, tally.refused.len());
    let rows: Vec<_> = tally.refused.iter().map(|(id, why)| [id.to_string(), why.to_string()]).collect();
    if rows.is_empty() { counts } else { format!("{counts}\n\n{}", table(["REVIEW", "WHY NOT"], &rows)) }
}
