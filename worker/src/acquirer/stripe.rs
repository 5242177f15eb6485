//! Stripe: PaymentIntents that are made and confirmed by one request, and found again by their id or by our reference
//! in their metadata.

use super::Ask;
use super::wire::{Wire, with_ids};
use reqwest::RequestBuilder;
use shared::acquirer::stripe::{API_VERSION, Page, charge_form, classify_charge, classify_intent, of_all, page};
use shared::acquirer::webhook::STRIPE_REFERENCE;
use shared::acquirer::{Answer, Expected, provider_key};
use shared::config;
use time::Duration;

/// The most intents of one page; Stripe's own limit.
const PAGE: &str = "100";
/// The most pages that are walked before the search is asked instead: an account with more intents around one moment
/// is a busy one.
const MOST_PAGES: usize = 10;
/// How far Stripe's clock and ours may differ.
const CLOCKS: Duration = Duration::minutes(5);

pub(super) struct Stripe {
    intents: String,
}

/// What was found of a payment.
enum Found {
    /// All that bear our reference.
    All(Answer),
    /// There are more intents than are walked.
    TooMany,
}

impl Stripe {
    pub(super) fn new(profile: &config::Acquirer) -> Self {
        Self { intents: format!("{}/v1/payment_intents", profile.base_url.trim_end_matches('/')) }
    }

    pub(super) async fn charge(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64, sent_before: bool) -> Answer {
        let key = provider_key(ask.payment.id);
        let expected = expected(ask, &key, amount_minor);
        let form = charge_form(expected, &ask.payment.payment_method_id);
        let request = spoken(wire.client().post(&self.intents)).header("Idempotency-Key", &key).form(&form);
        match wire.call(with_ids(request, ask), ask.deadline).await {
            Ok((status, body)) => classify_charge(status, &body, expected, sent_before),
            Err(lost) => lost,
        }
    }

    /// By the intent's id where it is known: nothing is more certain, and it lags behind nothing.
    pub(super) async fn lookup(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        let Some(id) = ask.transaction_id else { return self.list(wire, ask, amount_minor).await };
        let key = provider_key(ask.payment.id);
        let request = spoken(wire.client().get(format!("{}/{id}", self.intents)));
        match wire.call(with_ids(request, ask), ask.deadline).await {
            Ok((status, body)) => classify_intent(status, &body, expected(ask, &key, amount_minor)),
            Err(lost) => lost,
        }
    }

    /// By our reference: the list, which lags behind nothing, and where it is too long the search, whose lag the
    /// profile's `lookup_lag_ms` covers.
    pub(super) async fn list(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        let since = ask.payment.first_call_at.unwrap_or(ask.payment.created_at) - CLOCKS;
        let since = since.unix_timestamp().to_string();
        let answer = match self.walk(wire, ask, amount_minor, &[("created[gte]", since.as_str())]).await {
            // Servers that do not know the filter say so; they are walked whole.
            Ok(Err(400)) => self.walk(wire, ask, amount_minor, &[]).await,
            answer => answer,
        };
        match answer {
            Ok(Ok(Found::All(answer))) => answer,
            Ok(Ok(Found::TooMany)) => self.search(wire, ask, amount_minor).await,
            Ok(Err(status)) => Answer::unknown(Some(status), &format!("http_{status}"), "Stripe's list cannot be read"),
            Err(lost) => lost,
        }
    }

    /// Walks the list. The inner error is an HTTP status that brought no page.
    async fn walk(
        &self,
        wire: &Wire,
        ask: Ask<'_>,
        amount_minor: i64,
        filter: &[(&str, &str)],
    ) -> Result<Result<Found, u16>, Answer> {
        let key = provider_key(ask.payment.id);
        let (mut ours, mut after) = (Vec::new(), None);
        for _ in 0..MOST_PAGES {
            let request = spoken(wire.client().get(&self.intents)).query(&[("limit", PAGE)]).query(filter);
            let request = after.iter().fold(request, |request, id: &String| request.query(&[("starting_after", id)]));
            let (status, body) = wire.call(with_ids(request, ask), ask.deadline).await?;
            let Some(Page { ours: some, next }) = page(&body, &key).filter(|_| status < 300) else {
                return Ok(Err(status));
            };
            ours.extend(some);
            if next.is_none() {
                return Ok(Ok(Found::All(of_all(status, &ours, expected(ask, &key, amount_minor)))));
            }
            after = next;
        }
        Ok(Ok(Found::TooMany))
    }

    async fn search(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        let key = provider_key(ask.payment.id);
        let query = format!("metadata['{STRIPE_REFERENCE}']:'{key}'");
        let request = spoken(wire.client().get(format!("{}/search", self.intents)));
        let request = request.query(&[("limit", PAGE), ("query", query.as_str())]);
        match wire.call(with_ids(request, ask), ask.deadline).await {
            Ok((status, body)) => match page(&body, &key).filter(|_| status < 300) {
                Some(found) => of_all(status, &found.ours, expected(ask, &key, amount_minor)),
                None => Answer::unknown(Some(status), &format!("http_{status}"), "Stripe's search cannot be read"),
            },
            Err(lost) => lost,
        }
    }

    /// Asks for one intent, whichever.
    pub(super) fn probe(&self, wire: &Wire) -> RequestBuilder {
        spoken(wire.client().get(&self.intents)).query(&[("limit", "1")])
    }
}

fn spoken(request: RequestBuilder) -> RequestBuilder {
    request.header("Stripe-Version", API_VERSION)
}

fn expected<'a>(ask: Ask<'a>, key: &'a str, amount_minor: i64) -> Expected<'a> {
    Expected { reference: key, amount_minor, currency: &ask.payment.currency }
}
