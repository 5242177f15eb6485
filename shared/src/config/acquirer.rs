//! One acquirer's profile: where it is, what it promises, how long we wait, how hard we press.

mod checks;

use super::Secret;
use crate::acquirer::{Charset, Contract, KeyLocation, Keys, Lookup, MapRule, Meaning, Replay, Scope, Signature};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use time::Date;

/// The longest rest before the one resend inside a charge.
pub const RESEND_REST_MS: u64 = 400;

/// One acquirer. What is left out is taken to be what protects least.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Acquirer {
    /// The wire form.
    pub kind: Kind,
    /// Where it is, without a trailing slash.
    pub base_url: String,
    /// Sent as `Authorization: Bearer …` when set.
    #[serde(default)]
    pub credential: Option<Secret>,
    /// A file that holds the credential.
    #[serde(default)]
    pub credential_file: Option<PathBuf>,
    /// What its webhooks are signed with; without one they are refused.
    #[serde(default)]
    pub webhook_secret: Option<Secret>,
    /// A file that holds the webhook secret.
    #[serde(default)]
    pub webhook_secret_file: Option<PathBuf>,
    /// Names the account behind the credential; change it when the credential becomes another account's.
    #[serde(default)]
    pub account: String,

    /// Whether it recognises a repeat by our key.
    #[serde(default = "honoured")]
    pub keys: Keys,
    /// Where it looks for the key.
    #[serde(default)]
    pub key_location: KeyLocation,
    /// The longest key it takes, in characters.
    #[serde(default = "longest_key")]
    pub key_max_len: usize,
    /// The characters it takes in a key.
    #[serde(default)]
    pub key_charset: Charset,
    /// How long it remembers a key; absent: unknown, and nothing is ever resent.
    #[serde(default)]
    pub ttl_h: Option<u64>,
    /// Taken off the ttl.
    #[serde(default = "one")]
    pub safety_margin_h: u64,
    /// On which day somebody last compared this profile with what the acquirer publishes.
    #[serde(default, with = "day")]
    pub verified_on: Option<Date>,
    /// How far a key reaches.
    #[serde(default)]
    pub scope: Scope,
    /// Whether it refuses another request under a known key, instead of answering with the first one's charge.
    #[serde(default)]
    pub mismatch_detected: bool,
    /// What a repeat hears while the first request is still being worked on.
    #[serde(default)]
    pub inflight_signature: Vec<Signature>,
    /// What a repeat brings back.
    #[serde(default)]
    pub replay_semantics: Replay,
    /// Whether a charge that was cut off is sent once more at once; absent: where the contract protects it.
    #[serde(default)]
    pub resend_after_timeout: Option<bool>,

    /// How a charge is found again.
    #[serde(default = "by_key")]
    pub lookup: Lookup,
    /// Whether all charges that bear our reference can be listed; absent: when that is how one is found.
    #[serde(default)]
    pub list_by_reference: Option<bool>,
    /// How far its look-ups may lag behind its charges.
    #[serde(default)]
    pub lookup_lag_ms: u64,
    /// For this long after a send, a lookup that finds nothing proves nothing.
    #[serde(default = "a_minute")]
    pub absence_final_after_ms: u64,
    /// For this long after the first send we keep asking; no longer than the ttl less the margin.
    #[serde(default = "twenty_three")]
    pub give_up_after_h: u64,

    /// What its refusals mean; the first rule that matches decides, none: unknown.
    #[serde(default = "crate::acquirer::default_map")]
    pub outcome_map: Vec<MapRule>,
    /// Currencies whose minor unit it counts otherwise than ISO 4217: decimal places by currency.
    #[serde(default)]
    pub exponent_overrides: BTreeMap<String, u32>,

    /// To connect.
    #[serde(default = "connect_ms")]
    pub connect_ms: u64,
    /// From the request sent to the whole answer read.
    #[serde(default = "read_ms")]
    pub read_ms: u64,
    /// The clock over everything that one claim does with the acquirer.
    #[serde(default = "deadline_ms")]
    pub deadline_ms: u64,
    /// The most calls at once, of one worker process.
    #[serde(default = "concurrency")]
    pub concurrency: usize,
    /// The most calls per second, of one worker process; 0: no limit.
    #[serde(default)]
    pub requests_per_second: u32,
    /// After so many calls in a row that came to nothing (no answer, or 5xx), nothing more is sent until it
    /// answers again.
    #[serde(default = "ten")]
    pub circuit_failures: u32,
    /// A payment that was never sent fails when it has waited for a way to the acquirer for so long.
    #[serde(default = "quarter_of_an_hour")]
    pub unavailable_after_s: u64,
}

