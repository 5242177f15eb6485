//! Group commit. Every write of a payment's life goes through here: callers hand in their transition
//! and wait; the committer takes all that is waiting (no timer, so a lone payment is not delayed) and
//! writes it in one transaction, set by set, each row guarded by its own fence.
//!
//! Architecture invariant: nobody else writes to payments, keys, calls, history, events, deliveries
//! or reviews. What was not committed did not happen, and no caller is told otherwise.

use crate::db::{self, is_outage};
use crate::outbox::Mark;
use crate::payment::accept::Accept;
use crate::payment::call::Begin;
use crate::payment::claim::{Drop, GiveBack};
use crate::payment::record::{Final, Open};
use crate::payment::settle::Settle;
use crate::payment::{accept, call, claim, record, settle};
use crate::queue::wake::Notifier;
use crate::review::Contradiction;
use crate::telemetry::Metrics;
use crate::{outbox, review};
use sqlx::{Connection, PgConnection, PgPool};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::sync::{mpsc, oneshot};

/// The most rows of one transaction: enough to amortise a commit, few enough to keep it short.
const MOST_ROWS: usize = 256;
/// How long a commit may take, the wait for a connection not counted. With that wait, and behind a batch that
/// fails in the same way, its rows hear within 16 s; a lease is 30 s. Who claims for less hears too late to
/// try again, and the job comes again.
const COMMIT: Duration = db::PATIENCE;
/// BEGIN, and a clock of the server's: a transaction whose committer vanished must not keep its rows locked
/// until the server's TCP gives up, hours later. Shorter than [`COMMIT`], so that it is over when the rows
/// come again.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '3s'";
/// How often a batch is repeated as it is after a deadlock or serialization failure.
const REPEATS: usize = 3;

/// One transition, waiting to be written.
#[derive(Clone, Debug)]
pub enum Write {
    /// A request to accept.
    Accept(Accept),
    /// The next call of a claim.
    Begin(Begin),
    /// An outcome that decides.
    Final(Final),
    /// An outcome that leaves the payment open.
    Open(Open),
    /// A final payment with all that belongs to it.
    Settle(Box<Settle>),
    /// What became of a delivery.
    Mark(Mark),
    /// A claim handed back unused.
    GiveBack(GiveBack),
    /// Leftover jobs of a final payment.
    Drop(Drop),
    /// A review for a final payment that the acquirer contradicts.
    Contradiction(Contradiction),
}

/// What became of a row that was committed with its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Written, at this time of the database.
    Applied(OffsetDateTime),
    /// The fence or the state had moved on (or, for an accept, the key or the intent was taken):
    /// nothing was written.
    Stale,
}

impl Verdict {
    /// Verdicts of `count` rows, of which those in `applied` (ordinals from 1) were written.
    pub(crate) fn of(count: usize, applied: impl Iterator<Item = (i64, OffsetDateTime)>) -> Vec<Self> {
        let mut verdicts = vec![Self::Stale; count];
        for (ordinal, at) in applied {
            if let Some(verdict) = usize::try_from(ordinal - 1).ok().and_then(|index| verdicts.get_mut(index)) {
                *verdict = Self::Applied(at);
            }
        }
        verdicts
    }
}

/// Why a row was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The database was away, or the fate of the commit is unknown. Asking again finds out.
    #[error("the database could not take the write: {0}")]
    Unavailable(String),
    /// The row itself is at fault; it stood alone when it was refused.
    #[error("the database refused the row ({constraint}): {message}")]
    Refused {
        /// The constraint, or the SQLSTATE where none is named.
        constraint: String,
        /// The database's words; for the log, never for a client.
        message: String,
    },
}

