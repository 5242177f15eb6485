//! `Prefer: wait`: one task looks after everyone who waits for a payment. On each wake-up, or when
//! none comes by a short poll, it asks about all their payments in one read.
//!
//! Architecture invariant: whoever waits holds no database connection.

use crate::draining::Draining;
use shared::payment::life::Status;
use shared::payment::{PaymentKey, read};
use shared::queue::wake::Wake;
use sqlx::PgPool;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

/// The most that wait at once in one process; more are answered without waiting.
const MOST: usize = 4096;
/// The rest when no wake-up comes: one may be lost with the connection that should have brought it.
const POLL: Duration = Duration::from_millis(250);
/// How long one read may take; the next one tries again.
const PATIENCE: Duration = Duration::from_secs(2);
/// After a read the task rests this many times as long as it took: however many wait and whatever
/// wakes it, it keeps the database busy for a fifth of the time at most. [`POLL`] bounds that rest.
const REST: u32 = 4;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The payment is final.
    Final,
    /// The payment is final, or its version is another one.
    ChangedFrom(i32),
}

impl Until {
    const fn holds(self, version: i32, status: Status) -> bool {
        match self {
            Self::Final => status.is_final(),
            Self::ChangedFrom(known) => status.is_final() || version != known,
        }
    }
}

/// How waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// It happened.
    Happened,
    /// The time ran out, or the server is about to stop.
    InVain,
    /// Too many wait already: it was not waited at all.
    NoRoom,
}

struct Waiter {
    of: PaymentKey,
    until: Until,
    tell: oneshot::Sender<()>,
    /// Given back when the waiter is dropped, answered or not.
    _room: OwnedSemaphorePermit,
}

/// The handle. Cheap to clone; the task ends with the last one.
#[derive(Clone, Debug)]
pub struct WaitingRoom {
    enter: mpsc::Sender<Waiter>,
    room: Arc<Semaphore>,
}

impl WaitingRoom {
    /// Opens it; `changes` are the wake-ups of the channel `payonce_payments`.
    #[must_use]
    pub fn open(pool: PgPool, changes: Wake) -> Self {
        let (enter, entered) = mpsc::channel(MOST);
        tokio::spawn(look_after(pool, changes, entered));
        Self { enter, room: Arc::new(Semaphore::new(MOST)) }
    }

    /// Waits for `until` of a payment, `most` at the longest. It need not be new: what happened before
    /// this call counts as well.
    pub async fn wait(&self, of: PaymentKey, until: Until, most: Duration, draining: &Draining) -> Waited {
        let Ok(room) = self.room.clone().try_acquire_owned() else {
            return Waited::NoRoom;
        };
        let (tell, told) = oneshot::channel();
        if self.enter.try_send(Waiter { of, until, tell, _room: room }).is_err() {
            return Waited::NoRoom;
        }
        tokio::select! {
            told = told => told.map_or(Waited::NoRoom, |()| Waited::Happened),
            () = sleep(most) => Waited::InVain,
            () = draining.begun() => Waited::InVain,
        }
    }
}

async fn look_after(pool: PgPool, mut changes: Wake, mut entered: mpsc::Receiver<Waiter>) {
    let mut waiters = Vec::new();
    loop {
        if waiters.is_empty() {
            match entered.recv().await {
                Some(waiter) => waiters.push(waiter),
                None => return,
            }
        }
        while let Ok(waiter) = entered.try_recv() {
            waiters.push(waiter);
        }
        changes.about_to_read();
        let began = Instant::now();
        look(&pool, &mut waiters).await;
        sleep((began.elapsed() * REST).min(POLL)).await;
        if waiters.is_empty() {
            continue;
        }
        tokio::select! {
            () = changes.rest(POLL) => {}
            // What a newcomer waits for may have happened before it came.
            waiter = entered.recv() => match waiter {
                Some(waiter) => waiters.push(waiter),
                None => return,
            },
        }
    }
}

/// Tells everyone whose payment is where they want it.
async fn look(pool: &PgPool, waiters: &mut Vec<Waiter>) {
    waiters.retain(|waiter| !waiter.tell.is_closed());
    let mut payments: Vec<PaymentKey> = waiters.iter().map(|waiter| waiter.of).collect();
    payments.sort_unstable();
    payments.dedup();
    if payments.is_empty() {
        return;
    }
    let rows = match timeout(PATIENCE, read::versions(pool, &payments)).await {
        Ok(Ok(rows)) => rows,
        Ok(Err(error)) => return tracing::debug!(%error, "nobody who waits can be told anything"),
        Err(_) => return tracing::debug!("nobody who waits can be told anything: the database is silent"),
    };
    let now: HashMap<PaymentKey, (i32, Status)> = rows.into_iter().map(|(of, v, status)| (of, (v, status))).collect();
    for waiter in std::mem::take(waiters) {
        match now.get(&waiter.of) {
            // Whoever waited may have gone.
            Some((version, status)) if waiter.until.holds(*version, *status) => drop(waiter.tell.send(())),
            _ => waiters.push(waiter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_final_payment_is_waited_for_by_nobody() {
        for status in Status::ALL {
            assert_eq!(Until::Final.holds(2, status), status.is_final());
            assert_eq!(Until::ChangedFrom(2).holds(2, status), status.is_final());
            assert!(Until::ChangedFrom(1).holds(2, status));
        }
    }
}
