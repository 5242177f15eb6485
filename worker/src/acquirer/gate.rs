//! The way in to an acquirer: how many calls at once and per second, and none while it is away.
//!
//! Architecture invariant: every call to an acquirer holds a [`Pass`]. A circuit opens after so many calls in
//! a row that came to nothing; a probe, never a payment, finds out whether the acquirer is back; then calls
//! are let through one, two, four at a time. What waits meanwhile waits in the queue, unclaimed. Each worker
//! process has gates of its own.

use shared::acquirer::Answer;
use shared::config;
use shared::queue::Opening;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout_at};

/// The rest after a circuit opened, before the first probe; doubled by each probe in vain.
const FIRST_REST: Duration = Duration::from_millis(500);
/// The longest rest between two probes.
const LONGEST_REST: Duration = Duration::from_secs(15);
/// What a relapse counts as, in probes in vain.
const PROBES_AFTER_RELAPSE: u32 = 4;
/// The rest of a claim that found the gate closed.
const BUSY_REST: Duration = Duration::from_millis(200);

/// The gate of one acquirer.
pub struct Gate {
    name: String,
    places: Arc<Semaphore>,
    concurrency: usize,
    threshold: u32,
    interval: Duration,
    state: Mutex<State>,
    circuit: watch::Sender<Circuit>,
    charges: watch::Sender<Opening>,
    lookups: watch::Sender<Opening>,
    unavailable_after: Duration,
}

struct State {
    circuit: Circuit,
    /// When the next call may begin, by the rate limit.
    next_call: Instant,
}

/// Whether an acquirer is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Circuit {
    /// It is; so many calls in a row came to nothing.
    Closed {
        /// Calls in a row without an answer, or with 5xx.
        failures: u32,
    },
    /// It is not; it was probed so many times in vain.
    Open {
        /// Probes.
        probes: u32,
    },
    /// It is, by so many at once.
    HalfOpen {
        /// Calls at once.
        width: usize,
    },
}

impl Circuit {
    /// The word in logs and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::HalfOpen { .. } => "half_open",
        }
    }

    /// What follows a call that came to something, or not.
    const fn after_call(self, heard: bool, threshold: u32, concurrency: usize) -> Self {
        match (self, heard) {
            (Self::Closed { .. }, true) => Self::Closed { failures: 0 },
            (Self::Closed { failures }, false) if failures + 1 < threshold => Self::Closed { failures: failures + 1 },
            (Self::HalfOpen { width }, true) if width * 2 < concurrency => Self::HalfOpen { width: width * 2 },
            (Self::HalfOpen { .. }, true) => Self::Closed { failures: 0 },
            (Self::Closed { .. }, false) => Self::Open { probes: 0 },
            // It answers probes and not calls: it is tried with a payment again, but not soon.
            (Self::HalfOpen { .. }, false) => Self::Open { probes: PROBES_AFTER_RELAPSE },
            // A call that was under way when it opened.
            (Self::Open { .. }, _) => self,
        }
    }

    /// What follows a probe.
    const fn after_probe(self, heard: bool) -> Self {
        match (self, heard) {
            (Self::Open { .. }, true) => Self::HalfOpen { width: 1 },
            (Self::Open { probes }, false) => Self::Open { probes: probes.saturating_add(1) },
            (Self::Closed { .. } | Self::HalfOpen { .. }, _) => self,
        }
    }
}

/// Leave for one call.
#[derive(Debug)]
pub struct Pass {
    _place: OwnedSemaphorePermit,
}

/// Why there is no pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The acquirer is away.
    Away,
    /// No place comes free in time; come back after this rest.
    Busy(Duration),
}

impl Closed {
    /// How long a claim that is handed back should rest.
    #[must_use]
    pub const fn rest(self) -> Duration {
        match self {
            Self::Away => Duration::ZERO,
            Self::Busy(rest) => rest,
        }
    }
}

