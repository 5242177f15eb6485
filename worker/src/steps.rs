//! The steps of a payment. Each is its own idempotent transition: run twice, or cut off anywhere and
//! run again, the end is the same. A step trusts nothing but its claim and what it reads anew; it
//! returns nothing to apalis, because nobody but the queue's own rows decides about another run.

mod charge;
mod decided;
mod lookup;
mod publish;
mod settle;

use crate::Context;
use crate::acquirer::Ask;
use crate::acquirer::gate::Pass;
use crate::context::Written;
use shared::acquirer::Answer;
use shared::committer::Write;
use shared::db::in_time;
use shared::payment::call::{Begin, Ended, Kind, Sends};
use shared::payment::claim::{Claim, Drop, GiveBack};
use shared::payment::read;
use shared::payment::record::{Final, Open, Then};
use shared::payment::request::key_hash;
use shared::payment::sending::{History, Known};
use shared::queue::{Claimed, Step};
use shared::review::{Contradiction, Reason, contradiction};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

/// What a step came to, for metrics.
type Came = &'static str;

/// Runs a claimed step to its end, and the steps that its commits hand to the same worker.
pub async fn run(context: Arc<Context>, claimed: Claimed) {
    match claimed {
        Claimed::Payment(claim) => {
            let span = tracing::info_span!(
                "step", step = claim.step.as_str(), merchant_id = %claim.payment.merchant_id,
                payment_intent_id = claim.payment.payment_intent_id, payment_id = %claim.payment.id,
                key_hash = key_hash(&claim.payment.idempotency_key), attempt = claim.payment.attempt,
            );
            payment(&context, *claim).instrument(span).await;
        }
        Claimed::Delivery(claim) => {
            let span = tracing::info_span!(
                "step", step = "publish", merchant_id = %claim.event.merchant_id,
                payment_intent_id = claim.event.payment_intent_id, payment_id = %claim.event.payment_id,
            );
            publish::run(&context, *claim).instrument(span).await;
        }
    }
}

async fn payment(context: &Context, claim: Claim) {
    let began = Instant::now();
    let step = claim.step;
    let came = if claim.payment.status.is_final() {
        context.write(Write::Drop(Drop { of: claim.payment.key() }), claim.lease_until).await;
        "already_final"
    } else if claim.deliveries > context.budget(step).deliveries {
        let detail = format!("{} was delivered {} times and never ended", step.as_str(), claim.deliveries - 1);
        review(context, &claim, None, Reason::StepCrashed, detail).await
    } else {
        match step {
            Step::Charge => charge::run(context, &claim).await,
            Step::Lookup => lookup::run(context, &claim).await,
            Step::Settle => settle::run_alone(context, &claim).await,
            Step::Publish => unreachable!("publish claims deliveries, not payments"),
        }
    };
    context.metrics.step(step, came, began.elapsed());
}

/// Calls the acquirer, or refuses to (`None`): at the last moment before it, the lease must outlive the call.
async fn send(context: &Context, claim: &Claim, call: &Call, pass: Pass) -> Option<Ended> {
    let acquirer = context.acquirers.get(&claim.payment.acquirer)?;
    context.faults.point("before a call").await;
    if Instant::now() + acquirer.call_budget() >= claim.lease_until {
        return None;
    }
    let ask = Ask {
        payment: &claim.payment,
        transaction_id: call.transaction_id.as_deref(),
        request_id: call.request_id,
        deadline: call.deadline,
    };
    let answer = match call.kind {
        Kind::Charge => acquirer.charge(ask, call.sent_before).await,
        Kind::Lookup => acquirer.lookup(ask).await,
    };
    drop(pass);
    acquirer.gate().heard(&answer);
    context.faults.point("after a call").await;
    context.metrics.provider_call(&claim.payment.acquirer, call.kind, answer.outcome);
    tracing::debug!(
        provider_request_id = %call.request_id, kind = call.kind.as_str(), outcome = answer.outcome.as_str(),
        code = answer.code, "the acquirer was called"
    );
    Some(Ended::sent(call.request_id, answer))
}

/// One call to the acquirer.
struct Call {
    kind: Kind,
    request_id: Uuid,
    /// An earlier send of this payment may have reached the acquirer.
    sent_before: bool,
    /// The acquirer's id of the charge, where it is known already.
    transaction_id: Option<String>,
    /// The claim's clock over all its calls.
    deadline: Instant,
}

/// What is known about a claimed payment's sends.
fn history(claim: &Claim, sends: &Sends, known: Known) -> History {
    let first_call_at = claim.payment.first_call_at;
    History { first_call_at, last_call_at: sends.last_at, in_scope: sends.in_scope, known }
}

