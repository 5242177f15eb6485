//! One acquirer and one client per test.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::{Client, Response};
use sandbox::acquirer::{Acquirer, Settings};
use serde_json::{Value, json};

pub struct Shop {
    pub acquirer: Acquirer,
    pub client: Client,
}

/// An acquirer with these settings and a client that follows no redirects.
pub async fn shop(settings: Settings) -> Shop {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let acquirer = Acquirer::start(any, settings).await.unwrap();
    let client = client(Duration::from_secs(10));
    Shop { acquirer, client }
}

pub fn client(patience: Duration) -> Client {
    // Somebody has to choose; a second choice changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let none = reqwest::redirect::Policy::none();
    let builder = Client::builder().redirect(none).timeout(patience);
    builder.build().unwrap()
}

/// Settings with a test's few changes.
pub fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

/// The order every test posts: 4200 minor units of EUR, the reference being the key.
pub fn order(reference: &str, method: &str) -> Value {
    json!({
        "reference": reference,
        "amount_minor": 4200,
        "currency": "EUR",
        "payment_method_id": method,
    })
}

impl Shop {
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.acquirer.base_url())
    }

    /// Posts the usual order of `key`.
    pub async fn post(&self, key: &str, method: &str) -> reqwest::Result<Response> {
        self.send(key, &order(key, method)).await
    }

    pub async fn send(&self, key: &str, order: &Value) -> reqwest::Result<Response> {
        let request = self.client.post(self.url("/charges"));
        request.header("Idempotency-Key", key).json(order).send().await
    }

    /// Posts and expects a JSON answer.
    pub async fn answer(&self, key: &str, method: &str) -> (u16, Value) {
        status_and_json(self.post(key, method).await.unwrap()).await
    }

    pub async fn find(&self, key: &str) -> (u16, Value) {
        self.get(&format!("/charges?idempotency_key={key}")).await
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.client.get(self.url(path)).send().await.unwrap();
        status_and_json(response).await
    }

    pub async fn put_faults(&self, body: &str) -> (u16, Value) {
        let request = self.client.put(self.url("/faults")).body(body.to_owned());
        status_and_json(request.send().await.unwrap()).await
    }

    /// How often money moved.
    pub fn charges(&self) -> u64 {
        self.acquirer.ledger().charges
    }

    /// Waits until money has moved so often, a few seconds at most.
    pub async fn until_charges(&self, charges: u64) {
        for _ in 0..500 {
            if self.charges() == charges {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} charges instead of {charges}", self.charges());
    }
}

pub async fn status_and_json(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    (status, response.json().await.unwrap())
}
