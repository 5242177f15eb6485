//! The embedded Postgres, as started by whoever runs the tests (root or not).

mod crash;
mod life;
mod orphan;
mod support;
