//! What the database knows about the whole service, read when somebody looks. Each figure is read
//! along an index, and counts stop at 100 000: "more than that" is all an alarm needs.

use super::Labels;
use crate::queue::Step;
use crate::review::Reason;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};
use sqlx::PgPool;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// Where counting stops.
const MOST: i64 = 100_000;

type Seconds = Gauge<f64, AtomicU64>;

/// The gauges.
#[derive(Clone, Debug, Default)]
pub(super) struct Gauges {
    unknown: Family<Labels<0>, Gauge>,
    unknown_oldest: Family<Labels<0>, Seconds>,
    reviews: Family<Labels<1>, Gauge>,
    jobs_due: Family<Labels<1>, Gauge>,
    job_oldest: Family<Labels<1>, Seconds>,
    undelivered: Family<Labels<1>, Gauge>,
    parked: Family<Labels<1>, Gauge>,
    /// The acquirers that this process does not call as it would like to.
    away: Arc<Mutex<BTreeSet<String>>>,
}

impl Gauges {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let gauges = Self::default();
        registry.register("payonce_payments_unknown", "Payments whose outcome is unknown", gauges.unknown.clone());
        registry.register_with_unit(
            "payonce_payments_unknown_oldest",
            "How long the oldest of them is unknown",
            Unit::Seconds,
            gauges.unknown_oldest.clone(),
        );
        registry.register("payonce_manual_review_open", "Reviews that wait for a person", gauges.reviews.clone());
        registry.register("payonce_jobs_due", "Jobs that are due and not claimed", gauges.jobs_due.clone());
        registry.register_with_unit(
            "payonce_job_oldest_due",
            "For how long the oldest of them is due",
            Unit::Seconds,
            gauges.job_oldest.clone(),
        );
        registry.register(
            "payonce_events_undelivered",
            "Deliveries that did not reach their sink yet",
            gauges.undelivered.clone(),
        );
        registry.register(
            "payonce_jobs_parked",
            "Due charges and look-ups that wait for an acquirer which this process found away",
            gauges.parked.clone(),
        );
        gauges
    }

    pub(super) fn clear(&self) {
        self.unknown.clear();
        self.unknown_oldest.clear();
        self.reviews.clear();
        self.jobs_due.clear();
        self.job_oldest.clear();
        self.undelivered.clear();
        self.parked.clear();
    }

    /// Whether what waits for an acquirer counts as parked.
    pub(super) fn park(&self, acquirer: &str, away: bool) {
        let mut all = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        let _changed = if away { all.insert(acquirer.to_owned()) } else { all.remove(acquirer) };
    }

    pub(super) async fn read(&self, pool: &PgPool) -> sqlx::Result<()> {
        self.read_unknown(pool).await?;
        self.read_reviews(pool).await?;
        for step in Step::ALL {
            self.read_jobs(pool, step).await?;
        }
        self.read_parked(pool).await?;
        self.read_deliveries(pool).await
    }

    async fn read_parked(&self, pool: &PgPool) -> sqlx::Result<()> {
        let away: Vec<String> = self.away.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        self.parked.clear();
        for acquirer in away {
            let lanes = [Step::Charge, Step::Lookup].map(|step| format!("{}/{acquirer}", step.as_str()));
            let count = sqlx::query_scalar!(
                r#"SELECT count(*) AS "count!" FROM
                   (SELECT FROM jobs WHERE (step || '/' || route) COLLATE "C" = ANY($1) AND run_at <= now() LIMIT $2) AS due"#,
                &lanes,
                MOST,
            )
            .fetch_one(pool)
            .await?;
            self.parked.get_or_create(&Labels([("acquirer", acquirer)])).set(count);
        }
        Ok(())
    }

    async fn read_unknown(&self, pool: &PgPool) -> sqlx::Result<()> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "count!", COALESCE(extract(epoch FROM now() - min(unknown_at))::float8, 0) AS "oldest!"
               FROM (SELECT unknown_at FROM payments
                     WHERE status = 'UNKNOWN' AND status IN ('PENDING', 'UNKNOWN') LIMIT $1) AS unknown"#,
            MOST,
        )
        .fetch_one(pool)
        .await?;
        self.unknown.get_or_create(&Labels([])).set(row.count);
        self.unknown_oldest.get_or_create(&Labels([])).set(row.oldest);
        Ok(())
    }

    async fn read_reviews(&self, pool: &PgPool) -> sqlx::Result<()> {
        let rows = sqlx::query!(
            r#"SELECT reason AS "reason!", count(*) AS "count!" FROM
               (SELECT reason FROM reviews WHERE state = 'OPEN' LIMIT $1) AS open GROUP BY reason"#,
            MOST,
        )
        .fetch_all(pool)
        .await?;
        for reason in Reason::ALL {
            let count = rows.iter().find(|row| row.reason == reason.as_str()).map_or(0, |row| row.count);
            self.reviews.get_or_create(&Labels([("reason", reason.as_str().to_owned())])).set(count);
        }
        Ok(())
    }

    async fn read_jobs(&self, pool: &PgPool, step: Step) -> sqlx::Result<()> {
        let row = sqlx::query!(
            r#"SELECT count(*) AS "count!", COALESCE(extract(epoch FROM now() - min(run_at))::float8, 0) AS "oldest!"
               FROM (SELECT run_at FROM jobs
                     WHERE (step || '/' || route) COLLATE "C" >= $1 || '/' AND (step || '/' || route) COLLATE "C" < $1 || '0'
                       AND run_at <= now() LIMIT $2) AS due"#,
            step.as_str(),
            MOST,
        )
        .fetch_one(pool)
        .await?;
        self.jobs_due.get_or_create(&Labels([("step", step.as_str().to_owned())])).set(row.count);
        self.job_oldest.get_or_create(&Labels([("step", step.as_str().to_owned())])).set(row.oldest);
        Ok(())
    }

    async fn read_deliveries(&self, pool: &PgPool) -> sqlx::Result<()> {
        let rows = sqlx::query!(
            r#"SELECT sink AS "sink!", count(*) AS "count!" FROM
               (SELECT sink FROM deliveries WHERE state = 'PENDING' LIMIT $1) AS open GROUP BY sink"#,
            MOST,
        )
        .fetch_all(pool)
        .await?;
        self.undelivered.clear();
        for row in rows {
            self.undelivered.get_or_create(&Labels([("sink", row.sink)])).set(row.count);
        }
        Ok(())
    }
}
