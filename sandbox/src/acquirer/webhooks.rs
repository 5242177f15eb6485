//! What the acquirer tells unasked: signed messages about its charges.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use hmac::{Hmac, KeyInit, Mac};
use http::Request;
use http::header::CONTENT_TYPE;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use sha2::Sha256;
use tokio::time::{sleep, timeout};

use super::answers::to_json;
use super::charge::Charge;
use super::desk::Desk;
use super::ledger::ChargeId;
use super::secret::Secret;
use super::settings::Settings;

/// `t=<seconds since 1970>,v1=<hex of HMAC-SHA256(secret, "<t>.<body>")>`.
const SIGNATURE: &str = "acquirer-signature";
/// How often a message is sent until somebody answers, whatever the answer.
const TRIES: u32 = 5;
/// The rest after the first try; it grows by itself with each.
const REST: Duration = Duration::from_millis(100);
/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The acquirer's side of the connections to its webhooks' receivers.
pub(super) type Post = Client<HttpConnector, Body>;

pub(super) fn post() -> Post {
    Client::builder(TokioExecutor::new()).build_http()
}

#[derive(Serialize)]
struct Message<'a> {
    id: String,
    r#type: String,
    charge: &'a Charge,
}

impl Message<'_> {
    /// A charge has one message per status, and a repeat of it bears the same id.
    fn about(charge: &Charge) -> Message<'_> {
        let (number, status) = (charge.transaction_id.trim_start_matches("txn_"), charge.booked.as_str());
        Message { id: format!("evt_{number}_{status}"), r#type: format!("charge.{status}"), charge }
    }
}

/// Tells of a charge in a task of its own, and once more when it has been processed. Nothing without a
/// `webhook_url`.
pub(super) fn announce(desk: &Arc<Desk>, settings: &Settings, id: ChargeId, processing_ms: u64) {
    let (Some(url), Some(secret)) = (&settings.webhook_url, &settings.webhook_secret) else { return };
    let courier = Courier { desk: desk.clone(), url: url.clone(), secret: secret.clone() };
    tokio::spawn(async move {
        courier.tell(id).await;
        if processing_ms > 0 {
            sleep(Duration::from_millis(processing_ms)).await;
            courier.tell(id).await;
        }
    });
}

struct Courier {
    desk: Arc<Desk>,
    url: String,
    secret: Secret,
}

impl Courier {
    /// Tells how a charge stands now, unless the books were reset.
    async fn tell(&self, id: ChargeId) {
        let charge = self.desk.ledger().charge(id, self.desk.clock.now_ms());
        let Some(charge) = charge else { return };
        let body = to_json(&Message::about(&charge));
        for tried in 1..=TRIES {
            if self.send(body.clone()).await {
                return;
            }
            sleep(REST * tried).await;
        }
    }

    /// Whether somebody answered.
    async fn send(&self, body: Vec<u8>) -> bool {
        let signature = signature(&self.secret, self.desk.clock.unix_s(), &body);
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(SIGNATURE, signature)
            .body(Body::from(body))
            .expect("the settings were validated: the address is a URI");
        matches!(timeout(PATIENCE, self.desk.post.request(request)).await, Ok(Ok(_)))
    }
}

fn signature(secret: &Secret, at_s: u64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{at_s}.").as_bytes());
    mac.update(body);
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at_s},v1={hex}")
}
