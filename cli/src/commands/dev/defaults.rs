//! What `dev` runs with where nothing else is said.

use shared::config::{Acquirer, Config};

/// The defaults, with times short enough to watch a payment being recovered, and one acquirer.
pub fn short_times() -> Config {
    let mut config = Config::default();
    // `dev` sets the address once the simulated acquirer has one.
    let acquirer = Acquirer { absence_final_after_ms: 5_000, ..Acquirer::at("http://127.0.0.1") };
    config.acquirers.insert(config.default_acquirer.clone(), acquirer);
    config.worker.grace_ms = 2_000;
    // Longer than the acquirer's deadline_ms, short enough to wait for after a kill.
    config.worker.lease_ms = 10_000;
    config.steps.lookup.backoff_ms = vec![1_000, 2_000, 5_000, 15_000, 60_000];
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_times_agree_with_each_other() {
        assert!(short_times().checked().is_ok());
    }
}
