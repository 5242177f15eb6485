//! The chaos test in its short form; `cargo run --release -p tests --bin chaos` is the long one.

use std::time::Duration;
use tests::chaos::{Storm, run};

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_charges_nobody_twice_loses_nothing_and_changes_no_final_answer() {
    let program = env!("CARGO_BIN_EXE_chaos").into();
    let storm = Storm { payments: 300, kills: 10, seed: 1, program, logs: None };
    let report = tokio::time::timeout(Duration::from_secs(240), run(storm)).await.expect("it ends");
    assert!(report.holds(), "{report}");
    assert!(report.kills() >= 8, "{report}");
}
