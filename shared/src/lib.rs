//! The domain of payonce: the life of a payment, its queue and its fences. No HTTP server in here,
//! and no HTTP client: the API and the workers stand on this crate and never on each other.

pub mod acquirer;
pub mod clock;
pub mod committer;
pub mod config;
pub mod credential;
pub mod db;
pub mod merchant;
pub mod operator;
pub mod outbox;
pub mod payment;
pub mod queue;
pub mod retention;
pub mod review;
pub mod telemetry;
pub mod text;
