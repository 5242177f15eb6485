//! The outbox: facts for others, written with the transaction that made them true, and their way to
//! each sink. The feed is the outbox itself.

use crate::clock::DbClock;
use crate::committer::Verdict;
use crate::payment::body::PaymentBody;
use crate::payment::first_id_at;
use crate::payment::life::Status;
use crate::queue::Take;
use serde::Serialize;
use serde_json::value::RawValue;
use sqlx::{PgConnection, PgPool};
use std::time::Duration;
use time::OffsetDateTime;
use time::serde::rfc3339;
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// A payment is PAID.
    Succeeded,
    /// A payment is DECLINED.
    Declined,
    /// A payment is FAILED.
    Failed,
}

impl EventType {
    /// The CloudEvents `type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "payments.succeeded",
            Self::Declined => "payments.declined",
            Self::Failed => "payments.failed",
        }
    }

    /// The event of a final status.
    ///
    /// # Panics
    /// For a status that is not final: no event tells of it.
    #[must_use]
    pub fn of_final(status: Status) -> Self {
        match status {
            Status::Paid => Self::Succeeded,
            Status::Declined => Self::Declined,
            Status::Failed => Self::Failed,
            Status::Pending | Status::Unknown => unreachable!("{status} is not final"),
        }
    }
}

/// The id of the event that tells of a payment's end: a UUIDv7 of the moment at which it ended, so that neighbours in
/// time are neighbours in the index, with the payment's own random part, so that the event of a payment is found
/// without an index.
#[must_use]
pub fn event_id_of(payment_id: Uuid, final_at: OffsetDateTime) -> Uuid {
    const RANDOM_PART: u128 = (1 << 76) - 1;
    Uuid::from_u128(first_id_at(final_at).as_u128() | payment_id.as_u128() & RANDOM_PART)
}

/// An event, as sinks and the feed see it.
#[derive(Clone, Debug)]
pub struct Event {
    /// Whose.
    pub merchant_id: Uuid,
    /// Stable over all deliveries.
    pub id: Uuid,
    /// The payment it tells of.
    pub payment_id: Uuid,
    /// The partition key.
    pub payment_intent_id: String,
    /// [`EventType::as_str`].
    pub r#type: String,
    /// The payment as JSON, as it was when this happened.
    pub data: String,
    /// W3C trace context of the POST.
    pub traceparent: Option<String>,
    /// When it happened.
    pub occurred_at: OffsetDateTime,
}

/// An event in the CloudEvents 1.0 envelope, JSON in structured mode: one form for the feed and every
/// sink.
#[derive(Debug, Serialize, ToSchema)]
pub struct CloudEvent<'a> {
    /// The version of the envelope: `1.0`.
    pub specversion: &'static str,
    /// Stable over all deliveries: a consumer recognises a repeat by it.
    pub id: Uuid,
    /// Who says so: `/payonce`.
    pub source: &'static str,
    /// `payments.succeeded`, `payments.declined` or `payments.failed`.
    pub r#type: &'a str,
    /// The payment intent.
    pub subject: &'a str,
    /// When it happened.
    #[serde(with = "rfc3339")]
    pub time: OffsetDateTime,
    /// Always `application/json`.
    pub datacontenttype: &'static str,
    /// W3C trace context of the POST; absent when it bore none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub traceparent: Option<&'a str>,
    /// The payment, as it was when this happened.
    #[schema(value_type = PaymentBody)]
    pub data: &'a RawValue,
}

impl Event {
    /// The event in its envelope, `data` repeated byte for byte.
    ///
    /// # Errors
    /// When the stored `data` is not JSON; what [`PaymentBody::to_json`] wrote is.
    pub fn to_cloud_event(&self) -> serde_json::Result<CloudEvent<'_>> {
        Ok(CloudEvent {
            specversion: "1.0",
            id: self.id,
            source: "/payonce",
            r#type: &self.r#type,
            subject: &self.payment_intent_id,
            time: self.occurred_at,
            datacontenttype: "application/json",
            traceparent: self.traceparent.as_deref(),
            data: serde_json::from_str(&self.data)?,
        })
    }
}

/// A position in the feed: everything up to and including this event was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The writing transaction, decimal.
    pub tx: u64,
    /// The event.
    pub id: Uuid,
}

