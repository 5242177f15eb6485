//! Decisions: a person's word that a payment is PAID, DECLINED or FAILED. It is proposed, approved (by another
//! person where the amount asks for it), and applied by a worker, after it has asked the acquirer once more, and
//! only while the payment is as the person saw it.

use super::Refused;
use super::allowed::Situation;
use super::audit::{Action, Deed};
use super::desk::{Done, look};
use crate::config::ReviewRules;
use crate::payment::life::{Outcome, Status};
use crate::payment::{Payment, PaymentKey};
use crate::text::clean;
use serde::{Deserialize, Serialize};
use sqlx::{PgConnection, PgPool};
use time::OffsetDateTime;
use utoipa::ToSchema;
use uuid::Uuid;

/// Longest text that a person leaves, in characters.
pub(super) const TEXT_CHARS: usize = 4000;

/// The state that a person wants a payment to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "outcome", rename_all = "SCREAMING_SNAKE_CASE", deny_unknown_fields)]
pub enum Wanted {
    /// Money moved, by this charge of the acquirer's.
    Paid {
        /// The acquirer's id of the charge.
        transaction_id: String,
    },
    /// The issuer refused.
    Declined {
        /// Shown to the merchant.
        code: String,
    },
    /// No money moved.
    Failed {
        /// Shown to the merchant.
        code: String,
    },
}

impl Wanted {
    /// The state.
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Paid { .. } => Status::Paid,
            Self::Declined { .. } => Status::Declined,
            Self::Failed { .. } => Status::Failed,
        }
    }

    /// The outcome that leads to it.
    #[must_use]
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Paid { .. } => Outcome::Success,
            Self::Declined { .. } => Outcome::Declined,
            Self::Failed { .. } => Outcome::Failed,
        }
    }

    fn columns(&self) -> (Option<&str>, Option<&str>) {
        match self {
            Self::Paid { transaction_id } => (Some(transaction_id), None),
            Self::Declined { code } | Self::Failed { code } => (None, Some(code)),
        }
    }

    fn of_columns(status: Status, transaction_id: Option<String>, code: Option<String>) -> Self {
        let code = code.unwrap_or_default();
        match status {
            Status::Paid => Self::Paid { transaction_id: transaction_id.unwrap_or_default() },
            Status::Declined => Self::Declined { code },
            Status::Pending | Status::Unknown | Status::Failed => Self::Failed { code },
        }
    }
}

/// Where a decision stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, sqlx::Type, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[sqlx(type_name = "text", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum DecisionState {
    /// Waits for another person.
    Proposed,
    /// Waits for a worker.
    Approved,
    /// Another person said no.
    Rejected,
    /// The payment changed meanwhile.
    Stale,
    /// The acquirer says otherwise.
    Refused,
    /// The payment is so.
    Applied,
}

/// A decision.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Decision)]
pub struct Decision {
    /// Its id.
    pub id: Uuid,
    /// The payment.
    pub payment_id: Uuid,
    /// What the payment is to be.
    #[serde(flatten)]
    pub wanted: Wanted,
    /// Why.
    pub reason: String,
    /// What proves it.
    pub evidence: Option<String>,
    /// As the person saw the payment.
    pub payment_version: i32,
    /// Where it stands.
    pub state: DecisionState,
    /// Who proposed it.
    pub proposed_by: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub proposed_at: OffsetDateTime,
    /// Who approved or rejected it.
    pub decided_by: Option<String>,
    /// What became of it.
    pub note: Option<String>,
}

impl Decision {
    /// Whether this operator approved (or rejected) it, whatever became of it since.
    fn is_by(&self, operator: &str, to: DecisionState) -> bool {
        let so = match to {
            DecisionState::Approved => {
                matches!(self.state, DecisionState::Approved | DecisionState::Applied | DecisionState::Refused)
            }
            _ => self.state == to,
        };
        so && self.decided_by.as_deref() == Some(operator)
    }
}

/// What a person proposes.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// What the payment is to be.
    pub wanted: Wanted,
    /// The version of the payment that the person looked at.
    pub payment_version: i32,
    /// Why.
    pub reason: String,
    /// What proves it.
    pub evidence: Option<String>,
}

