//! Contracts of acquirers as real ones publish them, one file each.
//!
//! A file has two tables: `[acquirers.NAME]`, what the payment service is told about such an acquirer,
//! and `[sandbox]`, the [`Settings`] with which the simulated acquirer plays it.

use figment::Figment;
use figment::providers::{Format, Toml};

use crate::acquirer::Settings;

/// A contract that is like a provider's.
#[derive(Debug)]
pub struct Profile {
    /// Its name: that of its file, and of its table in it.
    pub name: &'static str,
    /// What is particular about it, in one line.
    pub summary: &'static str,
    toml: &'static str,
}

macro_rules! profile {
    ($name:literal, $summary:literal) => {
        Profile { name: $name, summary: $summary, toml: include_str!(concat!("../profiles/", $name, ".toml")) }
    };
}

impl Profile {
    /// All of them.
    pub const ALL: &'static [Profile] = &[
        profile!("stripe_like", "keys for 24 h, errors repeated too, found by reference after a minute"),
        profile!("adyen_like", "keys for 7 days, a repeat in flight hears 422, never found, tells by webhook"),
        profile!("checkout_like", "keys for 24 h, only a 2xx is kept: a repeat after a 500 charges again"),
        profile!("worldline_like", "keys for 24 h, another body under a key gets the original, never found"),
        profile!("increase_like", "keys for an unknown time, found by key as a list"),
        profile!("no_keys", "no keys, the same amount and card within 30 s is declined, found by reference"),
    ];

    /// The profile of this name.
    ///
    /// # Errors
    /// There is none; the error lists those that exist.
    pub fn named(name: &str) -> Result<&'static Profile, UnknownProfile> {
        let found = Profile::ALL.iter().find(|profile| profile.name == name);
        found.ok_or_else(|| UnknownProfile(name.to_owned()))
    }

    /// The whole file.
    pub fn toml(&self) -> &'static str {
        self.toml
    }

    /// What makes the simulated acquirer play it: the table `[sandbox]`.
    pub fn settings(&self) -> Settings {
        let file = Figment::from(Toml::string(self.toml));
        file.extract_inner("sandbox").expect("a test reads the settings of every profile")
    }
}

/// Says which name is unknown and which ones exist.
#[derive(Debug, thiserror::Error)]
#[error("unknown profile `{0}`; known are {list}", list = names())]
pub struct UnknownProfile(String);

fn names() -> String {
    let names: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use figment::value::Dict;
    use serde::Deserialize;

    use super::*;
    use crate::acquirer::{KeyLocation, Lookup, Replay};

    #[test]
    fn every_profile_plays_valid_settings_that_are_not_the_defaults() {
        for profile in Profile::ALL {
            let settings = profile.settings();
            settings.validate().unwrap_or_else(|invalid| panic!("{}: {invalid}", profile.name));
            assert_ne!(settings, Settings::default(), "{}", profile.name);
        }
    }

    #[test]
    fn every_profile_describes_the_acquirer_of_its_name_and_says_where_from() {
        for Profile { name, toml, .. } in Profile::ALL {
            let file = Figment::from(Toml::string(toml));
            let all: Dict = file.extract_inner("acquirers").unwrap();
            assert_eq!(all.keys().collect::<Vec<_>>(), [name]);
            let verified_on: String = file.extract_inner(&format!("acquirers.{name}.verified_on")).unwrap();
            assert_eq!(verified_on, "2026-12-01", "{name}");
            let header: String = toml.lines().take_while(|line| line.starts_with('#')).collect();
            assert!(header.contains("verify before use") && header.contains(" 2026"), "{name}");
        }
    }

    /// What the payment service is told, as far as the simulated acquirer knows it too.
    #[derive(Deserialize)]
    struct Told {
        keys: String,
        #[serde(default)]
        key_location: KeyLocation,
        key_max_len: Option<usize>,
        ttl_h: Option<u64>,
        mismatch_detected: bool,
        replay_semantics: Replay,
        lookup: Lookup,
        #[serde(default)]
        lookup_lag_ms: u64,
    }

    #[test]
    fn what_is_told_is_what_is_played() {
        for profile in Profile::ALL {
            let (name, played) = (profile.name, profile.settings());
            let told = Figment::from(Toml::string(profile.toml)).extract_inner(&format!("acquirers.{name}"));
            let told: Told = told.unwrap();
            assert_eq!((told.lookup, told.lookup_lag_ms), (played.lookup, played.lookup_lag_ms), "{name}");
            assert_eq!(told.ttl_h.map(|hours| hours * 3_600_000), played.key_ttl_ms, "{name}");
            assert_eq!(told.keys == "honoured", played.keys_honoured, "{name}");
            if played.keys_honoured {
                assert_eq!((told.key_location, told.key_max_len), (played.key_location, Some(played.key_max_len)));
                assert_eq!(told.mismatch_detected, played.mismatch_detected, "{name}");
                assert_eq!(told.replay_semantics, played.replay, "{name}");
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        assert_eq!(Profile::named("no_keys").unwrap().name, "no_keys");
        let error = Profile::named("square_like").unwrap_err().to_string();
        assert!(error.contains("square_like") && error.contains("stripe_like, adyen_like"), "{error}");
    }
}
