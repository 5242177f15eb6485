//! charge: send the payment to the acquirer, once.

use super::{Call, Came, conclude, finish, give_back, history, lookup, send, send_once_more, wait};
use crate::Context;
use crate::acquirer::AcquirerClient;
use crate::acquirer::gate::Closed;
use rand::RngExt;
use shared::acquirer::Answer;
use shared::config::RESEND_REST_MS;
use shared::payment::call::{Ended, Kind, Sends};
use shared::payment::claim::Claim;
use shared::payment::life::Outcome;
use shared::payment::sending::{Known, MaySend, may_send};
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
        return give_back(context, claim, Duration::ZERO).await;
    };
    if let Err(refused) = acquirer.amount(&claim.payment) {
        return fail_unsent(context, claim, "amount_not_representable", &refused.to_string()).await;
    }
    // The whole budget must fit into the lease, or the call is not begun.
    let latest = claim.lease_until - acquirer.deadline();
    let pass = match acquirer.gate().enter(latest).await {
        Ok(pass) => pass,
        Err(Closed::Away) if waited_too_long(acquirer, claim) => {
            let message =
                format!("the acquirer was away for {} s; nothing was sent", acquirer.unavailable_after().as_secs());
            return fail_unsent(context, claim, "acquirer_unavailable", &message).await;
        }
        Err(closed) => return give_back(context, claim, closed.rest()).await,
    };
    if Instant::now() >= latest {
        return give_back(context, claim, Duration::ZERO).await;
    }
    let deadline = Instant::now() + acquirer.deadline();
    let call =
        Call { kind: Kind::Charge, request_id: claim.request_id, sent_before: false, transaction_id: None, deadline };
    // Held up since the claim for so long that the call was not made: nothing ever left.
    let Some(ended) = send(context, claim, &call, pass).await else {
        return give_back(context, claim, Duration::ZERO).await;
    };
    let Some(ended) = resend_once(context, claim, ended, deadline).await else { return "stale" };
    match conclude(context, claim, ended).await {
        Ok(came) => came,
        Err(ended) => wait(context, claim, ended, Duration::from_millis(context.config.worker.grace_ms)).await,
    }
}

fn waited_too_long(acquirer: &AcquirerClient, claim: &Claim) -> bool {
    claim.clock.now() - claim.payment.created_at >= acquirer.unavailable_after()
}

/// Nothing was ever sent, and nothing will be: no money can have moved.
async fn fail_unsent(context: &Context, claim: &Claim, code: &str, message: &str) -> Came {
    let failed = Answer { outcome: Outcome::Failed, ..Answer::unknown(None, code, message) };
    finish(context, claim, Ended::unsent(claim.request_id, failed)).await
}

/// Where the road was cut, sends once more with the same key, if the contract protects that and the clock
/// allows it; else the first answer stands. `None`: the claim was lost before the second send.
async fn resend_once(context: &Context, claim: &Claim, ended: Ended, deadline: Instant) -> Option<Ended> {
    let acquirer = context.acquirers.get(&claim.payment.acquirer)?;
    if ended.answer.was_heard() {
        return Some(ended);
    }
    let sends = Sends { last_at: claim.payment.first_call_at, in_scope: true, transaction_id: None };
    let may = may_send(acquirer.contract(), history(claim, &sends, Known::CutOff), claim.clock.now());
    let rest = Duration::from_millis(rand::rng().random_range(SHORTEST_REST_MS..=RESEND_REST_MS));
    let latest = deadline - acquirer.call_budget();
    if may != MaySend::Send || Instant::now() + rest > latest {
        return Some(ended);
    }
    sleep(rest).await;
    match acquirer.gate().enter(latest).await {
        Ok(pass) => send_once_more(context, claim, ended, deadline, pass).await,
        Err(_) => Some(ended),
    }
}
