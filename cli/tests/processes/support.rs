//! Starting `payonce` and hearing what it says.

use rustix::process::{Pid, Signal, kill_process};
use sandbox::postgres::{Options, Postgres};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// `payonce` with these arguments and nothing of the environment that would configure it.
pub fn payonce(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payonce"));
    let foreign = std::env::vars_os().map(|(name, _)| name);
    for name in foreign.filter(|name| name.to_string_lossy().starts_with("PAYONCE_") || name == "DATABASE_URL") {
        command.env_remove(name);
    }
    // Whatever lies in the repository must not be read.
    command.args(arguments).current_dir(std::env::temp_dir());
    command
}

/// `payonce` on a database, with an acquirer at the port.
pub fn payonce_on(database: &Postgres, acquirer_url: &str, arguments: &[&str]) -> Command {
    let mut command = payonce(arguments);
    command.env("DATABASE_URL", database.url("postgres"));
    command.env("PAYONCE_ACQUIRERS__DEFAULT__KIND", "http").env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", acquirer_url);
    command
}

/// Runs a command to its end.
pub fn run(mut command: Command) -> Ended {
    Ended::of(command.output().expect("payonce can be run"))
}

/// What a command said, and how it ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// A command that runs until it is told to stop; killed when dropped.
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("payonce can be run");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, out }
    }

    /// The next line it says.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a pipe");
        line.trim_end().to_owned()
    }

    /// The address in its ready line.
    pub fn ready_url(&mut self) -> String {
        let line = self.line();
        line.split_once(" ready on ").unwrap_or_else(|| panic!("no address in {line:?}")).1.to_owned()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it runs");
    }

    /// Its exit code, and what it said since the last line.
    pub fn ended(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        while self.child.try_wait().expect("a child").is_none() {
            assert!(began.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).expect("a pipe");
        (self.child.wait().expect("a child").code(), rest)
    }

    pub fn stopped_by(self, signal: Signal) -> (Option<i32>, String) {
        self.signal(signal);
        self.ended()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only for one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An empty database.
pub async fn postgres() -> Postgres {
    Postgres::start(Options::default()).await.unwrap_or_else(|error| panic!("{error}"))
}

/// Posts a payment and waits for its end, or not.
pub async fn pay(api_url: &str, api_key: &str, order: &str, method: &str, prefer: &str) -> Value {
    worker::acquirer::install_tls();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body =
        json!({"payment_intent_id": order, "amount_minor": 1999, "currency": "EUR", "payment_method_id": method});
    let request = http.post(format!("{api_url}/v1/payments")).bearer_auth(api_key).json(&body);
    let request = request.header("Idempotency-Key", format!("{order}-try-1")).header("Prefer", prefer);
    request.send().await.expect("an answer").json().await.expect("JSON")
}
