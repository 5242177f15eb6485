//! What Postgres itself counted.

use super::load::Progress;
use sqlx::PgPool;
use std::time::Duration;

/// Backends report their counts at most a second late.
const REPORTED: Duration = Duration::from_millis(1_200);

/// Reads the counters of one database.
pub(super) struct Counters {
    pool: PgPool,
}

/// A reading, or the difference of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// Every transaction that committed, the polls and other reads included.
    pub(super) commits: i64,
    /// WAL written, in bytes.
    pub(super) wal_bytes: i64,
}

/// A reading per payment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) commits: f64,
    pub(super) wal_bytes: f64,
}

impl Counters {
    pub(super) fn connect(url: &str) -> Result<Self, shared::db::DbError> {
        Ok(Self { pool: shared::db::pool(url, 2, "payonce bench")? })
    }

    pub(super) async fn read(&self) -> sqlx::Result<Reading> {
        tokio::time::sleep(REPORTED).await;
        let (commits, wal_bytes) = sqlx::query_as(
            "SELECT xact_commit, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint
             FROM pg_stat_database WHERE datname = current_database()",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Reading { commits, wal_bytes })
    }

    /// Waits until nothing is left to do.
    pub(super) async fn drained(&self, progress: &Progress) -> sqlx::Result<()> {
        loop {
            let left: i64 = sqlx::query_scalar("SELECT count(*) FROM jobs").fetch_one(&self.pool).await?;
            progress.left(left);
            if left == 0 {
                return Ok(());
            }
            // Counting thousands of rows is work too: look less often while there are many.
            tokio::time::sleep(Duration::from_millis(if left > 500 { 100 } else { 5 })).await;
        }
    }
}

impl Reading {
    pub(super) const fn since(&self, before: &Self) -> Self {
        Self { commits: self.commits - before.commits, wal_bytes: self.wal_bytes - before.wal_bytes }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn per(&self, payments: u32) -> Cost {
        let payments = f64::from(payments);
        Cost { commits: self.commits as f64 / payments, wal_bytes: self.wal_bytes as f64 / payments }
    }
}
