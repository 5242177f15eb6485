//! Real processes: killed, stopped, started against the wrong database.

mod commands;
mod contracts;
mod dev;
mod operators;
mod payment;
mod program;
mod reviews;
mod stopping;
mod takeover;
