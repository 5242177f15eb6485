//! The workers: apalis runs them, [`shared::queue`] feeds them, [`steps`] is what they do.

pub mod acquirer;
pub mod context;
mod contracts;
mod duplicates;
pub mod faults;
mod probe;
mod retention;
pub mod sinks;
pub mod steps;
mod sweep;

pub use context::{Context, Services};

use apalis::prelude::{Data, Monitor, WorkerBuilder, WorkerBuilderExt};
use shared::queue::wake::Wake;
use shared::queue::{Claimed, Lane, Queue, Step};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Runs workers for all steps until `shutdown` resolves; then takes nothing new, lets what runs end
/// (at most `worker.shutdown_ms`), and hands back what was claimed and never started.
///
/// # Errors
/// When an acquirer's client cannot be built, or apalis ends otherwise than by the shutdown.
pub async fn run(
    services: Services,
    wake: Wake,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let context = Arc::new(Context::new(services)?);
    let mut watching = probe::start(&context);
    watching.spawn(sweep::run(context.clone()));
    watching.spawn(contracts::run(context.clone()));
    watching.spawn(duplicates::run(context.clone()));
    watching.spawn(retention::run(context.clone()));
    // The queue yields no errors and steps run in tasks of their own, so a worker ends early only by a
    // fault outside both. Its lane must not stay without one.
    let mut monitor = Monitor::new().should_restart(|_, _| true);
    for lane in lanes(&context) {
        let (context, wake) = (context.clone(), wake.clone());
        monitor = monitor.register(move |_| {
            let queue = Queue::new(
                lane.clone(),
                context.pool.clone(),
                context.committer.clone(),
                wake.clone(),
                context.metrics.clone(),
            );
            WorkerBuilder::new(format!("{}/{}", lane.worker, lane.name()))
                .backend(queue)
                .enable_tracing()
                .data(context.clone())
                .build(handle)
        });
    }
    let patience = Duration::from_millis(context.config.worker.shutdown_ms);
    let ended = monitor
        .with_terminator(async move { tokio::time::sleep(patience).await })
        .run_with_signal(async {
            shutdown.await;
            Ok(())
        })
        .await;
    drop(watching);
    Ok(ended?)
}

/// The apalis task: a step in a task of its own, so that steps share all cores and a panic in one
/// stays there. Its budget was charged by the claim; its lease lapses and the job comes again.
async fn handle(claimed: Claimed, context: Data<Arc<Context>>) {
    let context = Arc::clone(&context);
    if let Err(error) = tokio::spawn(steps::run(context, claimed)).await {
        tracing::error!(%error, "a step panicked; its job comes again when the lease has lapsed");
    }
}

/// Of charge and lookup one lane per acquirer, one for settle, of publish one per sink.
fn lanes(context: &Context) -> Vec<Lane> {
    let lane = |step: Step, route: &str| {
        let budget = context.budget(step);
        Lane {
            step,
            route: route.to_owned(),
            concurrency: budget.concurrency,
            lease: context.lease(),
            budget: budget.deliveries,
            worker: context.name.clone(),
            key_scope: None,
            asks: true,
            opening: None,
        }
    };
    let mut lanes = vec![lane(Step::Settle, "")];
    for (name, acquirer) in &context.acquirers {
        let to = |step, opening| Lane {
            key_scope: Some(acquirer.key_scope().to_owned()),
            asks: acquirer.can_be_asked(),
            opening: Some(opening),
            ..lane(step, name)
        };
        lanes.push(to(Step::Charge, acquirer.gate().charges()));
        lanes.push(to(Step::Lookup, acquirer.gate().lookups()));
    }
    lanes.extend(context.config.sinks.iter().map(|sink| lane(Step::Publish, sink)));
    lanes
}
