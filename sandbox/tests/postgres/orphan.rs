//! A parent that dies without a word: its server must not outlive it, its data must.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sandbox::postgres::{Options, Postgres};

use crate::support::{kept, open_directory, run_sql, runs, sql, until};

/// Tells the parent process of these tests that it is one.
const PLAY_PARENT: &str = "SANDBOX_TEST_PLAY_PARENT";

/// The process that the tests below start and kill; with nobody to play for it ends at once.
#[tokio::test]
async fn play_the_parent() {
    let Some(data) = env::var_os(PLAY_PARENT) else {
        return;
    };
    let data = Some(PathBuf::from(data)).filter(|path| !path.as_os_str().is_empty());
    let postgres = Postgres::start(Options { data, ..Options::default() });
    let postgres = postgres.await.unwrap();
    let pid = postgres.pid().unwrap();
    let directory = postgres.directory().display();
    println!("\nRUNS {pid} {} {directory}", postgres.url("postgres"));
    std::future::pending::<()>().await;
}

struct Parent {
    process: Child,
    server: u32,
    url: String,
    directory: PathBuf,
}

impl Parent {
    fn start(data: &Path) -> Parent {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--exact", "orphan::play_the_parent", "--nocapture"])
            .env(PLAY_PARENT, data)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut lines = lines.map(Result::unwrap);
        let line = lines.find(|line| line.starts_with("RUNS ")).unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        Parent {
            process,
            server: words[1].parse().unwrap(),
            url: words[2].to_owned(),
            directory: PathBuf::from(words[3]),
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn a_killed_parent_leaves_no_server_and_no_throw_away_directory() {
    let mut parent = Parent::start(Path::new(""));
    assert!(runs(parent.server) && parent.directory.exists());
    parent.kill();
    until("the server is gone", || !runs(parent.server)).await;
    until("the directory is gone", || !parent.directory.exists()).await;
}

#[tokio::test]
async fn the_data_of_a_killed_parent_is_recovered_at_once() {
    let data = open_directory();
    let mut parent = Parent::start(data.path());
    let binaries = sandbox::postgres::find_binaries().unwrap();
    run_sql(&binaries.directory, &parent.url, "create table t as select 42 as x");
    parent.kill();
    // No waiting: the leftover server may be running, stopping or gone.
    let postgres = Postgres::start(kept(data.path())).await.unwrap();
    assert_eq!(sql(&postgres, "select x from t"), "42");
    assert!(!runs(parent.server));
}

#[tokio::test]
async fn a_server_without_parent_and_watchdog_is_stopped_by_the_next_owner() {
    let data = open_directory();
    let mut parent = Parent::start(data.path());
    kill_watchdogs_of(parent.process.id());
    parent.kill();
    assert!(runs(parent.server));
    let postgres = Postgres::start(kept(data.path())).await.unwrap();
    assert!(!runs(parent.server));
    assert_eq!(sql(&postgres, "select 1"), "1");
}

fn kill_watchdogs_of(parent: u32) {
    let children = Command::new("ps").args(["-o", "pid=,args=", "--ppid", &parent.to_string()]).output().unwrap();
    let children = String::from_utf8(children.stdout).unwrap();
    let shells = children.lines().filter(|line| line.contains("/bin/sh"));
    let pids: Vec<&str> = shells.filter_map(|l| l.split_whitespace().next()).collect();
    assert_eq!(pids.len(), 1, "{children}");
    let kill = Command::new("kill").args(["-KILL", pids[0]]).status();
    assert!(kill.unwrap().success());
}
