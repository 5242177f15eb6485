//! lookup: find out what became of a charge, and act on what is proven.

use super::charge::first_send;
use super::{Call, Came, conclude, decided, give_back, history, review, send, send_once_more, wait};
use crate::Context;
use crate::acquirer::AcquirerClient;
use crate::acquirer::gate::Pass;
use crate::context::jittered;
use shared::acquirer::Answer;
use shared::db::in_time;
use shared::payment::call::{self, Ended, Kind, Sends};
use shared::payment::claim::Claim;
use shared::payment::life::Outcome;
use shared::payment::sending::{Known, MaySend, may_send};
use shared::queue::Step;
use shared::review::Reason;
use std::time::Duration;
use tokio::time::Instant;

/// Asks what became of a charge; sends it again, with the same key and at most once, only where the contract
/// makes that harmless.
pub(super) async fn run(context: &Context, claim: &Claim) -> Came {
    let Some(acquirer) = context.acquirers.get(&claim.payment.acquirer) else {
        return give_back(context, claim, Duration::ZERO).await;
    };
    if claim.untouched {
        return first_send(context, claim).await;
    }
    let sends = call::sends(&context.pool, claim.payment.key(), acquirer.key_scope(), claim.request_id);
    let Ok(sends) = in_time(sends).await else { return give_back(context, claim, Duration::ZERO).await };
    let latest = claim.lease_until - acquirer.deadline();
    let pass = match acquirer.gate().enter(latest).await {
        Ok(pass) if Instant::now() < latest => pass,
        Ok(_) => return give_back(context, claim, Duration::ZERO).await,
        Err(closed) => return give_back(context, claim, closed.rest()).await,
    };
    let asking = Asking { acquirer, sends, deadline: Instant::now() + acquirer.deadline() };
    if claim.resend && asking.may(claim, Known::ResendAsked) == MaySend::Send {
        return asking.resend(context, claim, pass).await;
    }
    match asking.may(claim, Known::Nothing) {
        MaySend::LookUpFirst => asking.look_up(context, claim, pass).await,
        MaySend::Send => asking.repeat(context, claim, pass).await,
        MaySend::Review(reason) => {
            if let Some(decision) = decided::approved(context, claim).await {
                let unsent = Ended::unsent(claim.request_id, Answer::unknown(None, "cannot_be_asked", CANNOT_BE_ASKED));
                return decided::apply(context, claim, decision, unsent).await;
            }
            let ended = Ended::unsent(claim.request_id, Answer::unknown(None, "cannot_be_asked", CANNOT_BE_ASKED));
            let detail = asking.described(claim, reason, &ended);
            review(context, claim, Some(ended), reason, detail).await
        }
        MaySend::Wait => give_back(context, claim, rest(context, claim)).await,
    }
}

/// Why there was no look-up.
const CANNOT_BE_ASKED: &str = "this acquirer cannot be asked what became of a charge";

/// One claim's questions to its acquirer.
struct Asking<'a> {
    acquirer: &'a AcquirerClient,
    sends: Sends,
    deadline: Instant,
}

