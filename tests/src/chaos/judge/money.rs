//! The payments on record against the acquirer's books.

use super::Judgement;
use crate::chaos::books::{Books, Payment};
use std::collections::HashMap;

/// Judges every payment, and the intents they belong to.
pub(super) fn judge(books: &Books, judgement: &mut Judgement) {
    judgement.figures.payments = books.payments.len();
    judgement.figures.calls = books.calls;
    judgement.figures.takeovers = books.calls_without_end;
    let mut by_intent: HashMap<&str, usize> = HashMap::new();
    for payment in books.payments.values() {
        count(payment, judgement);
        for fault in faults(payment) {
            judgement.violations.push(format!("payment {} ({}): {fault}", payment.id, payment.payment_intent_id));
        }
        *by_intent.entry(&payment.payment_intent_id).or_default() += payment.charges().count();
    }
    for (intent, charges) in by_intent.into_iter().filter(|(_, charges)| *charges > 1) {
        judgement.figures.duplicates += 1;
        judgement.violations.push(format!("{intent}: money moved {charges} times"));
    }
    leftovers(books, judgement);
}

fn count(payment: &Payment, judgement: &mut Judgement) {
    let figures = &mut judgement.figures;
    let ended = if payment.is_final() || payment.reviews.is_empty() { &payment.status } else { "in review" };
    *figures.ended.entry(ended.to_owned()).or_default() += 1;
    for reason in &payment.reviews {
        *figures.reviews.entry(reason.clone()).or_default() += 1;
    }
    figures.charges += payment.charges().count();
}

fn leftovers(books: &Books, judgement: &mut Judgement) {
    judgement.forbid(books.jobs > 0, || format!("{} jobs are left, and nothing is to be done", books.jobs));
    judgement.forbid(books.undelivered > 0, || format!("{} events were not delivered", books.undelivered));
    for stranger in &books.strangers {
        let (reference, id) = (&stranger.reference, &stranger.transaction_id);
        judgement.violations.push(format!("{id}: charged for {reference}, which is none of our payments"));
    }
}

/// What must not be of one payment.
fn faults(payment: &Payment) -> Vec<String> {
    let refused = matches!(payment.status.as_str(), "DECLINED" | "FAILED");
    let charges: Vec<_> = payment.charges().collect();
    let known = payment.events.iter().filter(|kind| kind.as_str() == event(&payment.status)).count();
    let checks = [
        (payment.payment_intent_id.is_empty(), "rows speak of it, and it is not on record".to_owned()),
        (!payment.is_final() && payment.reviews.is_empty(), format!("{}, and no person was told", payment.status)),
        (payment.in_review == payment.reviews.is_empty(), "in_review and its open reviews disagree".to_owned()),
        (payment.leased, "still leased".to_owned()),
        (charges.len() > 1, format!("charged {} times", charges.len())),
        (payment.status == "PAID" && !is_charged(payment), format!("PAID, and the acquirer has {charges:?}")),
        (refused && !charges.is_empty(), format!("{}, and money moved: {charges:?}", payment.status)),
        (payment.is_final() && known != 1, format!("{} with the events {:?}", payment.status, payment.events)),
        (
            payment.is_final() != (payment.key_state == "COMPLETED"),
            format!("{} under a key that is {}", payment.status, payment.key_state),
        ),
    ];
    checks.into_iter().filter(|(violated, _)| *violated).map(|(_, what)| what).collect()
}

/// Whether there is one charge, and it is the one on record.
fn is_charged(payment: &Payment) -> bool {
    let charges: Vec<_> = payment.charges().collect();
    let [charge] = charges.as_slice() else { return false };
    payment.transaction_id.as_deref() == Some(charge.transaction_id.as_str())
        && (payment.amount_minor, payment.currency.as_str()) == (charge.amount_minor, charge.currency.as_str())
}

/// The event of a final status.
fn event(status: &str) -> &'static str {
    match status {
        "PAID" => "payments.succeeded",
        "DECLINED" => "payments.declined",
        "FAILED" => "payments.failed",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandbox::acquirer::EntryView;
    use uuid::Uuid;

    fn charge(transaction_id: &str) -> EntryView {
        EntryView {
            transaction_id: transaction_id.to_owned(),
            key: String::new(),
            reference: String::new(),
            amount_minor: 100,
            currency: "EUR".to_owned(),
            status: "approved".to_owned(),
            booked_at_ms: 0,
        }
    }

    fn paid() -> Payment {
        Payment {
            payment_intent_id: "intent-1".to_owned(),
            status: "PAID".to_owned(),
            transaction_id: Some("t1".to_owned()),
            amount_minor: 100,
            currency: "EUR".to_owned(),
            events: vec!["payments.succeeded".to_owned()],
            key_state: "COMPLETED".to_owned(),
            entries: vec![charge("t1")],
            ..Payment::default()
        }
    }

    fn found(payment: &Payment, word: &str) {
        let faults = faults(payment);
        assert!(faults.iter().any(|fault| fault.contains(word)), "{word}: {faults:?}");
    }

    #[test]
    fn a_payment_that_is_all_right_has_no_fault() {
        assert_eq!(faults(&paid()), Vec::<String>::new());
        let reviews = vec!["conflicted".to_owned()];
        let open =
            Payment { status: "UNKNOWN".to_owned(), in_review: true, reviews, key_state: String::new(), ..paid() };
        assert_eq!(faults(&open), Vec::<String>::new());
    }

    #[test]
    fn each_thing_that_must_not_be_is_found() {
        found(&Payment { entries: Vec::new(), ..paid() }, "the acquirer has []");
        found(&Payment { entries: vec![charge("t2")], ..paid() }, "the acquirer has");
        found(&Payment { amount_minor: 101, ..paid() }, "the acquirer has");
        found(&Payment { entries: vec![charge("t1"), charge("t2")], ..paid() }, "charged 2 times");
        found(&Payment { events: Vec::new(), ..paid() }, "with the events []");
        found(&Payment { leased: true, ..paid() }, "still leased");
        found(&Payment { key_state: "IN_PROGRESS".to_owned(), ..paid() }, "a key that is IN_PROGRESS");
        found(&Payment { status: "FAILED".to_owned(), ..paid() }, "money moved");
        found(&Payment { status: "UNKNOWN".to_owned(), ..paid() }, "no person was told");
    }

    #[test]
    fn two_payments_of_one_intent_that_both_moved_money_are_a_duplicate() {
        let both = [paid(), Payment { status: "UNKNOWN".to_owned(), entries: vec![charge("t2")], ..paid() }];
        let payments = both.into_iter().map(|payment| (Uuid::now_v7(), payment)).collect();
        let mut judgement = Judgement::default();
        judge(&Books { payments, ..Books::default() }, &mut judgement);
        assert_eq!(judgement.figures.duplicates, 1);
        assert!(judgement.violations.contains(&"intent-1: money moved 2 times".to_owned()), "{judgement:?}");
    }
}
