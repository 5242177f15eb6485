//! How many requests one credential may send: a token bucket that holds one second's worth.

use crate::problem::{Code, Problem};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use uuid::Uuid;

/// Above so many buckets the full ones are dropped; a credential without one has a full one.
const TIDY_ABOVE: usize = 1024;

/// The buckets of all credentials that were used lately, in this process.
#[derive(Debug)]
pub struct Limits {
    /// Requests per second of one credential; `None` for no limit.
    per_second: Option<f64>,
    buckets: Mutex<HashMap<Uuid, Bucket>>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    filled_at: Instant,
}

impl Limits {
    /// At most `per_second` requests of one credential, 0 for no limit.
    #[must_use]
    pub fn new(per_second: u32) -> Self {
        Self { per_second: (per_second > 0).then_some(f64::from(per_second)), buckets: Mutex::default() }
    }

    /// Takes a token of the credential.
    ///
    /// # Errors
    /// 429 with `Retry-After` when there is none.
    pub fn take(&self, credential_id: Uuid) -> Result<(), Problem> {
        match self.per_second {
            Some(rate) if !self.has_token(credential_id, rate) => {
                let detail = "this credential sends more requests per second than it may";
                // A bucket refills within a second, and Retry-After has whole ones.
                Err(Problem::new(Code::RateLimited, detail).retry_after(1))
            }
            _ => Ok(()),
        }
    }

    fn has_token(&self, credential_id: Uuid, rate: f64) -> bool {
        let now = Instant::now();
        let filled = |bucket: &Bucket| (bucket.tokens + rate * (now - bucket.filled_at).as_secs_f64()).min(rate);
        // A poisoned map is still a map: nothing in here leaves it half-changed.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > TIDY_ABOVE {
            buckets.retain(|_, bucket| filled(bucket) < rate);
        }
        let bucket = buckets.entry(credential_id).or_insert(Bucket { tokens: rate, filled_at: now });
        bucket.tokens = filled(bucket);
        bucket.filled_at = now;
        let has = bucket.tokens >= 1.0;
        if has {
            bucket.tokens -= 1.0;
        }
        has
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn a_key_has_one_seconds_worth_and_earns_it_back() {
        let (limits, key) = (Limits::new(3), Uuid::from_u128(1));
        for _ in 0..3 {
            assert!(limits.take(key).is_ok());
        }
        assert_eq!(limits.take(key).unwrap_err().code(), Code::RateLimited);
        advance(Duration::from_millis(400)).await;
        assert!(limits.take(key).is_ok());
        assert!(limits.take(key).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn one_key_does_not_spend_anothers() {
        let limits = Limits::new(1);
        assert!(limits.take(Uuid::from_u128(1)).is_ok());
        assert!(limits.take(Uuid::from_u128(2)).is_ok());
        assert!(limits.take(Uuid::from_u128(1)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn full_buckets_are_not_kept() {
        let limits = Limits::new(1);
        for key in 0..=TIDY_ABOVE as u128 {
            assert!(limits.take(Uuid::from_u128(key)).is_ok());
        }
        advance(Duration::from_secs(2)).await;
        assert!(limits.take(Uuid::nil()).is_ok());
        assert_eq!(limits.buckets.lock().unwrap().len(), 1);
    }

    #[test]
    fn zero_means_no_limit() {
        let limits = Limits::new(0);
        assert!((0..10_000).all(|_| limits.take(Uuid::nil()).is_ok()));
    }
}
