//! `payonce` as a process in a world.

use std::process::Stdio;
use tests::World;
pub use tests::program::{Program, ran};
use tokio::process::Command;

/// A command with this world's database and acquirer in its environment, and nothing else of ours.
pub fn command(world: &World, args: &[&str]) -> Command {
    let acquirer = world.acquirer.base_url();
    let mut command = bare(args);
    command
        .env("DATABASE_URL", &world.database.url)
        .env("PAYONCE_ACQUIRERS__DEFAULT__KIND", "http")
        .env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", acquirer)
        .env("PAYONCE_ACQUIRERS__DEFAULT__TTL_H", "24")
        .env("PAYONCE_ACQUIRERS__DEFAULT__CONNECT_MS", "200")
        .env("PAYONCE_ACQUIRERS__DEFAULT__READ_MS", "300")
        .env("PAYONCE_ACQUIRERS__DEFAULT__DEADLINE_MS", "1500")
        .env("PAYONCE_ACQUIRERS__DEFAULT__ABSENCE_FINAL_AFTER_MS", "600")
        .env("PAYONCE_WORKER__LEASE_MS", "2000")
        .env("PAYONCE_WORKER__GRACE_MS", "100")
        .env("PAYONCE_STEPS__LOOKUP__BACKOFF_MS", "[100, 200]")
        .env("PAYONCE_API__LISTEN", "127.0.0.1:0");
    command
}

/// A command without a database.
pub fn bare(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_payonce_under_test"));
    command.args(args).env_remove("DATABASE_URL").kill_on_drop(true).stdin(Stdio::null());
    command.current_dir(std::env::temp_dir());
    command
}
