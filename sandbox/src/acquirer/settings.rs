//! The acquirer's contract and its faults, as one plain struct that can change at run time.

use std::collections::BTreeMap;

use http::Uri;
use http::uri::Scheme;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::key_location::KeyLocation;
use super::latency::Latency;
use super::method::Method;
use super::refusal::Refusal;
use super::secret::Secret;

/// How the acquirer behaves. The default is a quick, honest one that honours keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether a repeat with the same key is answered from the first one. If not, every POST
    /// books, and the key may be absent.
    pub keys_honoured: bool,
    /// Where a POST bears its key.
    pub key_location: KeyLocation,
    /// The longest key that is taken, in characters.
    pub key_max_len: usize,
    /// How long a key is remembered after its first POST, in ms; `None`: for ever. A forgotten
    /// key books again, and a look-up by it finds nothing.
    pub key_ttl_ms: Option<u64>,
    /// What a repeat brings back.
    pub replay: Replay,
    /// How a repeat is turned away while its first request is still being executed.
    pub in_flight: Refusal,
    /// Whether another body under a known key is refused; if not, it is answered with the original.
    pub mismatch_detected: bool,
    /// How another body under a known key is refused.
    pub mismatch: Refusal,
    /// For an acquirer without keys: for how long after an approved charge another one of the same
    /// amount by the same payment method is declined as its duplicate, in ms. Nothing is booked then.
    pub duplicate_window_ms: Option<u64>,
    /// How long after its booking a charge is hidden from look-ups, in ms.
    pub lookup_lag_ms: u64,
    /// What a charge can be found by.
    pub lookup: Lookup,
    /// Whether a look-up by key answers a list also for one charge or none.
    pub lookup_by_key_as_list: bool,
    /// Where each charge is told of, `http://…`; `None`: nowhere.
    pub webhook_url: Option<String>,
    /// What the messages to `webhook_url` are signed with.
    pub webhook_secret: Option<Secret>,
    /// How long `pm_processing_then_ok` stays `processing` after its booking, in ms.
    pub processing_ms: u64,
    /// How many look-ups of `pm_not_found_then_ok` say 404 first.
    pub not_found_times: u32,
    /// The time every call takes, drawn anew for each.
    pub latency_ms: Latency,
    /// The seed of everything random; the same seed and reference meet the same fault.
    pub seed: u64,
    /// Rates (0 to 1, together at most 1) of faults that hit payments whose method is not
    /// magic or is `pm_ok`.
    pub faults: BTreeMap<Method, f64>,
    /// Whether a fault hits every POST of its payment instead of the first one only.
    pub faults_repeat: bool,
    /// How long `pm_timeout_*` withhold the answer, in ms.
    pub hold_ms: u64,
    /// When `pm_timeout_after_charge` books, in ms after the receipt of the POST.
    pub book_after_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            keys_honoured: true,
            key_location: KeyLocation::default(),
            key_max_len: 255,
            key_ttl_ms: None,
            replay: Replay::Live,
            in_flight: Refusal::named(409, "idempotency_key_in_use"),
            mismatch_detected: true,
            mismatch: Refusal::named(422, "idempotency_key_reuse"),
            duplicate_window_ms: None,
            lookup_lag_ms: 0,
            lookup: Lookup::ByBoth,
            lookup_by_key_as_list: false,
            webhook_url: None,
            webhook_secret: None,
            processing_ms: 500,
            not_found_times: 2,
            latency_ms: Latency::default(),
            seed: 0,
            faults: BTreeMap::new(),
            faults_repeat: false,
            hold_ms: 8_000,
            book_after_ms: 0,
        }
    }
}

/// What a repeat under an honoured key brings back. A charge whose answer got lost counts by the
/// answer that was meant; what booked nothing is executed anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// The first answer word for word, a 500 too.
    Frozen,
    /// The charge as it is now.
    #[default]
    Live,
    /// The first answer word for word if it was a 2xx; else the request is executed, and booked, again.
    Reexecute,
}

/// What `GET /charges` can find a charge by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lookup {
    /// By `idempotency_key` only.
    ByKey,
    /// By `reference` only.
    ByReference,
    /// By either.
    #[default]
    ByBoth,
    /// Not at all.
    None,
}

impl Lookup {
    pub(super) fn by_key(self) -> bool {
        matches!(self, Lookup::ByKey | Lookup::ByBoth)
    }

    pub(super) fn by_reference(self) -> bool {
        matches!(self, Lookup::ByReference | Lookup::ByBoth)
    }
}