impl Gate {
    pub(super) fn new(name: &str, profile: &config::Acquirer) -> Self {
        let circuit = Circuit::Closed { failures: 0 };
        let rate = profile.requests_per_second;
        Self {
            name: name.to_owned(),
            places: Arc::new(Semaphore::new(profile.concurrency)),
            concurrency: profile.concurrency,
            threshold: profile.circuit_failures,
            interval: if rate == 0 { Duration::ZERO } else { Duration::from_secs(1) / rate },
            state: Mutex::new(State { circuit, next_call: Instant::now() }),
            circuit: watch::Sender::new(circuit),
            charges: watch::Sender::new(Opening::Open),
            lookups: watch::Sender::new(Opening::Open),
            unavailable_after: Duration::from_secs(profile.unavailable_after_s),
        }
    }

    /// Waits for a place until `until` at the latest.
    ///
    /// # Errors
    /// [`Closed`]: nothing may be sent now.
    pub async fn enter(&self, until: Instant) -> Result<Pass, Closed> {
        self.admits()?;
        let place = match timeout_at(until, self.places.clone().acquire_owned()).await {
            Ok(Ok(place)) => place,
            // The semaphore is never closed, and the time is over in both cases.
            Ok(Err(_)) | Err(_) => return Err(Closed::Busy(BUSY_REST)),
        };
        let turn = self.turn(until)?;
        if turn > Instant::now() {
            sleep_until(turn).await;
        }
        self.admits()?;
        Ok(Pass { _place: place })
    }

    fn admits(&self) -> Result<(), Closed> {
        match self.state().circuit {
            Circuit::Closed { .. } => Ok(()),
            Circuit::Open { .. } => Err(Closed::Away),
            Circuit::HalfOpen { width } => {
                // The caller of the second check holds a place itself.
                let inside = self.concurrency - self.places.available_permits();
                if inside <= width { Ok(()) } else { Err(Closed::Busy(BUSY_REST)) }
            }
        }
    }

    /// Takes the next turn of the rate limit, unless it is later than `until`.
    fn turn(&self, until: Instant) -> Result<Instant, Closed> {
        let mut state = self.state();
        let now = Instant::now();
        let turn = state.next_call.max(now);
        if turn > until {
            return Err(Closed::Busy(turn - now));
        }
        state.next_call = turn + self.interval;
        Ok(turn)
    }

    /// Notes what a call came to. An answer below 500, whatever it says, shows that the acquirer is there.
    pub fn heard(&self, answer: &Answer) {
        let heard = answer.http_status.is_some_and(is_there);
        self.change(|circuit| circuit.after_call(heard, self.threshold, self.concurrency));
    }

    /// Notes what a probe came to.
    pub fn probed(&self, status: &Result<u16, String>) {
        let heard = status.as_ref().is_ok_and(|status| is_there(*status));
        self.change(|circuit| circuit.after_probe(heard));
    }

    fn change(&self, next: impl FnOnce(Circuit) -> Circuit) {
        let mut state = self.state();
        let (before, after) = (state.circuit, next(state.circuit));
        state.circuit = after;
        if before == after {
            return;
        }
        if before.as_str() != after.as_str() {
            tracing::warn!(acquirer = self.name, from = before.as_str(), to = after.as_str(), "the circuit changed");
        }
        let (charges, lookups) = self.openings(after);
        self.charges.send_replace(charges);
        self.lookups.send_replace(lookups);
        self.circuit.send_replace(after);
    }

    /// Of the charge lane and of the lookup lane.
    const fn openings(&self, circuit: Circuit) -> (Opening, Opening) {
        match circuit {
            Circuit::Closed { .. } => (Opening::Open, Opening::Open),
            Circuit::HalfOpen { width } => (Opening::AtMost(width), Opening::AtMost(width)),
            // Those that waited too long to be sent at all are let go.
            Circuit::Open { .. } => (Opening::ShutBut(self.unavailable_after), Opening::Shut),
        }
    }

    /// How much the charge lane may take.
    #[must_use]
    pub fn charges(&self) -> watch::Receiver<Opening> {
        self.charges.subscribe()
    }

