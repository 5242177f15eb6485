//! The database: pools, the primary check, migrations, and what counts as an outage.

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgExecutor, PgPool};
use std::io::ErrorKind;
use std::str::FromStr;
use std::time::Duration;
use tokio::time::timeout;

/// The schema, as this build knows it.
pub static MIGRATOR: Migrator = sqlx::migrate!("../migrations");

/// How long a caller waits for a connection before it is told that the database is away.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the database may be silent before whoever asked is told that it is away. A connection that died
/// without a goodbye (half-open) is silent until TCP gives up, a quarter of an hour later. Longer than any
/// statement here takes on a database that stumbles over its disk; short beside a lease.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that rested for this long is asked whether it still lives, before it is trusted. One that is
/// in use tells by its next answer.
const LONG_REST: Duration = Duration::from_secs(2);
/// How long it may take to answer: it has nothing else to do.
const SIGN_OF_LIFE: Duration = Duration::from_millis(500);
/// How long a connection whose user went away in mid-answer may take to hear the rest. One that does not is
/// closed, or it would keep its place in the pool until TCP gives up.
const REST_OF_ANSWER: Duration = Duration::from_secs(1);

/// How long [`ready`] waits for a connection of the pool before it makes one of its own.
const READY_GLANCE: Duration = Duration::from_millis(300);

/// Plans that never flip: every statement here is meant to run along an index, row by row. A table
/// whose statistics are still those of an empty one must not be joined by reading it whole.
///
/// And the server's own clocks: it gives up a client that vanished within a minute, not within hours, or its
/// places would be taken by the dead when many have to come again. (sqlx has no such clocks for this side.)
const SESSION: [(&str, &str); 10] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("jit", "off"),
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "60s"),
];

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The URL cannot be read.
    #[error("the database URL cannot be read ({0}); it looks like postgres://user:password@host:5432/database")]
    Url(sqlx::Error),
    /// Nobody answers, or not as a primary.
    #[error("the database cannot be reached: {0}; check the URL and that Postgres runs and accepts this user")]
    Unreachable(sqlx::Error),
    /// Reads of keys and payments must see every commit.
    #[error("the database is a standby; payonce reads and writes the primary only: point the URL at it")]
    Standby,
    /// The schema is older than this build.
    #[error("the database lacks migrations (it is at {found}, this build needs {needed}); run `payonce migrate`")]
    Outdated {
        /// The newest migration in place, 0 for none.
        found: i64,
        /// The newest migration of this build.
        needed: i64,
    },
    /// A migration failed.
    #[error("migration failed: {0}")]
    Migration(#[from] sqlx::migrate::MigrateError),
}

/// Opens a pool of at most `connections`; connections are made when first needed, so that a database
/// that is away at start does not end the process. Every new connection must lead to a primary.
///
/// # Errors
/// [`DbError::Url`].
pub fn pool(url: &str, connections: u32, name: &str) -> Result<PgPool, DbError> {
    let options = PgConnectOptions::from_str(url).map_err(DbError::Url)?.application_name(name).options(SESSION);
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .min_connections(0)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .max_lifetime(Duration::from_secs(1800))
        .test_before_acquire(false)
        .after_connect(|conn, _| Box::pin(refuse_standby(conn)))
        .before_acquire(|conn, seen| Box::pin(still_lives(conn, seen.idle_for)))
        .after_release(|conn, _| Box::pin(heard_all(conn)))
        .connect_lazy_with(options);
    Ok(pool)
}

/// Waits for the database, but not for ever. After an error by this clock nobody knows whether it happened.
///
/// `work` takes its connection from the pool for one statement outside a transaction. Dropped in the middle of
/// it, the connection goes back only when it has heard the whole answer; see [`pool`].
///
/// # Errors
/// Those of `work`; and when the database is silent, one that [`is_outage`] knows.
pub async fn in_time<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    within(PATIENCE, work).await
}

/// [`in_time`], with another clock.
pub(crate) async fn within<T>(time: Duration, work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let silent = || sqlx::Error::Io(std::io::Error::new(ErrorKind::TimedOut, "the database is silent"));
    timeout(time, work).await.unwrap_or_else(|_| Err(silent()))
}

async fn still_lives(conn: &mut PgConnection, idle_for: Duration) -> sqlx::Result<bool> {
    if idle_for >= LONG_REST {
        within(SIGN_OF_LIFE, conn.ping()).await?;
    }
    Ok(true)
}

/// Waits for the rest of an answer; where none is open, flushing is nothing.
async fn heard_all(conn: &mut PgConnection) -> sqlx::Result<bool> {
    within(REST_OF_ANSWER, conn.flush()).await?;
    Ok(true)
}

async fn refuse_standby(conn: &mut PgConnection) -> sqlx::Result<()> {
    match is_standby(conn).await? {
        true => Err(sqlx::Error::Configuration(DbError::Standby.to_string().into())),
        false => Ok(()),
    }
}

async fn is_standby<'e>(on: impl PgExecutor<'e>) -> sqlx::Result<bool> {
    sqlx::query_scalar!(r#"SELECT pg_is_in_recovery() AS "standby!""#).fetch_one(on).await
}

/// Brings the schema to this build's state. Safe to run from several processes at once: a lock in
/// the database lets one work and the others wait.
///
/// # Errors
/// [`DbError::Migration`].
pub async fn migrate(pool: &PgPool) -> Result<(), DbError> {
    Ok(MIGRATOR.run(pool).await?)
}

/// Whether the database is a primary with this build's schema.
///
/// # Errors
/// Says what is wrong and what to do.
pub async fn ready(pool: &PgPool) -> Result<(), DbError> {
    let standby = match timeout(READY_GLANCE, is_standby(pool)).await {
        Ok(standby) => standby,
        // The pool keeps no connection to a standby, so it cannot tell one from a database that is away.
        Err(_) => past_the_pool(pool).await,
    };
    if standby.map_err(DbError::Unreachable)? {
        return Err(DbError::Standby);
    }
    let needed = MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or_default();
    // The table of migrations exists only after the first of them: asked unchecked.
    let found: Result<Option<i64>, _> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations WHERE success").fetch_one(pool).await;
    let found = match found {
        Ok(version) => version.unwrap_or_default(),
        Err(error) if is_outage(&error) => return Err(DbError::Unreachable(error)),
        Err(_) => 0,
    };
    if found < needed { Err(DbError::Outdated { found, needed }) } else { Ok(()) }
}

async fn past_the_pool(pool: &PgPool) -> sqlx::Result<bool> {
    let mut conn = PgConnection::connect_with(&pool.connect_options()).await?;
    is_standby(&mut conn).await
}

/// Whether an error says that the database is away (or shutting down, full, read-only), as opposed to
/// a fault of the statement or its rows.
#[must_use]
pub fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Database(refusal) => refusal.code().is_some_and(|code| {
            // 08 connection, 25006 read-only, 53 out of resources, 57 shut down or cancelled, 58 system.
            code == "25006" || ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class))
        }),
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::Configuration(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        _ => false,
    }
}

/// The database's time.
///
/// # Errors
/// When the database cannot be asked.
pub async fn now(pool: &PgPool) -> sqlx::Result<time::OffsetDateTime> {
    sqlx::query_scalar!(r#"SELECT now() AS "now!""#).fetch_one(pool).await
}

/// The database's date.
///
/// # Errors
/// When the database cannot be asked.
pub async fn today(pool: &PgPool) -> sqlx::Result<time::Date> {
    sqlx::query_scalar!(r#"SELECT current_date AS "today!""#).fetch_one(pool).await
}
