//! What an acquirer told us of a payment, unasked: it is put on record, and a payment that is not final is asked
//! about at once. Nothing else follows from it, but that a contradiction to a final state is shown to a person.

use super::PaymentKey;
use super::life::{Outcome, Status};
use crate::acquirer::webhook::Message;
use crate::committer::{Committer, Write, WriteError};
use crate::review::{Contradiction, contradiction};
use sqlx::PgPool;
use uuid::Uuid;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// It names no payment that this acquirer has of us.
    Nothing,
    /// It came before, and changed nothing now.
    Again,
    /// The acquirer is asked at once.
    Asked,
    /// It is on record; whoever has the payment is at it already, or it is final and says the same.
    Noted,
    /// The payment is final and says otherwise: a person must look.
    Contradicted,
}

impl Told {
    /// The word in logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "unknown_payment",
            Self::Again => "repeated",
            Self::Asked => "asked",
            Self::Noted => "noted",
            Self::Contradicted => "contradicted",
        }
    }
}

struct Meant {
    of: PaymentKey,
    status: Status,
    transaction_id: Option<String>,
}

/// Takes a message in.
///
/// # Errors
/// When the database cannot be asked, or the commit's fate is unknown: the acquirer's repeat finds out.
pub async fn take(pool: &PgPool, committer: &Committer, acquirer: &str, message: &Message) -> Result<Told, WriteError> {
    let Some(payment_id) = message.payment_id else { return Ok(Told::Nothing) };
    let Some(meant) = meant(pool, acquirer, payment_id).await? else { return Ok(Told::Nothing) };
    let (transaction_id, outcome) = (message.transaction_id.as_deref(), message.outcome);
    let reason =
        outcome.and_then(|out| contradiction(meant.status, meant.transaction_id.as_deref(), out, transaction_id));
    if let Some(reason) = reason {
        // Before it is on record: what is cut off here comes again.
        let detail = format!(
            "the payment is {} (transaction: {}), and the acquirer's message {} reports transaction {} as approved",
            meant.status,
            meant.transaction_id.as_deref().unwrap_or("none"),
            message.id,
            transaction_id.unwrap_or("without an id")
        );
        committer.write(Write::Contradiction(Contradiction { of: meant.of, reason, detail })).await?;
    }
    let (new, asked) = record(pool, meant.of, acquirer, message).await?;
    Ok(match (new, reason, asked) {
        (false, ..) => Told::Again,
        (true, Some(_), _) => Told::Contradicted,
        (true, None, true) => Told::Asked,
        (true, None, false) => Told::Noted,
    })
}

/// The payment of that id, whoever's it is. Walks the merchants, of which there are few, along the primary key:
/// an index by id alone would cost every payment.
async fn meant(pool: &PgPool, acquirer: &str, payment_id: Uuid) -> sqlx::Result<Option<Meant>> {
    let row = sqlx::query!(
        r#"SELECT p.merchant_id, p.status AS "status: Status", p.transaction_id
           FROM merchants m CROSS JOIN LATERAL (
               -- LIMIT keeps this from being turned round into a walk along the whole key by its second column.
               SELECT merchant_id, status, transaction_id FROM payments
               WHERE merchant_id = m.id AND id = $1 AND acquirer = $2 LIMIT 1) AS p"#,
        payment_id,
        acquirer,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(|row| Meant {
        of: PaymentKey { merchant_id: row.merchant_id, payment_id },
        status: row.status,
        transaction_id: row.transaction_id,
    }))
}

/// Writes it down and, the first time, lets the look-up of a payment in doubt be due at once: the one that waits,
/// or a new one where a person has the payment. Whether it was new, and whether we ask.
async fn record(pool: &PgPool, of: PaymentKey, acquirer: &str, message: &Message) -> sqlx::Result<(bool, bool)> {
    let row = sqlx::query!(
        r#"WITH told AS (
               INSERT INTO acquirer_webhooks (merchant_id, payment_id, acquirer, message_id, type, outcome, transaction_id)
               VALUES ($1, $2, $3, $4, $5, $6, $7)
               ON CONFLICT DO NOTHING RETURNING merchant_id, payment_id),
           asked AS (
               INSERT INTO jobs AS j (merchant_id, step, subject_id, route)
               SELECT p.merchant_id, 'lookup', p.id, p.acquirer
               FROM told t JOIN payments p ON p.merchant_id = t.merchant_id AND p.id = t.payment_id
               WHERE p.status = 'UNKNOWN' AND p.lease_until IS NULL
               ON CONFLICT (merchant_id, subject_id, step, route) DO UPDATE SET run_at = now()
                   WHERE j.claimed_by IS NULL AND j.run_at > now()
               RETURNING 1)
           SELECT EXISTS (SELECT FROM told) AS "new!", EXISTS (SELECT FROM asked) AS "asked!""#,
        of.merchant_id,
        of.payment_id,
        acquirer,
        message.id,
        message.r#type,
        message.outcome.map(Outcome::as_str),
        message.transaction_id,
    )
    .fetch_one(pool)
    .await?;
    Ok((row.new, row.asked))
}
