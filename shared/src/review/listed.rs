//! Reviews as lists: what lies before people, with what they must know of each payment to choose one.

use super::decision::DecisionState;
use super::{Reason, Review};
use crate::payment::life::Status;
use serde::Serialize;
use sqlx::PgPool;
use std::time::Duration;
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// Which open reviews.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Of one of these reasons; empty: of any.
    pub reasons: Vec<Reason>,
    /// Of this merchant's payments.
    pub merchant_id: Option<Uuid>,
    /// Of payments at this acquirer.
    pub acquirer: Option<String>,
    /// Open for longer than this.
    pub older_than: Option<Duration>,
    /// That this operator looks after.
    pub assigned_to: Option<String>,
}

/// Where a page ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The last review's time.
    pub opened_at: OffsetDateTime,
    /// Its id.
    pub id: Uuid,
}

/// A review with its payment.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Review)]
pub struct Listed {
    /// The review.
    #[serde(flatten)]
    pub review: Review,
    /// The merchant's name.
    pub merchant: String,
    /// What is being paid.
    pub payment_intent_id: String,
    /// The payment's state.
    pub payment_status: Status,
    /// What a decision must name, so that nobody decides about what he did not see.
    pub payment_version: i32,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
    /// The profile name.
    pub acquirer: String,
    /// The decision that is open about the payment.
    pub decision: Option<OpenDecision>,
}

/// A decision that waits for another person, or for a worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OpenDecision {
    /// Its id.
    pub id: Uuid,
    /// What the payment is to be.
    pub outcome: Status,
    /// PROPOSED waits for another person, APPROVED for a worker.
    pub state: DecisionState,
    /// Who proposed it.
    pub proposed_by: String,
}

impl Listed {
    /// Where a page ends that this is the last of.
    #[must_use]
    pub const fn cursor(&self) -> Cursor {
        Cursor { opened_at: self.review.opened_at, id: self.review.id }
    }
}

macro_rules! listed {
    ([$($reviews:tt)+], $($argument:expr),+) => {
        sqlx::query!(
            r#"SELECT r.merchant_id AS "merchant_id!", r.id AS "id!", r.payment_id AS "payment_id!", r.reason AS "reason!: Reason",
                      r.detail AS "detail!", r.event_id, r.sink, r.opened_at AS "opened_at!", r.assigned_to, r.resolution,
                      r.resolved_by, r.resolved_at,
                      m.name AS merchant, p.payment_intent_id, p.status AS "status: Status", p.version, p.amount_minor, p.currency,
                      p.acquirer, d.id AS "decision_id?", d.outcome AS "outcome?: Status", d.state AS "state?: DecisionState",
                      d.proposed_by AS "proposed_by?"
               FROM ("# + $($reviews)+ + r#") AS r JOIN merchants m ON m.id = r.merchant_id
               JOIN payments p ON p.merchant_id = r.merchant_id AND p.id = r.payment_id
               LEFT JOIN decisions d ON d.merchant_id = r.merchant_id AND d.payment_id = r.payment_id
                   AND d.state IN ('PROPOSED', 'APPROVED')
               ORDER BY r.opened_at, r.id"#,
            $($argument),+
        )
        .map(|row| Listed {
            review: Review {
                merchant_id: row.merchant_id,
                id: row.id,
                payment_id: row.payment_id,
                reason: row.reason,
                detail: row.detail,
                event_id: row.event_id,
                sink: row.sink,
                opened_at: row.opened_at,
                assigned_to: row.assigned_to,
                resolution: row.resolution,
                resolved_by: row.resolved_by,
                resolved_at: row.resolved_at,
            },
            merchant: row.merchant,
            payment_intent_id: row.payment_intent_id,
            payment_status: row.status,
            payment_version: row.version,
            amount_minor: row.amount_minor,
            currency: row.currency,
            acquirer: row.acquirer,
            decision: (|| {
                let (id, outcome) = (row.decision_id?, row.outcome?);
                Some(OpenDecision { id, outcome, state: row.state?, proposed_by: row.proposed_by? })
            })(),
        })
    };
}

macro_rules! counted {
    ([$($reviews:tt)+], $($argument:expr),+) => {
        sqlx::query_scalar!(r#"SELECT count(*) AS "count!" FROM ("# + $($reviews)+ + r#") AS counted"#, $($argument),+)
    };
}

/// The open reviews of a filter, as `$form`.
macro_rules! matching {
    ($form:ident, $select:tt, $rest:tt, $filter:expr, $($argument:expr),+) => {
        $form!(
            [$select + r#" FROM reviews r
               WHERE r.state = 'OPEN' AND ($1::text[] = '{}' OR r.reason = ANY ($1))
                 AND ($2::uuid IS NULL OR r.merchant_id = $2)
                 AND ($3::float8 IS NULL OR r.opened_at <= now() - make_interval(secs => $3))
                 AND ($4::text IS NULL OR r.assigned_to = $4)
                 AND ($5::text IS NULL OR EXISTS (SELECT FROM payments p WHERE p.merchant_id = r.merchant_id
                                                  AND p.id = r.payment_id AND p.acquirer = $5)) "# + $rest],
            &$filter.reasons() as &[&str],
            $filter.merchant_id,
            $filter.older_than.map(|age| age.as_secs_f64()),
            $filter.assigned_to.as_deref(),
            $filter.acquirer.as_deref(),
            $($argument),+
        )
    };
}

/// Open reviews after `after`, the oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn list(pool: &PgPool, filter: &Filter, after: Option<Cursor>, limit: i64) -> sqlx::Result<Vec<Listed>> {
    matching!(
        listed,
        "SELECT r.*",
        "AND ($6::timestamptz IS NULL OR (r.opened_at, r.id) > ($6, $7)) ORDER BY r.opened_at, r.id LIMIT $8",
        filter,
        after.map(|after| after.opened_at),
        after.map(|after| after.id),
        limit
    )
    .fetch_all(pool)
    .await
}

/// How many open reviews there are of these, counted up to `most`.
///
/// # Errors
/// When the database cannot be asked.
pub async fn count(pool: &PgPool, filter: &Filter, most: i64) -> sqlx::Result<i64> {
    matching!(counted, "SELECT", "LIMIT $6", filter, most).fetch_one(pool).await
}

/// The review of this id, open or not, whoever's payment it is about. Walks the merchants, of which there are few.
///
/// # Errors
/// When the database cannot be asked.
pub async fn one(pool: &PgPool, id: Uuid) -> sqlx::Result<Option<Listed>> {
    listed!(
        ["SELECT r.* FROM merchants m CROSS JOIN LATERAL (
              SELECT * FROM reviews WHERE merchant_id = m.id AND id = $1 LIMIT 1) AS r"],
        id
    )
    .fetch_optional(pool)
    .await
}

impl Filter {
    /// Dead letters: what a step gave up because its budget was spent.
    #[must_use]
    pub fn dead_letters(self) -> Self {
        Self { reasons: Reason::DEAD_LETTERS.to_vec(), ..self }
    }

    fn reasons(&self) -> Vec<&'static str> {
        self.reasons.iter().map(|reason| reason.as_str()).collect()
    }
}
