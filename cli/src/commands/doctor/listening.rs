//! Whether wake-ups arrive.

use super::Finding;
use crate::database;
use shared::config::Config;
use sqlx::PgConnection;
use sqlx::postgres::PgListener;
use std::time::Duration;
use tokio::time::timeout;

/// A channel that nobody else listens to.
const CHANNEL: &str = "payonce_doctor";
/// How long connecting, and then a wake-up, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Listens the way workers do, and notifies the way they do.
pub async fn check(config: &Config, connection: &mut PgConnection) -> Finding {
    match heard(config, connection).await {
        Ok(()) => Finding::good("wake-ups", "a NOTIFY is heard by LISTEN"),
        Err(why) => Finding::bad(
            "wake-ups",
            format_args!(
                "{why}. Work is still found, by polling, but later: let listen_url lead to Postgres itself and not \
                 to a pooler in transaction mode"
            ),
        ),
    }
}

async fn heard(config: &Config, connection: &mut PgConnection) -> Result<(), String> {
    let url = config.listen().map_err(|refused| refused.to_string())?;
    // A listener's own connecting would not say why it cannot.
    let _ = database::connect(url).await.map_err(|error| format!("listen_url: {error}"))?;
    let mut listener = patiently(PgListener::connect(url)).await?;
    patiently(listener.listen(CHANNEL)).await?;
    patiently(sqlx::query!("SELECT pg_notify($1, '')", CHANNEL).execute(connection)).await?;
    patiently(listener.recv()).await.map(drop)
}

async fn patiently<T>(work: impl Future<Output = sqlx::Result<T>>) -> Result<T, String> {
    let done = timeout(PATIENCE, work).await;
    done.map_err(|_| "a NOTIFY was not heard by LISTEN".to_owned())?.map_err(|error| format!("cannot LISTEN: {error}"))
}
