//! What is told when something is missing: in sentences, with exit code 1, with what to do.

use crate::support::{Ended, payonce, payonce_on, postgres, run};
use std::io::Write;

fn assert_told(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.starts_with("error: ") && ended.out.is_empty(), "{ended:?}");
    for words in words {
        assert!(ended.err.contains(words), "{words}: {ended:?}");
    }
}

#[tokio::test]
async fn a_database_without_migrations_is_refused() {
    let database = postgres().await;
    for service in ["api", "worker"] {
        let ended = run(payonce_on(&database, "http://127.0.0.1:1", &[service]));
        assert_told(&ended, &["lacks migrations", "run `payonce migrate`"]);
    }
}

#[test]
fn a_database_that_is_away_is_named_without_its_password() {
    let mut worker = payonce(&["merchant", "list"]);
    worker.env("DATABASE_URL", "postgres://payonce:hunter2@127.0.0.1:1/payonce");
    let ended = run(worker);
    assert_told(&ended, &["cannot be reached", "refused", "127.0.0.1:1/payonce"]);
    assert!(!ended.err.contains("hunter2"), "{ended:?}");
}

#[test]
fn a_service_without_an_acquirer_is_refused() {
    let mut api = payonce(&["api"]);
    api.env("DATABASE_URL", "postgres://127.0.0.1:1/payonce");
    assert_told(&run(api), &["no acquirer is configured", "[acquirers.default]"]);
}

#[tokio::test]
async fn dev_keeps_away_from_a_database_with_other_merchants() {
    let database = postgres().await;
    let on = |arguments: &[&str]| payonce_on(&database, "http://127.0.0.1:1", arguments);
    run(on(&["migrate"]));
    run(on(&["merchant", "create", "acme"]));
    let ended = run(on(&["dev", "--listen", "127.0.0.1:0", "--acquirer-listen", "127.0.0.1:0"]));
    assert_told(&ended, &["none of them is the demo merchant"]);
}

#[test]
fn every_fault_of_a_configuration_is_told_at_once() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"databse_url = \"x\"\n[api]\nlisten = \"localhost\"\n[worker]\nlease_ms = 0\n").expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let faults = ["databse_url: there is no such key", "api.listen: ", "worker.lease_ms = 0"];
    assert_told(&run(payonce(&["worker", "--config", path])), &faults);
    let doctor = run(payonce(&["doctor", "--config", path]));
    assert_eq!((doctor.code, doctor.out.matches('✗').count()), (Some(1), 3), "{doctor:?}");
}

#[test]
fn a_doctor_tells_what_is_wrong_on_one_line_each() {
    let mut doctor = payonce(&["doctor"]);
    doctor.env("DATABASE_URL", "postgres://127.0.0.1:1/payonce");
    doctor.env("PAYONCE_ACQUIRERS__DEFAULT__KIND", "http");
    doctor.env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", "http://127.0.0.1:1");
    let ended = run(doctor);
    let lines: Vec<&str> = ended.out.lines().collect();
    assert_eq!(ended.code, Some(1));
    assert!(lines[0].starts_with("✓ configuration") && lines[1].starts_with("✗ database"), "{ended:?}");
    assert!(lines[2].starts_with("✗ acquirer") && lines.len() == 3, "{ended:?}");
}
