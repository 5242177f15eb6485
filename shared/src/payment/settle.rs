//! Settling: everything that belongs to a final outcome, in one fenced statement. The call that taught
//! it, the payment, the key with the stored answer, the line of history, the event, its deliveries and their jobs become
//! true together or not at all.

use super::body::PaymentBody;
use super::call::{Ended, Endings, Fences};
use super::life::{Event, Illegal, Next, Outcome, Status, decide};
use super::{Fence, OPERATION, Payment};
use crate::acquirer::Answer;
use crate::committer::Verdict;
use crate::outbox::{EventType, event_id_of};
use sqlx::PgConnection;
use std::time::Duration;
use time::OffsetDateTime;
use uuid::Uuid;

/// The HTTP status stored for a final answer; one for PAID, DECLINED and FAILED, so that clients
/// have one path.
const FINAL_CODE: i16 = 201;

/// A final outcome, ready to be written.
#[derive(Clone, Debug)]
pub struct Settle {
    /// The claim's fence.
    pub fence: Fence,
    /// The call that taught us the outcome, recorded by the same commit; `None` when it is on record.
    pub ended: Option<Ended>,
    /// No call ever left for this payment, after all.
    pub never_sent: bool,
    /// The payment as it will be.
    pub settled: Payment,
    /// The stored answer and the event's data.
    pub body: String,
    /// The event's id: [`event_id_of`] this payment and its end.
    pub event_id: Uuid,
    /// Who settles: the worker's name.
    pub actor: String,
    /// What the outcome was, for the history.
    pub reason: String,
    /// The sinks that the event goes to; their names have no commas.
    pub sinks: Vec<String>,
    /// The publish jobs are born claimed by the worker that settles, for this long.
    pub lease: Duration,
}

impl Settle {
    /// Works out what `answer` makes of the claimed `payment`.
    ///
    /// # Errors
    /// [`Illegal`] when the payment is final already.
    ///
    /// # Panics
    /// When the answer is not final: callers settle what [`decide`] sends to [`Next::Settle`].
    pub fn new(
        payment: &Payment,
        answer: &Answer,
        final_at: OffsetDateTime,
        actor: &str,
        sinks: &[String],
        lease: Duration,
    ) -> Result<Self, Illegal> {
        let transition = decide(payment.status, Event::Learned(answer.outcome))?;
        assert_eq!(transition.next, Next::Settle, "only final outcomes are settled");
        // The carried clock may differ from the database's by a round trip; time never runs backwards.
        let final_at = final_at.max(payment.updated_at);
        let settled = after(payment, answer, transition.to, final_at);
        let Payment { attempt, status, version, .. } = *payment;
        Ok(Self {
            fence: Fence { of: payment.key(), attempt, status, version },
            ended: None,
            never_sent: false,
            body: PaymentBody::from(&settled).to_json(),
            settled,
            event_id: event_id_of(payment.id, final_at),
            actor: actor.to_owned(),
            reason: answer.code.clone().unwrap_or_else(|| answer.outcome.as_str().to_owned()),
            sinks: sinks.to_vec(),
            lease,
        })
    }

    fn event_type(&self) -> EventType {
        EventType::of_final(self.settled.status)
    }

    /// The event that tells of it.
    #[must_use]
    pub fn event(&self) -> crate::outbox::Event {
        crate::outbox::Event {
            merchant_id: self.settled.merchant_id,
            id: self.event_id,
            payment_id: self.settled.id,
            payment_intent_id: self.settled.payment_intent_id.clone(),
            r#type: self.event_type().as_str().to_owned(),
            data: self.body.clone(),
            traceparent: self.settled.traceparent.clone(),
            occurred_at: self.settled.updated_at,
        }
    }
}

fn after(payment: &Payment, answer: &Answer, to: Status, final_at: OffsetDateTime) -> Payment {
    let mut settled = Payment {
        status: to,
        version: payment.version + 1,
        final_at: Some(final_at),
        updated_at: final_at,
        lease_until: None,
        ..payment.clone()
    };
    match answer.outcome {
        Outcome::Declined => {
            settled.decline_code = Some(answer.code.clone().unwrap_or_else(|| "declined".to_owned()));
            settled.decline_message.clone_from(&answer.message);
        }
        Outcome::Failed => {
            settled.failure_code = Some(answer.code.clone().unwrap_or_else(|| "request_refused".to_owned()));
            settled.failure_message.clone_from(&answer.message);
        }
        _ => {}
    }
    settled.transaction_id.clone_from(&answer.transaction_id);
    settled
}

