//! `payonce` as a process.

use std::process::Stdio;
use tests::World;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A running `payonce`, killed when dropped.
pub struct Program {
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What a `payonce` that ended said.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// A command with this world's database and acquirer in its environment, and nothing else of ours.
pub fn command(world: &World, args: &[&str]) -> Command {
    let acquirer = world.acquirer.base_url();
    let mut command = bare(args);
    command
        .env("DATABASE_URL", &world.database.url)
        .env("PAYONCE_ACQUIRERS__DEFAULT__KIND", "http")
        .env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", acquirer)
        .env("PAYONCE_ACQUIRERS__DEFAULT__TTL_H", "24")
        .env("PAYONCE_ACQUIRERS__DEFAULT__CONNECT_MS", "200")
        .env("PAYONCE_ACQUIRERS__DEFAULT__READ_MS", "300")
        .env("PAYONCE_ACQUIRERS__DEFAULT__DEADLINE_MS", "1500")
        .env("PAYONCE_ACQUIRERS__DEFAULT__ABSENCE_FINAL_AFTER_MS", "600")
        .env("PAYONCE_WORKER__LEASE_MS", "2000")
        .env("PAYONCE_WORKER__GRACE_MS", "100")
        .env("PAYONCE_STEPS__LOOKUP__BACKOFF_MS", "[100, 200]")
        .env("PAYONCE_API__LISTEN", "127.0.0.1:0");
    command
}

/// A command without a database.
pub fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payonce_under_test"));
    command.args(args).env_remove("DATABASE_URL").kill_on_drop(true).stdin(Stdio::null());
    command.current_dir(std::env::temp_dir());
    command
}

impl Program {
    /// Starts it; what it logs goes nowhere.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("payonce starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    /// The next line on its standard output; `None` when there are no more.
    pub async fn line(&mut self) -> Option<String> {
        self.lines.next_line().await.expect("UTF-8")
    }

    /// Waits for the line that says it is ready.
    pub async fn ready(&mut self) -> String {
        let line = self.line().await.expect("a line");
        assert!(line.contains(" ready "), "{line}");
        line
    }

    /// Sends a signal by name.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent = std::process::Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(sent.success(), "kill -{name} {pid}");
    }

    /// Waits until it ends.
    pub async fn ended(&mut self) -> Option<i32> {
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), self.child.wait()).await;
        ended.expect("it ends within 30 s").expect("it can be waited for").code()
    }
}

/// Runs a command to its end.
pub async fn ran(mut command: Command) -> Ended {
    let output = command.output().await.expect("payonce runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}
