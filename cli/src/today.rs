//! This machine's day, for what is counted in days.

use time::{Date, OffsetDateTime};

/// Today, in UTC.
#[expect(clippy::disallowed_methods, reason = "a day more or less does not matter, and the database may be away")]
pub fn today() -> Date {
    OffsetDateTime::now_utc().date()
}
