//! What clients heard, against itself and against the record.

use super::Judgement;
use crate::chaos::books::Books;
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
    let Some(first) = finals.first() else { return };
    let transaction = first.json["transaction_id"].as_str();
    let is_on_record =
        (first.payment_status(), transaction) == (&on_record.status, on_record.transaction_id.as_deref());
    judgement.forbid(!is_on_record, || told(story, &format!("{on_record:?} is on record, and a client heard"), first));
    for said in &finals {
        judgement.figures.compared += 1;
        judgement.forbid(said.text != first.text, || told(story, &format!("{} became", first.text), said));
    }
    let heard = earliest(&finals);
    for said in of_key.iter().filter(|said| said.begun > heard && !matches!(said.status, 201 | 429 | 503)) {
        judgement.violations.push(told(story, "the end was told, and later it was not the end", said));
    }
}

/// The states of one payment.
fn payment(story: &Story, of_payment: &[&Said], judgement: &mut Judgement) {
    let finals: Vec<&&Said> = of_payment.iter().filter(|said| said.is_final()).collect();
    let Some(first) = finals.first() else { return };
    let facts = facts(&first.json);
    for said in &finals {
        judgement.figures.compared += 1;
        let same = said.text == first.text || said.json["version"] != first.json["version"];
        judgement
            .forbid(!same || self::facts(&said.json) != facts, || told(story, &format!("{} became", first.text), said));
    }
    let heard = earliest(&finals);
    for said in of_payment.iter().filter(|said| said.begun > heard && !said.is_final()) {
        judgement.violations.push(told(story, "it was final, and later it was not", said));
    }
}

/// When the first of these was heard to the end.
fn earliest(said: &[&&Said]) -> Instant {
    said.iter().map(|said| said.ended).min().expect("there is at least one")
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
    use crate::chaos::books::Payment;
    use crate::chaos::story::Intent;
    use serde_json::json;
    use std::time::Duration;

    /// Says these things one after the other under one key, and judges them.
    fn judged(answers: &[(u16, Value)]) -> Vec<String> {
        let intent =
            Intent { number: 1, id: "intent-1".into(), amount_minor: 1, currency: "EUR", method: "card".into() };
        let (story, began) = (Story::of(intent), Instant::now());
        for (second, (status, json)) in answers.iter().enumerate() {
            let begun = began + Duration::from_secs(2 * second as u64);
            let ask = Ask::Post { nth: 0, changed: false };
            let (status, text, json) = (*status, json.to_string(), json.clone());
            story.hears(Said { ask, begun, ended: begun + Duration::from_secs(1), status, text, json });
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
    fn an_accepted_payment_that_is_not_on_record_is_lost() {
        let lost = judged(&[(202, json!({"id": Uuid::max(), "status": "PENDING"}))]);
        assert!(lost.len() == 1 && lost[0].contains("is lost"), "{lost:?}");
    }

    #[test]
    fn what_the_contract_does_not_know_is_found() {
        assert!(judged(&[(500, Value::Null)])[0].contains("does not know 500"));
    }
}
