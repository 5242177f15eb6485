//! Manual review: what a machine cannot decide lies in front of a person.

pub mod allowed;
pub mod audit;
pub mod bulk;
pub mod case;
pub mod decision;
pub mod desk;
pub mod listed;
mod refused;

pub use refused::Refused;

use crate::committer::Verdict;
use crate::payment::PaymentKey;
use crate::payment::life::{self, Event, Illegal, Outcome, Status};
use serde::Serialize;
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use time::serde::rfc3339;
use uuid::Uuid;

/// Who resolved a review that nobody had to: the doubt that it was about is gone.
pub const MACHINE: &str = "machine";

/// Why a person must look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, sqlx::Type, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
pub enum Reason {
    /// Unknown, and the acquirer no longer remembers our key: a resend could charge twice.
    UnknownPastWindow,
    /// Nothing is found, and the contract gives no protection for a resend.
    NotFoundInconclusive,
    /// The acquirer reports a charge with another amount, currency or reference.
    Conflicted,
    /// The acquirer holds two charges for one payment.
    DuplicateAtProvider,
    /// `processing`, for longer than we ask.
    StuckProcessing,
    /// Success, reported for a payment that is final without it.
    LateSuccess,
    /// A step spent its budget of deliveries: something kills whoever runs it.
    StepCrashed,
    /// An event could not be brought to a sink.
    DeliveryExhausted,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::UnknownPastWindow,
        Self::NotFoundInconclusive,
        Self::Conflicted,
        Self::DuplicateAtProvider,
        Self::StuckProcessing,
        Self::LateSuccess,
        Self::StepCrashed,
        Self::DeliveryExhausted,
    ];

    /// Those of dead letters: a step's budget is spent. The others are doubts about money.
    pub const DEAD_LETTERS: [Self; 2] = [Self::StepCrashed, Self::DeliveryExhausted];

    /// The word that SQL, logs, metrics and pages use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnknownPastWindow => "unknown_past_window",
            Self::NotFoundInconclusive => "not_found_inconclusive",
            Self::Conflicted => "conflicted",
            Self::DuplicateAtProvider => "duplicate_at_provider",
            Self::StuckProcessing => "stuck_processing",
            Self::LateSuccess => "late_success",
            Self::StepCrashed => "step_crashed",
            Self::DeliveryExhausted => "delivery_exhausted",
        }
    }
}

impl std::str::FromStr for Reason {
    type Err = String;

    /// # Errors
    /// All reasons there are.
    fn from_str(word: &str) -> Result<Self, String> {
        let all = || Self::ALL.map(Self::as_str).join(", ");
        Self::ALL
            .into_iter()
            .find(|reason| reason.as_str() == word)
            .ok_or_else(|| format!("it must be one of {}", all()))
    }
}

/// A review, as a person sees it.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
#[schema(as = ReviewFacts)]
pub struct Review {
    /// Whose payment.
    pub merchant_id: Uuid,
    /// Its id.
    pub id: Uuid,
    /// The payment it is about.
    pub payment_id: Uuid,
    /// Why.
    pub reason: Reason,
    /// What the machine knew.
    pub detail: String,
    /// The event that could not be brought to `sink`.
    pub event_id: Option<Uuid>,
    /// The sink.
    pub sink: Option<String>,
    /// Since when.
    #[serde(with = "rfc3339")]
    pub opened_at: OffsetDateTime,
    /// Who looks after it.
    pub assigned_to: Option<String>,
    /// What ended it: a final state, `resolved` or `redelivered`.
    pub resolution: Option<String>,
    /// Who ended it; `machine` when the doubt that it was about was gone.
    pub resolved_by: Option<String>,
    /// When it ended.
    #[serde(with = "rfc3339::option")]
    pub resolved_at: Option<OffsetDateTime>,
}

macro_rules! reviews {
    ($predicate:tt, $($argument:expr),+) => {
        sqlx::query_as!(
            $crate::review::Review,
            r#"SELECT merchant_id, id, payment_id, reason AS "reason: Reason", detail, event_id, sink, opened_at, assigned_to,
                      resolution, resolved_by, resolved_at
               FROM reviews WHERE "# + $predicate,
            $($argument),+
        )
    };
}

