//! Applying what a person decided: after the acquirer was asked once more, and only while the payment is as the person
//! saw it. What the acquirer proves goes before what a person says.

use super::lookup::wait_or_give_up;
use super::settle;
use super::{Came, conclude, write_open};
use crate::Context;
use shared::acquirer::Answer;
use shared::db::in_time;
use shared::payment::call::Ended;
use shared::payment::claim::Claim;
use shared::payment::life::Outcome;
use shared::payment::record::Then;
use shared::review::decision::{self, Decision, DecisionState, Wanted};
use shared::review::{self, Reason};

/// The decision that waits for this payment's look-up.
pub(super) async fn approved(context: &Context, claim: &Claim) -> Option<Decision> {
    if !claim.payment.in_review {
        return None;
    }
    in_time(decision::approved_of(&context.pool, claim.payment.key())).await.ok().flatten()
}

/// Applies it, or says why not. `ended`: what the acquirer said a moment ago.
pub(super) async fn apply(context: &Context, claim: &Claim, decision: Decision, ended: Ended) -> Came {
    if ended.answer.outcome.is_final() {
        return conclude(context, claim, ended).await.unwrap_or("not_final");
    }
    let asks =
        context.acquirers.get(&claim.payment.acquirer).is_some_and(crate::acquirer::AcquirerClient::can_be_asked);
    if asks && !ended.answer.was_heard() {
        return wait_or_give_up(context, claim, ended).await;
    }
    if claim.payment.version != decision.payment_version {
        let why = "the payment changed since it was decided";
        return back(context, claim, &decision, ended, DecisionState::Stale, why).await;
    }
    match confirm(&decision.wanted, decision.evidence.is_some(), asks, &ended.answer) {
        Ok(()) => settle_so(context, claim, &decision, ended).await,
        Err(why) => back(context, claim, &decision, ended, DecisionState::Refused, why).await,
    }
}

/// Whether what the acquirer says leaves room for what the person says. Source: design §10.
fn confirm(wanted: &Wanted, evidence: bool, asks: bool, answer: &Answer) -> Result<(), &'static str> {
    // As `duplicate` in shared::acquirer words it: `…: txn_1, txn_2`.
    let listed = answer.message.as_deref().and_then(|message| message.rsplit(": ").next()).unwrap_or_default();
    let lists = |id: &str| listed.split(", ").any(|listed| listed == id);
    match (wanted, answer.conflict, answer.outcome) {
        (Wanted::Paid { transaction_id }, Some(Reason::DuplicateAtProvider), _) if lists(transaction_id) => Ok(()),
        (Wanted::Paid { .. }, Some(Reason::DuplicateAtProvider), _) => {
            Err("the acquirer holds several charges for this payment, and this is none of them")
        }
        // It has a charge, and the charge is not what we asked for: what proves it must be in writing.
        (Wanted::Paid { .. }, Some(_), _) if evidence => Ok(()),
        (Wanted::Paid { .. }, Some(_), _) => {
            Err("the acquirer's charge does not match the payment, and there is no evidence")
        }
        (Wanted::Paid { .. }, None, _) if !asks => Ok(()),
        (Wanted::Paid { .. }, None, Outcome::NotFound) => Err("the acquirer knows no charge for this payment"),
        (Wanted::Paid { .. }, None, Outcome::Processing) => Err("the acquirer is still processing it"),
        (Wanted::Paid { .. }, None, _) => Err("the acquirer does not confirm the charge"),
        (Wanted::Declined { .. } | Wanted::Failed { .. }, Some(_), _) => {
            Err("the acquirer holds a charge for this payment")
        }
        (Wanted::Declined { .. } | Wanted::Failed { .. }, None, _) => Ok(()),
    }
}

/// Settles in the ordinary way, in the name of whoever decided.
async fn settle_so(context: &Context, claim: &Claim, decision: &Decision, ended: Ended) -> Came {
    let (transaction_id, code) = match &decision.wanted {
        Wanted::Paid { transaction_id } => (Some(transaction_id.clone()), "decided".to_owned()),
        Wanted::Declined { code } | Wanted::Failed { code } => (None, code.clone()),
    };
    let answer = Answer {
        http_status: ended.answer.http_status,
        outcome: decision.wanted.outcome(),
        transaction_id,
        code: Some(code),
        message: None,
        conflict: None,
    };
    let actor = decision.decided_by.as_deref().unwrap_or(&decision.proposed_by);
    settle::run_as(context, claim, &answer, Some(ended), &format!("operator {actor}")).await
}

/// Back to the people, with the reason why.
async fn back(
    context: &Context,
    claim: &Claim,
    decision: &Decision,
    ended: Ended,
    state: DecisionState,
    why: &str,
) -> Came {
    tracing::warn!(decision = %decision.id, ?state, why, "a decision was not applied");
    let noted = decision::not_applied(&context.pool, claim.payment.merchant_id, decision.id, state, why);
    if let Err(error) = in_time(noted).await {
        tracing::warn!(%error, "the decision stays as it is; it is tried again");
        return wait_or_give_up(context, claim, ended).await;
    }
    context.faults.point("after a commit").await;
    let open = in_time(review::open_of(&context.pool, claim.payment.key())).await.unwrap_or_default();
    let reason = open.first().map_or(Reason::UnknownPastWindow, |review| review.reason);
    let then = Then::Review { reason, detail: format!("a decision was not applied: {why}") };
    write_open(context, claim, Some(ended), then).await.unwrap_or("not_applied")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(outcome: Outcome, conflict: Option<Reason>, message: &str) -> Answer {
        Answer { outcome, conflict, ..Answer::unknown(Some(200), "", message) }
    }

    #[test]
    fn what_the_acquirer_proves_goes_before_what_a_person_says() {
        let paid = Wanted::Paid { transaction_id: "txn_1".to_owned() };
        let failed = Wanted::Failed { code: "no_charge".to_owned() };
        let two = answer(Outcome::Unknown, Some(Reason::DuplicateAtProvider), "2 approved charges: txn_1, txn_2");
        let other = answer(Outcome::Unknown, Some(Reason::DuplicateAtProvider), "2 approved charges: txn_12, txn_4");
        let differs = answer(Outcome::Unknown, Some(Reason::Conflicted), "amount 1 instead of 2");
        let absent = answer(Outcome::NotFound, None, "");
        let processing = answer(Outcome::Processing, None, "");
        let table = [
            (&paid, &two, false, true, true),
            (&paid, &other, true, true, false),
            (&paid, &differs, true, true, true),
            (&paid, &differs, false, true, false),
            (&paid, &absent, true, true, false),
            (&paid, &absent, true, false, true),
            (&paid, &processing, true, true, false),
            (&failed, &absent, true, true, true),
            (&failed, &processing, true, true, true),
            (&failed, &two, true, true, false),
            (&failed, &differs, true, true, false),
        ];
        for (wanted, answer, evidence, asks, applies) in table {
            assert_eq!(
                confirm(wanted, evidence, asks, answer).is_ok(),
                applies,
                "{wanted:?} {answer:?} {evidence} {asks}"
            );
        }
    }
}
