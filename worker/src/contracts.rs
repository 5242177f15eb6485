//! Warns of contracts that nobody has verified for long: what an acquirer promised last year may not be what it
//! does today.

use crate::Context;
use shared::db::{in_time, today};
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(3600);

pub(crate) async fn run(context: Arc<Context>) {
    loop {
        match in_time(today(&context.pool)).await {
            Ok(today) => warn(&context, today),
            Err(error) => tracing::debug!(%error, "the database's date is not known; contracts are checked later"),
        }
        tokio::time::sleep(EVERY).await;
    }
}

fn warn(context: &Context, today: time::Date) {
    let most = context.config.contract_max_age_days;
    for (name, profile) in &context.config.acquirers {
        let days = profile.unverified_days(today);
        let stale = days.is_none_or(|days| days > i64::from(most));
        context.metrics.contract_stale(name, stale);
        if stale {
            tracing::warn!(
                acquirer = name,
                days,
                "nobody has verified this acquirer's contract within contract_max_age_days = {most}; compare the profile with what the acquirer publishes, and set verified_on"
            );
        }
    }
}