impl From<sqlx::Error> for WriteError {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(refusal) if !is_outage(&error) => Self::Refused {
                constraint: refusal
                    .constraint()
                    .map_or_else(|| refusal.code().unwrap_or_default().into_owned(), str::to_owned),
                message: refusal.message().to_owned(),
            },
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

struct Waiting {
    write: Write,
    answer: oneshot::Sender<Result<Verdict, WriteError>>,
}

/// The handle that transitions are given to. Cheap to clone; the committer ends with its last handle.
#[derive(Clone, Debug)]
pub struct Committer {
    queue: mpsc::Sender<Waiting>,
}

impl Committer {
    /// Starts a committer on `pool`. It holds one connection while it writes and none while it waits.
    #[must_use]
    pub fn start(pool: PgPool, notifier: Notifier, metrics: Arc<Metrics>) -> Self {
        let (queue, waiting) = mpsc::channel(4 * MOST_ROWS);
        tokio::spawn(run(pool, notifier, metrics, waiting));
        Self { queue }
    }

    /// How many transitions wait for the next commit.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Hands in a transition and waits until it is committed.
    ///
    /// # Errors
    /// [`WriteError`]: nothing was written, or (only `Unavailable`) nobody knows.
    pub async fn write(&self, write: Write) -> Result<Verdict, WriteError> {
        let (answer, verdict) = oneshot::channel();
        let ended = || WriteError::Unavailable("the committer has ended".to_owned());
        self.queue.send(Waiting { write, answer }).await.map_err(|_| ended())?;
        verdict.await.map_err(|_| ended())?
    }
}

async fn run(pool: PgPool, notifier: Notifier, metrics: Arc<Metrics>, mut waiting: mpsc::Receiver<Waiting>) {
    let mut batch = Vec::with_capacity(MOST_ROWS);
    while waiting.recv_many(&mut batch, MOST_ROWS).await > 0 {
        let (writes, answers): (Vec<_>, Vec<_>) = batch.drain(..).map(|w| (w.write, Some(w.answer))).unzip();
        Group { pool: &pool, notifier: &notifier, metrics: &metrics, writes, answers }.commit().await;
    }
}

/// A batch on its way: rows and those who wait for them.
struct Group<'a> {
    pool: &'a PgPool,
    notifier: &'a Notifier,
    metrics: &'a Metrics,
    writes: Vec<Write>,
    answers: Vec<Option<oneshot::Sender<Result<Verdict, WriteError>>>>,
}

impl Group<'_> {
    /// Writes all rows in one transaction; if it fails for a reason of some row, writes the halves,
    /// and so on until the row at fault stands alone.
    async fn commit(mut self) {
        let mut ranges: Vec<_> = std::iter::once(0..self.writes.len()).collect();
        while let Some(range) = ranges.pop() {
            match self.repeated(range.clone()).await {
                Ok(verdicts) => self.answer(range, verdicts),
                Err(error) if !is_outage(&error) && range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    ranges.extend([middle..range.end, range.start..middle]);
                }
                Err(error) => self.refuse(range, &WriteError::from(error)),
            }
        }
    }

    async fn repeated(&self, range: Range<usize>) -> sqlx::Result<Vec<Verdict>> {
        let mut repeats = 0;
        loop {
            match commit_once(self.pool, &self.writes[range.clone()]).await {
                Err(error) if is_conflict(&error) && repeats < REPEATS => repeats += 1,
                result => {
                    self.metrics.commits(range.len());
                    return result;
                }
            }
        }
    }

    fn answer(&mut self, range: Range<usize>, verdicts: Vec<Verdict>) {
        let mut told = Told::default();
        for (index, verdict) in range.zip(verdicts) {
            if matches!(verdict, Verdict::Applied(_)) {
                told.add(&self.writes[index]);
            }
            self.reply(index, Ok(verdict));
        }
        if told.jobs {
            self.notifier.jobs();
        }
        if told.payments {
            self.notifier.payments();
        }
    }

    fn refuse(&mut self, range: Range<usize>, error: &WriteError) {
        for index in range {
            self.reply(index, Err(error.clone()));
        }
    }

    fn reply(&mut self, index: usize, result: Result<Verdict, WriteError>) {
        if let Some(answer) = self.answers[index].take() {
            // Whoever waited may have gone; the write stands all the same.
            let _ = answer.send(result);
        }
    }
}