/// Whether one person is not enough for a payment of this amount.
#[must_use]
pub fn needs_two(rules: &ReviewRules, payment: &Payment) -> bool {
    let most = rules.four_eyes_above_minor.get(&payment.currency).copied().unwrap_or(rules.four_eyes_default_minor);
    payment.amount_minor > most
}

/// What is wrong with a proposal, before anybody looks at the payment. `asks`: the acquirer can be asked.
fn check(proposal: &Proposal, asks: bool) -> Result<(), Refused> {
    let blank = |text: &str| text.trim().is_empty();
    if blank(&proposal.reason) {
        return Err(Refused::Missing("a reason: whoever looks at this in a year must understand it"));
    }
    let evidence = proposal.evidence.as_deref().is_some_and(|text| !blank(text));
    match &proposal.wanted {
        Wanted::Paid { transaction_id } if blank(transaction_id) => {
            Err(Refused::Missing("the acquirer's transaction id"))
        }
        Wanted::Paid { .. } if !asks && !evidence => {
            Err(Refused::Missing("evidence: this acquirer cannot be asked whether the charge exists"))
        }
        Wanted::Declined { code } | Wanted::Failed { code } if blank(code) => {
            Err(Refused::Missing("a code for the merchant"))
        }
        Wanted::Declined { .. } | Wanted::Failed { .. } if !evidence => {
            Err(Refused::Missing("evidence that no money moved, such as the acquirer's written word"))
        }
        _ => Ok(()),
    }
}

macro_rules! decisions {
    ($conn:expr, $predicate:tt, $($argument:expr),+) => {
        sqlx::query!(
            r#"SELECT id, payment_id, outcome AS "outcome: Status", transaction_id, code, reason, evidence, payment_version,
                      state AS "state: DecisionState", proposed_by, proposed_at, decided_by, note
               FROM decisions WHERE "# + $predicate,
            $($argument),+
        )
        .map(|row| Decision {
            id: row.id,
            payment_id: row.payment_id,
            wanted: Wanted::of_columns(row.outcome, row.transaction_id, row.code),
            reason: row.reason,
            evidence: row.evidence,
            payment_version: row.payment_version,
            state: row.state,
            proposed_by: row.proposed_by,
            proposed_at: row.proposed_at,
            decided_by: row.decided_by,
            note: row.note,
        })
    };
}

/// Proposes a state; where one person is enough it is approved at once, and a worker is asked to apply it. The same
/// proposal by the same person about the same version is a repeat, also when it was applied meanwhile.
///
/// # Errors
/// [`Refused`]: the payment is final or changed, another decision is open, or something is missing.
pub async fn propose(
    pool: &PgPool,
    of: PaymentKey,
    proposal: &Proposal,
    by: &str,
    rules: &ReviewRules,
    asks: bool,
) -> Result<(Decision, Done), Refused> {
    check(proposal, asks)?;
    let mut tx = pool.begin().await?;
    let payment = look(&mut tx, of).await?;
    if let Some(same) = repeated(&mut tx, of, proposal, by).await? {
        return Ok((same, Done::Before));
    }
    let open = open_of(&mut tx, of).await?;
    Situation { payment: &payment, review: None, decision: open.as_ref() }.allows(Action::Propose)?;
    if payment.version != proposal.payment_version {
        return Err(Refused::Changed(payment.version));
    }
    let approved = !needs_two(rules, &payment);
    let id = Uuid::now_v7();
    if !insert(&mut tx, of, id, proposal, by, approved).await? {
        // Another person was faster by less than this transaction.
        return Err(open_of(&mut tx, of).await?.map_or(Refused::UnderWay, |other| Refused::DecisionOpen(other.id)));
    }
    let (action, evidence) = (Action::Propose, proposal.evidence.as_deref());
    let reason = &proposal.reason;
    let deed = Deed { decision_id: Some(id), action, operator: by, reason, evidence, ..Deed::about(of) };
    deed.write(&mut tx, &payment, serde_json::json!({"decision": proposal.wanted, "approved": approved})).await?;
    if approved {
        super::desk::look_up_at_once(&mut tx, &payment, false).await?;
    }
    let decision = one(&mut tx, of.merchant_id, id).await?.ok_or(Refused::NoDecision)?;
    tx.commit().await?;
    Ok((decision, Done::Now))
}

