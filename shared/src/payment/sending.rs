//! May this payment be sent to the acquirer, now? Pure: the contract, what is known, the database's
//! time; nothing else. Every send of every step asks here.

use super::life::Outcome;
use crate::acquirer::{Contract, Keys, Lookup, Replay};
use crate::review::Reason;
use time::OffsetDateTime;

/// What is known about the sends of one payment.
#[derive(Clone, Copy, Debug)]
pub struct History {
    /// When the acquirer may first have received it. `None`: nothing ever left.
    pub first_call_at: Option<OffsetDateTime>,
    /// When the acquirer may last have received it; `None` also when that is no longer on record.
    pub last_call_at: Option<OffsetDateTime>,
    /// Whether every send so far went where our key is known for the next one: see
    /// [`Scope`](crate::acquirer::Scope). False also when that is not on record.
    pub in_scope: bool,
    /// What this claim learned so far.
    pub known: Known,
}

/// What a claim learned about its payment's earlier sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Nothing yet.
    Nothing,
    /// It sent, and the road was cut: nothing was heard.
    CutOff,
    /// It asked, and the acquirer said this.
    LookedUp(Outcome),
    /// A person asked for the same charge to be sent once more.
    ResendAsked,
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
    let protection = protection(contract, history.in_scope, now < first + contract.window.unwrap_or_default());
    let asking = now < first + contract.give_up_after;
    match (history.known, contract.lookup) {
        (Known::CutOff, _) => at_once(contract, protection),
        // With or without a look-up: what protects is the key, and that a repeat executes nothing.
        (Known::ResendAsked, _) => unasked(contract, protection),
        (Known::LookedUp(Outcome::NotFound), _) => {
            // A call that is no longer on record left all the same.
            let last = history.last_call_at.unwrap_or(first);
            if now < last + contract.absence_final_after { MaySend::Wait } else { after_absence(protection) }
        }
        (Known::LookedUp(Outcome::Processing), _) if !asking => MaySend::Review(Reason::StuckProcessing),
        (Known::LookedUp(_), _) if !asking => MaySend::Review(Reason::UnknownPastWindow),
        (Known::LookedUp(_), _) => MaySend::Wait,
        (Known::Nothing, Lookup::ByKey | Lookup::ByReference) => MaySend::LookUpFirst,
        (Known::Nothing, Lookup::None) => unasked(contract, protection),
    }
}

/// What stands between a second send and a second charge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protection {
    /// The acquirer recognises the repeat.
    Key,
    /// It did, and may have forgotten the key by now.
    Lapsed,
    /// Nobody promised anything.
    None,
}

fn protection(contract: &Contract, in_scope: bool, window_open: bool) -> Protection {
    match (contract.keys, contract.window) {
        (Keys::Honoured, Some(_)) if !in_scope => Protection::None,
        (Keys::Honoured, Some(_)) if window_open => Protection::Key,
        (Keys::Honoured, Some(_)) => Protection::Lapsed,
        (Keys::Honoured, None) | (Keys::None, _) => Protection::None,
    }
}

/// The road was cut. An acquirer that executes a request anew unless the first one succeeded could charge
/// twice here: the answer that was not heard may have been an error, after the money moved.
fn at_once(contract: &Contract, protection: Protection) -> MaySend {
    let harmless = protection == Protection::Key && contract.replay != Replay::Reexecute;
    if harmless && contract.resend_after_timeout { MaySend::Send } else { MaySend::LookUpFirst }
}

/// No charge is found, for long enough to be sure; the key is what protects if that was wrong.
const fn after_absence(protection: Protection) -> MaySend {
    match protection {
        Protection::Key => MaySend::Send,
        Protection::Lapsed => MaySend::Review(Reason::UnknownPastWindow),
        Protection::None => MaySend::Review(Reason::NotFoundInconclusive),
    }
}

/// The acquirer cannot be asked: only the same request, with the same key, brings the first one's result.
fn unasked(contract: &Contract, protection: Protection) -> MaySend {
    match protection {
        Protection::Key if contract.replay != Replay::Reexecute => MaySend::Send,
        Protection::Lapsed => MaySend::Review(Reason::UnknownPastWindow),
        Protection::Key | Protection::None => MaySend::Review(Reason::NotFoundInconclusive),
    }
}

#[cfg(test)]
mod tests;
