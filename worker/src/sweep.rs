//! Runs the sweep: every open payment and delivery has a job, whatever became of the job table.

use crate::Context;
use shared::queue::sweep::{Found, Sweep};
use std::sync::Arc;
use std::time::Duration;

pub(crate) async fn run(context: Arc<Context>) {
    let every = Duration::from_millis(context.config.worker.sweep_ms);
    let mut sweep = Sweep::new(Duration::from_millis(context.config.worker.grace_ms));
    loop {
        match sweep.pass(&context.pool).await {
            Ok(found) if found != Found::default() => {
                tracing::warn!(payments = found.payments, deliveries = found.deliveries, "the sweep made missing jobs");
                context.notifier.jobs();
                // Where jobs were missing there may be more: the next page at once.
                continue;
            }
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the sweep could not look; it tries again"),
        }
        tokio::time::sleep(every).await;
    }
}
