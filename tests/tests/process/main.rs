//! Real processes: killed, stopped, started against the wrong database.

mod commands;
mod dev;
mod program;
mod stopping;
mod takeover;
