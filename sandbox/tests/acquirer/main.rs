//! The simulated acquirer, seen through a real HTTP client.

// Clippy knows test functions, but not their helpers.
#![allow(clippy::unwrap_used)]

mod books;
mod contracts;
mod faults;
mod keys;
mod lookups;
mod methods;
mod support;
mod webhooks;
