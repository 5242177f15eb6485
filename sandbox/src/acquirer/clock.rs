//! The acquirer's clock: milliseconds since it started.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Counts ms in a `u32`, which is enough for 49 days and keeps the ledger small.
pub(super) struct Clock {
    started: Instant,
    started_unix_ms: u64,
}

impl Clock {
    // The sandbox is the outside world, which has a wall clock of its own.
    #[allow(clippy::disallowed_methods)]
    pub fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let started_unix_ms = since_epoch.unwrap_or(Duration::ZERO).as_millis() as u64;
        Clock { started: Instant::now(), started_unix_ms }
    }

    /// Now, in ms since the start.
    pub fn now_ms(&self) -> u32 {
        u32::try_from(self.started.elapsed().as_millis()).unwrap_or(u32::MAX)
    }

    /// Now, in seconds since 1970.
    pub fn unix_s(&self) -> u64 {
        (self.started_unix_ms + u64::from(self.now_ms())) / 1_000
    }

    /// When the acquirer started, in ms since 1970.
    pub fn started_unix_ms(&self) -> u64 {
        self.started_unix_ms
    }
}
