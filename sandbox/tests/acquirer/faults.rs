//! Changing the settings at run time, and faults by chance.

use std::time::{Duration, Instant};

use sandbox::acquirer::{Latency, Lookup, Method, Settings};
use serde_json::json;

use crate::support::{settings, shop};

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name() {
    let shop = shop(settings(|s| s.seed = 7)).await;
    let (status, all) = shop.put_faults(r#"{"lookup": "by_key", "faults": {"503": 1}}"#).await;
    assert_eq!(status, 200);
    assert_eq!((&all["seed"], &all["faults"]), (&json!(7), &json!({"503": 1.0})));
    assert_eq!(shop.get("/faults").await, (200, all));
    assert_eq!(shop.acquirer.settings().lookup, Lookup::ByKey);
    assert_eq!(shop.answer("k1", "pm_ok").await.0, 503);
    let (_, all) = shop.put_faults(r#"{"faults": null, "lookup": null}"#).await;
    assert_eq!((&all["faults"], &all["lookup"]), (&json!({}), &json!("by_both")));
}

#[tokio::test]
async fn a_bad_change_is_explained_and_changes_nothing() {
    let shop = shop(Settings::default()).await;
    for (patch, word) in [
        (r#"{"colour": 1}"#, "colour"),
        (r#"{"colour": null}"#, "colour"),
        (r#"{"faults": {"nonsense": 0.1}}"#, "nonsense"),
        (r#"{"faults": {"reset": 1.5}}"#, "reset"),
        (r#"{"faults": {"reset": 0.6, "503": 0.6}}"#, "add up"),
        (r#"{"latency_ms": "slow"}"#, "latency_ms"),
        (r#"{"latency_ms": {"distribution": "uniform", "from_ms": 9, "to_ms": 1}}"#, "swap"),
        (r#"{"hold_ms": -1}"#, "u64"),
        (r#"{"key_location": "cookie:key"}"#, "header:NAME"),
        (r#"{"in_flight": {"status": 200, "body": {}}}"#, "in_flight"),
        (r#"{"mismatch": {"status": 422}}"#, "body"),
        (r#"{"webhook_url": "ftp://x/", "webhook_secret": "s"}"#, "webhook_url"),
        (r#"{"webhook_url": "http://x/"}"#, "webhook_secret"),
        ("[]", "object"),
        ("{", "EOF"),
    ] {
        let (status, body) = shop.put_faults(patch).await;
        assert_eq!((status, &body["error"]), (400, &"invalid_settings".into()), "{patch}");
        let message = body["message"].as_str().unwrap();
        assert!(message.contains(word), "{patch}: {message}");
    }
    assert_eq!(shop.acquirer.settings(), Settings::default());
}

#[tokio::test]
async fn the_same_seed_meets_the_same_faults() {
    let rates = |s: &mut Settings| {
        s.seed = 42;
        s.faults.insert(Method::Declined, 0.5);
    };
    let (one, two) = (shop(settings(rates)).await, shop(settings(rates)).await);
    let mut declined = 0;
    for n in 0..40 {
        let key = format!("payment-{n}");
        let (status, _) = one.answer(&key, "pm_ok").await;
        assert_eq!(two.answer(&key, "pm_ok").await.0, status);
        declined += u32::from(status == 402);
    }
    assert!((10..30).contains(&declined), "{declined}");
}

#[tokio::test]
async fn latency_delays_posts_and_lookups() {
    let shop = shop(settings(|s| s.latency_ms = Latency::Fixed { ms: 60 })).await;
    let started = Instant::now();
    shop.answer("k1", "pm_ok").await;
    shop.find("k1").await;
    assert!(started.elapsed() >= Duration::from_millis(120));
}

#[test]
fn a_latency_is_a_number_or_a_distribution() {
    let parse = |json| serde_json::from_value::<Latency>(json).unwrap();
    assert_eq!(parse(json!(50)), Latency::Fixed { ms: 50 });
    let drawn = Latency::Exponential { mean_ms: 20 };
    assert_eq!(parse(json!({"distribution": "exponential", "mean_ms": 20})), drawn);
    assert_eq!(parse(serde_json::to_value(drawn).unwrap()), drawn);
}
