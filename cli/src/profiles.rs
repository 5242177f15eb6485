//! The profiles that the sandbox ships: payonce's side of a contract, and the acquirer that plays it.

use crate::failure::Failure;
use figment::Figment;
use figment::providers::{Format, Toml};
use sandbox::acquirer::Settings;
use sandbox::profiles::Profile;
use shared::config::{Acquirer, Config};

/// A contract, both sides of it.
#[derive(Clone, Debug)]
pub struct Played {
    /// The profile's name.
    pub name: &'static str,
    /// What payonce is told that the acquirer promises.
    pub acquirer: Acquirer,
    /// What the acquirer does.
    pub settings: Settings,
}

impl Played {
    /// The profile of that name.
    ///
    /// # Errors
    /// There is none, with the names of those that exist.
    pub fn named(name: &str) -> Result<Self, Failure> {
        Ok(Self::of(Profile::named(name)?))
    }

    /// All that are shipped.
    pub fn all() -> impl Iterator<Item = Self> {
        Profile::ALL.iter().map(Self::of)
    }

    fn of(profile: &Profile) -> Self {
        let key = format!("acquirers.{}", profile.name);
        let acquirer = Figment::from(Toml::string(profile.toml())).extract_inner(&key);
        let acquirer = acquirer.expect("the profiles that are shipped can be read, as a test says");
        Self { name: profile.name, acquirer, settings: profile.settings() }
    }

    /// The same contract in a hurry: what takes an acquirer minutes takes this one seconds. What it promises of
    /// these times, it keeps.
    #[must_use]
    pub fn hurried(mut self) -> Self {
        let lag_ms = if self.settings.lookup_lag_ms > 0 { 300 } else { 0 };
        self.settings.lookup_lag_ms = lag_ms;
        (self.settings.hold_ms, self.settings.book_after_ms) = (900, 700);
        let acquirer = &mut self.acquirer;
        (acquirer.connect_ms, acquirer.read_ms, acquirer.deadline_ms) = (200, 400, 1_700);
        (acquirer.lookup_lag_ms, acquirer.absence_final_after_ms) = (lag_ms, 2_500);
        // Faults of single payments are no outage.
        acquirer.circuit_failures = u32::MAX;
        self
    }

    /// A configuration with this acquirer alone, in a hurry as well.
    ///
    /// # Errors
    /// When the profile contradicts itself.
    pub fn config(&self) -> Result<Config, Failure> {
        let mut config = Config { default_acquirer: self.name.to_owned(), ..Config::default() };
        config.acquirers.insert(self.name.to_owned(), self.acquirer.clone());
        config.worker.lease_ms = 4_000;
        config.worker.grace_ms = 300;
        config.worker.sweep_ms = 200;
        config.steps.lookup.deliveries = 10;
        config.steps.lookup.backoff_ms = vec![300, 500, 1_000];
        config.steps.publish.backoff_ms = vec![100];
        Ok(config.checked()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_that_is_shipped_agrees_with_itself_also_in_a_hurry() {
        for played in Played::all() {
            let mut config = Config::default();
            config.acquirers.insert("default".to_owned(), played.acquirer.clone());
            config.checked().unwrap_or_else(|refused| panic!("{}: {refused}", played.name));
            played.hurried().config().unwrap_or_else(|refused| panic!("{refused}"));
        }
    }

    #[test]
    fn an_unknown_profile_is_named_with_those_that_exist() {
        let error = Played::named("strip").unwrap_err().to_string();
        assert!(error.contains("strip") && error.contains("stripe_like"), "{error}");
    }
}
