//! The embedded Postgres, as started by whoever runs the tests (root or not).

// Clippy knows test functions, but not their helpers.
#![allow(clippy::unwrap_used)]

mod crash;
mod life;
mod orphan;
mod support;
