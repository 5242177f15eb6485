//! What clients heard, against itself and against the record.

use super::Judgement;
use crate::chaos::books::{Books, Payment};
use crate::chaos::story::{Ask, Said, Story};
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::time::Instant;
use uuid::Uuid;

/// What may change of a final payment: a person may come to look at it.
const MAY_CHANGE: [&str; 3] = ["in_review", "version", "updated_at"];

/// Judges everything that one client heard.
pub(super) fn judge(story: &Story, books: &Books, judgement: &mut Judgement) {
    let said = story.said();
    let (mut by_key, mut by_payment) = (BTreeMap::<usize, Vec<&Said>>::new(), BTreeMap::<Uuid, Vec<&Said>>::new());
    for one in said.iter() {
        count(one, judgement);
        judgement.forbid(!is_expected(one), || told(story, "heard what the contract does not know", one));
        if let Some(nth) = one.key() {
            by_key.entry(nth).or_default().push(one);
        }
        if let (Ask::Get { payment }, 200) = (&one.ask, one.status) {
            by_payment.entry(*payment).or_default().push(one);
        }
    }
    judgement.figures.unheard += story.unheard();
    by_key.values().for_each(|of_key| key(story, of_key, books, judgement));
    by_payment.values().for_each(|of_payment| payment(story, of_payment, judgement));
}

fn count(said: &Said, judgement: &mut Judgement) {
    let what = match said.code() {
        "" => said.status.to_string(),
        code => format!("{} {code}", said.status),
    };
    *judgement.figures.answers.entry(what).or_default() += 1;
}

fn is_expected(said: &Said) -> bool {
    match (&said.ask, said.status) {
        (_, 429 | 503) => true,
        (Ask::Post { changed: true, .. }, status) => status == 422,
        (Ask::Post { .. }, status) => matches!(status, 201 | 202 | 409),
        (Ask::Get { payment }, status) => status == 200 && said.payment() == Some(*payment),
    }
}

/// The answers under one key.
fn key(story: &Story, of_key: &[&Said], books: &Books, judgement: &mut Judgement) {
    let accepted = || of_key.iter().filter(|said| said.is_accepted());
    let Some(payment) = accepted().find_map(|said| said.payment()) else { return };
    for said in accepted().filter(|said| said.payment() != Some(payment)) {
        judgement.violations.push(told(story, &format!("one key stood for {payment}, and then"), said));
    }
    let Some(on_record) = books.payments.get(&payment) else {
        return judgement.violations.push(format!("{}: {payment} was accepted, and is lost", story.intent.id));
    };
    let finals: Vec<&&Said> = of_key.iter().filter(|said| said.status == 201).collect();
    match finals.first() {
        Some(first) => end(story, first, on_record, judgement),
        None => judgement.forbid(on_record.is_final(), || {
            format!("{}: it is {}, and nobody is told so", story.intent.id, on_record.status)
        }),
    }
    for said in later(of_key, &finals).filter(|said| !matches!(said.status, 201 | 429 | 503)) {
        judgement.violations.push(told(story, "the end was told, and later it was not the end", said));
    }
    never_changes(story, &finals, judgement, |said, first| said.text == first.text);
}

/// A final answer against the record.
fn end(story: &Story, said: &Said, on_record: &Payment, judgement: &mut Judgement) {
    let heard = (said.payment_status(), said.json["transaction_id"].as_str());
    let known = (on_record.status.as_str(), on_record.transaction_id.as_deref());
    judgement.forbid(heard != known, || told(story, &format!("on record is {known:?}, and a client heard"), said));
}

/// The states of one payment.
fn payment(story: &Story, of_payment: &[&Said], judgement: &mut Judgement) {
    let finals: Vec<&&Said> = of_payment.iter().filter(|said| said.is_final()).collect();
    for said in later(of_payment, &finals).filter(|said| !said.is_final()) {
        judgement.violations.push(told(story, "it was final, and later it was not", said));
    }
    never_changes(story, &finals, judgement, |said, first| {
        let same_version = said.json["version"] == first.json["version"];
        if same_version { said.text == first.text } else { facts(&said.json) == facts(&first.json) }
    });
}

/// Compares each of these with the first.
fn never_changes(story: &Story, finals: &[&&Said], judgement: &mut Judgement, same: impl Fn(&Said, &Said) -> bool) {
    let Some(first) = finals.first() else { return };
    for said in finals {
        judgement.figures.compared += 1;
        judgement.forbid(!same(said, first), || told(story, &format!("{} became", first.text), said));
    }
}

