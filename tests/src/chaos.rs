//! The storm: real processes that are killed, stopped and restarted under clients who repeat and give up, and the
//! acquirer's books and everything any client ever heard laid beside ours afterwards.
//!
//! The same seed makes the same intents, manners of clients and order of blows. What meets what is up to the
//! machine: the checks hold whatever happens.
//!
//! Architecture invariant: the judge knows nothing of the service but its tables and its answers.

pub mod blows;
mod books;
mod clients;
mod fleet;
mod judge;
mod pace;
mod report;
mod story;
mod surroundings;

pub use judge::Figures;
pub use report::Report;

use blows::{Hands, schedule};
use books::Books;
use fleet::Fleet;
use pace::Pace;
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use surroundings::Surroundings;
use tokio::time::Instant;

/// How long everything may take to come to rest after the storm.
const SETTLES_WITHIN: Duration = Duration::from_secs(180);

/// What to run.
#[derive(Clone, Debug)]
pub struct Storm {
    /// How many intents are to be paid.
    pub payments: usize,
    /// How often an api or a worker is killed; other blows come in proportion.
    pub kills: usize,
    /// What everything is drawn from.
    pub seed: u64,
    /// Whether the acquirer knows a repeat by our key. Where it does not, every second send would be a second charge.
    pub keys: bool,
    /// The program that is `payonce` when its first argument says so.
    pub program: PathBuf,
    /// Where the processes log to; nowhere without one.
    pub logs: Option<PathBuf>,
}

impl Storm {
    /// How long the storm may take as a whole, however it goes.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        let seconds = 240 + 6 * self.kills + self.payments / 20;
        Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX))
    }

    /// A source of chance for one purpose, which no other purpose disturbs.
    pub(crate) fn chance(&self, purpose: Purpose, number: usize) -> StdRng {
        let salt = (number as u64) << 2 | purpose as u64;
        StdRng::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(salt))
    }
}

/// What chance is needed for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The order of the blows.
    Schedule,
    /// The course of one blow.
    Blow,
    /// An intent and its client.
    Client,
}

/// Runs a storm to its end.
pub async fn run(storm: Storm) -> Report {
    let (storm, began) = (Arc::new(storm), Instant::now());
    let surroundings = Arc::new(Surroundings::start(&storm).await);
    let fleet = Arc::new(Fleet::start(&storm, &surroundings).await);
    let blows = schedule(&storm);
    let pace = Pace::new(storm.payments, blows.len());
    let hands = Arc::new(Hands::new(storm.clone(), surroundings.clone(), fleet.clone()));
    let clients = clients::Clients::new(storm.clone(), surroundings.api_key.clone(), fleet.clone());
    let (stories, ()) = tokio::join!(clients.come(&pace), hands.deal(&blows, &pace));
    let storm_took = began.elapsed();
    settled(&surroundings).await;
    let settled_after = began.elapsed() - storm_took;
    clients.ask_once_more(&stories).await;
    let mut violations = fleet.ended_alone();
    violations.extend(fleet.stop().await);
    let books = Books::read(&surroundings).await;
    let judgement = judge::judge(&stories, &books);
    violations.extend(judgement.violations);
    let (blows, jobs_lost, took) = (hands.dealt(), hands.jobs_lost(), began.elapsed());
    let counted = report::Counted { blows, jobs_lost, storm_took, settled_after, took };
    Report { storm: (*storm).clone(), counted, figures: judgement.figures, violations }
}

/// Waits until nothing is left to do but what lies before a person. If that never comes, the judge says so.
async fn settled(surroundings: &Surroundings) {
    eprintln!("chaos: the storm is over; waiting until nothing is left to do");
    let waiting = async {
        while !surroundings.is_settled().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    if tokio::time::timeout(SETTLES_WITHIN, waiting).await.is_err() {
        eprintln!("chaos: not everything came to rest within {} s", SETTLES_WITHIN.as_secs());
    }
}
