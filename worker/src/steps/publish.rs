//! publish: bring one event to one sink.

use crate::Context;
use crate::context::jittered;
use shared::committer::Write;
use shared::outbox::{Became, Claim, Mark};
use shared::queue::Step;
use shared::text::clean;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// The longest that a sink may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Delivers and marks. A crash between the two delivers again: consumers recognise the event's id.
pub(super) async fn run(context: &Context, claim: Claim) {
    let began = Instant::now();
    let (became, came) = outcome(context, &claim).await;
    let mark = Mark { of: claim.key(), deliveries: claim.deliveries, became };
    context.write(Write::Mark(mark), claim.lease_until).await;
    context.metrics.step(Step::Publish, came, began.elapsed());
}

async fn outcome(context: &Context, claim: &Claim) -> (Became, &'static str) {
    let budget = context.budget(Step::Publish);
    if claim.deliveries > budget.deliveries {
        let error = format!("delivered {} times and never ended", claim.deliveries - 1);
        return (Became::Dead { error }, "exhausted");
    }
    let Err(error) = deliver(context, claim).await else { return (Became::Delivered, "delivered") };
    tracing::warn!(sink = claim.sink, event_id = %claim.event.id, reason = error, "an event was not delivered");
    let error = clean(&error, 500);
    if claim.deliveries == budget.deliveries {
        return (Became::Dead { error }, "exhausted");
    }
    (Became::Postponed { after: jittered(budget.backoff(claim.deliveries)), error }, "postponed")
}

async fn deliver(context: &Context, claim: &Claim) -> Result<(), String> {
    let Some(sink) = context.sinks.get(&claim.sink) else {
        return Err(format!("no sink {:?} is configured here", claim.sink));
    };
    context.faults.point("before a call").await;
    let delivered = timeout(DEADLINE, sink.deliver(&claim.event)).await;
    context.faults.point("after a call").await;
    delivered.unwrap_or_else(|_| Err(format!("no answer within {} s", DEADLINE.as_secs())))
}
