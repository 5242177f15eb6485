//! Looking at a server from outside.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sandbox::postgres::{Options, Postgres};

pub async fn throw_away() -> Postgres {
    Postgres::start(Options::default()).await.unwrap()
}

pub fn kept(path: &Path) -> Options {
    Options { data: Some(path.to_owned()), ..Options::default() }
}

/// A directory that any user can enter: the tests may run as root.
pub fn open_directory() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    directory
}

/// Runs SQL through the `psql` beside the server and returns what it prints.
pub fn sql(postgres: &Postgres, statement: &str) -> String {
    run_sql(&postgres.binaries().directory, &postgres.url("postgres"), statement)
}

pub fn run_sql(binaries: &Path, url: &str, statement: &str) -> String {
    let output = Command::new(binaries.join("psql"))
        .args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", statement])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether a process runs (one that ended but was not reaped does not).
pub fn runs(pid: u32) -> bool {
    let state = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&state.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

/// Waits for something to come true, ten seconds at most.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} never came true");
}
