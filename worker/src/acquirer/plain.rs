//! The plain wire form: `POST` and `GET {base_url}/charges`.

use super::Ask;
use super::wire::{Wire, with_ids};
use reqwest::RequestBuilder;
use shared::acquirer::plain::{classify_charge, classify_lookup};
use shared::acquirer::{Answer, Expected, KeyLocation, Lookup, Meaning, provider_key};
use shared::config;
use uuid::Uuid;

/// The query parameter that a charge is found by.
const BY_REFERENCE: &str = "reference";

pub(super) struct Plain {
    charges: String,
    key_location: KeyLocation,
    lookup_by: &'static str,
    meaning: Meaning,
}

impl Plain {
    pub(super) fn new(profile: &config::Acquirer) -> Self {
        Self {
            charges: format!("{}/charges", profile.base_url.trim_end_matches('/')),
            key_location: profile.key_location.clone(),
            lookup_by: match profile.lookup {
                Lookup::ByKey => "idempotency_key",
                Lookup::ByReference | Lookup::None => BY_REFERENCE,
            },
            meaning: profile.meaning(),
        }
    }

    pub(super) async fn charge(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64, sent_before: bool) -> Answer {
        let key = provider_key(ask.payment.id);
        let mut body = serde_json::json!({
            "reference": key,
            "amount_minor": amount_minor,
            "currency": ask.payment.currency,
            "payment_method_id": ask.payment.payment_method_id,
        });
        let mut request = wire.client().post(&self.charges);
        match &self.key_location {
            KeyLocation::Header(name) => request = request.header(name, &key),
            KeyLocation::Body(member) => body[member] = key.clone().into(),
        }
        match wire.call(with_ids(request.json(&body), ask), ask.deadline).await {
            Ok((status, body)) => {
                let expected = Expected { reference: &key, amount_minor, currency: &ask.payment.currency };
                classify_charge(&self.meaning, status, &body, expected, sent_before)
            }
            Err(lost) => lost,
        }
    }

    pub(super) async fn lookup(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        self.find(wire, ask, amount_minor, self.lookup_by).await
    }

    pub(super) async fn list(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        self.find(wire, ask, amount_minor, BY_REFERENCE).await
    }

    async fn find(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64, by: &str) -> Answer {
        let key = provider_key(ask.payment.id);
        let request = wire.client().get(&self.charges).query(&[(by, &key)]);
        match wire.call(with_ids(request, ask), ask.deadline).await {
            Ok((status, body)) => {
                let expected = Expected { reference: &key, amount_minor, currency: &ask.payment.currency };
                classify_lookup(&self.meaning, status, &body, expected)
            }
            Err(lost) => lost,
        }
    }

    /// Asks for a charge that nobody ever made.
    pub(super) fn probe(&self, wire: &Wire) -> RequestBuilder {
        let nobodys = Uuid::new_v4().simple().to_string();
        wire.client().get(&self.charges).query(&[(self.lookup_by, nobodys)])
    }
}
