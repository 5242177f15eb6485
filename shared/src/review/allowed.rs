//! What can be done about a payment as it is: the one place that says it. The desk asks before it does something,
//! commands, HTTP and pages before they offer it.

use super::audit::Action;
use super::decision::{Decision, DecisionState};
use super::{Reason, Refused, Review};
use crate::payment::Payment;

/// What there is to act on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The payment.
    pub payment: &'a Payment,
    /// The review that somebody looks at.
    pub review: Option<&'a Review>,
    /// The decision that is open about the payment.
    pub decision: Option<&'a Decision>,
}

impl Situation<'_> {
    /// Whether that can be done now. Whether the acquirer's contract protects another send is for
    /// [`crate::payment::sending::may_send`] to say, and who may do it for the roles.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn allows(&self, action: Action) -> Result<(), Refused> {
        match action {
            Action::Ask | Action::Resend => self.payment_is_open(),
            Action::Propose => {
                self.nothing_is_decided().and_then(|()| self.payment_is_open()).and_then(|()| self.in_review())
            }
            Action::Approve | Action::Reject => match self.decision {
                Some(decision) if decision.state == DecisionState::Proposed => Ok(()),
                Some(decision) => Err(Refused::Decided(decision.state)),
                None => Err(Refused::NoDecision),
            },
            Action::Assign => self.open_review().map(|_| ()),
            Action::Comment => Ok(()),
            Action::Redeliver => match self.open_review()?.event_id {
                Some(_) => Ok(()),
                None => Err(Refused::NotADelivery),
            },
            // An event that nobody needs any more is no doubt about money.
            Action::Resolve => match self.open_review()?.reason {
                Reason::DeliveryExhausted => Ok(()),
                _ if self.payment.status.is_final() => Ok(()),
                _ => Err(Refused::Open(self.payment.status)),
            },
        }
    }

    /// All that can be done now.
    #[must_use]
    pub fn all(&self) -> Vec<Action> {
        Action::ALL.into_iter().filter(|action| self.allows(*action).is_ok()).collect()
    }

    fn payment_is_open(&self) -> Result<(), Refused> {
        let status = self.payment.status;
        if status.is_final() { Err(Refused::Final(status)) } else { Ok(()) }
    }

    fn in_review(&self) -> Result<(), Refused> {
        if self.payment.in_review { Ok(()) } else { Err(Refused::NotInReview(self.payment.status)) }
    }

    fn nothing_is_decided(&self) -> Result<(), Refused> {
        self.decision.map_or(Ok(()), |decision| Err(Refused::DecisionOpen(decision.id)))
    }

    fn open_review(&self) -> Result<&Review, Refused> {
        let review = self.review.ok_or(Refused::NoReview)?;
        match (&review.resolved_by, &review.resolution) {
            (Some(by), Some(resolution)) => Err(Refused::Resolved { by: by.clone(), resolution: resolution.clone() }),
            _ => Ok(review),
        }
    }
}