/// Why settings are refused.
#[derive(Debug, thiserror::Error)]
pub enum InvalidSettings {
    /// The patch is not a JSON object.
    #[error("the settings must be a JSON object")]
    NotAnObject,
    /// A field is unknown or has the wrong type.
    #[error("{0}")]
    Field(#[from] serde_json::Error),
    /// A rate is no probability.
    #[error("the rate of fault `{name}` is {rate}; give a number from 0 to 1")]
    Rate {
        /// The fault.
        name: &'static str,
        /// What was given.
        rate: f64,
    },
    /// The rates leave less than nothing for good payments.
    #[error("the rates of the faults add up to {0}; make it at most 1")]
    Sum(f64),
    /// A uniform latency whose bounds are swapped.
    #[error("latency_ms: from_ms is above to_ms; swap them")]
    Latency,
    /// A refusal that is none.
    #[error("{field}: status {status} does not refuse anything; give one from 400 to 599")]
    Refusal {
        /// Where it stands.
        field: &'static str,
        /// What was given.
        status: u16,
    },
    /// The webhooks' address is none.
    #[error("webhook_url: `{0}` is not of the form http://HOST/PATH")]
    WebhookUrl(String),
    /// Webhooks without a signature.
    #[error("webhook_url is given without a webhook_secret to sign with")]
    WebhookSecret,
}

impl Settings {
    /// Checks what the types cannot say.
    ///
    /// # Errors
    /// A rate outside 0 to 1, rates that add up to more than 1, swapped bounds of a latency, a refusal
    /// with the status of a success, webhooks without a usable address or without a secret.
    pub fn validate(&self) -> Result<(), InvalidSettings> {
        self.validate_faults()?;
        self.validate_refusals()?;
        self.validate_webhooks()?;
        match self.latency_ms {
            Latency::Uniform { from_ms, to_ms } if from_ms > to_ms => Err(InvalidSettings::Latency),
            _ => Ok(()),
        }
    }

    fn validate_faults(&self) -> Result<(), InvalidSettings> {
        for (&method, &rate) in &self.faults {
            if !(0.0..=1.0).contains(&rate) {
                let name = method.fault_name();
                return Err(InvalidSettings::Rate { name, rate });
            }
        }
        let sum: f64 = self.faults.values().sum();
        // Ten rates of 0.1 add up to a hair more than 1.
        if sum > 1.0 + 1e-9 { Err(InvalidSettings::Sum(sum)) } else { Ok(()) }
    }

    fn validate_refusals(&self) -> Result<(), InvalidSettings> {
        let refusals = [("in_flight", &self.in_flight), ("mismatch", &self.mismatch)];
        match refusals.into_iter().find(|(_, refusal)| !refusal.is_valid()) {
            Some((field, refusal)) => Err(InvalidSettings::Refusal { field, status: refusal.status }),
            None => Ok(()),
        }
    }

    fn validate_webhooks(&self) -> Result<(), InvalidSettings> {
        let Some(url) = &self.webhook_url else { return Ok(()) };
        let plain_http = |uri: Uri| uri.scheme() == Some(&Scheme::HTTP) && uri.host().is_some();
        if !url.parse().is_ok_and(plain_http) {
            return Err(InvalidSettings::WebhookUrl(url.clone()));
        }
        self.webhook_secret.is_some().then_some(()).ok_or(InvalidSettings::WebhookSecret)
    }

    /// These settings with the fields of `patch` in place of their own. A field is replaced as
    /// a whole (`faults` too); `null` brings its default back; a secret shown as `(secret)` stays.
    ///
    /// # Errors
    /// Not an object, an unknown field, a wrong type, or what [`Settings::validate`] refuses.
    pub fn merged(&self, patch: Value) -> Result<Settings, InvalidSettings> {
        let Value::Object(patch) = patch else {
            return Err(InvalidSettings::NotAnObject);
        };
        let mut fields = self.to_map()?;
        for (name, value) in patch {
            match value {
                // An unknown name must not be lost on the way to the check below.
                Value::Null if fields.contains_key(&name) => drop(fields.remove(&name)),
                value => drop(fields.insert(name, value)),
            }
        }
        let mut merged: Settings = serde_json::from_value(Value::Object(fields))?;
        if merged.webhook_secret.as_ref().is_some_and(Secret::is_hidden) {
            merged.webhook_secret.clone_from(&self.webhook_secret);
        }
        merged.validate()?;
        Ok(merged)
    }

    fn to_map(&self) -> Result<Map<String, Value>, InvalidSettings> {
        match serde_json::to_value(self)? {
            Value::Object(fields) => Ok(fields),
            _ => Err(InvalidSettings::NotAnObject),
        }
    }
}
