//! What the acquirer tells unasked, heard by a real HTTP server.

use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::routing::post;
use hmac::{Hmac, KeyInit, Mac};
use sandbox::acquirer::Settings;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};

use crate::support::{settings, shop};

const SECRET: &str = "whsec_1";

struct Heard {
    signature: String,
    body: Bytes,
}

impl Heard {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// A receiver, from the moment it listens on.
async fn listen(listener: TcpListener) -> UnboundedReceiver<Heard> {
    let (sender, heard) = unbounded_channel();
    let router = Router::new().route("/hooks", post(hear)).with_state(sender);
    tokio::spawn(async move { axum::serve(listener, router).await });
    heard
}

async fn hear(State(sender): State<UnboundedSender<Heard>>, headers: HeaderMap, body: Bytes) {
    let signature = headers["acquirer-signature"].to_str().unwrap().to_owned();
    let _ = sender.send(Heard { signature, body });
}

async fn receiver() -> (String, UnboundedReceiver<Heard>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hooks", listener.local_addr().unwrap());
    (url, listen(listener).await)
}

async fn next(heard: &mut UnboundedReceiver<Heard>) -> Heard {
    timeout(Duration::from_secs(5), heard.recv()).await.expect("a message within five seconds").unwrap()
}

fn telling(url: &str) -> Settings {
    settings(|s| {
        s.webhook_url = Some(url.to_owned());
        s.webhook_secret = Some(SECRET.into());
        s.processing_ms = 50;
    })
}

fn hmac_hex(time: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(&[time.as_bytes(), b".", body].concat());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_booking_is_told_with_a_signature_over_time_and_body() {
    let (url, mut heard) = receiver().await;
    let shop = shop(telling(&url)).await;
    let (_, charge) = shop.answer("k1", "pm_ok").await;
    let told = next(&mut heard).await;
    let message = told.json();
    assert_eq!((&message["type"], &message["charge"]), (&json!("charge.approved"), &charge));
    assert!(message["id"].as_str().unwrap().starts_with("evt_"));

    let (time, v1) = told.signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let booked_at_s = shop.acquirer.ledger_of("k1").entries[0].booked_at_ms / 1_000;
    assert!(time.parse::<u64>().unwrap().abs_diff(booked_at_s) <= 2, "{time}");
    assert_eq!(v1, hmac_hex(time, &told.body));
}

#[tokio::test]
async fn what_never_was_answered_is_told_all_the_same() {
    let (url, mut heard) = receiver().await;
    let shop = shop(telling(&url)).await;
    assert!(shop.post("k1", "pm_reset").await.is_err());
    assert_eq!(next(&mut heard).await.json()["charge"]["reference"], "k1");
    shop.answer("k2", "pm_declined").await;
    assert_eq!(next(&mut heard).await.json()["type"], "charge.declined");
    shop.answer("k3", "pm_rejected").await;
    assert_eq!(next(&mut heard).await.json()["type"], "charge.rejected");
    shop.answer("k4", "pm_503").await;
    shop.answer("k5", "pm_double_charge").await;
    let both = [next(&mut heard).await.json(), next(&mut heard).await.json()];
    assert!(both.iter().all(|message| message["charge"]["reference"] == "k5"));
    assert_ne!(both[0]["id"], both[1]["id"]);
}

#[tokio::test]
async fn a_processing_charge_is_told_twice() {
    let (url, mut heard) = receiver().await;
    let shop = shop(telling(&url)).await;
    shop.answer("k1", "pm_processing_then_ok").await;
    let (first, second) = (next(&mut heard).await.json(), next(&mut heard).await.json());
    assert_eq!((&first["type"], &second["type"]), (&json!("charge.processing"), &json!("charge.approved")));
    assert_eq!(first["charge"]["transaction_id"], second["charge"]["transaction_id"]);
    assert_ne!(first["id"], second["id"]);
}

#[tokio::test]
async fn a_receiver_that_is_down_delays_no_answer_and_hears_it_later() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let shop = shop(telling(&format!("http://{addr}/hooks"))).await;
    assert_eq!(shop.answer("k1", "pm_ok").await.0, 201);
    sleep(Duration::from_millis(50)).await;
    let mut heard = listen(TcpListener::bind(addr).await.unwrap()).await;
    assert_eq!(next(&mut heard).await.json()["charge"]["reference"], "k1");
}

#[tokio::test]
async fn a_secret_is_never_shown_and_survives_a_change_of_the_rest() {
    let (url, mut heard) = receiver().await;
    let shop = shop(telling(&url)).await;
    let (_, shown) = shop.get("/faults").await;
    assert_eq!(shown["webhook_secret"], "(secret)");
    assert!(!format!("{:?}", shop.acquirer.settings()).contains(SECRET));
    shop.put_faults(r#"{"seed": 4}"#).await;
    shop.put_faults(&shown.to_string()).await;
    shop.answer("k1", "pm_ok").await;
    let told = next(&mut heard).await;
    let (time, v1) = told.signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    assert_eq!(v1, hmac_hex(time, &told.body));
    let (status, _) = shop.put_faults(r#"{"webhook_url": null, "webhook_secret": null}"#).await;
    assert_eq!((status, shop.acquirer.settings().webhook_secret), (200, None));
}
