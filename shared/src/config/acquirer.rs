//! One acquirer's profile: where it is, what it promises, how long we wait, how hard we press.

use super::{Config, Secret};
use crate::acquirer::{
    Charset, Contract, KeyLocation, Keys, Lookup, MapRule, Meaning, Replay, Scope, Signature, provider_key,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use time::Date;
use uuid::Uuid;

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

    /// The longest that one claim can take by the sum of its parts.
    const fn longest_ms(&self) -> u64 {
        2 * (self.connect_ms + self.read_ms) + RESEND_REST_MS
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
                Ok(text) => *secret = Some(Secret(text.trim().to_owned())),
                Err(error) => faults.push(format!("{at}.{name}_file: {} cannot be read: {error}", file.display())),
            }
        }
    }

    /// Checks the profile against itself and the rest of the configuration.
    pub(super) fn check(&self, at: &str, config: &Config, need: &mut impl FnMut(bool, String)) {
        self.check_form(at, need);
        self.check_keys(at, need);
        self.check_times(at, config, need);
        self.check_pressure(at, need);
    }

    fn check_form(&self, at: &str, need: &mut impl FnMut(bool, String)) {
        need(
            self.base_url.starts_with("http://") || self.base_url.starts_with("https://"),
            format!("{at}.base_url = {:?}: it begins with http:// or https://", self.base_url),
        );
        let signatures = self.inflight_signature.iter().map(|signature| ("inflight_signature", signature));
        let rules = self.outcome_map.iter().map(|rule| ("outcome_map", &rule.when));
        for (name, signature) in signatures.chain(rules) {
            if let Err(fault) = signature.check() {
                need(false, format!("{at}.{name}: {fault}"));
            }
        }
        for (currency, exponent) in &self.exponent_overrides {
            need(
                iso_currency::Currency::from_code(currency).is_some() && *exponent <= 4,
                format!("{at}.exponent_overrides.{currency} = {exponent}: a currency's ISO 4217 code, and 0 to 4"),
            );
        }
        if self.kind == Kind::Stripe {
            need(
                self.lookup != Lookup::ByKey,
                format!("{at}.lookup = \"by_key\": Stripe finds nothing by a key; set \"by_reference\" or \"none\""),
            );
            need(
                self.key_location == KeyLocation::default(),
                format!("{at}.key_location: Stripe looks for the key in the header Idempotency-Key"),
            );
            need(
                self.outcome_map == crate::acquirer::default_map(),
                format!("{at}.outcome_map: what Stripe's errors mean is built in; take it out"),
            );
        }
    }

    fn check_keys(&self, at: &str, need: &mut impl FnMut(bool, String)) {
        if self.keys == Keys::Honoured {
            let ours = provider_key(Uuid::nil());
            need(
                ours.len() <= self.key_max_len,
                format!(
                    "{at}.key_max_len = {}: our keys have {} characters, none of them would be honoured; if that is so, keys = \"none\"",
                    self.key_max_len,
                    ours.len()
                ),
            );
        }
        let protected =
            self.keys == Keys::Honoured && self.ttl_h.is_some() && self.replay_semantics != Replay::Reexecute;
        need(
            self.resend_after_timeout != Some(true) || protected,
            format!(
                "{at}.resend_after_timeout = true: nothing protects a second send with keys = {:?}, ttl_h = {}, replay_semantics = {:?}",
                self.keys.as_str(),
                self.ttl_h.map_or("unknown".to_owned(), |ttl| ttl.to_string()),
                self.replay_semantics.as_str()
            ),
        );
    }

    fn check_times(&self, at: &str, config: &Config, need: &mut impl FnMut(bool, String)) {
        need(
            self.longest_ms() <= self.deadline_ms,
            format!(
                "{at}: two calls of connect_ms + read_ms and the resend's rest make {} ms, more than deadline_ms = {}",
                self.longest_ms(),
                self.deadline_ms
            ),
        );
        need(
            self.deadline_ms < config.worker.lease_ms,
            format!(
                "{at}.deadline_ms = {} is not shorter than worker.lease_ms = {}: a call could outlive its claim",
                self.deadline_ms, config.worker.lease_ms
            ),
        );
        need(
            self.lookup_lag_ms <= self.absence_final_after_ms,
            format!(
                "{at}.absence_final_after_ms = {} is shorter than lookup_lag_ms = {}: a charge that is only not shown yet would be taken for absent",
                self.absence_final_after_ms, self.lookup_lag_ms
            ),
        );
        let lookups_ms = config.steps.lookup.longest_ms();
        need(
            self.lookup == Lookup::None || self.absence_final_after_ms <= lookups_ms,
            format!(
                "{at}.absence_final_after_ms = {} is longer than the {lookups_ms} ms in which steps.lookup spends its budget: absence could never be proven",
                self.absence_final_after_ms
            ),
        );
        if let (Keys::Honoured, Some(ttl)) = (self.keys, self.ttl_h) {
            let window = ttl.saturating_sub(self.safety_margin_h);
            need(
                self.give_up_after_h <= window,
                format!(
                    "{at}: give_up_after_h = {} is longer than ttl_h - safety_margin_h = {ttl} - {} = {window}: we would resend later than the acquirer remembers",
                    self.give_up_after_h, self.safety_margin_h
                ),
            );
        }
    }

    fn check_pressure(&self, at: &str, need: &mut impl FnMut(bool, String)) {
        need(self.concurrency > 0, format!("{at}.concurrency = 0: nothing would ever be sent"));
        need(self.circuit_failures > 0, format!("{at}.circuit_failures = 0: nothing would ever be sent"));
    }
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(change: impl FnOnce(&mut Acquirer)) -> Vec<String> {
        let mut config = Config::default();
        let mut acquirer = Acquirer::at("http://127.0.0.1:1");
        change(&mut acquirer);
        config.acquirers.insert("default".to_owned(), acquirer);
        config.checked().err().map(|refused| refused.0).unwrap_or_default()
    }

    fn refused(change: impl FnOnce(&mut Acquirer), word: &str) {
        let found = faults(change);
        assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:#?}");
    }

    #[test]
    fn a_profile_that_contradicts_itself_is_refused_with_its_numbers() {
        refused(|a| a.key_max_len = 31, "our keys have 32 characters");
        refused(|a| a.lookup_lag_ms = 60_001, "absence_final_after_ms = 60000 is shorter than lookup_lag_ms = 60001");
        refused(|a| a.give_up_after_h = 24, "24 - 1 = 23");
        refused(|a| a.concurrency = 0, "concurrency = 0");
        refused(|a| a.absence_final_after_ms = 1_000_000_000, "absence could never be proven");
        refused(|a| a.inflight_signature = vec![Signature::of(99, "/error", "x")], "99 is not an HTTP status");
        refused(|a| a.inflight_signature = vec![Signature::of(409, "error", "x")], "begins with /");
        refused(|a| a.exponent_overrides = [("usd".to_owned(), 2)].into(), "exponent_overrides.usd = 2");
        refused(|a| a.kind = Kind::Stripe, "Stripe finds nothing by a key");
        refused(
            |a| (a.kind, a.lookup, a.outcome_map) = (Kind::Stripe, Lookup::ByReference, Vec::new()),
            "what Stripe's errors mean is built in",
        );
    }

    #[test]
    fn an_immediate_resend_is_refused_where_nothing_protects_it() {
        let asked = |change: fn(&mut Acquirer)| {
            move |a: &mut Acquirer| {
                a.resend_after_timeout = Some(true);
                change(a);
            }
        };
        refused(asked(|a| a.keys = Keys::None), "keys = \"none\"");
        refused(asked(|a| a.ttl_h = None), "ttl_h = unknown");
        refused(asked(|a| a.replay_semantics = Replay::Reexecute), "\"reexecute\"");
        assert_eq!(faults(asked(|_| {})), Vec::<String>::new());
    }

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
    fn the_realm_of_a_key_is_what_the_contract_says() {
        let at = |scope| Acquirer { scope, account: "acct_1".to_owned(), ..Acquirer::at("https://eu.bank.example/v2") };
        assert_eq!(at(Scope::Account).key_scope(), "account:acct_1");
        assert_eq!(at(Scope::Endpoint).key_scope(), "endpoint:https://eu.bank.example/v2");
        assert_eq!(at(Scope::Region).key_scope(), "region:eu.bank.example");
    }
}
