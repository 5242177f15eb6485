//! Deletes what is old enough, slowly: one batch, one short transaction, and a rest that keeps the pace.

use crate::Context;
use crate::context::jittered;
use shared::db::in_time;
use shared::retention::{self, Batch, Turn};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// For how long a batch belongs to whoever took it.
const LEASE: Duration = Duration::from_secs(60);
/// The longest rest when nothing was due, or the database is away.
const IDLE: Duration = Duration::from_secs(5);

pub(crate) async fn run(context: Arc<Context>) {
    let config = &context.config.retention;
    if config.rows_per_second == 0 {
        return;
    }
    let idle = IDLE.min(Duration::from_millis(config.every_ms));
    loop {
        match turn(&context).await {
            Ok(Some(batch)) => {
                let rows = batch.looked_at.max(batch.purged).unsigned_abs();
                sleep(Duration::from_secs_f64(rows as f64 / f64::from(config.rows_per_second))).await;
            }
            Ok(None) => sleep(jittered(idle)).await,
            Err(error) => {
                tracing::warn!(%error, "old rows could not be deleted; it tries again");
                sleep(jittered(idle)).await;
            }
        }
    }
}

/// One batch; `None` when none is due.
async fn turn(context: &Context) -> sqlx::Result<Option<Batch>> {
    let Some(turn) = in_time(retention::take(&context.pool, LEASE)).await? else {
        // Merchants that are new since get their turns for the next look.
        in_time(retention::enrol(&context.pool)).await?;
        return Ok(None);
    };
    let batch = purge(context, &turn).await?;
    let every = Duration::from_millis(context.config.retention.every_ms);
    in_time(retention::done(&context.pool, &turn, &batch, every)).await?;
    Ok(Some(batch))
}

async fn purge(context: &Context, turn: &Turn) -> sqlx::Result<Batch> {
    let Some(age) = context.config.age(turn.what) else { return Ok(Batch::NOTHING) };
    let batch = in_time(retention::purge(&context.pool, turn, age)).await?;
    if batch.purged > 0 {
        context.metrics.purged(turn.what, batch.purged.unsigned_abs());
        tracing::info!(merchant_id = %turn.merchant_id, what = turn.what.gone(), rows = batch.purged, "old rows are gone");
    }
    Ok(batch)
}
