//! Which reviews, as flags.

use crate::failure::Failure;
use shared::merchant;
use shared::review::Reason;
use shared::review::listed::Filter;
use sqlx::PgPool;
use std::time::Duration;
use uuid::Uuid;

/// Which open reviews
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Filters {
    /// Only of this reason; may be repeated
    #[arg(long, value_name = "REASON")]
    reason: Vec<Reason>,
    /// Only of this merchant's payments: its name or id
    #[arg(long, value_name = "MERCHANT")]
    merchant: Option<String>,
    /// Only open for longer than this, such as 90s, 15m, 2h or 3d
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
    /// Only of payments at this acquirer's profile
    #[arg(long, value_name = "NAME")]
    acquirer: Option<String>,
    /// Only those that this operator looks after
    #[arg(long, value_name = "NAME")]
    assigned_to: Option<String>,
}

impl Filters {
    /// The filter; a merchant that does not exist is a failure, not an empty list.
    pub async fn read(self, pool: &PgPool) -> Result<Filter, Failure> {
        let merchant_id = match &self.merchant {
            None => None,
            Some(text) => match Uuid::try_parse(text) {
                Ok(id) => Some(id),
                Err(_) => Some(merchant::named(pool, text).await?.id),
            },
        };
        Ok(Filter {
            reasons: self.reason,
            merchant_id,
            acquirer: self.acquirer,
            older_than: self.older_than,
            assigned_to: self.assigned_to,
        })
    }

    /// Whether nothing was asked for.
    pub fn are_none(&self) -> bool {
        self.reason.is_empty()
            && self.older_than.is_none()
            && [&self.merchant, &self.acquirer, &self.assigned_to].iter().all(|text| text.is_none())
    }
}

/// A span such as `15m`.
fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "give a whole number and s, m, h or d, such as 15m".to_owned();
    let (number, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let number: u32 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    Ok(Duration::from_secs(u64::from(number) * seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_a_number_and_a_unit() {
        let seconds = |text| age(text).map(|age| age.as_secs()).ok();
        assert_eq!(["90s", "15m", "2h", "3d"].map(seconds), [Some(90), Some(900), Some(7_200), Some(259_200)]);
        for bad in ["", "m", "15", "15 m", "-1m", "1.5h", "1w", "1é", "99999999999d"] {
            assert!(age(bad).is_err(), "{bad:?}");
        }
    }
}