/// The wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The plain one: `POST` and `GET {base_url}/charges`.
    Http,
    /// Stripe's PaymentIntents.
    Stripe,
}

impl Kind {
    /// The word in the configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stripe => "stripe",
        }
    }
}

const fn honoured() -> Keys {
    Keys::Honoured
}
const fn longest_key() -> usize {
    255
}
const fn by_key() -> Lookup {
    Lookup::ByKey
}
const fn one() -> u64 {
    1
}
const fn twenty_three() -> u64 {
    23
}
const fn a_minute() -> u64 {
    60_000
}
const fn connect_ms() -> u64 {
    500
}
const fn read_ms() -> u64 {
    3_000
}
const fn deadline_ms() -> u64 {
    8_000
}
const fn concurrency() -> usize {
    128
}
const fn ten() -> u32 {
    10
}
const fn quarter_of_an_hour() -> u64 {
    900
}

/// `2026-11-30`.
mod day {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use time::Date;
    use time::format_description::well_known::Iso8601;

    #[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
    pub(super) fn serialize<S: Serializer>(day: &Option<Date>, serializer: S) -> Result<S::Ok, S::Error> {
        day.map(|day| day.to_string()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Date>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let day = Date::parse(&text, &Iso8601::DATE);
        day.map(Some).map_err(|_| D::Error::custom(format!("{text:?} is not a day such as \"2026-11-30\"")))
    }
}

impl Acquirer {
    /// A profile at `base_url` of an acquirer that keeps the plain contract as the sandbox does.
    #[must_use]
    pub fn at(base_url: &str) -> Self {
        Self {
            kind: Kind::Http,
            base_url: base_url.trim_end_matches('/').to_owned(),
            credential: None,
            credential_file: None,
            webhook_secret: None,
            webhook_secret_file: None,
            account: String::new(),
            keys: honoured(),
            key_location: KeyLocation::default(),
            key_max_len: longest_key(),
            key_charset: Charset::default(),
            ttl_h: Some(24),
            safety_margin_h: one(),
            verified_on: None,
            scope: Scope::default(),
            mismatch_detected: true,
            inflight_signature: vec![Signature::of(409, "/error", "idempotency_key_in_use")],
            replay_semantics: Replay::Live,
            resend_after_timeout: None,
            lookup: by_key(),
            list_by_reference: None,
            lookup_lag_ms: 0,
            absence_final_after_ms: a_minute(),
            give_up_after_h: twenty_three(),
            outcome_map: crate::acquirer::default_map(),
            exponent_overrides: BTreeMap::new(),
            connect_ms: connect_ms(),
            read_ms: read_ms(),
            deadline_ms: deadline_ms(),
            concurrency: concurrency(),
            requests_per_second: 0,
            circuit_failures: ten(),
            unavailable_after_s: quarter_of_an_hour(),
        }
    }

    /// What it promises.
    #[must_use]
    pub fn contract(&self) -> Contract {
        let hours = |h: u64| Duration::from_secs(h * 3600);
        Contract {
            keys: self.keys,
            window: self.ttl_h.map(|ttl| hours(ttl.saturating_sub(self.safety_margin_h))),
            replay: self.replay_semantics,
            resend_after_timeout: self.resend_after_timeout.unwrap_or(true),
            lookup: self.lookup,
            absence_final_after: Duration::from_millis(self.absence_final_after_ms),
            give_up_after: hours(self.give_up_after_h),
        }
    }

