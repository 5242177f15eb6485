//! Everything that is known of one payment, for the person who must decide about it.

use super::allowed::Situation;
use super::audit::{self, Action};
use super::decision::{self, Decision, DecisionState};
use super::desk;
use super::{Refused, Review};
use crate::config::{Acquirer, Steps};
use crate::payment::Payment;
use crate::payment::body::{PaymentBody, Refusal};
use crate::payment::life::Status;
use crate::payment::read::{self, Found};
use crate::payment::request::key_hash;
use crate::payment::timeline::{self, Entry};
use crate::queue::Step;
use crate::queue::left::{self, Left};
use serde::Serialize;
use sqlx::PgPool;
use std::collections::BTreeMap;
use time::OffsetDateTime;
use time::serde::rfc3339;
use utoipa::ToSchema;
use uuid::Uuid;

/// A payment with all that lies around it.
#[derive(Debug)]
pub struct Case {
    /// The merchant's name.
    pub merchant: String,
    /// The payment.
    pub payment: Payment,
    /// Its jobs, with what is spent of their budgets.
    pub left: Vec<Left>,
    /// Its reviews, the oldest first.
    pub reviews: Vec<Review>,
    /// What people decided about it, the oldest first.
    pub decisions: Vec<Decision>,
    /// What people did about it, the oldest first.
    pub audit: Vec<audit::Entry>,
    /// Its life in order.
    pub timeline: Vec<Entry>,
}

impl Case {
    /// Reads it. `None`: there is no such payment.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn read(pool: &PgPool, found: &Found) -> sqlx::Result<Option<Self>> {
        let of = found.key();
        let Some(payment) = read::one(pool, of).await? else { return Ok(None) };
        Ok(Some(Self {
            merchant: found.merchant.clone(),
            left: left::of(pool, &payment).await?,
            reviews: super::all_of(pool, of).await?,
            decisions: decision::all_of(pool, of).await?,
            audit: audit::of_payment(pool, of).await?,
            timeline: timeline::of(pool, &payment).await?,
            payment,
        }))
    }

    /// The reviews that are open.
    pub fn open_reviews(&self) -> impl Iterator<Item = &Review> {
        self.reviews.iter().filter(|review| review.resolved_at.is_none())
    }

    /// The decision that is open.
    #[must_use]
    pub fn open_decision(&self) -> Option<&Decision> {
        let open = |one: &&Decision| matches!(one.state, DecisionState::Proposed | DecisionState::Approved);
        self.decisions.iter().find(open)
    }

    /// What can be done now, at this review or at none.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn actions(
        &self,
        pool: &PgPool,
        review: Option<&Review>,
        acquirer: Option<&Acquirer>,
    ) -> sqlx::Result<Vec<Action>> {
        let situation = Situation { payment: &self.payment, review, decision: self.open_decision() };
        let mut actions = situation.all();
        if actions.contains(&Action::Resend) {
            match desk::may_resend(pool, &self.payment, acquirer).await {
                Err(Refused::Db(error)) => return Err(error),
                Err(_) => actions.retain(|action| *action != Action::Resend),
                Ok(()) => {}
            }
        }
        Ok(actions)
    }
}

