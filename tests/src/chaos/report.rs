//! What is told of a storm.

use super::Storm;
use super::blows::Blow;
use super::judge::Figures;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// How many violations are shown; where there are more, these are enough to begin with.
const SHOWN: usize = 20;

/// What was dealt, and how long it took.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    /// The blows by kind.
    pub blows: BTreeMap<Blow, usize>,
    /// Jobs that were deleted.
    pub jobs_lost: u64,
    /// Until the last blow and the last client were through.
    pub storm_took: Duration,
    /// From then until nothing was left to do.
    pub settled_after: Duration,
    /// Altogether.
    pub took: Duration,
}

/// What came of a storm.
#[derive(Debug)]
pub struct Report {
    /// Of which one.
    pub storm: Storm,
    pub(super) counted: Counted,
    /// What came of them.
    pub figures: Figures,
    /// What must not be, in sentences; none, and everything holds.
    pub violations: Vec<String>,
}

impl Report {
    /// Whether everything holds that must.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }

    /// How often an api or a worker was killed.
    #[must_use]
    pub fn kills(&self) -> usize {
        let of = |blow| self.counted.blows.get(&blow).copied().unwrap_or_default();
        of(Blow::KillWorker) + of(Blow::KillApi)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (figures, counted) = (&self.figures, &self.counted);
        let seconds = [counted.took, counted.storm_took, counted.settled_after].map(|took| took.as_secs_f64());
        let [took, storm, settled] = seconds;
        let Storm { seed, payments, keys, .. } = self.storm;
        let acquirer = if keys { "" } else { ", an acquirer without keys" };
        writeln!(f, "seed {seed}{acquirer}: {payments} intents, {} kills, in {took:.0} s", self.kills())?;
        writeln!(f, "  the storm took {storm:.0} s; {settled:.1} s later nothing was left to do")?;
        list(f, "blows", &counted.blows)?;
        writeln!(f, "  {:>7} jobs lost with their table", counted.jobs_lost)?;
        list(f, "answers", &figures.answers)?;
        writeln!(f, "  {:>7} requests went without an answer", figures.unheard)?;
        list(f, &format!("{} payments on record", figures.payments), &figures.ended)?;
        list(f, "open reviews", &figures.reviews)?;
        writeln!(f, "the acquirer")?;
        writeln!(f, "  {:>7} requests to charge, {} look-ups", figures.calls.0, figures.calls.1)?;
        writeln!(f, "  {:>7} charges that moved money", figures.charges)?;
        writeln!(f, "  {:>7} intents charged twice", figures.duplicates)?;
        writeln!(f, "  {:>7} calls taken over from an owner that died", figures.takeovers)?;
        writeln!(f, "  {:>7} final answers and states compared with the first", figures.compared)?;
        violations(f, &self.violations)
    }
}

fn list(f: &mut fmt::Formatter<'_>, head: &str, counts: &BTreeMap<impl fmt::Display, usize>) -> fmt::Result {
    writeln!(f, "{head}")?;
    counts.iter().try_for_each(|(what, count)| writeln!(f, "  {count:>7} {what}"))
}

fn violations(f: &mut fmt::Formatter<'_>, violations: &[String]) -> fmt::Result {
    for violation in violations.iter().take(SHOWN) {
        writeln!(f, "VIOLATED: {violation}")?;
    }
    match violations.len() {
        0 => writeln!(f, "everything held"),
        all if all > SHOWN => writeln!(f, "and {} violations more", all - SHOWN),
        _ => Ok(()),
    }
}
