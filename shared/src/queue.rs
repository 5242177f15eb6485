//! The queue: due rows of the job table become tasks of apalis workers.
//!
//! - A job says *(step, subject, run_at, deliveries)* and exists only while there is something to do.
//! - Fetch is the claim; done is the transition's own commit. There is no separate ack.
//! - [`Queue::poll_next`] never yields an error (one would end the worker and drop what runs), takes
//!   from the database only as many rows as there are free slots, and registers the waker on every
//!   Pending.

pub mod left;
pub mod sweep;
pub mod wake;

use crate::committer::{Committer, Write};
use crate::db::in_time;
use crate::outbox::{self, Became, Mark};
use crate::payment::claim;
use crate::telemetry::Metrics;
use apalis_core::backend::finalize::Ephemeral;
use apalis_core::backend::{Backend, BackendConfig};
use apalis_core::task::Task;
use apalis_core::task::builder::TaskBuilder;
use apalis_core::task::task_id::TaskId;
use apalis_core::worker::context::WorkerContext;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Serialize;
use sqlx::PgPool;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tower_layer::Identity;
use uuid::Uuid;
use wake::Wake;

/// The most rows of one fetch: whoever was claimed first should be at work while the next are claimed.
const MOST_ROWS: usize = 64;
/// The longest time between two looks at the table: what a lost notification costs.
const POLL: Duration = Duration::from_millis(200);
/// The rest after the database did not answer.
const OUTAGE_REST: Duration = Duration::from_millis(500);

/// A step of a payment's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, sqlx::Type)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Step {
    /// Send the charge.
    Charge,
    /// Ask the acquirer what became of it.
    Lookup,
    /// Write the final outcome.
    Settle,
    /// Bring an event to a sink.
    Publish,
}

impl Step {
    /// All steps, in the order of a life.
    pub const ALL: [Self; 4] = [Self::Charge, Self::Lookup, Self::Settle, Self::Publish];

    /// The word in the database, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Charge => "charge",
            Self::Lookup => "lookup",
            Self::Settle => "settle",
            Self::Publish => "publish",
        }
    }

    /// Whether its claim announces a call to the acquirer.
    #[must_use]
    pub const fn calls_acquirer(self) -> bool {
        matches!(self, Self::Charge | Self::Lookup)
    }
}

/// What one fetch may take.
#[derive(Clone, Copy, Debug)]
pub struct Take<'a> {
    /// Jobs of this step,
    pub step: Step,
    /// on this route: the acquirer's for charge and lookup, the sink's for publish, '' for settle;
    pub route: &'a str,
    /// whose payments' keys are known there (see [`crate::config::Acquirer::key_scope`]);
    pub key_scope: Option<&'a str>,
    /// whose second claim announces a look-up, or, where nothing can be looked up, the same charge again;
    pub asks: bool,
    /// due for at least so long;
    pub due_for: Duration,
    /// at most so many;
    pub limit: i64,
    /// for so long;
    pub lease: Duration,
    /// the most deliveries that are still executed;
    pub budget: i32,
    /// for this incarnation of this worker.
    pub worker: &'a str,
}

impl Take<'_> {
    /// The lane's name.
    #[must_use]
    pub fn lane(&self) -> String {
        lane_name(self.step, self.route)
    }
}

/// What a worker gets to do.
#[derive(Clone, Debug)]
pub enum Claimed {
    /// A step of a payment.
    Payment(Box<claim::Claim>),
    /// A delivery of an event.
    Delivery(Box<outbox::Claim>),
}

impl Claimed {
    /// The job's subject: the payment's id, or the event's.
    #[must_use]
    pub const fn subject_id(&self) -> Uuid {
        match self {
            Self::Payment(claim) => claim.payment.id,
            Self::Delivery(claim) => claim.event.id,
        }
    }

    /// The write that hands it back unused: due at once, the delivery refunded.
    #[must_use]
    pub fn give_back(&self) -> Write {
        match self {
            Self::Payment(claim) => Write::GiveBack(claim::GiveBack::new(claim, Duration::ZERO)),
            Self::Delivery(claim) => {
                Write::Mark(Mark { of: claim.key(), deliveries: claim.deliveries, became: Became::GivenBack })
            }
        }
    }
}

