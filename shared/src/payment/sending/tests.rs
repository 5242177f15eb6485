//! Every combination as a table, and random lives against an acquirer that keeps its contract to the letter
//! and is as unhelpful as the letter allows.

use super::*;
use proptest::prelude::*;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const ABSENCE: Duration = Duration::from_secs(60);
const START: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

fn contract(keys: Keys, window: Option<Duration>, replay: Replay, lookup: Lookup) -> Contract {
    Contract {
        keys,
        window,
        replay,
        resend_after_timeout: true,
        lookup,
        absence_final_after: ABSENCE,
        give_up_after: 2 * HOUR,
    }
}

/// Every contract there is, in the order of a table.
fn contracts() -> impl Iterator<Item = Contract> {
    let keys = [(Keys::Honoured, Some(HOUR)), (Keys::Honoured, None), (Keys::None, Some(HOUR))];
    keys.into_iter().flat_map(|(keys, window)| {
        Replay::ALL
            .iter()
            .flat_map(move |&replay| Lookup::ALL.iter().map(move |&lookup| contract(keys, window, replay, lookup)))
    })
}

fn all_known() -> Vec<Known> {
    [Known::Nothing, Known::CutOff, Known::ResendAsked].into_iter().chain(Outcome::ALL.map(Known::LookedUp)).collect()
}

fn decided(contract: &Contract, known: Known, in_scope: bool, age: Duration) -> MaySend {
    let history = History { first_call_at: Some(START), last_call_at: Some(START), in_scope, known };
    may_send(contract, history, START + age)
}

