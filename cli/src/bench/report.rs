//! What the bench says.

use super::counters::Cost;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;

/// Percentiles, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Millis {
    p50: f64,
    p95: f64,
    p99: f64,
}

impl Millis {
    /// From microseconds.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn of(micros: &Histogram<u64>) -> Self {
        let at = |quantile| micros.value_at_quantile(quantile) as f64 / 1000.0;
        Self { p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

/// The figures.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    payments_per_second: f64,
    sustained_per_second: f64,
    commits_per_payment: f64,
    wal_bytes_per_payment: f64,
    /// `null` when the steady phase was left out.
    accept_ms: Option<Millis>,
    paid_ms: Option<Millis>,
    /// Resident memory of this process: api, worker, acquirer and the bench itself. Absent where the
    /// system does not tell.
    resident_mb: Option<f64>,
}

impl Report {
    pub(super) fn new(drained: f64, sustained: f64, cost: Cost, steady: Option<(Millis, Millis)>) -> Self {
        Self {
            payments_per_second: drained,
            sustained_per_second: sustained,
            commits_per_payment: cost.commits,
            wal_bytes_per_payment: cost.wal_bytes,
            accept_ms: steady.map(|(accept, _)| accept),
            paid_ms: steady.map(|(_, paid)| paid),
            resident_mb: resident_mb(),
        }
    }
}

fn resident_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kb: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb / 1024.0)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |millis: Option<Millis>| match millis {
            Some(m) => format!("p50 {:.1} ms, p95 {:.1} ms, p99 {:.1} ms", m.p50, m.p95, m.p99),
            None => "not measured (--seconds 0)".to_owned(),
        };
        writeln!(f, "drained                  {:.0} payments/s", self.payments_per_second)?;
        writeln!(f, "accepted and drained     {:.0} payments/s", self.sustained_per_second)?;
        writeln!(f, "commits per payment      {:.2}", self.commits_per_payment)?;
        writeln!(f, "WAL per payment          {:.0} bytes", self.wal_bytes_per_payment)?;
        writeln!(f, "POST to accepted         {}", millis(self.accept_ms))?;
        writeln!(f, "accepted to PAID         {}", millis(self.paid_ms))?;
        if let Some(mb) = self.resident_mb {
            writeln!(f, "resident memory          {mb:.0} MB (api, worker, acquirer and bench in one process)")?;
        }
        Ok(())
    }
}
