//! What a person means by an id.

use super::id_of;
use crate::failure::Failure;
use shared::payment::read::{self, Found};
use shared::payment::{Payment, PaymentKey};
use shared::review::case::Case;
use shared::review::listed;
use shared::review::{self, Refused, Review, decision};
use sqlx::PgPool;
use uuid::Uuid;

/// A payment, named by its own id or by that of one of its reviews.
pub struct Subject {
    /// The payment.
    pub of: PaymentKey,
    merchant: String,
    review: Option<Uuid>,
}

impl Subject {
    /// Finds it.
    pub async fn find(pool: &PgPool, text: &str) -> Result<Self, Failure> {
        let none = || Failure::NoReview(text.to_owned());
        let id = id_of(text).ok_or_else(none)?;
        if let Some(listed) = listed::one(pool, id).await? {
            let review::Review { merchant_id, payment_id, .. } = listed.review;
            return Ok(Self {
                of: PaymentKey { merchant_id, payment_id },
                merchant: listed.merchant,
                review: Some(id),
            });
        }
        let found = read::anyones(pool, id).await?.ok_or_else(none)?;
        Ok(Self { of: found.key(), merchant: found.merchant, review: None })
    }

    /// The payment as it is now.
    pub async fn payment(&self, pool: &PgPool) -> Result<Payment, Failure> {
        Ok(read::one(pool, self.of).await?.ok_or(Refused::NoPayment)?)
    }

    /// The review that was named, or the payment's only open one.
    pub async fn review(&self, pool: &PgPool) -> Result<Uuid, Failure> {
        if let Some(id) = self.review {
            return Ok(id);
        }
        let open = review::open_of(pool, self.of).await?;
        match open.as_slice() {
            [] => Err(Failure::NoReview(self.of.payment_id.to_string())),
            [one] => Ok(one.id),
            several => {
                let line = |of: &Review| format!("  {}  {}", of.id, of.reason.as_str());
                let lines: Vec<String> = several.iter().map(line).collect();
                Err(Failure::Usage(format!("the payment has several open reviews; name one:\n{}", lines.join("\n"))))
            }
        }
    }

    /// The payment's name.
    pub fn found(&self) -> Found {
        let PaymentKey { merchant_id, payment_id } = self.of;
        Found { merchant_id, merchant: self.merchant.clone(), payment_id }
    }

    /// The review to be shown: the one that was named, or the payment's first open one.
    pub fn of_case<'a>(&self, case: &'a Case) -> Option<&'a Review> {
        match self.review {
            Some(id) => case.reviews.iter().find(|review| review.id == id),
            None => case.open_reviews().next(),
        }
    }
}

/// The decision of this id, or the open one of the payment that the id leads to: its merchant and its id.
pub async fn decision(pool: &PgPool, text: &str) -> Result<(Uuid, Uuid), Failure> {
    if let Some(id) = id_of(text)
        && let Some(merchant_id) = decision::whose(pool, id).await?
    {
        return Ok((merchant_id, id));
    }
    let subject = Subject::find(pool, text).await?;
    let all = decision::all_of(pool, subject.of).await?;
    let last = all.last().ok_or(Refused::NoDecision)?;
    Ok((subject.of.merchant_id, last.id))
}