/// The feed: events of a merchant after `after`, oldest first, each with its position. An event shows
/// up only once no older transaction can still commit, so that a cursor never passes over one that
/// committed late.
///
/// # Errors
/// When the database cannot be asked.
pub async fn feed(
    pool: &PgPool,
    merchant_id: Uuid,
    after: Option<&Cursor>,
    limit: i64,
) -> sqlx::Result<Vec<(Event, Cursor)>> {
    let start = Cursor { tx: 0, id: Uuid::nil() };
    let after = after.unwrap_or(&start);
    let rows = sqlx::query!(
        r#"SELECT id, payment_id, payment_intent_id, type AS "type", data, traceparent, occurred_at, tx::text AS "tx!"
           FROM events
           WHERE merchant_id = $1 AND (tx, id) > ($2::text::xid8, $3) AND tx < pg_snapshot_xmin(pg_current_snapshot())
           ORDER BY events.tx, events.id LIMIT $4"#,
        merchant_id,
        after.tx.to_string(),
        after.id,
        limit,
    )
    .fetch_all(pool)
    .await?;
    let entries = rows.into_iter().map(|row| {
        let cursor = Cursor { tx: row.tx.parse().unwrap_or_default(), id: row.id };
        let event = Event {
            merchant_id,
            id: row.id,
            payment_id: row.payment_id,
            payment_intent_id: row.payment_intent_id,
            r#type: row.r#type,
            data: row.data,
            traceparent: row.traceparent,
            occurred_at: row.occurred_at,
        };
        (event, cursor)
    });
    Ok(entries.collect())
}

/// Names one delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryKey {
    /// Whose.
    pub merchant_id: Uuid,
    /// Which event.
    pub event_id: Uuid,
    /// To which sink.
    pub sink: String,
}

/// A claimed delivery.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The event.
    pub event: Event,
    /// The sink.
    pub sink: String,
    /// How often it was delivered, this time included; also its fence.
    pub deliveries: i32,
    /// Until when the owner may act.
    pub lease_until: Instant,
}

impl Claim {
    /// Its name.
    #[must_use]
    pub fn key(&self) -> DeliveryKey {
        DeliveryKey { merchant_id: self.event.merchant_id, event_id: self.event.id, sink: self.sink.clone() }
    }
}

/// Takes up to `take.limit` due deliveries of one sink.
///
/// # Errors
/// When the database cannot be asked, or the commit's fate is unknown: the lease then lapses.
pub async fn fetch(pool: &PgPool, take: &Take<'_>) -> sqlx::Result<Vec<Claim>> {
    let taken = Instant::now();
    let rows = sqlx::query!(
        r#"WITH due AS (
               SELECT ctid AS row FROM jobs
               WHERE (step || '/' || route) COLLATE "C" = $1 AND run_at <= now()
               ORDER BY run_at LIMIT $2
               FOR NO KEY UPDATE SKIP LOCKED),
           job AS (
               UPDATE jobs j SET run_at = now() + make_interval(secs => $3), deliveries = j.deliveries + 1, claimed_by = $4
               FROM due d WHERE j.ctid = d.row
               RETURNING j.merchant_id, j.subject_id, j.deliveries)
           SELECT e.merchant_id, e.id, e.payment_id, e.payment_intent_id, e.type AS "type", e.data, e.traceparent,
                  e.occurred_at, job.deliveries, now() AS "now!"
           FROM job JOIN events e ON e.merchant_id = job.merchant_id AND e.id = job.subject_id"#,
        take.lane(),
        take.limit,
        take.lease.as_secs_f64(),
        take.worker,
    )
    .fetch_all(pool)
    .await?;
    let claims = rows.into_iter().map(|row| Claim {
        event: Event {
            merchant_id: row.merchant_id,
            id: row.id,
            payment_id: row.payment_id,
            payment_intent_id: row.payment_intent_id,
            r#type: row.r#type,
            data: row.data,
            traceparent: row.traceparent,
            occurred_at: row.occurred_at,
        },
        sink: take.route.to_owned(),
        deliveries: row.deliveries,
        lease_until: DbClock::new(row.now, taken).instant_after(take.lease),
    });
    Ok(claims.collect())
}

