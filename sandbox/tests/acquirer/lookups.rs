//! Finding charges: by what, and how late.

use std::time::Duration;

use sandbox::acquirer::{Lookup, Settings};
use serde_json::json;
use tokio::time::sleep;

use crate::support::{settings, shop};

#[tokio::test]
async fn what_was_never_booked_is_not_found() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.find("k1").await, (404, json!({"error": "not_found"})));
}

#[tokio::test]
async fn a_lagging_lookup_finds_a_charge_later() {
    let shop = shop(settings(|s| s.lookup_lag_ms = 200)).await;
    shop.answer("k1", "pm_ok").await;
    assert_eq!(shop.find("k1").await.0, 404);
    sleep(Duration::from_millis(220)).await;
    assert_eq!(shop.find("k1").await.0, 200);
}

#[tokio::test]
async fn a_lookup_that_is_not_offered_says_so() {
    let unsupported = (501, json!({"error": "lookup_unsupported"}));
    for (lookup, by_key, by_reference) in [
        (Lookup::ByBoth, true, true),
        (Lookup::ByKey, true, false),
        (Lookup::ByReference, false, true),
        (Lookup::None, false, false),
    ] {
        let shop = shop(settings(|s| s.lookup = lookup)).await;
        shop.answer("k1", "pm_ok").await;
        let key = shop.find("k1").await;
        let reference = shop.get("/charges?reference=k1").await;
        assert_eq!(key != unsupported, by_key, "{lookup:?}");
        assert_eq!(reference != unsupported, by_reference, "{lookup:?}");
    }
}

#[tokio::test]
async fn a_lookup_by_neither_or_both_is_refused() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.get("/charges").await.0, 400);
    assert_eq!(shop.get("/charges?reference=a&idempotency_key=a").await.0, 400);
}
