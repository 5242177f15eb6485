//! How long a call takes.

use serde::{Deserialize, Serialize};

/// The time one call takes. In JSON a plain number of ms, or an object such as
/// `{"distribution": "exponential", "mean_ms": 50}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Wire", into = "Distribution")]
pub enum Latency {
    /// Always the same.
    Fixed {
        /// In ms.
        ms: u64,
    },
    /// Anything between two bounds, evenly.
    Uniform {
        /// The least, in ms.
        from_ms: u64,
        /// The most, in ms.
        to_ms: u64,
    },
    /// Mostly short, now and then long.
    Exponential {
        /// The mean, in ms.
        mean_ms: u64,
    },
}

impl Default for Latency {
    fn default() -> Self {
        Latency::Fixed { ms: 0 }
    }
}

impl Latency {
    /// The latency in ms for a draw from [0, 1).
    pub(super) fn ms(self, draw: f64) -> u64 {
        match self {
            Latency::Fixed { ms } => ms,
            Latency::Uniform { from_ms, to_ms } => {
                from_ms + (draw * (to_ms.saturating_sub(from_ms)) as f64).round() as u64
            }
            Latency::Exponential { mean_ms } => (-(1.0 - draw).ln() * mean_ms as f64).round() as u64,
        }
    }
}

/// Either form of the JSON.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "latency_ms is a number of ms or one of \
        {\"distribution\":\"fixed\",\"ms\":…}, \
        {\"distribution\":\"uniform\",\"from_ms\":…,\"to_ms\":…}, \
        {\"distribution\":\"exponential\",\"mean_ms\":…}"
)]
enum Wire {
    Ms(u64),
    Drawn(Distribution),
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case", deny_unknown_fields)]
enum Distribution {
    Fixed { ms: u64 },
    Uniform { from_ms: u64, to_ms: u64 },
    Exponential { mean_ms: u64 },
}

impl From<Wire> for Latency {
    fn from(wire: Wire) -> Self {
        match wire {
            Wire::Ms(ms) | Wire::Drawn(Distribution::Fixed { ms }) => Latency::Fixed { ms },
            Wire::Drawn(Distribution::Uniform { from_ms, to_ms }) => Latency::Uniform { from_ms, to_ms },
            Wire::Drawn(Distribution::Exponential { mean_ms }) => Latency::Exponential { mean_ms },
        }
    }
}

impl From<Latency> for Distribution {
    fn from(latency: Latency) -> Self {
        match latency {
            Latency::Fixed { ms } => Distribution::Fixed { ms },
            Latency::Uniform { from_ms, to_ms } => Distribution::Uniform { from_ms, to_ms },
            Latency::Exponential { mean_ms } => Distribution::Exponential { mean_ms },
        }
    }
}
