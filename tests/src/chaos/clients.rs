//! The clients: each pays one intent, in a manner of its own, through whichever api answers.

use super::fleet::Fleet;
use super::pace::Pace;
use super::story::{Ask, Intent, Said, Story};
use super::surroundings::faults;
use super::{Purpose, Storm};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::{Method, RequestBuilder};
use sandbox::acquirer;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How many clients there are at once.
const AT_ONCE: usize = 256;
/// How long a patient client waits for a request beyond what it asked the api to wait.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a client goes on with its intent at the most.
const PERSISTENCE: Duration = Duration::from_secs(60);
/// The share of clients whose payment method makes the acquirer fail.
const FAULTS: f64 = 0.25;

/// How a client goes about it.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Repeats with the same key until it is told the end.
    Patient,
    /// Hangs up in the middle, and may or may not come back once.
    GivesUp,
    /// Sends the same request several times at once.
    Twins,
    /// Loses its key, and tries another one beside the first.
    SecondKey,
    /// Asks again and again after the end, once with another amount.
    ComesBack,
}

/// Ten clients of which each shows a tenth of all.
const MANNERS: [Manner; 10] = [
    Manner::Patient,
    Manner::Patient,
    Manner::Patient,
    Manner::Patient,
    Manner::GivesUp,
    Manner::Twins,
    Manner::Twins,
    Manner::SecondKey,
    Manner::SecondKey,
    Manner::ComesBack,
];

/// All clients.
#[derive(Clone)]
pub(super) struct Clients {
    storm: Arc<Storm>,
    fleet: Arc<Fleet>,
    http: reqwest::Client,
    api_key: String,
}

impl Clients {
    /// Clients of one merchant.
    pub fn new(storm: Arc<Storm>, api_key: String, fleet: Arc<Fleet>) -> Self {
        worker::acquirer::install_tls();
        let http = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build().expect("a client");
        Self { storm, fleet, http, api_key }
    }

    /// Lets the clients come, as the pace says, and tells their stories when all have left.
    pub async fn come(&self, pace: &Pace) -> Vec<Arc<Story>> {
        let (places, mut there) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
        for number in 0..self.storm.payments {
            pace.client(number).await;
            let place = places.clone().acquire_owned().await.expect("nobody closes it");
            let client = Client::new(self.clone(), self.storm.chance(Purpose::Client, number), number);
            there.spawn(async move {
                let story = client.live().await;
                drop(place);
                story
            });
        }
        there.join_all().await
    }

    /// Posts once more under every key that was ever taken on: what was final must be so still.
    pub async fn ask_once_more(&self, stories: &[Arc<Story>]) {
        let (places, mut there) = (Arc::new(Semaphore::new(AT_ONCE / 8)), JoinSet::new());
        for story in stories {
            let place = places.clone().acquire_owned().await.expect("nobody closes it");
            let chance = StdRng::seed_from_u64(story.intent.number as u64);
            let client = Client { all: self.clone(), chance, story: story.clone() };
            there.spawn(async move {
                client.asks_once_more().await;
                drop(place);
            });
        }
        there.join_all().await;
    }

    fn request(&self, method: Method, path: &str, chance: &mut StdRng) -> RequestBuilder {
        let url = format!("{}{path}", self.fleet.api_url(chance));
        self.http.request(method, url).bearer_auth(&self.api_key)
    }
}

/// One client.
struct Client {
    all: Clients,
    chance: StdRng,
    story: Arc<Story>,
}

impl Client {
    fn new(all: Clients, mut chance: StdRng, number: usize) -> Self {
        let story = Arc::new(Story::of(intent(number, &mut chance)));
        Self { all, chance, story }
    }

    /// The same client with a hand of its own, to do two things at once.
    fn twin(&mut self) -> Self {
        let chance = StdRng::seed_from_u64(self.chance.random());
        Self { all: self.all.clone(), chance, story: self.story.clone() }
    }

