//! Start, stop, and what goes wrong.

use std::net::{Ipv4Addr, TcpListener};

use sandbox::postgres::{Options, Postgres, StartError, find_binaries};

use crate::support::{kept, open_directory, runs, sql, throw_away};

#[tokio::test]
async fn a_server_starts_and_leaves_nothing_behind() {
    let postgres = throw_away().await;
    assert_eq!(sql(&postgres, "select 1 + 1"), "2");
    let (pid, directory) = (postgres.pid().unwrap(), postgres.directory().to_owned());
    assert!(runs(pid) && directory.exists());
    drop(postgres);
    assert!(!runs(pid), "the server still runs");
    assert!(!directory.exists(), "{} is still there", directory.display());
}

#[tokio::test]
async fn a_server_is_durable_and_reachable_by_tcp_only() {
    let postgres = throw_away().await;
    let show = |name: &str| sql(&postgres, &format!("show {name}"));
    assert_eq!((show("fsync"), show("synchronous_commit")), ("on".into(), "on".into()));
    assert_eq!(show("unix_socket_directories"), "");
    assert_eq!(show("listen_addresses"), "127.0.0.1");
    assert_eq!(show("server_encoding"), "UTF8");
}

#[tokio::test]
async fn more_settings_are_passed_on() {
    let options = Options { settings: vec![("max_connections".into(), "17".into())], ..Options::default() };
    let postgres = Postgres::start(options).await.unwrap();
    assert_eq!(sql(&postgres, "show max_connections"), "17");
}

#[tokio::test]
async fn a_kept_directory_holds_its_data_over_a_stop() {
    let parent = open_directory();
    let data = parent.path().join("data");
    let mut postgres = Postgres::start(kept(&data)).await.unwrap();
    sql(&postgres, "create table t as select 42 as x");
    postgres.stop().await.unwrap();
    assert_eq!(postgres.pid(), None);
    drop(postgres);
    let postgres = Postgres::start(kept(&data)).await.unwrap();
    assert_eq!(sql(&postgres, "select x from t"), "42");
}

#[tokio::test]
async fn a_directory_in_use_is_refused() {
    let parent = open_directory();
    let _postgres = Postgres::start(kept(parent.path())).await.unwrap();
    let second = Postgres::start(kept(parent.path())).await;
    assert!(matches!(second, Err(StartError::InUse { .. })));
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let options = Options { port, ..Options::default() };
    let error = Postgres::start(options).await.err().unwrap();
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    assert!(matches!(error, StartError::PortTaken { .. }));
}

#[tokio::test]
async fn a_failing_server_shows_its_log() {
    let options = Options { settings: vec![("shared_buffers".into(), "nonsense".into())], ..Options::default() };
    let error = Postgres::start(options).await.err().unwrap();
    assert!(error.to_string().contains("shared_buffers"), "{error}");
}

#[tokio::test]
async fn an_unfinished_initdb_is_begun_anew() {
    let parent = open_directory();
    let draft = parent.path().join("pgdata.new");
    std::fs::create_dir(&draft).unwrap();
    std::fs::write(draft.join("PG_VERSION"), "15\n").unwrap();
    let postgres = Postgres::start(kept(parent.path())).await.unwrap();
    assert_eq!(sql(&postgres, "select 1"), "1");
}

#[test]
fn the_binaries_are_a_real_folder_with_a_new_enough_server() {
    let binaries = find_binaries().unwrap();
    assert!(binaries.major >= 15);
    assert!(binaries.directory.join("postgres").is_file());
    assert_eq!(binaries.directory, binaries.directory.canonicalize().unwrap());
}
