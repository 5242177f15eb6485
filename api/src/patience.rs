//! How long a request waits for the database before it says 503.

use crate::problem::Problem;
use std::time::Duration;
use tokio::time::timeout;

/// Longer than a connection may take to come, shorter than clients wait.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `work` comes to. A database that is silent (a connection half-open, a host that vanished) counts
/// as away; what was handed to it may still happen, and the repeat finds out.
///
/// # Errors
/// Those of `work`, and 503 when it takes too long.
pub async fn patiently<T, E: Into<Problem>>(work: impl Future<Output = Result<T, E>>) -> Result<T, Problem> {
    match timeout(PATIENCE, work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => {
            tracing::warn!(patience_ms = PATIENCE.as_millis(), "the database is silent");
            Err(Problem::database_unavailable())
        }
    }
}