/// The same person's same proposal, if it stands.
async fn repeated(
    conn: &mut PgConnection,
    of: PaymentKey,
    proposal: &Proposal,
    by: &str,
) -> sqlx::Result<Option<Decision>> {
    let last = decisions!(
        conn,
        "merchant_id = $1 AND payment_id = $2 AND proposed_by = $3 AND payment_version = $4
         AND state IN ('PROPOSED', 'APPROVED', 'APPLIED') ORDER BY id DESC LIMIT 1",
        of.merchant_id,
        of.payment_id,
        by,
        proposal.payment_version
    );
    Ok(last.fetch_optional(conn).await?.filter(|last| last.wanted == proposal.wanted))
}

/// False: another decision about the payment is open.
async fn insert(
    conn: &mut PgConnection,
    of: PaymentKey,
    id: Uuid,
    proposal: &Proposal,
    by: &str,
    approved: bool,
) -> sqlx::Result<bool> {
    let (transaction_id, code) = proposal.wanted.columns();
    let inserted = sqlx::query!(
        r#"INSERT INTO decisions (merchant_id, id, payment_id, outcome, transaction_id, code, reason, evidence, payment_version,
                                  state, proposed_by, decided_by, decided_at)
           VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $10 THEN 'APPROVED' ELSE 'PROPOSED' END, $11,
                   CASE WHEN $10 THEN $11 END, CASE WHEN $10 THEN now() END)
           ON CONFLICT (merchant_id, payment_id) WHERE state IN ('PROPOSED', 'APPROVED') DO NOTHING"#,
        of.merchant_id,
        id,
        of.payment_id,
        proposal.wanted.status().as_str(),
        transaction_id.map(|text| clean(text, 100)),
        code.map(|text| clean(text, 100)),
        clean(&proposal.reason, TEXT_CHARS),
        proposal.evidence.as_deref().map(|text| clean(text, TEXT_CHARS)),
        proposal.payment_version,
        approved,
        by,
    );
    Ok(inserted.execute(conn).await?.rows_affected() > 0)
}

/// Approves another person's proposal: a worker is asked to apply it.
///
/// # Errors
/// [`Refused`].
pub async fn approve(
    pool: &PgPool,
    merchant_id: Uuid,
    id: Uuid,
    by: &str,
    reason: &str,
) -> Result<(Decision, Done), Refused> {
    decide(pool, merchant_id, id, by, reason, DecisionState::Approved).await
}

/// Rejects another person's proposal.
///
/// # Errors
/// [`Refused`].
pub async fn reject(
    pool: &PgPool,
    merchant_id: Uuid,
    id: Uuid,
    by: &str,
    reason: &str,
) -> Result<(Decision, Done), Refused> {
    decide(pool, merchant_id, id, by, reason, DecisionState::Rejected).await
}

async fn decide(
    pool: &PgPool,
    merchant_id: Uuid,
    id: Uuid,
    by: &str,
    reason: &str,
    to: DecisionState,
) -> Result<(Decision, Done), Refused> {
    super::desk::said(reason)?;
    let mut tx = pool.begin().await?;
    let decision = one(&mut tx, merchant_id, id).await?.ok_or(Refused::NoDecision)?;
    if decision.is_by(by, to) {
        return Ok((decision, Done::Before));
    }
    let of = PaymentKey { merchant_id, payment_id: decision.payment_id };
    let payment = look(&mut tx, of).await?;
    let action = if to == DecisionState::Approved { Action::Approve } else { Action::Reject };
    Situation { payment: &payment, review: None, decision: Some(&decision) }.allows(action)?;
    if decision.proposed_by == by {
        return Err(Refused::SamePerson);
    }
    let fresh = payment.version == decision.payment_version && !payment.status.is_final();
    let state = if fresh { to } else { DecisionState::Stale };
    end(&mut tx, merchant_id, id, state, Some(by), (!fresh).then_some("the payment changed since it was proposed"))
        .await?;
    let deed = Deed { decision_id: Some(id), action, operator: by, reason, ..Deed::about(of) };
    deed.write(&mut tx, &payment, serde_json::json!({"decision": state})).await?;
    if state == DecisionState::Approved {
        super::desk::look_up_at_once(&mut tx, &payment, false).await?;
    }
    let decision = one(&mut tx, merchant_id, id).await?.ok_or(Refused::NoDecision)?;
    tx.commit().await?;
    if fresh { Ok((decision, Done::Now)) } else { Err(Refused::Changed(payment.version)) }
}

