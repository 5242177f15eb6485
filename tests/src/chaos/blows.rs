//! What strikes, when, and how.

use super::fleet::{Fleet, LEASE_MS, Role};
use super::pace::Pace;
use super::surroundings::{Surroundings, faults};
use super::{Purpose, Storm};
use crate::road::State;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use sandbox::acquirer::Latency;
use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as Sync, PoisonError};
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// How many blows may be felt at once.
const AT_ONCE: usize = 4;
/// Of how many kills one hits an api; the others hit workers.
const API_OF_KILLS: usize = 4;
/// The share of payments that meet a fault in a burst.
const BURST: f64 = 0.8;

/// One blow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blow {
    /// SIGKILL of a worker.
    KillWorker,
    /// SIGKILL of an api instance.
    KillApi,
    /// SIGSTOP of a worker past its leases, then SIGCONT.
    FreezeWorker,
    /// SIGSTOP of an api instance, then SIGCONT.
    FreezeApi,
    /// Postgres stopped and started.
    RestartPostgres,
    /// Postgres ended without a checkpoint, and recovered.
    CrashPostgres,
    /// The job table emptied.
    EmptyJobs,
    /// Most charges meet a fault for a while, and all are slow.
    Faults,
    /// Connections to the acquirer break.
    AcquirerAway,
    /// Connections to the acquirer stand still, then break.
    AcquirerSilent,
}

/// The blows beside the kills, and how many of each come with ten kills.
const OTHERS: [(Blow, usize); 8] = [
    (Blow::FreezeWorker, 2),
    (Blow::FreezeApi, 1),
    (Blow::RestartPostgres, 1),
    (Blow::CrashPostgres, 1),
    (Blow::EmptyJobs, 1),
    (Blow::Faults, 1),
    (Blow::AcquirerAway, 1),
    (Blow::AcquirerSilent, 1),
];

impl fmt::Display for Blow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KillWorker => "worker killed (SIGKILL)",
            Self::KillApi => "api killed (SIGKILL)",
            Self::FreezeWorker => "worker stopped past its lease, then continued",
            Self::FreezeApi => "api stopped, then continued",
            Self::RestartPostgres => "Postgres restarted",
            Self::CrashPostgres => "Postgres crashed and recovered",
            Self::EmptyJobs => "job table emptied",
            Self::Faults => "burst of faults of the acquirer",
            Self::AcquirerAway => "acquirer away",
            Self::AcquirerSilent => "acquirer silent",
        })
    }
}

/// The blows of a storm in their order: as many kills as asked for, and at least one of everything.
pub(super) fn schedule(storm: &Storm) -> Vec<Blow> {
    let kill = |number| if number % API_OF_KILLS == 1 { Blow::KillApi } else { Blow::KillWorker };
    let mut blows: Vec<Blow> = (0..storm.kills).map(kill).collect();
    for (blow, with_ten) in OTHERS {
        blows.extend(std::iter::repeat_n(blow, (with_ten * storm.kills / 10).max(1)));
    }
    blows.shuffle(&mut storm.chance(Purpose::Schedule, 0));
    blows
}

/// What deals the blows.
pub(super) struct Hands {
    storm: Arc<Storm>,
    surroundings: Arc<Surroundings>,
    fleet: Arc<Fleet>,
    /// One thing at a time happens to the acquirer.
    acquirer: Mutex<()>,
    dealt: Sync<BTreeMap<Blow, usize>>,
    jobs_lost: AtomicU64,
}

impl Hands {
    /// Hands that rest.
    pub fn new(storm: Arc<Storm>, surroundings: Arc<Surroundings>, fleet: Arc<Fleet>) -> Self {
        let (acquirer, dealt, jobs_lost) = (Mutex::default(), Sync::default(), AtomicU64::default());
        Self { storm, surroundings, fleet, acquirer, dealt, jobs_lost }
    }

    /// Deals all blows, a few of them at once, and waits until the last is over.
    pub async fn deal(self: &Arc<Self>, blows: &[Blow], pace: &Pace) {
        let (places, mut felt) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        for (number, &blow) in blows.iter().enumerate() {
            let turn = async {
                pace.blow(number).await;
                places.clone().acquire_owned().await.expect("nobody closes it")
            };
            let place = unless_one_fails(&mut felt, turn).await;
            let (hands, mut chance) = (self.clone(), self.storm.chance(Purpose::Blow, number));
            let rest = ms(&mut chance, 250, 1_000);
            felt.spawn(async move {
                hands.strike(blow, &mut chance).await;
                drop(place);
            });
            sleep(rest).await;
        }
        felt.join_all().await;
    }