/// One step's place in the queue: of charge and lookup one acquirer's, of publish one sink's.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The step.
    pub step: Step,
    /// The acquirer of a charge or lookup lane, the sink of a publish lane, '' for settle.
    pub route: String,
    /// The realm of the acquirer's keys.
    pub key_scope: Option<String>,
    /// Whether the acquirer can be asked what became of a charge.
    pub asks: bool,
    /// How much may be taken now; `None`: always as much as there is room for.
    pub opening: Option<watch::Receiver<Opening>>,
    /// How many tasks run at once.
    pub concurrency: usize,
    /// How long a claim lasts.
    pub lease: Duration,
    /// The most deliveries that are still executed.
    pub budget: i32,
    /// The worker's name, unique per incarnation.
    pub worker: String,
}

/// How much a lane may take now. Whoever watches what is behind it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// As much as there is room for.
    Open,
    /// At most so many at work at once.
    AtMost(usize),
    /// Nothing, but what has been due for so long.
    ShutBut(Duration),
    /// Nothing.
    Shut,
}

/// A lane's name, as the index over due jobs spells it.
fn lane_name(step: Step, route: &str) -> String {
    format!("{}/{route}", step.as_str())
}

impl Lane {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> String {
        lane_name(self.step, &self.route)
    }

    /// How many jobs may be taken now while `running` are at work, and for how long they must have been due.
    fn room(&self, running: usize) -> (usize, Duration) {
        let opening = self.opening.as_ref().map_or(Opening::Open, |opening| *opening.borrow());
        let (most, due_for) = match opening {
            Opening::Open => (self.concurrency, Duration::ZERO),
            Opening::AtMost(most) => (most.min(self.concurrency), Duration::ZERO),
            Opening::ShutBut(due_for) => (self.concurrency, due_for),
            Opening::Shut => (0, Duration::ZERO),
        };
        (most.saturating_sub(running).min(MOST_ROWS), due_for)
    }
}

/// The apalis backend of one lane.
pub struct Queue {
    lane: Lane,
    pool: PgPool,
    committer: Committer,
    metrics: Arc<Metrics>,
    wake: Wake,
    ready: VecDeque<Claimed>,
    doing: Doing,
}

/// What the backend itself is busy with.
enum Doing {
    /// Nothing: the next poll fetches.
    Nothing,
    /// A fetch is on its way, for so many rows.
    Fetching(BoxFuture<'static, sqlx::Result<Vec<Claimed>>>, usize),
    /// Nothing was due: until a notification or the next tick.
    Resting(BoxFuture<'static, ()>),
    /// Claims that never started are handed back.
    Closing(BoxFuture<'static, ()>),
}

impl Queue {
    /// Opens the lane. `committer` takes back the claims that a shutdown keeps from starting.
    #[must_use]
    pub fn new(lane: Lane, pool: PgPool, committer: Committer, wake: Wake, metrics: Arc<Metrics>) -> Self {
        Self { lane, pool, committer, metrics, wake, ready: VecDeque::new(), doing: Doing::Nothing }
    }

    fn fetch(&self, free: usize, due_for: Duration) -> BoxFuture<'static, sqlx::Result<Vec<Claimed>>> {
        let (lane, pool) = (self.lane.clone(), self.pool.clone());
        async move {
            let take = Take {
                step: lane.step,
                route: &lane.route,
                key_scope: lane.key_scope.as_deref(),
                asks: lane.asks,
                due_for,
                limit: i64::try_from(free).unwrap_or(i64::MAX),
                lease: lane.lease,
                budget: lane.budget,
                worker: &lane.worker,
            };
            Ok(match lane.step {
                Step::Publish => {
                    let claims = in_time(outbox::fetch(&pool, &take)).await?;
                    claims.into_iter().map(|claim| Claimed::Delivery(Box::new(claim))).collect()
                }
                Step::Charge | Step::Lookup | Step::Settle => {
                    let claims = in_time(claim::fetch(&pool, &take)).await?;
                    claims.into_iter().map(|claim| Claimed::Payment(Box::new(claim))).collect()
                }
            })
        }
        .boxed()
    }

    /// Takes in what a fetch brought and decides what comes next.
    fn fetched(&mut self, result: sqlx::Result<Vec<Claimed>>, asked: usize) {
        self.doing = match result {
            Ok(claims) => {
                let exhausted = claims.len() < asked;
                self.ready.extend(claims);
                self.metrics.database_up(true);
                if exhausted { Doing::Resting(self.rest()) } else { Doing::Nothing }
            }
            Err(error) => {
                tracing::error!(step = self.lane.step.as_str(), %error, "the queue cannot be read; waiting for the database");
                self.metrics.database_up(false);
                Doing::Resting(tokio::time::sleep(OUTAGE_REST).boxed())
            }
        };
    }

    /// New work is announced for charges alone: what the other steps do falls due later, or is handed
    /// over by the commit that makes it due. Waking them too would cost a look at the table each.
    fn rest(&self) -> BoxFuture<'static, ()> {
        match self.lane.step {
            Step::Charge => self.wake.rest(POLL),
            Step::Lookup | Step::Settle | Step::Publish => tokio::time::sleep(POLL).boxed(),
        }
    }

    /// Hands back, until it is known to have happened or the lease has lapsed by itself.
    fn hand_back(&mut self) -> BoxFuture<'static, ()> {
        let claims = std::mem::take(&mut self.ready);
        let committer = self.committer.clone();
        async move {
            for claim in claims {
                if let Err(error) = committer.write(claim.give_back()).await {
                    tracing::warn!(%error, "a claim could not be handed back; its lease will lapse");
                }
            }
        }
        .boxed()
    }
}

