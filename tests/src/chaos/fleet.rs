//! The processes of the service: api instances and workers, each started anew when it was killed.

use super::Storm;
use super::surroundings::Surroundings;
use crate::program::Program;
use rand::RngExt;
use rand::rngs::StdRng;
use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex as Sync, PoisonError};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Mutex;

/// How many api instances.
const APIS: usize = 2;
/// How many workers.
const WORKERS: usize = 3;
/// The lease of the workers, in ms.
pub(super) const LEASE_MS: u64 = 2_000;
/// The rest before a process that could not start is started again, as a supervisor would.
const RESTART_REST: Duration = Duration::from_millis(50);
/// How long a process may take to stop when asked to.
const STOPS_WITHIN: Duration = Duration::from_secs(20);

/// Short times that agree with each other, as `PAYONCE_*` say them: [`crate::world::short_times`] for processes.
const SHORT_TIMES: [(&str, &str); 18] = [
    ("PAYONCE_API__LISTEN", "127.0.0.1:0"),
    // Low enough to be met: clients repeat after a 429 too.
    ("PAYONCE_API__REQUESTS_PER_SECOND", "200"),
    ("PAYONCE_ACQUIRERS__DEFAULT__KIND", "http"),
    ("PAYONCE_ACQUIRERS__DEFAULT__TTL_H", "24"),
    ("PAYONCE_ACQUIRERS__DEFAULT__REPLAY_SEMANTICS", "live"),
    ("PAYONCE_ACQUIRERS__DEFAULT__CONNECT_MS", "200"),
    ("PAYONCE_ACQUIRERS__DEFAULT__READ_MS", "300"),
    ("PAYONCE_ACQUIRERS__DEFAULT__DEADLINE_MS", "1500"),
    ("PAYONCE_ACQUIRERS__DEFAULT__ABSENCE_FINAL_AFTER_MS", "600"),
    // Faults of single payments are no outage, a burst of them is.
    ("PAYONCE_ACQUIRERS__DEFAULT__CIRCUIT_FAILURES", "25"),
    ("PAYONCE_WORKER__LEASE_MS", "2000"),
    ("PAYONCE_WORKER__GRACE_MS", "100"),
    ("PAYONCE_WORKER__SWEEP_MS", "100"),
    ("PAYONCE_WORKER__SHUTDOWN_MS", "10000"),
    ("PAYONCE_STEPS__CHARGE__DELIVERIES", "8"),
    ("PAYONCE_STEPS__LOOKUP__DELIVERIES", "30"),
    ("PAYONCE_STEPS__LOOKUP__BACKOFF_MS", "[100, 200]"),
    ("PAYONCE_STEPS__PUBLISH__BACKOFF_MS", "[50]"),
];

/// What the processes know of an acquirer without keys.
const WITHOUT_KEYS: [(&str, &str); 2] =
    [("PAYONCE_ACQUIRERS__DEFAULT__KEYS", "none"), ("PAYONCE_ACQUIRERS__DEFAULT__LOOKUP", "by_reference")];

/// What an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// `payonce api`
    Api,
    /// `payonce worker`
    Worker,
}

impl Role {
    const fn command(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Worker => "worker",
        }
    }
}

/// How to start a process.
struct Recipe {
    program: PathBuf,
    database_url: String,
    acquirer_url: String,
    keys: bool,
    logs: Option<PathBuf>,
}

impl Recipe {
    /// The command, with nothing of ours in its environment but this. Its standard input is a pipe that it waits
    /// for the end of, and in its own process group a Ctrl-C does not reach it: it lives exactly as long as we want.
    fn command(&self, role: Role) -> Command {
        let mut command = Command::new(&self.program);
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("PAYONCE_")) {
            command.env_remove(name);
        }
        command
            .args(["payonce", role.command()])
            .envs(SHORT_TIMES)
            .envs(WITHOUT_KEYS.into_iter().filter(|_| !self.keys))
            .env("DATABASE_URL", &self.database_url)
            .env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", &self.acquirer_url)
            .current_dir(std::env::temp_dir())
            .process_group(0)
            .stdin(Stdio::piped());
        command
    }

    fn log(&self, name: &str) -> Stdio {
        let Some(logs) = &self.logs else { return Stdio::null() };
        let file = OpenOptions::new().create(true).append(true).open(logs.join(format!("{name}.log")));
        file.expect("a log can be written").into()
    }
}

/// One place in the fleet.
pub(super) struct Instance {
    name: String,
    role: Role,
    recipe: Arc<Recipe>,
    /// Whoever holds it may strike.
    running: Mutex<Program>,
    /// Where an api is, or was before it was killed.
    url: Sync<String>,
    ended_alone: Sync<Vec<String>>,
}

