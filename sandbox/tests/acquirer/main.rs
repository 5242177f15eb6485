//! The simulated acquirer, seen through a real HTTP client.

mod books;
mod faults;
mod keys;
mod lookups;
mod methods;
mod support;