    async fn live(mut self) -> Arc<Story> {
        let manner = *MANNERS.choose(&mut self.chance).expect("there are some");
        let story = self.story.clone();
        // Whoever has waited for so long leaves; what it had begun goes on without it.
        let _ = timeout(PERSISTENCE, self.acts(manner)).await;
        story
    }

    async fn acts(&mut self, manner: Manner) {
        match manner {
            Manner::Patient => self.pays().await,
            Manner::GivesUp => self.gives_up().await,
            Manner::Twins => self.posts_at_once().await,
            Manner::SecondKey => self.tries_a_second_key().await,
            Manner::ComesBack => self.comes_back().await,
        }
    }

    /// Pays to the end, and after a refusal with another card under another key.
    async fn pays(&mut self) {
        let end = self.insists_and_follows(0).await;
        if matches!(end.as_deref(), Some("DECLINED" | "FAILED")) && self.chance.random_bool(0.5) {
            self.insists_and_follows(1).await;
        }
    }

    async fn gives_up(&mut self) {
        let hangs_up_after = Duration::from_millis(self.chance.random_range(1..=150));
        self.posts(0, None, hangs_up_after).await;
        if self.chance.random_bool(0.5) {
            self.rests(500, 3_000).await;
            self.posts(0, Some(1), PATIENCE).await;
        }
    }

    async fn posts_at_once(&mut self) {
        let mut twins = JoinSet::new();
        for _ in 0..self.chance.random_range(2..=4) {
            let mut twin = self.twin();
            let wait_s = twin.wait_s();
            twins.spawn(async move { twin.posts(0, wait_s, PATIENCE).await });
        }
        twins.join_all().await;
        self.pays().await;
    }

    async fn tries_a_second_key(&mut self) {
        let hangs_up_after = Duration::from_millis(self.chance.random_range(5..=300));
        self.posts(0, Some(2), hangs_up_after).await;
        let mut twin = self.twin();
        tokio::join!(self.insists_and_follows(0), twin.insists_and_follows(1));
    }

    async fn comes_back(&mut self) {
        self.pays().await;
        for nth in self.story.accepted_keys() {
            self.posts_changed(nth).await;
            for _ in 0..3 {
                self.rests(50, 1_000).await;
                if let Some(payment) = self.posts(nth, None, PATIENCE).await.and_then(|said| said.payment()) {
                    self.gets(payment, None).await;
                }
            }
        }
    }

    /// Posts under its `nth` key until something is decided, and follows the payment to its end.
    async fn insists_and_follows(&mut self, nth: usize) -> Option<String> {
        let payment = self.insists(nth).await?;
        self.follows(payment).await
    }

    /// Posts under its `nth` key until it is taken on, or refused because of another one.
    async fn insists(&mut self, nth: usize) -> Option<Uuid> {
        loop {
            let wait_s = self.wait_s();
            match self.posts(nth, wait_s, PATIENCE).await {
                Some(said) if said.is_accepted() && self.chance.random_bool(0.7) => return said.payment(),
                Some(said) if !said.is_to_be_repeated() => return said.payment().filter(|_| said.is_accepted()),
                Some(_) | None => self.rests(50, 400).await,
            }
        }
    }

    /// Follows a payment until it is final, or a person looks at it.
    async fn follows(&mut self, payment: Uuid) -> Option<String> {
        loop {
            let wait_s = self.chance.random_range(1..=3);
            match self.gets(payment, Some(wait_s)).await {
                Some(said) if said.is_final() => return Some(said.payment_status().to_owned()),
                Some(said) if said.status == 404 || said.json["in_review"] == true => return None,
                Some(_) | None => self.rests(50, 300).await,
            }
        }
    }

    async fn asks_once_more(mut self) {
        for nth in self.story.accepted_keys() {
            let mut tries = 100;
            while tries > 0 && self.posts(nth, None, PATIENCE).await.is_none_or(|said| said.is_to_be_repeated()) {
                tries -= 1;
                self.rests(50, 200).await;
            }
        }
    }

