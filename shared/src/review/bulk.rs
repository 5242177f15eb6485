//! The same for many: only what can be repeated and charges nothing. Each review is acted on in a transaction of its own, so
//! that one that cannot be, or a database that goes away in the middle, takes nothing back from the others; whoever
//! repeats the whole goes on where it ended.

use super::desk::{self, Done};
use super::listed::{self, Cursor, Filter, Listed};
use super::{Reason, Refused};
use crate::payment::PaymentKey;
use sqlx::PgPool;
use uuid::Uuid;

/// What can be done for many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bulk {
    /// Ask the acquirers now.
    Ask,
    /// Bring dead events to their sinks again.
    Redeliver,
    /// Take dead letters up again.
    Replay,
}

/// What became of many.
#[derive(Debug, Default)]
pub struct Tally {
    /// Done now.
    pub done: u64,
    /// Done before, by the same operator.
    pub before: u64,
    /// Not done: which reviews, and why.
    pub refused: Vec<(Uuid, Refused)>,
    /// Where it ended, when there is more.
    pub next: Option<Cursor>,
}

impl Bulk {
    /// Those of `filter` that it is about.
    ///
    /// # Errors
    /// A reason that it is never about.
    pub fn of(self, filter: Filter) -> Result<Filter, Reason> {
        let about: Vec<Reason> = Reason::ALL.into_iter().filter(|reason| self.is_about(*reason)).collect();
        if let Some(other) = filter.reasons.iter().find(|reason| !about.contains(reason)) {
            return Err(*other);
        }
        let reasons = if filter.reasons.is_empty() { about } else { filter.reasons };
        Ok(Filter { reasons, ..filter })
    }

    fn is_about(self, reason: Reason) -> bool {
        match self {
            Self::Ask => reason != Reason::DeliveryExhausted,
            Self::Redeliver => reason == Reason::DeliveryExhausted,
            Self::Replay => Reason::DEAD_LETTERS.contains(&reason),
        }
    }

    /// Acts on up to `most` open reviews after `after`, the oldest first.
    ///
    /// # Errors
    /// When the database cannot be asked; what was done stays done.
    pub async fn run(
        self,
        pool: &PgPool,
        filter: &Filter,
        after: Option<Cursor>,
        most: i64,
        by: &str,
        reason: &str,
    ) -> Result<Tally, Refused> {
        desk::said(reason)?;
        let mut tally = Tally::default();
        let page = listed::list(pool, filter, after, most + 1).await?;
        let page_size = usize::try_from(most).unwrap_or_default();
        for listed in page.iter().take(page_size) {
            match self.one(pool, listed, by, reason).await {
                Ok(Done::Now) => tally.done += 1,
                Ok(Done::Before) => tally.before += 1,
                Err(Refused::Db(error)) => return Err(error.into()),
                Err(refused) => tally.refused.push((listed.review.id, refused)),
            }
        }
        tally.next = page.iter().take(page_size).next_back().filter(|_| page.len() > page_size).map(Listed::cursor);
        Ok(tally)
    }

    async fn one(self, pool: &PgPool, listed: &Listed, by: &str, reason: &str) -> Result<Done, Refused> {
        let (merchant_id, id) = (listed.review.merchant_id, listed.review.id);
        match self {
            Self::Ask => {
                let of = PaymentKey { merchant_id, payment_id: listed.review.payment_id };
                desk::ask(pool, of, by, reason).await
            }
            Self::Redeliver => desk::redeliver(pool, merchant_id, id, by, reason).await,
            Self::Replay => desk::replay(pool, merchant_id, id, by, reason).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_many_is_never_about_events_and_redelivering_never_about_money() {
        let about = |bulk: Bulk| bulk.of(Filter::default()).unwrap().reasons;
        assert!(!about(Bulk::Ask).contains(&Reason::DeliveryExhausted) && about(Bulk::Ask).len() == 7);
        assert_eq!(about(Bulk::Redeliver), [Reason::DeliveryExhausted]);
        assert_eq!(about(Bulk::Replay), Reason::DEAD_LETTERS);
        let stuck = Filter { reasons: vec![Reason::StuckProcessing], ..Filter::default() };
        assert_eq!(Bulk::Redeliver.of(stuck.clone()).unwrap_err(), Reason::StuckProcessing);
        assert_eq!(Bulk::Ask.of(stuck).unwrap().reasons, [Reason::StuckProcessing]);
    }
}
