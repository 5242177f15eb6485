//! Reaching the database: what a command needs to know before it relies on one.

use crate::failure::Failure;
use shared::config::Config;
use shared::db::{self, DbError, MIGRATOR};
use sqlx::migrate::{Migrate, MigrateError};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection, PgPool};
use std::collections::HashSet;
use std::io;
use std::str::FromStr;
use std::time::Duration;
use time::OffsetDateTime;
use tokio::time::timeout;

/// How long a database may take to let us in.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where sqlx notes what it applied.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

/// What a server says about itself.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Whether it only follows a primary.
    pub standby: bool,
    /// Such as 150018 for 15.18.
    pub version_num: i32,
    /// What its clock showed.
    pub clock: OffsetDateTime,
}

/// Connects without a pool, which would hide why it cannot.
///
/// # Errors
/// [`DbError::Url`], [`DbError::Unreachable`].
pub async fn connect(url: &str) -> Result<PgConnection, DbError> {
    let options = PgConnectOptions::from_str(url).map_err(DbError::Url)?.application_name("payonce");
    let connection = timeout(PATIENCE, options.connect()).await;
    connection.map_err(|_| too_slow())?.map_err(DbError::Unreachable)
}

fn too_slow() -> DbError {
    let words = format!("no answer within {} s", PATIENCE.as_secs());
    DbError::Unreachable(sqlx::Error::Io(io::Error::new(io::ErrorKind::TimedOut, words)))
}

/// Asks a server about itself.
///
/// # Errors
/// [`DbError::Unreachable`].
pub async fn ask(connection: &mut PgConnection) -> Result<Server, DbError> {
    let server = sqlx::query_as!(
        Server,
        r#"SELECT pg_is_in_recovery() AS "standby!", current_setting('server_version_num')::int AS "version_num!",
                  clock_timestamp() AS "clock!""#
    );
    server.fetch_one(connection).await.map_err(DbError::Unreachable)
}

async fn connect_to_primary(url: &str) -> Result<PgConnection, DbError> {
    let mut connection = connect(url).await?;
    if ask(&mut connection).await?.standby { Err(DbError::Standby) } else { Ok(connection) }
}

/// Opens a pool, once the database is known to be a primary with this build's schema.
///
/// # Errors
/// What is wrong, and what to do.
pub async fn open(config: &Config, connections: u32) -> Result<PgPool, Failure> {
    let url = config.database()?;
    open_at(url, connections).await.map_err(Failure::of_database(url))
}

async fn open_at(url: &str, connections: u32) -> Result<PgPool, DbError> {
    // Nothing hangs on how this connection ends: it was only to see.
    let _ = connect_to_primary(url).await?.close().await;
    let pool = db::pool(url, connections, "payonce")?;
    db::ready(&pool).await?;
    Ok(pool)
}

/// A pool whose database was not looked at.
///
/// # Errors
/// A URL that cannot be read.
pub fn pool(config: &Config, connections: u32, name: &str) -> Result<PgPool, Failure> {
    let url = config.database()?;
    db::pool(url, connections, name).map_err(Failure::of_database(url))
}

/// What a migration run found and did.
#[derive(Debug)]
pub struct Migrated {
    /// Number and name of what this run applied, in order.
    pub applied: Vec<(i64, String)>,
    /// The newest migration, now in place.
    pub at: i64,
}

/// Brings the schema to this build's state and tells what that took. Of several processes at once
/// one works and the others wait; what they are told is what they did themselves.
///
/// It goes the way of LISTEN: the lock that keeps the others waiting belongs to a session, which a
/// transaction-mode pooler cannot promise.
///
/// # Errors
/// What is wrong, and what to do.
pub async fn migrate(config: &Config) -> Result<Migrated, Failure> {
    let url = config.listen()?;
    migrate_at(url).await.map_err(Failure::of_database(url))
}

async fn migrate_at(url: &str) -> Result<Migrated, DbError> {
    let mut connection = connect_to_primary(url).await?;
    let migrated = migrate_on(&mut connection).await?;
    // The lock ends with the session, however that ends.
    let _ = connection.close().await;
    Ok(migrated)
}

/// Looks under the migrator's own lock, which one session can take twice.
async fn migrate_on(connection: &mut PgConnection) -> Result<Migrated, MigrateError> {
    connection.lock().await?;
    connection.ensure_migrations_table(MIGRATIONS_TABLE).await?;
    let applied = connection.list_applied_migrations(MIGRATIONS_TABLE).await?;
    let before: HashSet<i64> = applied.into_iter().map(|migration| migration.version).collect();
    MIGRATOR.run(&mut *connection).await?;
    let new = MIGRATOR.iter().filter(|migration| !before.contains(&migration.version));
    Ok(Migrated {
        applied: new.map(|migration| (migration.version, migration.description.to_string())).collect(),
        at: MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default(),
    })
}

/// Where a URL leads, without its password.
#[must_use]
pub fn address(url: &str) -> String {
    PgConnectOptions::from_str(url).map_or_else(
        |_| "(a URL that cannot be read)".to_owned(),
        |options| {
            let database = options.get_database().unwrap_or(options.get_username());
            format!("{}:{}/{database}", options.get_host(), options.get_port())
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_shows_no_password() {
        assert_eq!(address("postgres://pay:hunter2@db.example:5433/payonce"), "db.example:5433/payonce");
        assert_eq!(address("postgres://pay:hunter2@x:port/y"), "(a URL that cannot be read)");
    }
}
