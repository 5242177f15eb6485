//! THE LIFE of a payment: every rule about which state may follow which stands in [`decide`].
//!
//! Pure: no IO, no clock. Everything else asks it; the database's constraints say the same once
//! more, for whoever does not ask.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The state of a payment. PAID, DECLINED and FAILED are final and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, sqlx::Type, utoipa::ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[sqlx(type_name = "text", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// Accepted; no outcome is known and none is in doubt.
    Pending,
    /// The acquirer may or may not have moved money; not proven either way.
    Unknown,
    /// Money moved, once.
    Paid,
    /// The issuer's final business refusal.
    Declined,
    /// The request was refused; no money can have moved.
    Failed,
}

impl Status {
    /// All states, in the order of a life.
    pub const ALL: [Self; 5] = [Self::Pending, Self::Unknown, Self::Paid, Self::Declined, Self::Failed];

    /// The word that SQL, the API, logs and pages use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Unknown => "UNKNOWN",
            Self::Paid => "PAID",
            Self::Declined => "DECLINED",
            Self::Failed => "FAILED",
        }
    }

    /// Whether nothing can change this state any more.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Paid | Self::Declined | Self::Failed)
    }

    /// The state of the idempotency key beside a payment in this state: the two never disagree.
    #[must_use]
    pub const fn key_state(self) -> KeyState {
        match self {
            Self::Pending => KeyState::InProgress,
            Self::Unknown => KeyState::AwaitingResult,
            Self::Paid | Self::Declined | Self::Failed => KeyState::Completed,
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Status {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|status| status.as_str() == word).ok_or(())
    }
}

/// The state of an idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KeyState {
    /// Taken; a repeat hears 409 `payment_in_progress`.
    InProgress,
    /// The payment is UNKNOWN; a repeat hears the current payment.
    AwaitingResult,
    /// A repeat hears the stored answer, byte for byte.
    Completed,
}

impl KeyState {
    /// The word in the database.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "IN_PROGRESS",
            Self::AwaitingResult => "AWAITING_RESULT",
            Self::Completed => "COMPLETED",
        }
    }
}

/// What a call to the acquirer taught us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, sqlx::Type)]
#[sqlx(type_name = "text", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Outcome {
    /// Money moved, and the answer echoed our reference, amount and currency.
    Success,
    /// The issuer refused for good.
    Declined,
    /// The request was refused before any money could move.
    Failed,
    /// Nothing is proven: a timeout, a reset, an answer that cannot be read or believed.
    Unknown,
    /// A lookup found no charge. Proves nothing before the contract's `absence_final_after`.
    NotFound,
    /// The acquirer is still working on it.
    Processing,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 6] =
        [Self::Success, Self::Declined, Self::Failed, Self::Unknown, Self::NotFound, Self::Processing];

    /// The word in the database, in logs and in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "SUCCESS",
            Self::Declined => "DECLINED",
            Self::Failed => "FAILED",
            Self::Unknown => "UNKNOWN",
            Self::NotFound => "NOT_FOUND",
            Self::Processing => "PROCESSING",
        }
    }

    /// Whether it decides the payment.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Success | Self::Declined | Self::Failed)
    }
}

/// Something that happens to a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker takes a step of it: the attempt is raised, the state stays.
    Claimed,
    /// A charge or a lookup taught us something.
    Learned(Outcome),
    /// The machine gave up and put it before a person.
    ReviewOpened,
}

impl Event {
    /// All events, for tables.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::Claimed];
        all.extend(Outcome::ALL.map(Self::Learned));
        all.push(Self::ReviewOpened);
        all
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claimed => f.write_str("claimed"),
            Self::Learned(outcome) => write!(f, "learned {}", outcome.as_str()),
            Self::ReviewOpened => f.write_str("review opened"),
        }
    }
}

/// What follows from a legal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The state afterwards; the key's is [`Status::key_state`] of it.
    pub to: Status,
    /// What is to be done next.
    pub next: Next,
}

/// What is to be done next with a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The claimed step runs.
    Run,
    /// The outcome is final: settle writes it, with everything that belongs to it.
    Settle,
    /// Rest, then ask the acquirer.
    LookUp,
    /// A person decides.
    Person,
}

/// Why an event cannot happen in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// The payment is final; whoever comes now is late and writes nothing.
    #[error("the payment is final")]
    Final,
    /// The payment was refused, and now the acquirer says money moved: a person must see it
    /// (review `late_success`). The state still does not change.
    #[error("the acquirer reports success for a payment that is final without it")]
    LateSuccess,
}

/// Decides what `event` does to a payment in `status`.
///
/// # Errors
/// [`Illegal`] when the payment is final: final states never change.
pub const fn decide(status: Status, event: Event) -> Result<Transition, Illegal> {
    match (status, event) {
        (Status::Declined | Status::Failed, Event::Learned(Outcome::Success)) => Err(Illegal::LateSuccess),
        (Status::Paid | Status::Declined | Status::Failed, _) => Err(Illegal::Final),
        (Status::Pending | Status::Unknown, Event::Claimed) => Ok(Transition { to: status, next: Next::Run }),
        (Status::Pending | Status::Unknown, Event::Learned(outcome)) => Ok(learned(outcome)),
        // Whatever stopped the machine, a call may have left it: not proven either way.
        (Status::Pending | Status::Unknown, Event::ReviewOpened) => {
            Ok(Transition { to: Status::Unknown, next: Next::Person })
        }
    }
}

const fn learned(outcome: Outcome) -> Transition {
    match outcome {
        Outcome::Success => Transition { to: Status::Paid, next: Next::Settle },
        Outcome::Declined => Transition { to: Status::Declined, next: Next::Settle },
        Outcome::Failed => Transition { to: Status::Failed, next: Next::Settle },
        Outcome::Unknown | Outcome::NotFound | Outcome::Processing => {
            Transition { to: Status::Unknown, next: Next::LookUp }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads as the life of a payment: every pair of a state and an event, none left out.
    #[test]
    fn every_pair_of_state_and_event_is_pinned() {
        let mut life = String::new();
        for status in Status::ALL {
            life.push_str(&format!("{status} (key {})\n", status.key_state().as_str()));
            for event in Event::all() {
                let follows = match decide(status, event) {
                    Ok(t) => format!("{} (key {}), then {:?}", t.to, t.to.key_state().as_str(), t.next),
                    Err(illegal) => format!("illegal: {illegal}"),
                };
                life.push_str(&format!("    {event:<18} -> {follows}\n"));
            }
        }
        insta::assert_snapshot!(life);
    }

    #[test]
    fn no_event_leads_out_of_a_final_state() {
        for status in Status::ALL.into_iter().filter(|status| status.is_final()) {
            for event in Event::all() {
                assert!(decide(status, event).is_err(), "{status} + {event}");
            }
        }
    }

    #[test]
    fn only_a_final_outcome_settles() {
        for outcome in Outcome::ALL {
            let transition = decide(Status::Pending, Event::Learned(outcome)).expect("PENDING learns");
            assert_eq!(outcome.is_final(), transition.next == Next::Settle);
            assert_eq!(outcome.is_final(), transition.to.is_final());
        }
    }
}
