//! Crashes of the server under a living owner.

use std::process::Command;

use sandbox::postgres::Postgres;

use crate::support::{kept, open_directory, runs, sql, throw_away, until};

#[tokio::test]
async fn a_killed_server_restarts_on_its_port_with_what_was_committed() {
    let mut postgres = throw_away().await;
    let port = postgres.port();
    sql(&postgres, "create table t as select 42 as x");
    postgres.kill().await.unwrap();
    postgres.restart().await.unwrap();
    assert_eq!(postgres.port(), port);
    assert_eq!(sql(&postgres, "select x from t"), "42");
}

#[tokio::test]
async fn a_stopped_server_restarts() {
    let mut postgres = throw_away().await;
    postgres.stop().await.unwrap();
    postgres.restart().await.unwrap();
    assert_eq!(sql(&postgres, "select 1"), "1");
}

#[tokio::test]
async fn a_server_killed_behind_our_back_restarts() {
    let mut postgres = throw_away().await;
    let pid = postgres.pid().unwrap();
    let kill = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
    assert!(kill.unwrap().success());
    until("the server is gone", || !runs(pid)).await;
    postgres.restart().await.unwrap();
    assert_eq!(sql(&postgres, "select 1"), "1");
}

#[tokio::test]
async fn a_crashed_directory_is_recovered_by_the_next_owner() {
    let parent = open_directory();
    let mut postgres = Postgres::start(kept(parent.path())).await.unwrap();
    sql(&postgres, "create table t as select 42 as x");
    postgres.kill().await.unwrap();
    drop(postgres);
    let postgres = Postgres::start(kept(parent.path())).await.unwrap();
    assert_eq!(sql(&postgres, "select x from t"), "42");
}
