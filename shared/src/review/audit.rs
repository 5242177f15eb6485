//! The audit: who did what, when, why, before and after. Appended in the transaction that did it.

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

/// A deed, about to be written.
pub(super) struct Deed<'a> {
    pub of: PaymentKey,
    pub action: Action,
    pub operator: &'a str,
    pub reason: &'a str,
    pub evidence: Option<&'a str>,
}

impl Deed<'_> {
    /// Appends it. `after` says what it made of what was before.
    pub(super) async fn write(
        &self,
        conn: &mut PgConnection,
        decision_id: Option<Uuid>,
        payment: &Payment,
        after: Value,
    ) -> sqlx::Result<()> {
        let before = serde_json::json!({
            "status": payment.status, "version": payment.version, "in_review": payment.in_review,
        });
        sqlx::query!(
            r#"INSERT INTO audit (merchant_id, id, payment_id, decision_id, operator, action, reason, evidence, before, after)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"#,
            self.of.merchant_id,
            Uuid::now_v7(),
            self.of.payment_id,
            decision_id,
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
        r#"SELECT id, payment_id, operator, action AS "action: Action", reason, evidence, before, after, at
           FROM audit WHERE merchant_id = $1 AND payment_id = $2 ORDER BY id LIMIT 1000"#,
        of.merchant_id,
        of.payment_id,
    )
    .fetch_all(pool)
    .await
}
