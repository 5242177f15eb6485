//! Stripe: PaymentIntents, found again by their id or by our reference in their metadata.

use super::Ask;
use super::wire::{Wire, with_ids};
use reqwest::RequestBuilder;
use shared::acquirer::stripe::{
    API_VERSION, Intent, PAGE, Page, add, charge_form, classify_charge, classify_found, classify_intent, is_intent_id,
    read_page, search_query,
};
use shared::acquirer::{Answer, Expected, Meaning, provider_key};
use shared::config;
use tokio::time::Instant;

/// The most of a page that is read: a hundred intents with the metadata of other software.
const PAGE_CAP: usize = 1024 * 1024;
/// The most pages of the list that are read; what is older is searched for.
const MOST_PAGES: usize = 10;
/// By how much Stripe's clock may be behind the database's, in seconds.
const CLOCKS_APART_S: i64 = 60;

pub(super) struct Stripe {
    intents: String,
    meaning: Meaning,
    search_lag_is_known: bool,
}

impl Stripe {
    pub(super) fn new(profile: &config::Acquirer) -> Self {
        Self {
            intents: format!("{}/v1/payment_intents", profile.base_url.trim_end_matches('/')),
            meaning: profile.meaning(),
            search_lag_is_known: profile.lookup_lag_ms > 0,
        }
    }

    pub(super) async fn charge(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64, sent_before: bool) -> Answer {
        let key = provider_key(ask.payment.id);
        let expected = expected(ask, &key, amount_minor);
        let form = charge_form(expected, &ask.payment.payment_method_id);
        let request = versioned(wire.client().post(&self.intents)).header("Idempotency-Key", &key).form(&form);
        match wire.call(with_ids(request, ask), ask.deadline).await {
            Ok((status, body)) => classify_charge(&self.meaning, status, &body, expected, sent_before),
            Err(lost) => lost,
        }
    }

    pub(super) async fn lookup(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        let Some(id) = ask.transaction_id.filter(|id| is_intent_id(id)) else {
            return self.list(wire, ask, amount_minor).await;
        };
        let key = provider_key(ask.payment.id);
        let request = versioned(wire.client().get(format!("{}/{id}", self.intents)));
        match wire.call(with_ids(request, ask), ask.deadline).await {
            Ok((status, body)) => classify_intent(status, &body, expected(ask, &key, amount_minor)),
            Err(lost) => lost,
        }
    }

    pub(super) async fn list(&self, wire: &Wire, ask: Ask<'_>, amount_minor: i64) -> Answer {
        let key = provider_key(ask.payment.id);
        let question = Question { wire, ask, reference: &key, intents: &self.intents };
        match question.all(self.search_lag_is_known).await {
            Ok(found) => classify_found(&found, expected(ask, &key, amount_minor)),
            Err(nothing_proven) => nothing_proven,
        }
    }

    pub(super) fn probe(&self, wire: &Wire) -> RequestBuilder {
        versioned(wire.client().get(&self.intents)).query(&[("limit", "1")])
    }
}

fn versioned(request: RequestBuilder) -> RequestBuilder {
    request.header("Stripe-Version", API_VERSION)
}

fn expected<'a>(ask: Ask<'a>, reference: &'a str, amount_minor: i64) -> Expected<'a> {
    Expected { reference, amount_minor, currency: &ask.payment.currency }
}

/// Which intents bear our reference?
struct Question<'a> {
    wire: &'a Wire,
    ask: Ask<'a>,
    reference: &'a str,
    intents: &'a str,
}

impl Question<'_> {
    /// The list is asked first: it shows what was made a moment ago, which the search does not.
    async fn all(&self, search_lag_is_known: bool) -> Result<Vec<Intent>, Answer> {
        let mut found = Vec::new();
        if self.listed(&mut found).await? {
            return Ok(found);
        }
        add(&mut found, self.searched().await?);
        if found.is_empty() && !search_lag_is_known {
            let message =
                "the search found nothing, and the profile names no lookup_lag_ms after which that would be a proof";
            return Err(Answer::unknown(Some(200), "search_lags", message));
        }
        Ok(found)
    }

    /// Reads the list back to the time of the first send; `false`: that was too much.
    async fn listed(&self, found: &mut Vec<Intent>) -> Result<bool, Answer> {
        let since = self.ask.payment.first_call_at.map(|at| at.unix_timestamp() - CLOCKS_APART_S);
        match self.pages(since, found).await {
            // Servers that play Stripe may not know the filter. The whole list holds the answer, too.
            Err(refused) if refused.http_status == Some(400) && since.is_some() => self.pages(None, found).await,
            read => read,
        }
    }

    async fn pages(&self, since: Option<i64>, found: &mut Vec<Intent>) -> Result<bool, Answer> {
        let mut after = None;
        for page in 0..MOST_PAGES {
            if page > 0 && !self.leaves_time_for_another() {
                return Ok(false);
            }
            let request = self.get(self.intents).query(&[("created[gte]", since)]).query(&[("starting_after", after)]);
            let read = self.read(request).await?;
            add(found, read.ours);
            after = match read.next {
                Some(last) => Some(last),
                None => return Ok(true),
            };
        }
        Ok(false)
    }

    /// One call more, and after it still one, for the search or for the charge that follows from what is found.
    fn leaves_time_for_another(&self) -> bool {
        Instant::now() + 2 * self.wire.call_budget() <= self.ask.deadline
    }

    async fn searched(&self) -> Result<Vec<Intent>, Answer> {
        let request = self.get(&format!("{}/search", self.intents)).query(&[("query", search_query(self.reference))]);
        Ok(self.read(request).await?.ours)
    }

    fn get(&self, url: &str) -> RequestBuilder {
        versioned(self.wire.client().get(url)).query(&[("limit", PAGE)])
    }

    async fn read(&self, request: RequestBuilder) -> Result<Page, Answer> {
        let (status, body) = self.wire.call_up_to(PAGE_CAP, with_ids(request, self.ask), self.ask.deadline).await?;
        read_page(status, &body, self.reference)
    }
}

#[cfg(test)]
mod tests;
