//! charge: send the payment to the acquirer, once.

use super::{Call, Came, conclude, give_back, lookup, send, send_once_more};
use crate::Context;
use rand::RngExt;
use shared::acquirer::Keys;
use shared::config::RESEND_REST_MS;
use shared::payment::call::{Ended, Kind};
use shared::payment::claim::Claim;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The shortest rest before the one resend.
const SHORTEST_REST_MS: u64 = 300;

/// A payment that was never touched is sent. One that was (its previous owner may have sent it) is
/// looked up first.
pub(super) async fn run(context: &Context, claim: &Claim) -> Came {
    if !claim.untouched {
        context.metrics.takeover();
        tracing::info!("taken over from an owner that may have sent it; looked up first");
        return lookup::run(context, claim).await;
    }
    first_send(context, claim).await
}

/// The first send of a payment, with the call that the claim wrote down.
pub(super) async fn first_send(context: &Context, claim: &Claim) -> Came {
    let Some(acquirer) = context.acquirers.get(&claim.payment.acquirer) else {
        return lookup::without_profile(context, claim).await;
    };
    // The whole budget must fit into the lease, or the call is not begun.
    if Instant::now() + acquirer.deadline() >= claim.lease_until {
        return give_back(context, claim, Duration::ZERO).await;
    }
    let deadline = Instant::now() + acquirer.deadline();
    let call = Call { kind: Kind::Charge, request_id: claim.request_id, sent_before: false, deadline };
    // Held up since the claim for so long that the call was not made: nothing ever left.
    let Some(ended) = send(context, claim, call).await else { return give_back(context, claim, Duration::ZERO).await };
    let Some(ended) = resend_once(context, claim, ended, deadline).await else { return "stale" };
    conclude(context, claim, ended, Duration::from_millis(context.config.worker.grace_ms)).await
}

/// Where the road was cut, sends once more with the same key, if the contract protects that and the clock
/// allows it; else the first answer stands. `None`: the claim was lost before the second send.
async fn resend_once(context: &Context, claim: &Claim, ended: Ended, deadline: Instant) -> Option<Ended> {
    let acquirer = context.acquirers.get(&claim.payment.acquirer)?;
    let contract = acquirer.contract();
    let protected = contract.keys == Keys::Honoured && contract.window.is_some();
    let rest = Duration::from_millis(rand::rng().random_range(SHORTEST_REST_MS..=RESEND_REST_MS));
    let fits = Instant::now() + rest + acquirer.call_budget() <= deadline;
    if ended.answer.was_heard() || !protected || !fits {
        return Some(ended);
    }
    sleep(rest).await;
    send_once_more(context, claim, ended, deadline).await
}