/// Ends a decision, or moves it on.
async fn end(
    conn: &mut PgConnection,
    merchant_id: Uuid,
    id: Uuid,
    state: DecisionState,
    by: Option<&str>,
    note: Option<&str>,
) -> sqlx::Result<()> {
    sqlx::query!(
        r#"UPDATE decisions SET state = $3, decided_by = COALESCE($4, decided_by), note = COALESCE($5, note),
                  decided_at = CASE WHEN $4::text IS NULL THEN decided_at ELSE now() END
           WHERE merchant_id = $1 AND id = $2"#,
        merchant_id,
        id,
        state as DecisionState,
        by,
        note,
    )
    .execute(conn)
    .await?;
    Ok(())
}

async fn one(conn: &mut PgConnection, merchant_id: Uuid, id: Uuid) -> sqlx::Result<Option<Decision>> {
    decisions!(conn, "merchant_id = $1 AND id = $2 FOR UPDATE", merchant_id, id).fetch_optional(conn).await
}

pub(super) async fn open_of(conn: &mut PgConnection, of: PaymentKey) -> sqlx::Result<Option<Decision>> {
    decisions!(
        conn,
        "merchant_id = $1 AND payment_id = $2 AND state IN ('PROPOSED', 'APPROVED') FOR UPDATE",
        of.merchant_id,
        of.payment_id
    )
    .fetch_optional(conn)
    .await
}

/// Whose payment the decision of this id is about. Walks the merchants, of which there are few.
///
/// # Errors
/// When the database cannot be asked.
pub async fn whose(pool: &PgPool, id: Uuid) -> sqlx::Result<Option<Uuid>> {
    let found = sqlx::query_scalar!(
        r#"SELECT m.id FROM merchants m CROSS JOIN LATERAL (
               SELECT merchant_id FROM decisions WHERE merchant_id = m.id AND id = $1 LIMIT 1) AS d"#,
        id,
    );
    found.fetch_optional(pool).await
}

/// All decisions about a payment, oldest first.
///
/// # Errors
/// When the database cannot be asked.
pub async fn all_of(pool: &PgPool, of: PaymentKey) -> sqlx::Result<Vec<Decision>> {
    decisions!(pool, "merchant_id = $1 AND payment_id = $2 ORDER BY id LIMIT 100", of.merchant_id, of.payment_id)
        .fetch_all(pool)
        .await
}

/// The decision that a worker is to apply, if there is one.
///
/// # Errors
/// When the database cannot be asked.
pub async fn approved_of(pool: &PgPool, of: PaymentKey) -> sqlx::Result<Option<Decision>> {
    decisions!(pool, "merchant_id = $1 AND payment_id = $2 AND state = 'APPROVED'", of.merchant_id, of.payment_id)
        .fetch_optional(pool)
        .await
}

/// A worker could not apply it.
///
/// # Errors
/// When the database cannot be asked.
pub async fn not_applied(
    pool: &PgPool,
    merchant_id: Uuid,
    id: Uuid,
    state: DecisionState,
    note: &str,
) -> sqlx::Result<()> {
    let mut conn = pool.acquire().await?;
    end(&mut conn, merchant_id, id, state, None, Some(&clean(note, TEXT_CHARS))).await
}
