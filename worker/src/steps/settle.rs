//! settle: write a final outcome with everything that belongs to it.

use super::{Came, publish, stale, write_open};
use crate::Context;
use crate::context::Written;
use shared::acquirer::Answer;
use shared::committer::Write;
use shared::db::in_time;
use shared::outbox;
use shared::payment::call::{Ended, recorded_answer};
use shared::payment::claim::Claim;
use shared::payment::record::Then;
use shared::payment::settle::Settle;
use shared::review::desk;
use std::time::Duration;
use tokio::time::Instant;

/// Settles a payment whose outcome is on record but whose owner died before it settled.
pub(super) async fn run_alone(context: &Context, claim: &Claim) -> Came {
    match in_time(recorded_answer(&context.pool, claim.payment.key())).await {
        Ok(Some(answer)) => run(context, claim, &answer, None).await,
        Ok(None) => {
            // A settle job without an outcome on record has no business here: the acquirer knows.
            let then = Then::LookUp { after: Duration::ZERO, refund: false };
            write_open(context, claim, None, then).await.unwrap_or("nothing_on_record")
        }
        Err(error) => {
            tracing::warn!(%error, "the recorded outcome cannot be read; the job comes again");
            "not_read"
        }
    }
}

/// What settle comes to when the database refuses it.
pub(super) const REFUSED: Came = "refused";

/// Settles, and delivers the event. `ended`: the call that taught the outcome, if it is not on record.
pub(super) async fn run(context: &Context, claim: &Claim, answer: &Answer, ended: Option<Ended>) -> Came {
    run_as(context, claim, answer, ended, &context.name).await
}

/// Settles in the name of `actor`.
pub(super) async fn run_as(
    context: &Context,
    claim: &Claim,
    answer: &Answer,
    ended: Option<Ended>,
    actor: &str,
) -> Came {
    let now = claim.clock.now();
    let settle = Settle::new(&claim.payment, answer, now, actor, &context.config.sinks, context.lease());
    let Ok(settle) = settle else { return stale(context, claim, answer).await };
    let never_sent = claim.untouched && ended.as_ref().is_some_and(|ended| !ended.sent);
    let settle = Settle { ended, never_sent, ..settle };
    let delivery_lease_until = Instant::now() + context.lease();
    match context.write(Write::Settle(Box::new(settle.clone())), claim.lease_until).await {
        Written::Applied => {}
        Written::Stale => return stale(context, claim, answer).await,
        Written::Refused => return REFUSED,
        Written::Lost => return "not_written",
    }
    let status = settle.settled.status;
    tracing::info!(
        status = status.as_str(),
        transaction_id = settle.settled.transaction_id,
        reason = settle.reason,
        "settled"
    );
    if claim.payment.in_review {
        end_doubts(context).await;
    }
    if !claim.untouched {
        let doubt_began = claim.payment.unknown_at.unwrap_or(claim.due_at);
        context.metrics.reconciled((now - doubt_began).try_into().unwrap_or_default());
    }
    // The publish jobs were born claimed by this worker, under a lease of their own.
    for sink in &settle.sinks {
        let (event, lease_until) = (settle.event(), delivery_lease_until);
        publish::run(context, outbox::Claim { event, sink: sink.clone(), deliveries: 1, lease_until }).await;
    }
    status.as_str()
}

/// What a person was to decide is decided. Should this not come about, the sweep does it.
async fn end_doubts(context: &Context) {
    if let Err(error) = in_time(desk::end_doubts(&context.pool)).await {
        tracing::debug!(%error, "reviews of final payments are ended by the sweep");
    }
}