/// Settles many at once. A row whose fence is stale changes nothing.
pub(crate) async fn apply(conn: &mut PgConnection, rows: &[&Settle]) -> sqlx::Result<Vec<Verdict>> {
    let fences = Fences::of(rows.iter().map(|r| r.fence));
    let ended = Endings::of(rows.iter().map(|r| r.ended.as_ref()));
    let versions: Vec<i32> = rows.iter().map(|r| r.fence.version).collect();
    let statuses: Vec<&str> = rows.iter().map(|r| r.settled.status.as_str()).collect();
    let transactions: Vec<Option<&str>> = rows.iter().map(|r| r.settled.transaction_id.as_deref()).collect();
    let decline_codes: Vec<Option<&str>> = rows.iter().map(|r| r.settled.decline_code.as_deref()).collect();
    let decline_messages: Vec<Option<&str>> = rows.iter().map(|r| r.settled.decline_message.as_deref()).collect();
    let failure_codes: Vec<Option<&str>> = rows.iter().map(|r| r.settled.failure_code.as_deref()).collect();
    let failure_messages: Vec<Option<&str>> = rows.iter().map(|r| r.settled.failure_message.as_deref()).collect();
    let finals: Vec<Option<OffsetDateTime>> = rows.iter().map(|r| r.settled.final_at).collect();
    let bodies: Vec<&str> = rows.iter().map(|r| r.body.as_str()).collect();
    let events: Vec<Uuid> = rows.iter().map(|r| r.event_id).collect();
    let types: Vec<&str> = rows.iter().map(|r| r.event_type().as_str()).collect();
    let actors: Vec<&str> = rows.iter().map(|r| r.actor.as_str()).collect();
    let reasons: Vec<&str> = rows.iter().map(|r| r.reason.as_str()).collect();
    let leases: Vec<f64> = rows.iter().map(|r| r.lease.as_secs_f64()).collect();
    let never_sent: Vec<bool> = rows.iter().map(|r| r.never_sent).collect();
    let sinks: Vec<String> = rows.iter().map(|r| r.sinks.join(",")).collect();
    let applied = sqlx::query!(
        r#"WITH input AS (
               SELECT * FROM unnest($3::uuid[], $4::uuid[], $5::int4[], $6::text[], $7::int4[],
                                    $8::text[], $9::text[], $10::text[], $11::text[], $12::text[], $13::text[],
                                    $14::timestamptz[], $15::text[], $16::uuid[], $17::text[], $18::text[],
                                    $19::text[], $20::float8[],
                                    $22::uuid[], $23::int2[], $24::text[], $25::text[], $26::text[], $27::text[],
                                    $21::text[], $28::bool[])
               WITH ORDINALITY AS i (merchant_id, payment_id, attempt, from_status, version,
                                     status, transaction_id, decline_code, decline_message, failure_code, failure_message,
                                     final_at, body, event_id, event_type, actor,
                                     reason, lease_s,
                                     request_id, http_status, outcome, call_transaction_id, code, message,
                                     sinks, never_sent, ord)),
           final AS (
               UPDATE payments p SET
                   status = i.status, transaction_id = i.transaction_id,
                   decline_code = i.decline_code, decline_message = i.decline_message,
                   failure_code = i.failure_code, failure_message = i.failure_message,
                   version = i.version + 1, lease_until = NULL,
                   first_call_at = CASE WHEN i.never_sent THEN NULL ELSE p.first_call_at END, updated_at = i.final_at, final_at = i.final_at
               FROM input i
               WHERE p.merchant_id = i.merchant_id AND p.id = i.payment_id
                 AND p.attempt = i.attempt AND p.status = i.from_status AND p.version = i.version
                 AND p.lease_until IS NOT NULL
               RETURNING i.*, p.payment_intent_id, p.idempotency_key, p.traceparent),
           ended AS (
               UPDATE provider_calls c SET finished_at = now(), http_status = f.http_status, outcome = f.outcome,
                      transaction_id = f.call_transaction_id, code = f.code, message = f.message
               FROM final f
               WHERE c.merchant_id = f.merchant_id AND c.payment_id = f.payment_id AND c.request_id = f.request_id),
           key AS (
               UPDATE idempotency_keys k SET state = 'COMPLETED', response_code = $2, response_body = f.body,
                      completed_at = f.final_at
               FROM final f
               WHERE k.merchant_id = f.merchant_id AND k.operation = $1 AND k.key = f.idempotency_key
                 AND k.payment_id = f.payment_id AND k.state <> 'COMPLETED'),
           history AS (
               INSERT INTO payment_history (merchant_id, payment_id, version, from_status, to_status, attempt, actor, reason)
               SELECT merchant_id, payment_id, version + 1, from_status, status, attempt, actor, reason FROM final),
           event AS (
               INSERT INTO events (merchant_id, id, payment_id, payment_intent_id, type, data, traceparent, occurred_at)
               SELECT merchant_id, event_id, payment_id, payment_intent_id, event_type, body, traceparent, final_at FROM final),
           target AS (
               SELECT f.merchant_id, f.event_id, f.actor, f.lease_s, s.sink
               FROM final f CROSS JOIN LATERAL unnest(string_to_array(f.sinks, ',')) AS s (sink)),
           delivery AS (
               INSERT INTO deliveries (merchant_id, event_id, sink) SELECT merchant_id, event_id, sink FROM target),
           publish AS (
               INSERT INTO jobs (merchant_id, step, subject_id, route, run_at, deliveries, claimed_by)
               SELECT merchant_id, 'publish', event_id, sink, now() + make_interval(secs => lease_s), 1, actor FROM target),
           done AS (
               DELETE FROM jobs j USING final f
               WHERE j.merchant_id = f.merchant_id AND j.step IN ('charge', 'lookup', 'settle')
                 AND j.subject_id = f.payment_id)
           SELECT ord AS "ord!", now() AS "at!" FROM final"#,
        OPERATION,
        FINAL_CODE,
        &fences.merchants,
        &fences.payments,
        &fences.attempts,
        &fences.statuses as &[&str],
        &versions,
        &statuses as &[&str],
        &transactions as &[Option<&str>],
        &decline_codes as &[Option<&str>],
        &decline_messages as &[Option<&str>],
        &failure_codes as &[Option<&str>],
        &failure_messages as &[Option<&str>],
        &finals as &[Option<OffsetDateTime>],
        &bodies as &[&str],
        &events,
        &types as &[&str],
        &actors as &[&str],
        &reasons as &[&str],
        &leases,
        &sinks,
        &ended.requests as &[Option<Uuid>],
        &ended.http_statuses as &[Option<i16>],
        &ended.outcomes as &[Option<&str>],
        &ended.transactions as &[Option<&str>],
        &ended.codes as &[Option<&str>],
        &ended.messages as &[Option<&str>],
        &never_sent,
    )
    .fetch_all(conn)
    .await?;
    Ok(Verdict::of(rows.len(), applied.into_iter().map(|row| (row.ord, row.at))))
}