    /// How much the lookup lane may take.
    #[must_use]
    pub fn lookups(&self) -> watch::Receiver<Opening> {
        self.lookups.subscribe()
    }

    /// The circuit, to watch.
    #[must_use]
    pub fn circuit(&self) -> watch::Receiver<Circuit> {
        self.circuit.subscribe()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether whoever answers with this status is at work; 501 is how some say that they cannot be asked this.
const fn is_there(status: u16) -> bool {
    status < 500 || status == 501
}

/// The rest before the next probe, after so many in vain.
#[must_use]
pub fn probe_rest(probes: u32) -> Duration {
    FIRST_REST.saturating_mul(2_u32.saturating_pow(probes)).min(LONGEST_REST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(change: impl FnOnce(&mut config::Acquirer)) -> Gate {
        let mut profile = config::Acquirer::at("http://127.0.0.1:1");
        (profile.concurrency, profile.circuit_failures) = (4, 3);
        change(&mut profile);
        Gate::new("bank", &profile)
    }

    fn lost() -> Answer {
        Answer::unknown(None, "timeout", "")
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    #[tokio::test]
    async fn a_circuit_opens_after_so_many_calls_in_a_row_that_came_to_nothing() {
        let gate = gate(|_| {});
        for answer in [lost(), lost(), Answer::unknown(Some(404), "", ""), lost(), Answer::unknown(Some(503), "", "")] {
            gate.heard(&answer);
            assert_eq!(gate.enter(soon()).await.err(), None);
        }
        gate.heard(&lost());
        assert_eq!(gate.enter(soon()).await.err(), Some(Closed::Away));
        assert_eq!(*gate.charges().borrow(), Opening::ShutBut(Duration::from_secs(900)));
        assert_eq!(*gate.lookups().borrow(), Opening::Shut);
    }

    #[tokio::test]
    async fn after_a_probe_calls_are_let_through_one_two_and_then_all() {
        let gate = gate(|profile| profile.circuit_failures = 1);
        gate.heard(&lost());
        gate.probed(&Err("refused".to_owned()));
        gate.probed(&Ok(503));
        assert_eq!(*gate.circuit().borrow(), Circuit::Open { probes: 2 });
        gate.probed(&Ok(501));
        let only = gate.enter(soon()).await.expect("one");
        assert!(matches!(gate.enter(soon()).await, Err(Closed::Busy(_))), "not two");
        drop(only);
        gate.heard(&Answer::unknown(Some(201), "", ""));
        assert_eq!(*gate.lookups().borrow(), Opening::AtMost(2));
        gate.heard(&Answer::unknown(Some(201), "", ""));
        assert_eq!(*gate.charges().borrow(), Opening::Open);
    }

    #[tokio::test]
    async fn a_relapse_opens_it_again_for_longer() {
        let gate = gate(|profile| profile.circuit_failures = 1);
        gate.heard(&lost());
        gate.probed(&Ok(404));
        gate.heard(&lost());
        assert_eq!(*gate.circuit().borrow(), Circuit::Open { probes: PROBES_AFTER_RELAPSE });
        assert_eq!([0, 1, 4, 30].map(|probes| probe_rest(probes).as_millis()), [500, 1000, 8000, 15_000]);
    }

    #[tokio::test]
    async fn no_more_calls_than_places_and_no_more_per_second_than_the_rate() {
        let gate = gate(|profile| (profile.concurrency, profile.requests_per_second) = (2, 1));
        let first = gate.enter(soon()).await.expect("a place");
        let Err(Closed::Busy(rest)) = gate.enter(soon()).await else { panic!("two calls within a second") };
        assert!(rest > Duration::from_millis(900), "{rest:?}");
        let narrow =
            Gate::new("bank", &config::Acquirer { concurrency: 1, ..config::Acquirer::at("http://127.0.0.1:1") });
        let only = narrow.enter(soon()).await.expect("a place");
        assert_eq!(narrow.enter(soon()).await.err(), Some(Closed::Busy(BUSY_REST)));
        drop((first, only));
        assert!(narrow.enter(soon()).await.is_ok());
    }
}
