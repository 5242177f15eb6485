//! A payment's life in order: who did what, when, and what came of it.
//!
//! It is read from what each step leaves behind anyway; nothing is written for it. So it does not tell of repeats that
//! a client heard an answer to, nor of a sweep that made a missing job, and of a look-up that taught nothing it tells
//! what was asked, not which worker asked. What retention took is gone from it.

use super::{Payment, life::Status};
use crate::outbox;
use crate::review::MACHINE;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgPool;
use time::OffsetDateTime;
use time::serde::rfc3339;
use utoipa::ToSchema;

/// The most entries that are told, the latest ones.
const MOST: i64 = 1_000;

/// The service itself, where it is not known, or does not matter, which of its processes it was.
const SERVICE: &str = "payonce";
/// Stands before an operator's name where something was done by one.
const OPERATOR: &str = "operator ";

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, sqlx::Type, ToSchema)]
#[serde(rename_all = "snake_case")]
#[sqlx(type_name = "text", rename_all = "snake_case")]
#[schema(as = TimelineKind)]
pub enum Kind {
    /// The request was accepted.
    Accepted,
    /// The payment changed visibly: its state, or that a person has it.
    Changed,
    /// The acquirer was sent the charge.
    Charge,
    /// The acquirer was asked what became of it.
    Lookup,
    /// It was put before a person.
    ReviewOpened,
    /// It no longer lies before a person.
    ReviewResolved,
    /// A person did something about it.
    OperatorAction,
    /// The acquirer told something unasked.
    AcquirerWebhook,
    /// The event that tells of its end was written.
    Event,
    /// A sink has the event.
    Delivered,
}

impl Kind {
    /// The word in the database and for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Changed => "changed",
            Self::Charge => "charge",
            Self::Lookup => "lookup",
            Self::ReviewOpened => "review_opened",
            Self::ReviewResolved => "review_resolved",
            Self::OperatorAction => "operator_action",
            Self::AcquirerWebhook => "acquirer_webhook",
            Self::Event => "event",
            Self::Delivered => "delivered",
        }
    }

    /// What a merchant is told of it: what is its own, or the acquirer's word on its payment. Not what a person or a
    /// program wrote for whoever runs the service.
    const fn told_to_merchants(self) -> &'static [&'static str] {
        match self {
            Self::Accepted | Self::Changed => &["version", "from", "to", "attempt", "reason"],
            Self::Charge | Self::Lookup => {
                &["request_id", "attempt", "outcome", "http_status", "duration_ms", "transaction_id", "code"]
            }
            Self::ReviewOpened | Self::ReviewResolved => &["review_id", "reason"],
            Self::OperatorAction => &["action"],
            Self::AcquirerWebhook => &["acquirer", "message_id", "type", "outcome", "transaction_id"],
            Self::Event => &["event_id", "type"],
            Self::Delivered => &["event_id", "sink"],
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = TimelineEntry)]
pub struct Entry {
    /// When; a call when it began.
    #[serde(with = "rfc3339")]
    pub at: OffsetDateTime,
    /// Who: `client`, `acquirer`, `operator`, or `payonce`, the service itself.
    pub actor: String,
    /// What.
    pub kind: Kind,
    /// More of it; which members it has depends on `kind`.
    #[schema(value_type = Object)]
    pub detail: Value,
}

impl Entry {
    /// What the merchant whose payment it is may see of it. `None`: operators among themselves.
    #[must_use]
    pub fn for_merchant(mut self) -> Option<Self> {
        if self.kind == Kind::OperatorAction && matches!(self.detail["action"].as_str(), Some("comment" | "assign")) {
            return None;
        }
        let by_operator = self.actor.starts_with(OPERATOR);
        self.actor = match self.actor.as_str() {
            "client" | "acquirer" => self.actor,
            _ if by_operator => OPERATOR.trim_end().to_owned(),
            _ => SERVICE.to_owned(),
        };
        if let Some(members) = self.detail.as_object_mut() {
            let told = self.kind.told_to_merchants();
            // What an operator gives as a reason is a note.
            members.retain(|name, _| told.contains(&name.as_str()) && !(by_operator && name == "reason"));
        }
        Some(self)
    }
}