    async fn posts(&mut self, nth: usize, wait_s: Option<u64>, patience: Duration) -> Option<Said> {
        self.posts_amount(nth, self.story.intent.amount_minor, wait_s, patience).await
    }

    /// A client with a fault: the same key for another amount.
    async fn posts_changed(&mut self, nth: usize) {
        self.posts_amount(nth, self.story.intent.amount_minor + 1, None, PATIENCE).await;
    }

    async fn posts_amount(
        &mut self,
        nth: usize,
        amount_minor: i64,
        wait_s: Option<u64>,
        patience: Duration,
    ) -> Option<Said> {
        let key = key(self.story.intent.number, nth);
        let body = self.body(nth, amount_minor);
        let request = self.all.request(Method::POST, "/v1/payments", &mut self.chance);
        let request = request.header("Idempotency-Key", key).json(&body);
        let changed = amount_minor != self.story.intent.amount_minor;
        self.asks(Ask::Post { nth, changed }, request, wait_s, patience).await
    }

    async fn gets(&mut self, payment: Uuid, wait_s: Option<u64>) -> Option<Said> {
        let request = self.all.request(Method::GET, &format!("/v1/payments/{payment}"), &mut self.chance);
        self.asks(Ask::Get { payment }, request, wait_s, PATIENCE).await
    }

    /// Sends a request, and notes what was heard, or that nothing was.
    async fn asks(&self, ask: Ask, request: RequestBuilder, wait_s: Option<u64>, patience: Duration) -> Option<Said> {
        let (request, waited) = match wait_s {
            Some(seconds) => (request.header("Prefer", format!("wait={seconds}")), Duration::from_secs(seconds)),
            None => (request, Duration::ZERO),
        };
        // Who hangs up early does so whatever it asked for.
        let patience = if patience < PATIENCE { patience } else { patience + waited };
        let begun = Instant::now();
        let Ok(said) = heard(ask, request.timeout(patience), begun).await else {
            self.story.hears_nothing();
            return None;
        };
        self.story.hears(said.clone());
        Some(said)
    }

    /// Under another key than the first, another card.
    fn body(&self, nth: usize, amount_minor: i64) -> Value {
        let Intent { number, id, currency, method, .. } = &self.story.intent;
        let method = if nth == 0 { method.clone() } else { format!("card_{number}_{nth}") };
        json!({"payment_intent_id": id, "amount_minor": amount_minor, "currency": currency, "payment_method_id": method})
    }

    fn wait_s(&mut self) -> Option<u64> {
        *[None, Some(1), Some(2), Some(5)].choose(&mut self.chance).expect("there are some")
    }

    async fn rests(&mut self, from_ms: u64, to_ms: u64) {
        sleep(Duration::from_millis(self.chance.random_range(from_ms..=to_ms))).await;
    }
}

/// The client's `nth` key for an intent.
fn key(number: usize, nth: usize) -> String {
    format!("key-{number}-{nth}")
}

async fn heard(ask: Ask, request: RequestBuilder, begun: Instant) -> reqwest::Result<Said> {
    let answer = request.send().await?;
    let status = answer.status().as_u16();
    let text = answer.text().await?;
    let json = serde_json::from_str(&text).unwrap_or(Value::Null);
    Ok(Said { ask, begun, ended: Instant::now(), status, text, json })
}

fn intent(number: usize, chance: &mut StdRng) -> Intent {
    let kinds: Vec<acquirer::Method> = faults().collect();
    let method = match chance.random_bool(FAULTS) {
        true => kinds.choose(chance).expect("there are some").id().to_owned(),
        false => format!("card_{number}"),
    };
    let currency = ["EUR", "USD", "JPY", "KWD"].choose(chance).copied().expect("there are some");
    let (id, amount_minor) = (format!("intent-{number}"), chance.random_range(1..=100_000));
    Intent { number, id, amount_minor, currency, method }
}