/// Reads as the answer to "may it be sent again?": when it was just sent, when absence is final, when the key may
/// be forgotten, when we give up; last, within the window, after the key's realm changed.
#[test]
fn every_combination_is_pinned() {
    let moments = [Duration::from_secs(1), ABSENCE, HOUR, 2 * HOUR];
    let mut table = String::new();
    for contract in contracts() {
        let window = if contract.window.is_some() { "for 1 h" } else { "nobody knows how long" };
        table.push_str(&format!(
            "keys {}, kept {window}; replay {}; lookup {}\n",
            contract.keys.as_str(),
            contract.replay.as_str(),
            contract.lookup.as_str()
        ));
        for known in all_known() {
            let ages = moments.map(|age| format!("{:?}", decided(&contract, known, true, age)));
            let elsewhere = decided(&contract, known, false, ABSENCE);
            table.push_str(&format!(
                "    {:<22} {} | elsewhere {elsewhere:?}\n",
                format!("{known:?}"),
                ages.join(", ")
            ));
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn what_never_left_is_sent_whatever_the_contract() {
    for contract in contracts() {
        let nothing = History { first_call_at: None, last_call_at: None, in_scope: false, known: Known::Nothing };
        assert_eq!(may_send(&contract, nothing, START), MaySend::Send);
    }
}

#[test]
fn absence_counts_from_the_last_send() {
    let contract = contract(Keys::Honoured, Some(HOUR), Replay::Live, Lookup::ByKey);
    let known = Known::LookedUp(Outcome::NotFound);
    let last = START + ABSENCE;
    let history = History { first_call_at: Some(START), last_call_at: Some(last), in_scope: true, known };
    assert_eq!(may_send(&contract, history, last + ABSENCE / 2), MaySend::Wait);
    assert_eq!(may_send(&contract, history, last + ABSENCE), MaySend::Send);
    let forgotten = History { last_call_at: None, ..history };
    assert_eq!(may_send(&contract, forgotten, START + ABSENCE / 2), MaySend::Wait, "the first is a last one too");
}

#[test]
fn a_profile_may_forbid_the_resend_at_once() {
    let forbidden =
        Contract { resend_after_timeout: false, ..contract(Keys::Honoured, Some(HOUR), Replay::Live, Lookup::ByKey) };
    assert_eq!(decided(&forbidden, Known::CutOff, true, Duration::ZERO), MaySend::LookUpFirst);
}

/// Money first: whatever is known, a second send needs a key that is honoured, an open window and the key's realm; and
/// either proof of absence, or a promise that a repeat executes nothing.
#[test]
fn a_second_send_is_never_allowed_without_protection() {
    for contract in contracts() {
        for known in all_known() {
            for in_scope in [true, false] {
                for seconds in [0, 59, 60, 3599, 3600, 7199, 7200, 1_000_000] {
                    let age = Duration::from_secs(seconds);
                    if decided(&contract, known, in_scope, age) != MaySend::Send {
                        continue;
                    }
                    let kept = contract.window.is_some_and(|window| age < window);
                    assert!(contract.keys == Keys::Honoured && kept && in_scope, "{contract:?} {known:?} {age:?}");
                    let absent = known == Known::LookedUp(Outcome::NotFound) && age >= ABSENCE;
                    assert!(absent || contract.replay != Replay::Reexecute, "{contract:?} {known:?} {age:?}");
                }
            }
        }
    }
}

/// The acquirer of the random lives.
struct Acquirer {
    contract: Contract,
    /// Per realm: since when it knows the key, and whether what it stored is a success.
    known: [Option<(OffsetDateTime, bool)>; 2],
    /// When each charge was made.
    charges: Vec<OffsetDateTime>,
}

/// What a send comes to, where the contract leaves it open.
#[derive(Clone, Copy, Debug)]
struct Fate {
    books: bool,
    /// The answer is a success (only what booked can be) rather than an error.
    succeeds: bool,
}

impl Acquirer {
    fn receive(&mut self, realm: usize, fate: Fate, now: OffsetDateTime) {
        let kept = |since: OffsetDateTime| self.contract.window.is_some_and(|window| now < since + window);
        let repeat = match self.known[realm] {
            Some((since, success)) if self.contract.keys == Keys::Honoured && kept(since) => {
                success || self.contract.replay != Replay::Reexecute
            }
            _ => false,
        };
        if !repeat {
            if fate.books {
                self.charges.push(now);
            }
            let since = self.known[realm].map_or(now, |(since, _)| since);
            self.known[realm] = Some((since, fate.books && fate.succeeds));
        }
    }

    /// Hides a charge for as long as it may.
    fn look_up(&self, now: OffsetDateTime, hides: bool) -> Outcome {
        let must_show = |made: &OffsetDateTime| now >= *made + self.contract.absence_final_after;
        match self.charges.iter().any(|made| !hides || must_show(made)) {
            true => Outcome::Success,
            false => Outcome::NotFound,
        }
    }
}

/// One step of a random life: how long it rests before, and what everybody makes of the chances they have.
#[derive(Clone, Debug)]
struct Turn {
    rest_s: u64,
    fate: Fate,
    cut_off: bool,
    hides: bool,
    moves: bool,
}

fn turn() -> impl Strategy<Value = Turn> {
    let rest = prop_oneof![0..5_u64, 30..90_u64, 1000..4000_u64];
    (rest, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.1)).prop_map(
        |(rest_s, books, succeeds, cut_off, hides, moves)| Turn {
            rest_s,
            fate: Fate { books, succeeds },
            cut_off,
            hides,
            moves,
        },
    )
}

/// Lives as the workers let a payment live, until it is decided or a person has it.
fn live(contract: Contract, turns: &[Turn]) -> usize {
    let mut acquirer = Acquirer { contract, known: [None; 2], charges: Vec::new() };
    let (mut now, mut realm, mut realms) = (START, 0, Vec::new());
    let mut history = History { first_call_at: None, last_call_at: None, in_scope: true, known: Known::Nothing };
    for turn in turns {
        now += Duration::from_secs(turn.rest_s);
        realm = if turn.moves { 1 - realm } else { realm };
        history.in_scope = realms.iter().all(|sent| *sent == realm);
        let mut decision = may_send(&contract, history, now);
        if decision == MaySend::LookUpFirst {
            let outcome = acquirer.look_up(now, turn.hides);
            if outcome.is_final() {
                break;
            }
            decision = may_send(&contract, History { known: Known::LookedUp(outcome), ..history }, now);
        }
        history.known = Known::Nothing;
        match decision {
            MaySend::Send => {
                acquirer.receive(realm, turn.fate, now);
                realms.push(realm);
                history.first_call_at = history.first_call_at.or(Some(now));
                history.last_call_at = Some(now);
                history.known = if turn.cut_off { Known::CutOff } else { Known::Nothing };
            }
            MaySend::Review(_) => break,
            MaySend::Wait | MaySend::LookUpFirst => {}
        }
    }
    acquirer.charges.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn no_life_is_charged_twice_by_an_acquirer_that_keeps_its_contract(
        number in 0..27_usize,
        resend_after_timeout in any::<bool>(),
        turns in prop::collection::vec(turn(), 1..30),
    ) {
        let contract = Contract { resend_after_timeout, ..contracts().nth(number).expect("27 contracts") };
        prop_assert!(live(contract, &turns) <= 1, "{contract:?}");
    }
}
