//! A merchant's client, as simple as one can be.

use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

/// A client with a credential.
#[derive(Clone, Debug)]
pub struct Client {
    /// The underlying client, for requests that no honest client would make.
    pub http: reqwest::Client,
    /// Where the API is.
    pub base_url: String,
    /// The API key.
    pub api_key: String,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body as text.
    pub text: String,
    /// The body as JSON; `null` when it is none.
    pub json: Value,
}

impl Answer {
    /// Reads an answer.
    pub async fn of(response: reqwest::Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("a text");
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        Self { status, headers, text, json }
    }

    /// A header, `""` when absent.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The payment's id, from a payment or a problem.
    #[must_use]
    pub fn payment_id(&self) -> Uuid {
        let id = self.json["payment_id"].as_str().or(self.json["id"].as_str());
        id.and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("no payment id in {}", self.text))
    }

    /// The problem's code, `""` when it is none.
    #[must_use]
    pub fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }
}

/// A request body that is all right.
#[must_use]
pub fn body(intent: &str, method: &str) -> Value {
    json!({"payment_intent_id": intent, "amount_minor": 1999, "currency": "EUR", "payment_method_id": method})
}

impl Client {
    /// A client of the API at `base_url`.
    #[must_use]
    pub fn new(base_url: &str, api_key: &str) -> Self {
        worker::acquirer::install_tls();
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(60)).build().expect("a client");
        Self { http, base_url: base_url.to_owned(), api_key: api_key.to_owned() }
    }

    /// A request with the credential.
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base_url)).bearer_auth(&self.api_key)
    }

    /// Posts a payment.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn try_post(&self, key: &str, body: &Value, prefer: Option<&str>) -> reqwest::Result<Answer> {
        let mut request = self.request(reqwest::Method::POST, "/v1/payments").header("Idempotency-Key", key).json(body);
        if let Some(prefer) = prefer {
            request = request.header("Prefer", prefer);
        }
        Ok(Answer::of(request.send().await?).await)
    }

    /// Posts a payment, does not wait.
    pub async fn post(&self, key: &str, body: &Value) -> Answer {
        self.try_post(key, body, None).await.expect("an answer")
    }

    /// Posts a payment and waits for the final answer, 8 s at the longest.
    pub async fn pay(&self, key: &str, body: &Value) -> Answer {
        self.try_post(key, body, Some("wait=8")).await.expect("an answer")
    }

    /// Gets a path.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(reqwest::Method::GET, path).send().await.expect("an answer")).await
    }
}
