//! Whether each acquirer is there and knows us.

use super::Finding;
use crate::failure::Failure;
use futures_util::future::join_all;
use shared::config::{Acquirer, Config};
use worker::acquirer::AcquirerClient;

/// Asks each acquirer for a charge that nobody ever made.
pub async fn check(config: &Config) -> Vec<Finding> {
    if config.acquirers.is_empty() {
        return vec![Finding::bad("acquirers", Failure::NoAcquirer)];
    }
    join_all(config.acquirers.iter().map(|(name, profile)| ask(name, profile))).await
}

async fn ask(name: &str, profile: &Acquirer) -> Finding {
    let answer = match AcquirerClient::new(name, profile) {
        Ok(client) => client.probe().await,
        Err(error) => Err(error.to_string()),
    };
    let (what, url) = ("acquirer", &profile.base_url);
    match answer {
        Ok(status @ (401 | 403)) => Finding::doubtful(
            what,
            format_args!("{name} at {url} answers, but with {status}: check acquirers.{name}.credential"),
        ),
        Ok(status) => Finding::good(what, format_args!("{name} at {url} answers (a look-up of nothing: {status})")),
        Err(why) => Finding::bad(
            what,
            format_args!("{name} at {url}: {why}; check acquirers.{name}.base_url, and that this machine may go there"),
        ),
    }
}
