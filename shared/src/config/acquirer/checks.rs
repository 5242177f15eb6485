//! Whether a profile agrees with itself and with the rest of the configuration; every fault comes with its numbers.

use super::{Acquirer, Kind, RESEND_REST_MS};
use crate::acquirer::{KeyLocation, Keys, Lookup, Replay, provider_key};
use crate::config::Config;
use uuid::Uuid;

impl Acquirer {
    /// The longest that one claim can take by the sum of its parts.
    const fn longest_ms(&self) -> u64 {
        2 * (self.connect_ms + self.read_ms) + RESEND_REST_MS
    }

    /// Checks the profile against itself and the rest of the configuration.
    pub(in crate::config) fn check(&self, at: &str, config: &Config, need: &mut impl FnMut(bool, String)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acquirer::Signature;

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
}
