//! `payonce` as a process of its own.

use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// A running `payonce`, killed when dropped.
pub struct Program {
    /// The process.
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// What a `payonce` that ended said.
pub struct Ended {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
}

impl Program {
    /// Starts it; what it logs goes nowhere.
    #[must_use]
    pub fn start(command: Command) -> Self {
        Self::logging_to(Stdio::null(), command)
    }

    /// Starts it, with a place for what it logs.
    #[must_use]
    pub fn logging_to(logs: Stdio, mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(logs).kill_on_drop(true);
        let mut child = command.spawn().expect("payonce starts");
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