/// Whom a commit concerns.
#[derive(Default)]
struct Told {
    jobs: bool,
    payments: bool,
}

impl Told {
    fn add(&mut self, write: &Write) {
        self.jobs |= matches!(write, Write::Accept(_) | Write::GiveBack(_));
        self.payments |= matches!(write, Write::Settle(_) | Write::Open(_) | Write::Contradiction(_));
    }
}

/// The rows of one kind, and where their verdicts belong.
struct Set<'a, T> {
    rows: Vec<&'a T>,
    places: Vec<usize>,
}

impl<'a, T> Set<'a, T> {
    fn of(writes: &'a [Write], pick: impl Fn(&'a Write) -> Option<&'a T>) -> Self {
        let picked = writes.iter().enumerate().filter_map(|(place, write)| Some((pick(write)?, place)));
        let (rows, places) = picked.unzip();
        Self { rows, places }
    }

    fn put(&self, verdicts: &mut [Verdict], of_rows: &[Verdict]) {
        for (place, verdict) in self.places.iter().zip(of_rows) {
            verdicts[*place] = *verdict;
        }
    }
}

/// Runs a set's statement if it has rows.
macro_rules! write_set {
    ($conn:expr, $writes:expr, $verdicts:expr, $kind:ident, $apply:path) => {
        let set = Set::of($writes, |write| match write {
            Write::$kind(row) => Some(std::borrow::Borrow::borrow(row)),
            _ => None,
        });
        if !set.rows.is_empty() {
            set.put(&mut $verdicts, &$apply($conn, &set.rows).await?);
        }
    };
}

async fn commit_once(pool: &PgPool, writes: &[Write]) -> sqlx::Result<Vec<Verdict>> {
    let mut conn = pool.acquire().await?;
    let committed = db::within(COMMIT, commit_on(&mut conn, writes)).await;
    if let Err(sqlx::Error::Io(_)) = committed {
        // Closed, not given back: the rest of its answer is nobody's, and a transaction that was cut off while
        // it began would stay open, for the next batch to be lost in.
        drop(conn.detach());
    }
    committed
}

async fn commit_on(conn: &mut PgConnection, writes: &[Write]) -> sqlx::Result<Vec<Verdict>> {
    // One kind is one statement, and a statement is a transaction: no BEGIN and COMMIT round trips.
    let first = std::mem::discriminant(&writes[0]);
    if writes.iter().all(|write| std::mem::discriminant(write) == first) {
        return apply(conn, writes).await;
    }
    let mut tx = conn.begin_with(BEGIN).await?;
    let verdicts = apply(&mut tx, writes).await?;
    tx.commit().await?;
    Ok(verdicts)
}

async fn apply(conn: &mut PgConnection, writes: &[Write]) -> sqlx::Result<Vec<Verdict>> {
    let mut verdicts = vec![Verdict::Stale; writes.len()];
    write_set!(conn, writes, verdicts, Begin, call::begin);
    write_set!(conn, writes, verdicts, Final, record::finals);
    write_set!(conn, writes, verdicts, Open, record::opens);
    write_set!(conn, writes, verdicts, Settle, settle::apply);
    write_set!(conn, writes, verdicts, Mark, outbox::mark);
    write_set!(conn, writes, verdicts, GiveBack, claim::give_back);
    write_set!(conn, writes, verdicts, Drop, claim::drop_jobs);
    write_set!(conn, writes, verdicts, Contradiction, review::contradictions);
    write_set!(conn, writes, verdicts, Accept, accept::apply);
    Ok(verdicts)
}

/// Deadlock or serialization failure: nobody is at fault, the same again may pass.
fn is_conflict(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    matches!(code.as_deref(), Some("40P01" | "40001"))
}
