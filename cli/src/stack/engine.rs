//! What every process of the service has of its own.

use crate::database;
use crate::failure::Failure;
use shared::committer::Committer;
use shared::config::Config;
use shared::queue::wake::Notifier;
use shared::telemetry::Metrics;
use sqlx::PgPool;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long connections may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// A pool, and what writes and wakes through it.
#[derive(Clone)]
pub struct Engine {
    pub pool: PgPool,
    pub notifier: Notifier,
    pub committer: Committer,
}

impl Engine {
    /// Starts one; `name` is what the database shows of its connections.
    pub fn start(config: &Config, metrics: &Arc<Metrics>, name: &str) -> Result<Self, Failure> {
        let pool = database::pool(config, config.database_connections, name)?;
        let notifier = Notifier::start(&pool);
        let committer = Committer::start(pool.clone(), notifier.clone(), metrics.clone());
        Ok(Self { pool, notifier, committer })
    }
}

/// Closes a pool whose users have ended, so that a database that stops next has nobody to cut off.
pub async fn close(pool: &PgPool) {
    // What is still busy after this is cut off, which harms nobody.
    let _ = timeout(GOODBYE, pool.close()).await;
}
