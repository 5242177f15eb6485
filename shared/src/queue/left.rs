//! What is left to do for one payment: its jobs, with what their budgets have spent.

use crate::outbox;
use crate::payment::Payment;
use crate::queue::Step;
use sqlx::PgPool;
use time::OffsetDateTime;

/// A job that waits, or is being done.
#[derive(Clone, Debug)]
pub struct Left {
    /// The step.
    pub step: Step,
    /// The acquirer, or the sink; '' for settle.
    pub route: String,
    /// Due from then on; of a job that is being done, when its lease ends.
    pub run_at: OffsetDateTime,
    /// How long that is away, in seconds by the database's clock; negative when it is past.
    pub due_in_s: f64,
    /// The budget spent.
    pub deliveries: i32,
    /// Who is at it.
    pub claimed_by: Option<String>,
}

/// The jobs of a payment and of the event that tells of its end.
///
/// # Errors
/// When the database cannot be asked.
pub async fn of(pool: &PgPool, payment: &Payment) -> sqlx::Result<Vec<Left>> {
    sqlx::query_as!(
        Left,
        r#"SELECT step AS "step: Step", route, run_at, extract(epoch FROM run_at - now())::float8 AS "due_in_s!",
                  deliveries, claimed_by
           FROM jobs WHERE merchant_id = $1 AND subject_id IN ($2, $3) ORDER BY run_at, step, route"#,
        payment.merchant_id,
        payment.id,
        payment.final_at.map(|at| outbox::event_id_of(payment.id, at)),
    )
    .fetch_all(pool)
    .await
}
