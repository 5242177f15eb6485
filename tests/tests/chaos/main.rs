//! The chaos test in its short form; `cargo run --release -p tests --bin chaos` is the long one.

use std::time::Duration;
use tests::chaos::{Report, Storm, run};

/// A storm that is over within half a minute, on a machine that has little else to do.
async fn a_short_storm(seed: u64, keys: bool) -> Report {
    let program = env!("CARGO_BIN_EXE_chaos").into();
    let storm = Storm { payments: 300, kills: 10, seed, keys, program, logs: None };
    let report = tokio::time::timeout(Duration::from_secs(240), run(storm)).await.expect("the storm ends");
    assert_eq!(report.kills(), 10, "{report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_charges_nobody_twice_loses_nothing_and_changes_no_final_answer() {
    let report = a_short_storm(1, true).await;
    assert!(report.holds(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_it_with_an_acquirer_that_would_charge_again_for_every_second_send() {
    let report = a_short_storm(2, false).await;
    assert!(report.holds(), "{report}");
}
