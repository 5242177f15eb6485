//! The audit: who did what, when, why, before and after. Appended in the transaction that did it.

use super::Review;
use crate::payment::{Payment, PaymentKey};
use crate::text::clean;
use serde::Serialize;
use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// What a person can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, ToSchema)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Action {
    /// Ask the acquirer now.
    Ask,
    /// Send the same charge again, with the same key.
    Resend,
    /// Propose a final state.
    Propose,
    /// Approve another person's proposal.
    Approve,
    /// Reject it.
    Reject,
    /// Give the review to somebody.
    Assign,
    /// Say something.
    Comment,
    /// Bring an event to its sink once more.
    Redeliver,
    /// Close a review that needs nothing more.
    Resolve,
}

impl Action {
    /// All that a person can do.
    pub const ALL: [Self; 9] = [
        Self::Ask,
        Self::Resend,
        Self::Propose,
        Self::Approve,
        Self::Reject,
        Self::Redeliver,
        Self::Resolve,
        Self::Assign,
        Self::Comment,
    ];

    /// The word that SQL, the API and commands use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Resend => "resend",
            Self::Propose => "propose",
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::Assign => "assign",
            Self::Comment => "comment",
            Self::Redeliver => "redeliver",
            Self::Resolve => "resolve",
        }
    }

    /// What it does, in a sentence.
    #[must_use]
    pub const fn does(self) -> &'static str {
        match self {
            Self::Ask => "Asks the acquirer now what became of the payment, with a fresh budget. Charges nothing.",
            Self::Resend => "Sends the same charge once more with the same key; the acquirer's contract protects that.",
            Self::Propose => {
                "Says that the payment is PAID, DECLINED or FAILED. The acquirer is asked before it counts."
            }
            Self::Approve => "Lets another person's proposal count, after the acquirer was asked once more.",
            Self::Reject => "Ends another person's proposal. The payment stays as it is.",
            Self::Assign => "Says who looks after the review.",
            Self::Comment => "Leaves a note for those who look at the payment next.",
            Self::Redeliver => "Brings the event to the same sink once more, with a fresh budget.",
            Self::Resolve => "Closes the review. Nothing else changes.",
        }
    }
}

/// A deed, about to be written.
pub(super) struct Deed<'a> {
    pub of: PaymentKey,
    pub review_id: Option<Uuid>,
    pub decision_id: Option<Uuid>,
    pub action: Action,
    pub operator: &'a str,
    pub reason: &'a str,
    pub evidence: Option<&'a str>,
}

impl Deed<'_> {
    /// A deed about a payment; the rest is to be filled in.
    pub(super) const fn about(of: PaymentKey) -> Self {
        let action = Action::Comment;
        Self { of, review_id: None, decision_id: None, action, operator: "", reason: "", evidence: None }
    }

    /// A deed about one of its reviews.
    pub(super) const fn at(review: &Review) -> Self {
        let of = PaymentKey { merchant_id: review.merchant_id, payment_id: review.payment_id };
        Self { review_id: Some(review.id), ..Self::about(of) }
    }

    /// Appends it. `after` says what it made of what was before.
    pub(super) async fn write(&self, conn: &mut PgConnection, payment: &Payment, after: Value) -> sqlx::Result<()> {
        let before = serde_json::json!({
            "status": payment.status, "version": payment.version, "in_review": payment.in_review,
        });
        sqlx::query!(
            r#"INSERT INTO audit (merchant_id, id, payment_id, review_id, decision_id, operator, action, reason, evidence, before, after)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"#,
            self.of.merchant_id,
            Uuid::now_v7(),
            self.of.payment_id,
            self.review_id,
            self.decision_id,
            self.operator,
            self.action as Action,
            clean(self.reason, super::decision::TEXT_CHARS),
            self.evidence.map(|text| clean(text, super::decision::TEXT_CHARS)),
            before,
            after,
        )
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// A line of the audit.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub struct Entry {
    /// Its id.
    pub id: Uuid,
    /// The payment.
    pub payment_id: Uuid,
    /// The review that it was about.
    pub review_id: Option<Uuid>,
    /// The decision that it was about.
    pub decision_id: Option<Uuid>,
    /// Who.
    pub operator: String,
    /// What.
    pub action: Action,
    /// Why.
    pub reason: String,
    /// What proves it.
    pub evidence: Option<String>,
    /// How it was.
    pub before: Value,
    /// How it is.
    pub after: Value,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

/// What people did about a payment, oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn of_payment(pool: &PgPool, of: PaymentKey) -> sqlx::Result<Vec<Entry>> {
    sqlx::query_as!(
        Entry,
        r#"SELECT id, payment_id, review_id, decision_id, operator, action AS "action: Action", reason, evidence, before, after, at
           FROM audit WHERE merchant_id = $1 AND payment_id = $2 ORDER BY id LIMIT 1000"#,
        of.merchant_id,
        of.payment_id,
    )
    .fetch_all(pool)
    .await
}

/// Who did that to the payment last.
pub(super) async fn last_by(conn: &mut PgConnection, of: PaymentKey, action: Action) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar!(
        "SELECT operator FROM audit WHERE merchant_id = $1 AND payment_id = $2 AND action = $3 ORDER BY id DESC LIMIT 1",
        of.merchant_id,
        of.payment_id,
        action.as_str(),
    )
    .fetch_optional(conn)
    .await
}
