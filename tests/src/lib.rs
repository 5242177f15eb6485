//! The test harness: a world of its own for every test, made of the real things: a Postgres database,
//! the sandbox acquirer over HTTP, api instances and workers that can be stopped, or crash.

#![expect(clippy::missing_panics_doc, reason = "a harness that panics fails its test, which is its purpose")]

pub mod by_hand;
pub mod chaos;
pub mod client;
pub mod database;
pub mod localstripe;
pub mod points;
pub mod program;
pub mod road;
pub mod rows;
pub mod world;

pub use by_hand::ByHand;
pub use client::{Answer, Client};
pub use points::Point;
pub use road::Road;
pub use rows::Rows;
pub use world::{Api, Worker, World};

use std::future::Future;
use std::time::Duration;

/// Waits until `look` finds something, looking every few milliseconds; fails the test after 30 s.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let looking = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looking).await.unwrap_or_else(|_| panic!("never came about: {what}"))
}