    /// What its answers mean.
    #[must_use]
    pub fn meaning(&self) -> Meaning {
        Meaning { inflight: self.inflight_signature.clone(), map: self.outcome_map.clone() }
    }

    /// Names the realm in which the acquirer knows our keys. A repeat that goes to another one is a new
    /// charge.
    #[must_use]
    pub fn key_scope(&self) -> String {
        let realm = match self.scope {
            Scope::Merchant | Scope::Account => &self.account,
            Scope::Endpoint => &self.base_url,
            Scope::Region => host(&self.base_url),
        };
        format!("{}:{realm}", self.scope.as_str())
    }

    /// Whether all charges that bear our reference can be listed.
    #[must_use]
    pub fn lists_by_reference(&self) -> bool {
        self.list_by_reference.unwrap_or(self.lookup == Lookup::ByReference)
    }

    /// For how many days nobody has compared this profile with what the acquirer publishes; `None`: nobody ever
    /// did.
    #[must_use]
    pub fn unverified_days(&self, today: Date) -> Option<i64> {
        self.verified_on.map(|day| (today - day).whole_days().max(0))
    }

    /// Reads the secrets that lie in files.
    pub(super) fn read_files(&mut self, at: &str, faults: &mut Vec<String>) {
        let secrets = [
            ("credential", &mut self.credential, &self.credential_file),
            ("webhook_secret", &mut self.webhook_secret, &self.webhook_secret_file),
        ];
        for (name, secret, file) in secrets {
            let Some(file) = file else { continue };
            if secret.is_some() {
                faults.push(format!("{at}: {name} and {name}_file are both given; take one out"));
                continue;
            }
            match std::fs::read_to_string(file) {
                Ok(text) if text.trim().is_empty() => {
                    faults.push(format!("{at}.{name}_file: {} is empty", file.display()));
                }
                Ok(text) => *secret = Some(Secret(text.trim().to_owned())),
                Err(error) => faults.push(format!("{at}.{name}_file: {} cannot be read: {error}", file.display())),
            }
        }
    }
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_may_lie_in_a_file_and_not_in_two_places() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("credential");
        std::fs::write(&file, "sk_live_1\n").expect("written");
        let mut found = Vec::new();
        let mut acquirer = Acquirer { credential_file: Some(file), ..Acquirer::at("http://127.0.0.1:1") };
        acquirer.read_files("acquirers.bank", &mut found);
        assert_eq!((acquirer.credential.as_ref().map(|c| c.0.as_str()), found.len()), (Some("sk_live_1"), 0));
        acquirer.read_files("acquirers.bank", &mut found);
        assert!(found[0].contains("both given"), "{found:?}");
        acquirer.webhook_secret_file = Some(dir.path().join("nothing"));
        acquirer.credential_file = None;
        acquirer.read_files("acquirers.bank", &mut found);
        assert!(found[1].contains("acquirers.bank.webhook_secret_file") && found[1].contains("cannot be read"));
    }

    #[test]
    fn an_empty_file_holds_no_secret() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = Some(file.path().to_owned());
        let (mut found, mut acquirer) = (Vec::new(), Acquirer::at("http://127.0.0.1:1"));
        acquirer.credential_file = path;
        acquirer.read_files("acquirers.bank", &mut found);
        assert!(found[0].contains("is empty") && acquirer.credential.is_none(), "{found:?}");
    }

    #[test]
    fn the_realm_of_a_key_is_what_the_contract_says() {
        let at = |scope| Acquirer { scope, account: "acct_1".to_owned(), ..Acquirer::at("https://eu.bank.example/v2") };
        assert_eq!(at(Scope::Account).key_scope(), "account:acct_1");
        assert_eq!(at(Scope::Endpoint).key_scope(), "endpoint:https://eu.bank.example/v2");
        assert_eq!(at(Scope::Region).key_scope(), "region:eu.bank.example");
    }
}
