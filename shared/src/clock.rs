//! The database's time, carried by a process without asking again.

use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::Instant;

/// What the database's clock showed at some moment, and how long ago that was by the process's own
/// monotonic clock. Errs to the late side by at most one round trip: `taken` is noted *before*
/// the statement is sent that reads the database's clock.
#[derive(Clone, Copy, Debug)]
pub struct DbClock {
    shown: OffsetDateTime,
    taken: Instant,
}

impl DbClock {
    /// `shown` is the database's `now()` of a statement that was sent at `taken`.
    #[must_use]
    pub const fn new(shown: OffsetDateTime, taken: Instant) -> Self {
        Self { shown, taken }
    }

    /// The database's time, in whole microseconds as the database keeps it.
    #[must_use]
    pub fn now(&self) -> OffsetDateTime {
        let now = self.shown + self.taken.elapsed();
        now.replace_microsecond(now.microsecond()).unwrap_or(now)
    }

    /// When `after` the shown time is reached, by this process's clock.
    #[must_use]
    pub fn instant_after(&self, after: Duration) -> Instant {
        self.taken + after
    }
}
