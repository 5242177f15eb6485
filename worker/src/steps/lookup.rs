//! lookup: ask the acquirer what became of a charge, and act on what is proven.

use super::charge::first_send;
use super::{Call, Came, conclude, finish, give_back, review, send, send_once_more, wait};
use crate::Context;
use crate::context::jittered;
use shared::payment::call::{self, Ended, Kind};
use shared::payment::claim::Claim;
use shared::payment::life::Outcome;
use shared::payment::sending::{History, MaySend, may_send};
use shared::queue::Step;
use shared::review::Reason;
use std::time::Duration;
use tokio::time::Instant;

/// The rest of a payment whose acquirer is not configured here.
const PROFILE_REST: Duration = Duration::from_secs(10);

/// Looks up first; sends, with the same key and at most once, only where absence is proven and the
/// window is open.
pub(super) async fn run(context: &Context, claim: &Claim) -> Came {
    let Some(acquirer) = context.acquirers.get(&claim.payment.acquirer) else {
        return without_profile(context, claim).await;
    };
    if claim.untouched {
        return first_send(context, claim).await;
    }
    let Ok(last_call_at) = call::last_charge_at(&context.pool, claim.payment.key()).await else {
        return give_back(context, claim, Duration::ZERO).await;
    };
    if Instant::now() + acquirer.deadline() >= claim.lease_until {
        return give_back(context, claim, Duration::ZERO).await;
    }
    let deadline = Instant::now() + acquirer.deadline();
    let asked = Call { kind: Kind::Lookup, request_id: claim.request_id, sent_before: true, deadline };
    let Some(ended) = send(context, claim, asked).await else { return give_back(context, claim, Duration::ZERO).await };
    let history =
        History { first_call_at: claim.payment.first_call_at, last_call_at, looked_up: Some(ended.answer.outcome) };
    decide(context, claim, ended, history, deadline).await
}

async fn decide(context: &Context, claim: &Claim, ended: Ended, history: History, deadline: Instant) -> Came {
    if ended.answer.outcome.is_final() {
        return finish(context, claim, ended).await;
    }
    if let Some(reason) = ended.answer.conflict {
        let detail = ended.answer.message.clone().unwrap_or_default();
        return review(context, claim, Some(ended), reason, detail).await;
    }
    let Some(acquirer) = context.acquirers.get(&claim.payment.acquirer) else { return "no_profile" };
    match may_send(acquirer.contract(), history, claim.clock.now()) {
        MaySend::Send => send_again(context, claim, ended, deadline).await,
        MaySend::Review(reason) => {
            let detail = described(reason, &ended);
            review(context, claim, Some(ended), reason, detail).await
        }
        MaySend::Wait | MaySend::LookUpFirst => wait_or_give_up(context, claim, ended).await,
    }
}

async fn send_again(context: &Context, claim: &Claim, ended: Ended, deadline: Instant) -> Came {
    let Some(ended) = send_once_more(context, claim, ended, deadline).await else { return "stale" };
    conclude(context, claim, ended, rest(context, claim)).await
}

/// Rests by the schedule. When this was the last delivery of the budget, a person takes over.
async fn wait_or_give_up(context: &Context, claim: &Claim, ended: Ended) -> Came {
    let spent = claim.step == Step::Lookup && claim.deliveries >= context.budget(Step::Lookup).deliveries;
    if spent && ended.answer.was_heard() {
        let reason = match ended.answer.outcome {
            Outcome::Processing => Reason::StuckProcessing,
            Outcome::NotFound => Reason::NotFoundInconclusive,
            _ => Reason::UnknownPastWindow,
        };
        let detail = format!("{} look-ups, and still: {}", claim.deliveries, described(reason, &ended));
        return review(context, claim, Some(ended), reason, detail).await;
    }
    let rest = rest(context, claim);
    wait(context, claim, ended, rest).await
}

/// A charge that was taken over begins the schedule anew.
fn rest(context: &Context, claim: &Claim) -> Duration {
    let deliveries = if claim.step == Step::Lookup { claim.deliveries } else { 1 };
    jittered(context.budget(Step::Lookup).backoff(deliveries))
}

fn described(reason: Reason, ended: &Ended) -> String {
    let message = ended.answer.message.as_deref().unwrap_or("nothing");
    match reason {
        Reason::UnknownPastWindow => {
            format!("the acquirer no longer has to remember our key, and the last look-up said: {message}")
        }
        Reason::NotFoundInconclusive => {
            format!("no charge is found, and the contract does not protect a second send: {message}")
        }
        Reason::StuckProcessing => "the acquirer is still processing it".to_owned(),
        _ => message.to_owned(),
    }
}

/// The profile was taken out of the configuration while payments were on their way: nothing can be
/// asked, nothing is lost; they rest until it is back.
pub(super) async fn without_profile(context: &Context, claim: &Claim) -> Came {
    tracing::error!(
        acquirer = claim.payment.acquirer,
        "no [acquirers] profile of this name is configured here; put it back, payments wait for it"
    );
    give_back(context, claim, PROFILE_REST).await
}
