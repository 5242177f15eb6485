//! What stands in for the outside world.
//!
//! - [`postgres`]: a real Postgres server, started from the machine's own binaries, which
//!   never outlives the process that asked for it;
//! - [`acquirer`]: a simulated acquirer behind a real HTTP server, with a ledger that tells
//!   how often money moved and with every fault a payment service must survive;
//! - [`profiles`]: contracts of acquirers as real ones publish them, to be played by it.
//!
//! Architecture Invariant: nothing here knows the payment service. The crate depends on none
//! of `shared`, `worker` and `api`, so that what it says about them is a second opinion.

pub mod acquirer;
pub mod postgres;
pub mod profiles;
