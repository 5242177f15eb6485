//! Runs the sweep: every open payment and delivery has a job, whatever became of the job table, and jobs that
//! no lane of this worker serves are told of.

use crate::Context;
use shared::db::in_time;
use shared::queue::Lane;
use shared::queue::sweep::{Found, Sweep, lanes_in_use};
use shared::review::desk;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub(crate) async fn run(context: Arc<Context>) {
    let every = Duration::from_millis(context.config.worker.sweep_ms);
    let mut sweep = Sweep::new(Duration::from_millis(context.config.worker.grace_ms));
    let mut unserved = BTreeSet::new();
    loop {
        match in_time(sweep.pass(&context.pool)).await {
            Ok(found) if found != Found::default() => {
                tracing::warn!(payments = found.payments, deliveries = found.deliveries, "the sweep made missing jobs");
                context.notifier.jobs();
                // Where jobs were missing there may be more: the next page at once.
                continue;
            }
            Ok(_) => {
                tell_unserved(&context, &mut unserved).await;
                end_doubts(&context).await;
            }
            Err(error) => tracing::warn!(%error, "the sweep could not look; it tries again"),
        }
        tokio::time::sleep(every).await;
    }
}

/// An acquirer or a sink was taken out of the configuration, or is only in that of other workers: nothing is lost, it
/// waits.
async fn tell_unserved(context: &Context, told: &mut BTreeSet<String>) {
    let Ok(in_use) = in_time(lanes_in_use(&context.pool)).await else { return };
    let served: BTreeSet<String> = crate::lanes(context).iter().map(Lane::name).collect();
    let unserved: BTreeSet<String> = in_use.difference(&served).cloned().collect();
    if unserved != *told {
        context.metrics.unserved(&unserved);
        for lane in unserved.difference(told) {
            tracing::error!(
                lane,
                "jobs wait for an acquirer or a sink that is not configured here; put it back, or let another worker have it"
            );
        }
        *told = unserved;
    }
}

/// Reviews of payments that became final meanwhile.
async fn end_doubts(context: &Context) {
    match in_time(desk::end_doubts(&context.pool)).await {
        Ok(0) => {}
        Ok(count) => tracing::info!(count, "reviews were ended: their payments are final"),
        Err(error) => tracing::debug!(%error, "reviews of final payments are ended by the next pass"),
    }
}
