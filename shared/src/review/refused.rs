//! Why something was not done.

use super::decision::DecisionState;
use crate::payment::life::Status;
use uuid::Uuid;

/// Why something was not done. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// There is no such payment.
    #[error("there is no such payment")]
    NoPayment,
    /// There is no such review.
    #[error("there is no such review")]
    NoReview,
    /// There is no such decision.
    #[error("there is no such decision")]
    NoDecision,
    /// The payment is final.
    #[error("the payment is {0}, and that never changes; nothing was done")]
    Final(Status),
    /// The payment is not final.
    #[error(
        "the payment is {0}: ask the acquirer, or decide about it; a review is closed when nothing is left to decide"
    )]
    Open(Status),
    /// The machine is still at it.
    #[error("the payment is {0} and not in review: the machine is still finding out; decide when it has given up")]
    NotInReview(Status),
    /// The payment is not as the person saw it.
    #[error("the payment changed meanwhile; its version is {0}: look again")]
    Changed(i32),
    /// Somebody did the same a moment ago, or a worker is at it.
    #[error("it is being asked already; look again in a moment")]
    UnderWay,
    /// Another decision about this payment is open.
    #[error("decision {0} about this payment is open; approve or reject it first")]
    DecisionOpen(Uuid),
    /// Whoever proposes may not approve.
    #[error("you proposed it: another person has to approve or reject it")]
    SamePerson,
    /// The decision was made.
    #[error("the decision is {0:?} already")]
    Decided(DecisionState),
    /// The contract does not protect another send.
    #[error("the acquirer's contract does not protect another send of this payment ({0}); nothing was sent")]
    NotProtected(&'static str),
    /// The acquirer's profile is not configured here.
    #[error("no [acquirers] profile named {0:?} is configured here")]
    NoAcquirer(String),
    /// The review is resolved.
    #[error("the review was resolved by {by} ({resolution}); nothing was done")]
    Resolved {
        /// By whom.
        by: String,
        /// How.
        resolution: String,
    },
    /// The review is about something else.
    #[error("this review is not about an event that could not be delivered")]
    NotADelivery,
    /// The review is about a doubt, not about a spent budget.
    #[error("this review is no dead letter: ask the acquirer, or decide about the payment")]
    NotADeadLetter,
    /// The event is not dead.
    #[error(
        "there is nothing to deliver again: the event was delivered meanwhile, or is so old that it is kept no longer; \
         resolve the review"
    )]
    NothingToDeliver,
    /// There is nobody of that name.
    #[error("there is no operator named {0:?} who could look after it")]
    NoOperator(String),
    /// Something is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The database.
    #[error("the database could not be asked: {0}")]
    Db(#[from] sqlx::Error),
}