/// Those that were asked for after one of the final ones had been heard to the end.
fn later<'a>(said: &'a [&'a Said], finals: &[&&Said]) -> impl Iterator<Item = &'a &'a Said> {
    let heard: Option<Instant> = finals.iter().map(|said| said.ended).min();
    said.iter().filter(move |said| heard.is_some_and(|heard| said.begun > heard))
}

/// What never changes of a final payment.
fn facts(payment: &Value) -> Value {
    let mut payment = payment.clone();
    if let Some(members) = payment.as_object_mut() {
        members.retain(|name, _| !MAY_CHANGE.contains(&name.as_str()));
    }
    payment
}

fn told(story: &Story, what: &str, said: &Said) -> String {
    format!("{}: {what} {} {} (to {:?})", story.intent.id, said.status, said.text, said.ask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::story::Intent;
    use serde_json::json;
    use std::time::Duration;

    /// Says these things one after the other under one key, and judges them.
    fn judged(answers: &[(u16, Value)]) -> Vec<String> {
        judged_to(&Ask::Post { nth: 0, changed: false }, answers)
    }

    fn judged_to(ask: &Ask, answers: &[(u16, Value)]) -> Vec<String> {
        let (id, method) = ("intent-1".to_owned(), "card".to_owned());
        let story = Story::of(Intent { number: 1, id, amount_minor: 1, currency: "EUR", method });
        let began = Instant::now();
        for (nth, (status, json)) in answers.iter().enumerate() {
            let begun = began + Duration::from_secs(2 * nth as u64);
            let (ended, text, json) = (begun + Duration::from_secs(1), json.to_string(), json.clone());
            story.hears(Said { ask: ask.clone(), begun, ended, status: *status, text, json });
        }
        let on_record = Payment { status: "PAID".to_owned(), ..Payment::default() };
        let books = Books { payments: [(Uuid::nil(), on_record)].into(), ..Books::default() };
        let mut judgement = Judgement::default();
        judge(&story, &books, &mut judgement);
        judgement.violations
    }

    fn body(status: &str) -> Value {
        json!({"id": Uuid::nil(), "status": status})
    }

    #[test]
    fn a_final_answer_that_stays_is_all_right() {
        let answers = [(202, body("PENDING")), (201, body("PAID")), (503, Value::Null), (201, body("PAID"))];
        assert_eq!(judged(&answers), Vec::<String>::new());
    }

    #[test]
    fn a_final_answer_that_changes_or_is_taken_back_is_found() {
        let changed = judged(&[(201, body("PAID")), (201, body("FAILED"))]);
        assert!(changed.len() == 1 && changed[0].contains("became 201"), "{changed:?}");
        let taken_back = judged(&[(201, body("PAID")), (202, body("UNKNOWN"))]);
        assert!(taken_back.len() == 1 && taken_back[0].contains("later it was not the end"), "{taken_back:?}");
    }

    #[test]
    fn of_a_final_payment_nothing_changes_but_that_a_person_looks_at_it() {
        let get = Ask::Get { payment: Uuid::nil() };
        let shown = |status: &str, version: i32, in_review: bool| {
            (200, json!({"id": Uuid::nil(), "status": status, "version": version, "in_review": in_review}))
        };
        let looked_at = [shown("UNKNOWN", 2, false), shown("PAID", 3, false), shown("PAID", 4, true)];
        assert_eq!(judged_to(&get, &looked_at), Vec::<String>::new());
        let unversioned = judged_to(&get, &[shown("PAID", 3, false), shown("PAID", 3, true)]);
        assert!(unversioned.len() == 1 && unversioned[0].contains("became 200"), "{unversioned:?}");
        let changed = judged_to(&get, &[shown("PAID", 3, false), shown("FAILED", 4, false)]);
        assert!(changed.len() == 1 && changed[0].contains("became 200"), "{changed:?}");
        let taken_back = judged_to(&get, &[shown("PAID", 3, false), shown("UNKNOWN", 4, false)]);
        assert!(taken_back.len() == 1 && taken_back[0].contains("later it was not"), "{taken_back:?}");
    }

    #[test]
    fn an_end_that_is_never_told_is_found() {
        let untold = judged(&[(202, body("PENDING")), (202, body("UNKNOWN"))]);
        assert!(untold.len() == 1 && untold[0].contains("nobody is told so"), "{untold:?}");
    }

    #[test]
    fn an_accepted_payment_that_is_not_on_record_is_lost() {
        let lost = judged(&[(202, json!({"id": Uuid::max(), "status": "PENDING"}))]);
        assert!(lost.len() == 1 && lost[0].contains("is lost"), "{lost:?}");
    }

    #[test]
    fn what_the_contract_does_not_know_is_found() {
        assert!(judged(&[(500, Value::Null)])[0].contains("does not know 500"));
    }
}
