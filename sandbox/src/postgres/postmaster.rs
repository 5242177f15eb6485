//! What `postmaster.pid` and the process table say about a cluster's server.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::time::sleep;

use super::error::StartError;

/// Between two looks at something that will change soon.
pub(super) const GLANCE: Duration = Duration::from_millis(5);
/// For a leftover server to write its last checkpoint.
const LEFTOVER_STOPS_WITHIN: Duration = Duration::from_secs(30);
const LEFTOVER_DIES_WITHIN: Duration = Duration::from_secs(10);

/// The lines of `postmaster.pid` that matter.
pub(super) struct PidFile {
    pub pid: u32,
    /// Line 8 says `ready`: connections are taken.
    pub ready: bool,
}

impl PidFile {
    /// Reads the file; `None` while there is none or it is half written.
    pub fn read(pgdata: &Path) -> Option<PidFile> {
        let text = fs::read_to_string(pgdata.join("postmaster.pid")).ok()?;
        let mut lines = text.lines();
        let pid = lines.next()?.trim().parse().ok()?;
        let ready = lines.nth(6).is_some_and(|line| line.trim() == "ready");
        Some(PidFile { pid, ready })
    }
}

/// Makes way for a new server: stops one that an earlier run left behind, and removes a pid
/// file that now names a stranger, which Postgres would take for a server.
///
/// The directory's lock is ours by now, so a server found here has no owner.
pub(super) async fn clear_away(pgdata: &Path) -> Result<(), StartError> {
    let Some(file) = PidFile::read(pgdata) else {
        return Ok(());
    };
    if serves(file.pid, pgdata) {
        stop_leftover(file.pid, pgdata).await;
    } else if is_alive(file.pid) {
        let removed = fs::remove_file(pgdata.join("postmaster.pid"));
        return ignore_missing(removed).map_err(StartError::io("remove a stale postmaster.pid"));
    }
    // The file of a dead server stays: Postgres itself checks that its children are gone too.
    Ok(())
}

fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

async fn stop_leftover(pid: u32, pgdata: &Path) {
    let patience = [(Signal::INT, LEFTOVER_STOPS_WITHIN), (Signal::QUIT, LEFTOVER_DIES_WITHIN)];
    for (how, within) in patience {
        signal(pid, how);
        let gone = async {
            while serves(pid, pgdata) {
                sleep(GLANCE).await;
            }
        };
        if tokio::time::timeout(within, gone).await.is_ok() {
            return;
        }
    }
}

/// Sends a signal; a process that is gone already is what most signals are for.
pub(super) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = as_pid(pid) {
        let _ = kill_process(pid, signal);
    }
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn is_alive(pid: u32) -> bool {
    let probe = as_pid(pid).map(test_kill_process);
    matches!(probe, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

/// Whether a living process is the server of this cluster, and not one that got its number.
pub(super) fn serves(pid: u32, pgdata: &Path) -> bool {
    let Some(pgdata) = pgdata.to_str() else {
        return false;
    };
    let command_line = command_line(pid).unwrap_or_default();
    command_line.contains("postgres") && command_line.contains(pgdata)
}

/// The command line of a process; empty or `None` once it has ended.
fn command_line(pid: u32) -> Option<String> {
    match fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(_) if Path::new("/proc/self").exists() => None,
        // Systems without /proc.
        Err(_) => {
            let pid = pid.to_string();
            let output = Command::new("ps").args(["-o", "args=", "-p", &pid]).output();
            Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_pid_file_that_names_a_stranger_is_removed() {
        let pgdata = tempfile::tempdir().unwrap();
        let file = pgdata.path().join("postmaster.pid");
        fs::write(&file, format!("{}\n", std::process::id())).unwrap();
        clear_away(pgdata.path()).await.unwrap();
        assert!(!file.exists());
    }

    #[tokio::test]
    async fn a_pid_file_of_a_dead_server_is_left_to_postgres() {
        let pgdata = tempfile::tempdir().unwrap();
        let file = pgdata.path().join("postmaster.pid");
        let mut ended = Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        fs::write(&file, format!("{}\n", ended.id())).unwrap();
        clear_away(pgdata.path()).await.unwrap();
        assert!(file.exists());
    }

    #[test]
    fn a_server_is_ready_when_line_eight_says_so() {
        let pgdata = tempfile::tempdir().unwrap();
        let file = pgdata.path().join("postmaster.pid");
        fs::write(&file, "4711\n/data\n1\n5432\n\n127.0.0.1\n 1 2\nstarting\n").unwrap();
        assert!(PidFile::read(pgdata.path()).is_some_and(|f| f.pid == 4711 && !f.ready));
        fs::write(&file, "4711\n/data\n1\n5432\n\n127.0.0.1\n 1 2\nready   \n").unwrap();
        assert!(PidFile::read(pgdata.path()).is_some_and(|f| f.ready));
    }
}