/// The open reviews of one payment, oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn open_of(pool: &PgPool, of: PaymentKey) -> sqlx::Result<Vec<Review>> {
    reviews!(
        "merchant_id = $1 AND payment_id = $2 AND state = 'OPEN' ORDER BY opened_at, id",
        of.merchant_id,
        of.payment_id
    )
    .fetch_all(pool)
    .await
}

/// All reviews of one payment, oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn all_of(pool: &PgPool, of: PaymentKey) -> sqlx::Result<Vec<Review>> {
    reviews!("merchant_id = $1 AND payment_id = $2 ORDER BY opened_at, id LIMIT 100", of.merchant_id, of.payment_id)
        .fetch_all(pool)
        .await
}

/// A review, locked until the transaction ends.
async fn locked(conn: &mut PgConnection, merchant_id: Uuid, review_id: Uuid) -> Result<Review, Refused> {
    let review = reviews!("merchant_id = $1 AND id = $2 FOR UPDATE", merchant_id, review_id);
    review.fetch_optional(conn).await?.ok_or(Refused::NoReview)
}

/// What the acquirer reports contradicts what we have on record, or itself: the state stays, a person is told.
#[derive(Clone, Debug)]
pub struct Contradiction {
    /// The payment.
    pub of: PaymentKey,
    /// [`Reason::LateSuccess`], [`Reason::DuplicateAtProvider`] or [`Reason::Conflicted`].
    pub reason: Reason,
    /// What the acquirer said.
    pub detail: String,
}

/// Why a person must look when the acquirer says `outcome` of a charge `reported`, and the payment is in `status`
/// by the charge `known`: money that moved although the payment is final without it, or by another charge.
#[must_use]
pub fn contradiction(status: Status, known: Option<&str>, outcome: Outcome, reported: Option<&str>) -> Option<Reason> {
    let another_charge = outcome == Outcome::Success && known != reported;
    match life::decide(status, Event::Learned(outcome)) {
        Err(Illegal::LateSuccess) => Some(Reason::LateSuccess),
        Err(Illegal::Final) if status == Status::Paid && another_charge => Some(Reason::DuplicateAtProvider),
        _ => None,
    }
}

/// Opens the reviews; one per payment and reason stays open however often it is found.
pub(crate) async fn contradictions(conn: &mut PgConnection, rows: &[&Contradiction]) -> sqlx::Result<Vec<Verdict>> {
    let merchants: Vec<Uuid> = rows.iter().map(|r| r.of.merchant_id).collect();
    let payments: Vec<Uuid> = rows.iter().map(|r| r.of.payment_id).collect();
    let reasons: Vec<&str> = rows.iter().map(|r| r.reason.as_str()).collect();
    let details: Vec<&str> = rows.iter().map(|r| r.detail.as_str()).collect();
    let opened = sqlx::query!(
        r#"WITH input AS (SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[])
                          WITH ORDINALITY AS i (merchant_id, payment_id, reason, detail, ord)),
           opened AS (
               INSERT INTO reviews (merchant_id, payment_id, reason, detail)
               SELECT i.merchant_id, i.payment_id, i.reason, i.detail FROM input i
               JOIN payments p ON p.merchant_id = i.merchant_id AND p.id = i.payment_id
               ON CONFLICT DO NOTHING RETURNING merchant_id, payment_id, reason),
           shown AS (
               UPDATE payments p SET in_review = true, version = p.version + 1, updated_at = now()
               FROM opened o WHERE p.merchant_id = o.merchant_id AND p.id = o.payment_id)
           SELECT i.ord AS "ord!", now() AS "at!" FROM opened o
           JOIN input i ON i.merchant_id = o.merchant_id AND i.payment_id = o.payment_id AND i.reason = o.reason"#,
        &merchants,
        &payments,
        &reasons as &[&str],
        &details as &[&str],
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(rows.len(), opened.into_iter().map(|row| (row.ord, row.at))))
}