/// The timeline of a payment, in order, for whoever runs the service; a merchant sees [`Entry::for_merchant`] of it.
///
/// # Errors
/// When the database cannot be asked.
pub async fn of(pool: &PgPool, payment: &Payment) -> sqlx::Result<Vec<Entry>> {
    let event_id = payment.final_at.map(|at| outbox::event_id_of(payment.id, at));
    let mut entries = sqlx::query_as!(
        Entry,
        r#"WITH history AS (
               SELECT version, from_status, to_status, attempt, actor, reason, at FROM payment_history
               WHERE merchant_id = $1 AND payment_id = $2),
           reviewed AS (
               SELECT id, reason, detail, event_id, sink, opened_at, resolution, resolved_by, resolved_at FROM reviews
               WHERE merchant_id = $1 AND payment_id = $2),
           final AS (SELECT at, actor FROM history WHERE to_status = $4 ORDER BY version LIMIT 1),
           told AS (
               SELECT at, actor, CASE version WHEN 1 THEN 'accepted' ELSE 'changed' END AS kind, 2 AS rank,
                      jsonb_build_object('version', version, 'from', from_status, 'to', to_status, 'attempt', attempt,
                                         'reason', reason) AS detail
               FROM history
               UNION ALL
               -- A claim is one worker's: what else it wrote bears its name, or its job does while it is at it.
               SELECT started_at, COALESCE(
                          (SELECT h.actor FROM history h WHERE h.attempt = c.attempt AND h.version > 1 LIMIT 1),
                          (SELECT j.claimed_by FROM jobs j
                           WHERE j.merchant_id = c.merchant_id AND j.subject_id = c.payment_id AND j.route <> ''
                             AND c.outcome IS NULL AND c.attempt = $5 LIMIT 1), $6),
                      kind, 1,
                      jsonb_build_object('request_id', request_id, 'attempt', attempt, 'outcome', outcome,
                          'http_status', http_status, 'transaction_id', transaction_id, 'code', code, 'message', message,
                          'key_scope', key_scope,
                          'duration_ms', round(extract(epoch FROM finished_at - started_at) * 1000)::bigint)
               FROM provider_calls c WHERE merchant_id = $1 AND payment_id = $2
               UNION ALL
               SELECT received_at, 'acquirer', 'acquirer_webhook', 0,
                      jsonb_build_object('acquirer', acquirer, 'message_id', message_id, 'type', type,
                                         'outcome', outcome, 'transaction_id', transaction_id)
               FROM acquirer_webhooks WHERE merchant_id = $1 AND payment_id = $2
               UNION ALL
               -- The commit that gave up also opened the review.
               SELECT opened_at, COALESCE((SELECT h.actor FROM history h WHERE h.at = opened_at AND h.version > 1 LIMIT 1), $6),
                      'review_opened', 3,
                      jsonb_build_object('review_id', id, 'reason', reason, 'detail', detail, 'event_id', event_id, 'sink', sink)
               FROM reviewed
               UNION ALL
               SELECT resolved_at, CASE resolved_by WHEN $9 THEN $6 ELSE $7 || resolved_by END, 'review_resolved', 3,
                      jsonb_build_object('review_id', id, 'reason', reason, 'resolution', resolution)
               FROM reviewed WHERE resolved_at IS NOT NULL
               UNION ALL
               SELECT at, $7 || operator, 'operator_action', 2,
                      jsonb_build_object('action', action, 'reason', reason, 'evidence', evidence, 'decision_id', decision_id,
                                         'after', after)
               FROM audit WHERE merchant_id = $1 AND payment_id = $2
               UNION ALL
               -- The event is written with the end that it tells of.
               SELECT COALESCE((SELECT at FROM final), occurred_at), COALESCE((SELECT actor FROM final), $6), 'event', 4,
                      jsonb_build_object('event_id', id, 'type', type, 'undelivered',
                          (SELECT jsonb_agg(jsonb_build_object('sink', d.sink, 'state', d.state, 'last_error', d.last_error)
                                            ORDER BY d.sink)
                           FROM deliveries d WHERE d.merchant_id = e.merchant_id AND d.event_id = e.id AND d.state <> 'DELIVERED'))
               -- A range, in this order: along the primary key, not along the feed.
               FROM (SELECT * FROM events WHERE merchant_id = $1 AND id BETWEEN $3 AND $3 ORDER BY id LIMIT 1) AS e
               UNION ALL
               SELECT delivered_at, $6, 'delivered', 5, jsonb_build_object('event_id', event_id, 'sink', sink)
               FROM deliveries WHERE merchant_id = $1 AND event_id = $3 AND delivered_at IS NOT NULL)
           SELECT at AS "at!", actor AS "actor!", kind AS "kind!: Kind", detail AS "detail!" FROM told
           ORDER BY at DESC, rank DESC LIMIT $8"#,
        payment.merchant_id,
        payment.id,
        event_id,
        Some(payment.status).filter(|status| status.is_final()).map(Status::as_str),
        payment.attempt,
        SERVICE,
        OPERATOR,
        MOST,
        MACHINE,
    )
    .fetch_all(pool)
    .await?;
    entries.reverse();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(actor: &str, kind: Kind, detail: Value) -> Entry {
        Entry { at: OffsetDateTime::UNIX_EPOCH, actor: actor.to_owned(), kind, detail }
    }

    #[test]
    fn a_merchant_sees_neither_names_nor_notes() {
        let detail = json!({"version": 3, "from": "UNKNOWN", "to": "PAID", "reason": "the bank's clerk called back"});
        let seen = entry("operator ann", Kind::Changed, detail).for_merchant().unwrap();
        assert_eq!(seen.actor, "operator");
        assert_eq!(seen.detail, json!({"version": 3, "from": "UNKNOWN", "to": "PAID"}));
        let review = json!({"review_id": "1", "reason": "conflicted", "detail": "look at host db-7", "sink": null});
        let seen = entry("host-17-0badcafe", Kind::ReviewOpened, review).for_merchant().unwrap();
        assert_eq!(seen.actor, "payonce");
        assert_eq!(seen.detail, json!({"review_id": "1", "reason": "conflicted"}));
    }

    #[test]
    fn what_operators_say_among_themselves_is_not_told() {
        let act =
            |action: &str| entry("operator ann", Kind::OperatorAction, json!({"action": action, "reason": "call me"}));
        assert!(act("comment").for_merchant().is_none() && act("assign").for_merchant().is_none());
        let seen = act("resend").for_merchant().unwrap();
        assert_eq!((seen.actor.as_str(), seen.detail), ("operator", json!({"action": "resend"})));
    }

    #[test]
    fn clients_and_acquirers_stay_who_they_are() {
        for actor in ["client", "acquirer"] {
            assert_eq!(entry(actor, Kind::Accepted, json!({})).for_merchant().unwrap().actor, actor);
        }
        assert_eq!(entry("sweep", Kind::Changed, json!({})).for_merchant().unwrap().actor, "payonce");
    }
}