impl Asking<'_> {
    /// What the contract allows; and what cannot be told to the acquirer is not sent to it.
    fn may(&self, claim: &Claim, known: Known) -> MaySend {
        match may_send(self.acquirer.contract(), history(claim, &self.sends, known), claim.clock.now()) {
            MaySend::Send if self.acquirer.amount(&claim.payment).is_err() => {
                MaySend::Review(Reason::NotFoundInconclusive)
            }
            may => may,
        }
    }

    fn described(&self, claim: &Claim, reason: Reason, ended: &Ended) -> String {
        match self.acquirer.amount(&claim.payment) {
            Ok(_) => described(reason, ended),
            Err(refused) => format!("no charge is found, and none can be sent: {refused}"),
        }
    }

    fn call(&self, claim: &Claim, kind: Kind) -> Call {
        let transaction_id = self.sends.transaction_id.clone();
        Call { kind, request_id: claim.request_id, sent_before: true, transaction_id, deadline: self.deadline }
    }

    async fn look_up(&self, context: &Context, claim: &Claim, pass: Pass) -> Came {
        match send(context, claim, &self.call(claim, Kind::Lookup), pass).await {
            Some(ended) => self.decide(context, claim, ended).await,
            None => give_back(context, claim, Duration::ZERO).await,
        }
    }

    /// Where nothing can be looked up, the same request again brings the first one's result. The claim wrote
    /// this charge down.
    async fn repeat(&self, context: &Context, claim: &Claim, pass: Pass) -> Came {
        let Some(ended) = send(context, claim, &self.call(claim, Kind::Charge), pass).await else {
            return give_back(context, claim, Duration::ZERO).await;
        };
        if let Some(decision) = decided::approved(context, claim).await {
            return decided::apply(context, claim, decision, ended).await;
        }
        match conclude(context, claim, ended).await {
            Ok(came) => came,
            Err(ended) => wait_or_give_up(context, claim, ended).await,
        }
    }

    /// A person asked for it, and the contract makes it harmless.
    async fn resend(&self, context: &Context, claim: &Claim, pass: Pass) -> Came {
        tracing::info!("a person asked for the same charge to be sent once more");
        if !self.acquirer.can_be_asked() {
            return self.repeat(context, claim, pass).await;
        }
        let instead = Answer::unknown(None, "resend_asked", "the charge was sent instead");
        let looked_up = Ended::unsent(claim.request_id, instead);
        let sent = send_once_more(context, claim, looked_up, self.deadline, pass).await;
        let Some(ended) = sent else { return "stale" };
        match conclude(context, claim, ended).await {
            Ok(came) => came,
            Err(ended) => wait_or_give_up(context, claim, ended).await,
        }
    }

    async fn decide(&self, context: &Context, claim: &Claim, ended: Ended) -> Came {
        if let Some(decision) = decided::approved(context, claim).await {
            return decided::apply(context, claim, decision, ended).await;
        }
        let ended = match conclude(context, claim, ended).await {
            Ok(came) => return came,
            Err(ended) => ended,
        };
        match self.may(claim, Known::LookedUp(ended.answer.outcome)) {
            MaySend::Send => self.send_again(context, claim, ended).await,
            MaySend::Review(reason) => {
                let detail = self.described(claim, reason, &ended);
                review(context, claim, Some(ended), reason, detail).await
            }
            MaySend::Wait | MaySend::LookUpFirst => wait_or_give_up(context, claim, ended).await,
        }
    }

    async fn send_again(&self, context: &Context, claim: &Claim, ended: Ended) -> Came {
        let Ok(pass) = self.acquirer.gate().enter(self.deadline - self.acquirer.call_budget()).await else {
            return wait_or_give_up(context, claim, ended).await;
        };
        let sent = send_once_more(context, claim, ended, self.deadline, pass).await;
        let Some(ended) = sent else { return "stale" };
        match conclude(context, claim, ended).await {
            Ok(came) => came,
            Err(ended) => wait(context, claim, ended, rest(context, claim)).await,
        }
    }
}

/// Rests by the schedule. When this was the last delivery of the budget, a person takes over.
pub(super) async fn wait_or_give_up(context: &Context, claim: &Claim, ended: Ended) -> Came {
    let spent = claim.step == Step::Lookup && claim.deliveries >= context.budget(Step::Lookup).deliveries;
    if spent && ended.answer.was_heard() {
        let reason = match ended.answer.outcome {
            Outcome::Processing => Reason::StuckProcessing,
            Outcome::NotFound => Reason::NotFoundInconclusive,
            _ => Reason::UnknownPastWindow,
        };
        let said = ended.answer.message.as_deref().unwrap_or("nothing");
        let detail =
            format!("asked {} times, which is the budget of steps.lookup; the last answer: {said}", claim.deliveries);
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