/// Records `ended`, writes down one more charge call, and sends it: only when the row is committed, under
/// a claim that still holds. `None`: the claim was lost, before the commit or right after it.
async fn send_once_more(
    context: &Context,
    claim: &Claim,
    ended: Ended,
    deadline: Instant,
    pass: Pass,
) -> Option<Ended> {
    let acquirer = context.acquirers.get(&claim.payment.acquirer)?;
    let (request_id, kind) = (Uuid::new_v4(), Kind::Charge);
    let key_scope = Some(acquirer.key_scope().to_owned());
    let begin = Begin { fence: claim.fence(), ended, request_id, kind, key_scope };
    if context.write(Write::Begin(begin), claim.lease_until).await != Written::Applied {
        return None;
    }
    let call = Call { kind, request_id, sent_before: true, transaction_id: None, deadline };
    let sent = send(context, claim, &call, pass).await;
    if sent.is_none() {
        context.metrics.stale();
    }
    sent
}

/// A final outcome is recorded and settled, a conflict goes to a person; anything else comes back.
async fn conclude(context: &Context, claim: &Claim, ended: Ended) -> Result<Came, Ended> {
    if ended.answer.outcome.is_final() {
        return Ok(finish(context, claim, ended).await);
    }
    let Some(reason) = ended.answer.conflict else { return Err(ended) };
    let detail = ended.answer.message.clone().unwrap_or_default();
    Ok(review(context, claim, Some(ended), reason, detail).await)
}

/// Settles a final outcome. When settle is refused (a fault of ours in one of its six tables), the
/// outcome is at least put on record: the acquirer's word is not lost, and the settle job tries again.
async fn finish(context: &Context, claim: &Claim, ended: Ended) -> Came {
    let came = settle::run(context, claim, &ended.answer.clone(), Some(ended.clone())).await;
    if came == settle::REFUSED {
        let record = Final { fence: claim.fence(), step: claim.step, ended };
        context.write(Write::Final(record), claim.lease_until).await;
    }
    came
}

/// Records an outcome that proves nothing and lets the payment rest.
async fn wait(context: &Context, claim: &Claim, ended: Ended, rest: Duration) -> Came {
    let outcome = ended.answer.outcome;
    tracing::info!(
        status = "UNKNOWN", provider_request_id = %ended.request_id, reason = ended.answer.code,
        rest_ms = rest.as_millis(), "the outcome is not known; it will be looked up"
    );
    let then = Then::LookUp { after: rest, refund: claim.step == Step::Lookup && !ended.answer.was_heard() };
    write_open(context, claim, Some(ended), then).await.unwrap_or(outcome.as_str())
}

/// Puts the payment before a person.
async fn review(context: &Context, claim: &Claim, ended: Option<Ended>, reason: Reason, detail: String) -> Came {
    tracing::warn!(status = "UNKNOWN", reason = reason.as_str(), detail, "a person must decide");
    write_open(context, claim, ended, Then::Review { reason, detail }).await.unwrap_or("review")
}

/// `None` when it was written; else what it came to.
async fn write_open(context: &Context, claim: &Claim, ended: Option<Ended>, then: Then) -> Option<Came> {
    let open = Open { fence: claim.fence(), step: claim.step, ended, actor: context.name.clone(), then };
    match context.write(Write::Open(open), claim.lease_until).await {
        Written::Applied => None,
        Written::Stale => Some("stale"),
        Written::Refused | Written::Lost => Some("not_written"),
    }
}

/// Somebody else has the payment now. What this owner learned is only worth a word to a person when
/// it contradicts a final state.
async fn stale(context: &Context, claim: &Claim, answer: &Answer) -> Came {
    tracing::warn!("the claim was lost to another worker; nothing was written");
    let Ok(Some(now)) = in_time(read::one(&context.pool, claim.payment.key())).await else { return "stale" };
    let (known, reported) = (now.transaction_id.as_deref(), answer.transaction_id.as_deref());
    if let Some(reason) = contradiction(now.status, known, answer.outcome, reported) {
        let transaction = reported.unwrap_or("without an id");
        let known = known.unwrap_or("none");
        let detail = format!(
            "the payment is {} (transaction: {known}), and the acquirer reports transaction {transaction} as approved",
            now.status
        );
        tracing::warn!(reason = reason.as_str(), detail, "a person must look");
        let row = Contradiction { of: now.key(), reason, detail };
        context.write(Write::Contradiction(row), claim.lease_until).await;
    }
    "stale"
}

/// Hands the claim back unused, due again after `rest`.
async fn give_back(context: &Context, claim: &Claim, rest: Duration) -> Came {
    context.write(Write::GiveBack(GiveBack::new(claim, rest)), claim.lease_until).await;
    "given_back"
}
