//! Writing for people and pipes.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};
use time::format_description::well_known::Rfc3339;
use time::{OffsetDateTime, UtcOffset};

/// A line on the standard output. Where nobody reads it any more (`payonce merchant list | head`)
/// nothing is lost, so that is no failure; `println!` would panic.
pub fn say(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// What went wrong, on the standard error.
pub fn complain(failure: &impl Display) {
    let _ = writeln!(stderr(), "error: {failure}");
}

/// A time in UTC, to the second.
pub fn second(at: OffsetDateTime) -> String {
    let at = at.to_offset(UtcOffset::UTC);
    at.replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_else(|_| at.to_string())
}