impl Instance {
    async fn start(recipe: Arc<Recipe>, role: Role, number: usize) -> Self {
        let name = format!("{}-{number}", role.command());
        let (running, line) = begun(&recipe, role, &name).await;
        let (running, url) = (Mutex::new(running), Sync::new(address(&line)));
        Self { name, role, recipe, running, url, ended_alone: Sync::default() }
    }

    /// Kills the process, and starts another one in its place.
    pub async fn kill(&self) {
        let mut running = self.running.lock().await;
        self.must_run(&mut running);
        running.child.kill().await.expect("a child can be killed");
        let (next, line) = begun(&self.recipe, self.role, &self.name).await;
        *running = next;
        *lock(&self.url) = address(&line);
    }

    /// Stops the process in its tracks, and lets it go on after a while.
    pub async fn freeze(&self, how_long: Duration) {
        let mut running = self.running.lock().await;
        if self.must_run(&mut running) {
            running.signal("STOP");
            tokio::time::sleep(how_long).await;
            running.signal("CONT");
        }
    }

    /// Asks it to stop; what is wrong with how it does.
    async fn stop(&self) -> Option<String> {
        let mut running = self.running.lock().await;
        if !self.must_run(&mut running) {
            return None;
        }
        running.signal("TERM");
        // Waiting closes its standard input, which would end it at once.
        let _open = running.child.stdin.take();
        let ended = tokio::time::timeout(STOPS_WITHIN, running.child.wait()).await;
        match ended.map(|status| status.expect("a child can be waited for")) {
            Ok(status) if status.success() => None,
            Ok(status) => Some(format!("{} was asked to stop and ended with {status}", self.name)),
            Err(_) => Some(format!("{} was asked to stop and did not within {} s", self.name, STOPS_WITHIN.as_secs())),
        }
    }

    /// Nothing but a kill ends a process: notes it when this one has ended.
    fn must_run(&self, running: &mut Program) -> bool {
        let Ok(Some(status)) = running.child.try_wait() else { return true };
        lock(&self.ended_alone).push(format!("{} ended by itself, with {status}", self.name));
        false
    }
}

/// Starts a process again and again until it is ready: without its database it ends.
async fn begun(recipe: &Recipe, role: Role, name: &str) -> (Program, String) {
    loop {
        let mut program = Program::logging_to(recipe.log(name), recipe.command(role));
        if let Some(line) = program.line().await.filter(|line| line.contains(" ready ")) {
            return (program, line);
        }
        tokio::time::sleep(RESTART_REST).await;
    }
}

/// The last word of the line that says that an instance is ready.
fn address(line: &str) -> String {
    line.rsplit(' ').next().unwrap_or_default().to_owned()
}

fn lock<T>(on: &Sync<T>) -> std::sync::MutexGuard<'_, T> {
    on.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them.
pub(super) struct Fleet {
    apis: Vec<Instance>,
    workers: Vec<Instance>,
}

impl Fleet {
    /// Starts them.
    pub async fn start(storm: &Storm, surroundings: &Surroundings) -> Self {
        let recipe = Arc::new(Recipe {
            program: storm.program.clone(),
            database_url: surroundings.database_url.clone(),
            acquirer_url: surroundings.road.url.clone(),
            keys: storm.keys,
            logs: storm.logs.clone(),
        });
        let (mut apis, mut workers) = (Vec::new(), Vec::new());
        for number in 1..=APIS {
            apis.push(Instance::start(recipe.clone(), Role::Api, number).await);
        }
        for number in 1..=WORKERS {
            workers.push(Instance::start(recipe.clone(), Role::Worker, number).await);
        }
        Self { apis, workers }
    }

    /// Any instance of a role.
    pub fn any(&self, role: Role, chance: &mut StdRng) -> &Instance {
        let of_role = match role {
            Role::Api => &self.apis,
            Role::Worker => &self.workers,
        };
        &of_role[chance.random_range(0..of_role.len())]
    }

    /// Where any api is; it may be dead, or about to be.
    pub fn api_url(&self, chance: &mut StdRng) -> String {
        lock(&self.any(Role::Api, chance).url).clone()
    }

    fn all(&self) -> impl Iterator<Item = &Instance> {
        self.apis.iter().chain(&self.workers)
    }

    /// Asks all to stop, in order; what is wrong with how they do.
    pub async fn stop(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for instance in self.all() {
            wrong.extend(instance.stop().await);
        }
        wrong
    }

    /// Which processes ended although nobody struck them.
    pub fn ended_alone(&self) -> Vec<String> {
        self.all().flat_map(|instance| std::mem::take(&mut *lock(&instance.ended_alone))).collect()
    }
}