/// A payment as those see it who run the service. What it is paid with is not for them.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentFacts)]
pub struct Facts {
    /// UUIDv7.
    pub id: Uuid,
    /// The merchant's id of the thing being paid.
    pub payment_intent_id: String,
    /// Its state.
    pub status: Status,
    /// Whether a person has it.
    pub in_review: bool,
    /// In the currency's minor unit.
    pub amount_minor: i64,
    /// ISO 4217.
    pub currency: String,
    /// The profile name.
    pub acquirer: String,
    /// The acquirer's id of the charge.
    pub transaction_id: Option<String>,
    /// Set when DECLINED.
    pub decline: Option<Refusal>,
    /// Set when FAILED.
    pub failure: Option<Refusal>,
    /// What the merchant attached.
    pub metadata: BTreeMap<String, String>,
    /// The beginning of the SHA-256 of the client's key, as logs have it.
    pub key_hash: String,
    /// The fencing token.
    pub attempt: i32,
    /// Raised by every visible change; a decision must name it.
    pub version: i32,
    /// When it was accepted.
    #[serde(with = "rfc3339")]
    pub created_at: OffsetDateTime,
    /// When the acquirer may first have received the charge.
    #[serde(with = "rfc3339::option")]
    pub first_call_at: Option<OffsetDateTime>,
    /// Since when its outcome is unknown.
    #[serde(with = "rfc3339::option")]
    pub unknown_at: Option<OffsetDateTime>,
    /// Until when a worker has it.
    #[serde(with = "rfc3339::option")]
    pub lease_until: Option<OffsetDateTime>,
    /// When it became final.
    #[serde(with = "rfc3339::option")]
    pub final_at: Option<OffsetDateTime>,
}

/// A job that waits or is being done, with its budget.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = StepLeft)]
pub struct Budget {
    /// `charge`, `lookup`, `settle` or `publish`.
    #[schema(value_type = String)]
    pub step: Step,
    /// The acquirer, or the sink; empty for settle.
    pub route: String,
    /// How often it was taken.
    pub deliveries: i32,
    /// How often it may be.
    pub budget: i32,
    /// When it is due; of one that is being done, when its lease ends.
    #[serde(with = "rfc3339")]
    pub run_at: OffsetDateTime,
    /// How long that is away, in seconds; 0 when it is past.
    pub due_in_s: f64,
    /// The worker that is at it.
    pub claimed_by: Option<String>,
}

/// A case, for programs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Case)]
pub struct Body<'a> {
    /// Whose payment.
    pub merchant_id: Uuid,
    /// The merchant's name.
    pub merchant: &'a str,
    /// The payment.
    pub payment: Facts,
    /// What is left to do.
    pub steps: Vec<Budget>,
    /// Its reviews, the oldest first.
    pub reviews: &'a [Review],
    /// What people decided, the oldest first.
    pub decisions: &'a [Decision],
    /// What people did, the oldest first.
    pub audit: &'a [audit::Entry],
    /// Its life in order.
    pub timeline: &'a [Entry],
}

impl Case {
    /// The case for programs, with the budgets of this configuration.
    #[must_use]
    pub fn body(&self, steps: &Steps) -> Body<'_> {
        let budget = |left: &Left| Budget {
            step: left.step,
            route: left.route.clone(),
            deliveries: left.deliveries,
            budget: steps.of(left.step).deliveries,
            run_at: left.run_at,
            due_in_s: left.due_in_s.max(0.0).round(),
            claimed_by: left.claimed_by.clone(),
        };
        Body {
            merchant_id: self.payment.merchant_id,
            merchant: &self.merchant,
            payment: Facts::of(&self.payment),
            steps: self.left.iter().map(budget).collect(),
            reviews: &self.reviews,
            decisions: &self.decisions,
            audit: &self.audit,
            timeline: &self.timeline,
        }
    }
}

impl Facts {
    fn of(payment: &Payment) -> Self {
        let body = PaymentBody::from(payment);
        Self {
            id: body.id,
            payment_intent_id: body.payment_intent_id,
            status: body.status,
            in_review: body.in_review,
            amount_minor: body.amount_minor,
            currency: body.currency,
            acquirer: body.acquirer,
            transaction_id: body.transaction_id,
            decline: body.decline,
            failure: body.failure,
            metadata: body.metadata,
            key_hash: key_hash(&payment.idempotency_key),
            attempt: payment.attempt,
            version: body.version,
            created_at: body.created_at,
            first_call_at: payment.first_call_at,
            unknown_at: payment.unknown_at,
            lease_until: payment.lease_until,
            final_at: body.final_at,
        }
    }
}
