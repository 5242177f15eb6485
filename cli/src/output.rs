//! Writing for people and pipes.

use std::fmt::Display;
use std::io::{Write, stderr, stdout};

/// A line on the standard output. Where nobody reads it any more (`payonce merchant list | head`)
/// nothing is lost, so that is no failure; `println!` would panic.
pub fn say(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// What went wrong, on the standard error.
pub fn complain(failure: &impl Display) {
    let _ = writeln!(stderr(), "error: {failure}");
}
