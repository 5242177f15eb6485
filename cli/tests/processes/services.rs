//! `payonce api`, `payonce worker`, `payonce sandbox acquirer`: separate processes, stopped by signals.

use crate::support::{Running, pay, payonce, payonce_on, postgres, run};
use rustix::process::Signal;
use sandbox::postgres::Postgres;
use serde_json::Value;
use std::process::Command;

/// What api and worker need: a migrated database, an acquirer, a merchant.
struct Ground {
    database: Postgres,
    acquirer: Running,
    acquirer_url: String,
    api_key: String,
}

impl Ground {
    async fn new() -> Self {
        let database = postgres().await;
        let mut acquirer = Running::start(payonce(&["sandbox", "acquirer", "--port", "0"]));
        let acquirer_url = acquirer.ready_url();
        let mut ground = Self { database, acquirer, acquirer_url, api_key: String::new() };
        assert_eq!(run(ground.payonce(&["migrate"])).code, Some(0));
        let made = run(ground.payonce(&["merchant", "create", "acme", "--json"]));
        let made: Value = serde_json::from_str(&made.out).expect("JSON");
        made["api_key"].as_str().expect("a key").clone_into(&mut ground.api_key);
        ground
    }

    fn payonce(&self, arguments: &[&str]) -> Command {
        payonce_on(&self.database, &self.acquirer_url, arguments)
    }
}

#[tokio::test]
async fn api_worker_and_acquirer_pay_together_and_stop_cleanly() {
    let ground = Ground::new().await;
    let mut api = Running::start(ground.payonce(&["api", "--listen", "127.0.0.1:0"]));
    let mut worker = Running::start(ground.payonce(&["worker", "--concurrency", "2"]));
    let api_url = api.ready_url();
    assert!(worker.line().starts_with("payonce worker ready as "));
    let payment = pay(&api_url, &ground.api_key, "order-1", "pm_ok", "wait=5").await;
    assert_eq!(payment["status"], "PAID", "{payment}");

    let doctor = run(ground.payonce(&["doctor"]));
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(doctor.out.lines().all(|line| line.starts_with('✓')), "{doctor:?}");

    for (service, signal) in [(api, Signal::TERM), (worker, Signal::INT), (ground.acquirer, Signal::TERM)] {
        assert_eq!(service.stopped_by(signal), (Some(0), String::new()), "one line when ready and no more");
    }
}

#[tokio::test]
async fn a_stopped_worker_finishes_what_it_runs() {
    let ground = Ground::new().await;
    let mut api = Running::start(ground.payonce(&["api", "--listen", "127.0.0.1:0"]));
    let api_url = api.ready_url();
    let mut worker = Running::start(ground.payonce(&["worker"]));
    worker.line();

    // pm_slow takes two seconds, so that after one the charge is on its way.
    let begun = pay(&api_url, &ground.api_key, "order-1", "pm_slow", "wait=1").await;
    assert_eq!(begun["status"], "PENDING", "{begun}");
    assert_eq!(worker.stopped_by(Signal::TERM).0, Some(0));
    let done = pay(&api_url, &ground.api_key, "order-1", "pm_slow", "wait=0").await;
    assert_eq!(done["status"], "PAID", "{done}");
}