    /// How many blows of each kind there were.
    pub fn dealt(&self) -> BTreeMap<Blow, usize> {
        self.dealt.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many jobs were deleted.
    pub fn jobs_lost(&self) -> u64 {
        self.jobs_lost.load(Ordering::Relaxed)
    }

    async fn strike(&self, blow: Blow, chance: &mut StdRng) {
        match blow {
            Blow::KillWorker => self.fleet.any(Role::Worker, chance).kill().await,
            Blow::KillApi => self.fleet.any(Role::Api, chance).kill().await,
            Blow::FreezeWorker => {
                let how_long = ms(chance, LEASE_MS + 300, LEASE_MS + 1_500);
                self.fleet.any(Role::Worker, chance).freeze(how_long).await;
            }
            Blow::FreezeApi => self.fleet.any(Role::Api, chance).freeze(ms(chance, 500, 3_000)).await,
            Blow::RestartPostgres | Blow::CrashPostgres => self.restart_postgres(blow == Blow::CrashPostgres).await,
            Blow::EmptyJobs => self.empty_jobs().await,
            Blow::Faults => self.burst_of_faults(chance).await,
            Blow::AcquirerAway => self.acquirer_away(chance).await,
            Blow::AcquirerSilent => self.acquirer_silent(chance).await,
        }
        *self.dealt.lock().unwrap_or_else(PoisonError::into_inner).entry(blow).or_default() += 1;
    }

    async fn restart_postgres(&self, crash: bool) {
        let mut postgres = self.surroundings.postgres.lock().await;
        if crash {
            postgres.kill().await.unwrap_or_else(|error| eprintln!("chaos: {error}"));
        }
        postgres.restart().await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Empties the table until that took some jobs away a few times: most rows live for milliseconds, and the
    /// database may be away.
    async fn empty_jobs(&self) {
        let (mut hits, mut tries) = (0, 30);
        while hits < 4 && tries > 0 {
            tries -= 1;
            let emptied = sqlx::query("DELETE FROM jobs").execute(&self.surroundings.pool).await;
            let gone = emptied.map_or(0, |done| done.rows_affected());
            hits += usize::from(gone > 0);
            self.jobs_lost.fetch_add(gone, Ordering::Relaxed);
            sleep(Duration::from_millis(60)).await;
        }
    }

    async fn burst_of_faults(&self, chance: &mut StdRng) {
        let _alone = self.acquirer.lock().await;
        let acquirer = &self.surroundings.acquirer;
        let calm = acquirer.settings();
        let kinds = faults().count();
        #[expect(clippy::cast_precision_loss, reason = "there are a few dozen")]
        let burst = faults().map(|fault| (fault, BURST / kinds as f64)).collect();
        let latency_ms = Latency::Exponential { mean_ms: 120 };
        let changed = acquirer.change_settings(|settings| {
            (settings.faults, settings.latency_ms) = (burst, latency_ms);
        });
        changed.expect("the rates add up to less than 1");
        sleep(ms(chance, 1_000, 3_000)).await;
        acquirer.set_settings(calm).expect("they were in force before");
    }

    async fn acquirer_away(&self, chance: &mut StdRng) {
        let _alone = self.acquirer.lock().await;
        self.surroundings.road.becomes(State::Cut);
        sleep(ms(chance, 500, 2_000)).await;
        self.surroundings.road.becomes(State::Open);
    }

    async fn acquirer_silent(&self, chance: &mut StdRng) {
        let _alone = self.acquirer.lock().await;
        self.surroundings.road.becomes(State::Frozen);
        sleep(ms(chance, 500, 2_000)).await;
        self.surroundings.road.breaks_once().await;
    }
}

/// Waits for something, unless a blow fails meanwhile: a storm without a database is none.
async fn unless_one_fails<T>(felt: &mut JoinSet<()>, something: impl Future<Output = T>) -> T {
    let mut something = pin!(something);
    loop {
        tokio::select! {
            came = &mut something => return came,
            Some(felt) = felt.join_next() => felt.expect("a blow can be dealt"),
        }
    }
}

/// Any time between two, in ms.
fn ms(chance: &mut StdRng, from_ms: u64, to_ms: u64) -> Duration {
    Duration::from_millis(chance.random_range(from_ms..=to_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(kills: usize, seed: u64) -> Storm {
        Storm { payments: 1, kills, seed, keys: true, program: "payonce".into(), logs: None }
    }

    #[test]
    fn the_same_seed_makes_the_same_schedule() {
        assert_eq!(schedule(&storm(20, 7)), schedule(&storm(20, 7)));
        assert_ne!(schedule(&storm(20, 7)), schedule(&storm(20, 8)));
    }

    #[test]
    fn a_schedule_has_as_many_kills_as_asked_for_and_one_of_everything() {
        let blows = schedule(&storm(8, 1));
        let kills = blows.iter().filter(|blow| matches!(blow, Blow::KillWorker | Blow::KillApi)).count();
        assert_eq!((kills, blows.iter().filter(|blow| **blow == Blow::KillApi).count()), (8, 2));
        assert!(OTHERS.iter().all(|(blow, _)| blows.contains(blow)), "{blows:?}");
    }
}