impl Backend for Queue {
    type Task = Task<Claimed>;
    type Error = Infallible;

    fn poll_ready(&mut self, _: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        worker: &WorkerContext,
    ) -> Poll<Option<Result<Self::Task, Infallible>>> {
        loop {
            if let Some(claim) = self.ready.pop_front() {
                let id = TaskId::from_string(claim.subject_id().to_string());
                return Poll::Ready(Some(Ok(TaskBuilder::new(claim).task_id(id).build())));
            }
            match &mut self.doing {
                Doing::Nothing => {
                    // Every running task may free a slot: apalis polls again when one ends.
                    let running = worker.task_count();
                    let (free, due_for) = self.lane.room(running);
                    if free == 0 && running >= self.lane.concurrency {
                        return Poll::Pending;
                    }
                    self.wake.about_to_read();
                    self.doing = match free {
                        // Narrowed: nobody calls when it opens.
                        0 => Doing::Resting(tokio::time::sleep(POLL).boxed()),
                        _ => Doing::Fetching(self.fetch(free, due_for), free),
                    };
                }
                Doing::Fetching(fetch, asked) => {
                    let asked = *asked;
                    let Poll::Ready(result) = fetch.poll_unpin(cx) else {
                        return Poll::Pending;
                    };
                    self.fetched(result, asked);
                }
                Doing::Resting(rest) => {
                    let Poll::Ready(()) = rest.poll_unpin(cx) else {
                        return Poll::Pending;
                    };
                    self.doing = Doing::Nothing;
                }
                Doing::Closing(_) => return Poll::Ready(None),
            }
        }
    }

    /// Lets a fetch on its way arrive, then hands back whatever was claimed and never started.
    fn poll_close(&mut self, cx: &mut Context<'_>, _: &WorkerContext) -> Poll<Result<(), Infallible>> {
        loop {
            match &mut self.doing {
                Doing::Fetching(fetch, asked) => {
                    let asked = *asked;
                    let Poll::Ready(result) = fetch.poll_unpin(cx) else {
                        return Poll::Pending;
                    };
                    self.fetched(result, asked);
                }
                Doing::Nothing | Doing::Resting(_) => self.doing = Doing::Closing(self.hand_back()),
                Doing::Closing(closing) => return closing.poll_unpin(cx).map(Ok),
            }
        }
    }
}

impl BackendConfig for Queue {
    type Args = Claimed;
    type Id = Uuid;
    type Kind = Ephemeral;
    type Config = Lane;
    type Layer = Identity;

    fn config(&self) -> &Lane {
        &self.lane
    }

    fn middleware(&mut self, _: &mut WorkerContext) -> Identity {
        Identity::new()
    }
}