/// What became of a delivery.
#[derive(Clone, Debug)]
pub struct Mark {
    /// The delivery.
    pub of: DeliveryKey,
    /// The claim's count: a later claim's postponement is not overwritten.
    pub deliveries: i32,
    /// What became of it.
    pub became: Became,
}

/// What became of a delivery.
#[derive(Clone, Debug)]
pub enum Became {
    /// The sink has it.
    Delivered,
    /// Not this time; again after a rest.
    Postponed {
        /// The rest.
        after: Duration,
        /// Why, cleaned.
        error: String,
    },
    /// The budget is spent: a person decides (review `delivery_exhausted`).
    Dead {
        /// Why, cleaned.
        error: String,
    },
    /// Claimed, and handed back unused: due at once, the delivery refunded.
    GivenBack,
}

/// Marks deliveries.
pub(crate) async fn mark(conn: &mut PgConnection, marks: &[&Mark]) -> sqlx::Result<Vec<Verdict>> {
    let merchants: Vec<Uuid> = marks.iter().map(|m| m.of.merchant_id).collect();
    let events: Vec<Uuid> = marks.iter().map(|m| m.of.event_id).collect();
    let sinks: Vec<&str> = marks.iter().map(|m| m.of.sink.as_str()).collect();
    let deliveries: Vec<i32> = marks.iter().map(|m| m.deliveries).collect();
    let (mut became, mut delays, mut errors) = (vec![], vec![], vec![]);
    for mark in marks {
        let (word, delay, error) = match &mark.became {
            Became::Delivered => ("DELIVERED", None, None),
            Became::Postponed { after, error } => ("PENDING", Some(after.as_secs_f64()), Some(error.as_str())),
            Became::Dead { error } => ("DEAD", None, Some(error.as_str())),
            Became::GivenBack => ("PENDING", Some(0.0), None),
        };
        became.push(word);
        delays.push(delay);
        errors.push(error);
    }
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::int4[], $5::text[], $6::float8[], $7::text[])
               WITH ORDINALITY AS i (merchant_id, event_id, sink, deliveries, state, delay_s, error, ord)),
           marked AS (
               UPDATE deliveries d SET state = i.state, last_error = COALESCE(i.error, d.last_error),
                      delivered_at = CASE WHEN i.state = 'DELIVERED' THEN now() END
               FROM input i
               WHERE d.merchant_id = i.merchant_id AND d.event_id = i.event_id AND d.sink = i.sink
                 AND d.state = 'PENDING'
               RETURNING i.*),
           gone AS (
               DELETE FROM jobs j USING input m
               WHERE j.merchant_id = m.merchant_id AND j.step = 'publish' AND j.subject_id = m.event_id AND j.route = m.sink
                 AND m.delay_s IS NULL),
           later AS (
               UPDATE jobs j SET run_at = now() + make_interval(secs => m.delay_s), claimed_by = NULL,
                      deliveries = j.deliveries - CASE WHEN m.error IS NULL THEN 1 ELSE 0 END
               FROM marked m
               WHERE j.merchant_id = m.merchant_id AND j.step = 'publish' AND j.subject_id = m.event_id AND j.route = m.sink
                 AND m.delay_s IS NOT NULL AND j.deliveries = m.deliveries),
           review AS (
               INSERT INTO reviews (merchant_id, payment_id, event_id, sink, reason, detail)
               SELECT m.merchant_id, e.payment_id, m.event_id, m.sink, 'delivery_exhausted', m.error
               FROM marked m JOIN events e ON e.merchant_id = m.merchant_id AND e.id = m.event_id
               WHERE m.state = 'DEAD'
               ON CONFLICT DO NOTHING)
           SELECT ord AS "ord!", now() AS "at!" FROM marked"#,
        &merchants,
        &events,
        &sinks as &[&str],
        &deliveries,
        &became as &[&str],
        &delays as &[Option<f64>],
        &errors as &[Option<&str>],
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(marks.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_events_id_is_a_uuid_v7_of_its_moment_and_of_its_payment_alone() {
        let at = OffsetDateTime::from_unix_timestamp(1_764_590_000).expect("a time");
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        let id = event_id_of(one, at);
        assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
        assert_eq!(id.get_timestamp().expect("a time").to_unix().0, 1_764_590_000);
        assert!(id == event_id_of(one, at) && id != event_id_of(other, at));
        assert!(id < event_id_of(one, at + Duration::from_millis(1)));
    }
}
