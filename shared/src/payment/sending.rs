//! May this payment be sent to the acquirer, now? Pure: the contract, what is known, the database's
//! time; nothing else.

use super::life::Outcome;
use crate::acquirer::{Contract, Keys};
use crate::review::Reason;
use time::OffsetDateTime;

/// What is known about the sends of one payment.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// When the acquirer may first have received it. `None`: nothing ever left.
    pub first_call_at: Option<OffsetDateTime>,
    /// When the acquirer may last have received it; `None` also when that is no longer on record.
    pub last_call_at: Option<OffsetDateTime>,
    /// What the lookup of this very claim found; `None` before it was asked.
    pub looked_up: Option<Outcome>,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaySend {
    /// Send, once, with the payment's one key.
    Send,
    /// A send may have left: ask the acquirer first.
    LookUpFirst,
    /// Nothing is proven yet: ask again later.
    Wait,
    /// No machine can decide it any more.
    Review(Reason),
}

/// Decides whether a charge may be sent at `now` (the database's clock).
#[must_use]
pub fn may_send(contract: &Contract, history: History, now: OffsetDateTime) -> MaySend {
    let Some(first) = history.first_call_at else {
        return MaySend::Send;
    };
    // A call that is no longer on record left all the same.
    let last = history.last_call_at.unwrap_or(first);
    let window_open = contract.window.is_some_and(|window| now < first + window);
    let keep_asking = |reason| match now < first + contract.give_up_after {
        true => MaySend::Wait,
        false => MaySend::Review(reason),
    };
    match history.looked_up {
        None => MaySend::LookUpFirst,
        Some(Outcome::NotFound) if now < last + contract.absence_final_after => MaySend::Wait,
        Some(Outcome::NotFound) => match (contract.keys, contract.window) {
            (Keys::Honoured, Some(_)) if window_open => MaySend::Send,
            (Keys::Honoured, Some(_)) => MaySend::Review(Reason::UnknownPastWindow),
            // Nobody promised what a second send would do.
            (Keys::Honoured, None) | (Keys::None, _) => MaySend::Review(Reason::NotFoundInconclusive),
        },
        Some(Outcome::Processing) => keep_asking(Reason::StuckProcessing),
        Some(_) => keep_asking(Reason::UnknownPastWindow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquirer::Lookup;
    use std::time::Duration;

    const DAY: Duration = Duration::from_secs(86_400);
    const START: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

    fn contract(keys: Keys, window: Option<Duration>) -> Contract {
        let absence_final_after = Duration::from_secs(60);
        Contract { keys, window, lookup: Lookup::ByKey, absence_final_after, give_up_after: DAY }
    }

    fn decided(contract: &Contract, looked_up: Option<Outcome>, age_seconds: u64) -> MaySend {
        let history = History { first_call_at: Some(START), last_call_at: Some(START), looked_up };
        may_send(contract, history, START + Duration::from_secs(age_seconds))
    }

    #[test]
    fn what_never_left_is_sent() {
        let nothing = History { first_call_at: None, last_call_at: None, looked_up: None };
        for keys in [Keys::Honoured, Keys::None] {
            assert_eq!(may_send(&contract(keys, None), nothing, START), MaySend::Send);
        }
    }

    #[test]
    fn what_may_have_left_is_looked_up_first() {
        assert_eq!(decided(&contract(Keys::Honoured, Some(DAY)), None, 40), MaySend::LookUpFirst);
    }

    #[test]
    fn absence_proves_nothing_before_its_time() {
        let honoured = contract(Keys::Honoured, Some(DAY));
        assert_eq!(decided(&honoured, Some(Outcome::NotFound), 59), MaySend::Wait);
        assert_eq!(decided(&honoured, Some(Outcome::NotFound), 60), MaySend::Send);
    }

    #[test]
    fn nothing_is_resent_past_the_window_or_without_a_known_one_or_without_keys() {
        let late = 86_400;
        let cases = [
            (contract(Keys::Honoured, Some(DAY)), late, Reason::UnknownPastWindow),
            (contract(Keys::Honoured, None), 60, Reason::NotFoundInconclusive),
            (contract(Keys::None, Some(DAY)), 60, Reason::NotFoundInconclusive),
        ];
        for (contract, age, reason) in cases {
            assert_eq!(decided(&contract, Some(Outcome::NotFound), age), MaySend::Review(reason));
        }
    }

    #[test]
    fn an_answer_that_does_not_come_is_awaited_until_we_give_up() {
        let honoured = contract(Keys::Honoured, Some(DAY));
        for (outcome, reason) in
            [(Outcome::Processing, Reason::StuckProcessing), (Outcome::Unknown, Reason::UnknownPastWindow)]
        {
            assert_eq!(decided(&honoured, Some(outcome), 3600), MaySend::Wait);
            assert_eq!(decided(&honoured, Some(outcome), 86_400), MaySend::Review(reason));
        }
    }

    /// Money first: whatever was found, a second send needs keys, a known open window, and absence.
    #[test]
    fn a_second_send_is_never_allowed_without_protection() {
        for keys in [Keys::Honoured, Keys::None] {
            for window in [None, Some(DAY)] {
                for looked_up in Outcome::ALL.map(Some).into_iter().chain([None]) {
                    for age in [0, 59, 60, 3600, 86_399, 86_400, 1_000_000] {
                        let sends = decided(&contract(keys, window), looked_up, age) == MaySend::Send;
                        let protected = keys == Keys::Honoured
                            && window.is_some_and(|window| Duration::from_secs(age) < window)
                            && looked_up == Some(Outcome::NotFound)
                            && age >= 60;
                        assert_eq!(sends, protected, "{keys:?} {window:?} {looked_up:?} {age}");
                    }
                }
            }
        }
    }
}
