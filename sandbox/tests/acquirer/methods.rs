//! What each magic payment method does on the first POST, and what a look-up and a repeat say.

use std::time::{Duration, Instant};

use sandbox::acquirer::{Method, Settings};

use crate::support::{client, settings, shop};

#[tokio::test]
async fn an_ordinary_payment_is_approved_and_echoed() {
    let shop = shop(Settings::default()).await;
    let (status, charge) = shop.answer("k1", "pm_ok").await;
    assert_eq!(status, 201);
    assert_eq!(charge["status"], "approved");
    assert_eq!(charge["reference"], "k1");
    assert_eq!(charge["amount_minor"], 4200);
    assert_eq!(charge["currency"], "EUR");
    assert_eq!(shop.find("k1").await, (200, charge));
}

#[tokio::test]
async fn a_payment_method_that_is_not_magic_is_approved() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.answer("k1", "card_visa_4242").await.0, 201);
}

#[tokio::test]
async fn a_declined_payment_moves_no_money() {
    let shop = shop(Settings::default()).await;
    let (status, charge) = shop.answer("k1", "pm_declined").await;
    assert_eq!(status, 402);
    assert_eq!(charge["status"], "declined");
    assert_eq!(charge["decline_code"], "insufficient_funds");
    assert_eq!(shop.charges(), 0);
    assert_eq!(shop.find("k1").await.1["status"], "declined");
}

#[tokio::test]
async fn a_rejected_payment_moves_no_money() {
    let shop = shop(Settings::default()).await;
    let (status, charge) = shop.answer("k1", "pm_rejected").await;
    assert_eq!((status, &charge["status"]), (422, &"rejected".into()));
    assert_eq!(shop.charges(), 0);
}

#[tokio::test]
async fn a_timeout_after_the_charge_withholds_only_the_answer() {
    let shop = shop(Settings::default()).await;
    let hasty = client(Duration::from_millis(150));
    let request = hasty
        .post(shop.url("/charges"))
        .header("Idempotency-Key", "k1")
        .json(&crate::support::order("k1", "pm_timeout_after_charge"));
    assert!(request.send().await.unwrap_err().is_timeout());
    assert_eq!(shop.charges(), 1);
    assert_eq!(shop.find("k1").await.1["status"], "approved");
    assert_eq!(shop.answer("k1", "pm_timeout_after_charge").await.0, 200);
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_withheld_answer_comes_in_the_end() {
    let shop = shop(settings(|s| s.hold_ms = 50)).await;
    assert_eq!(shop.answer("k1", "pm_timeout_after_charge").await.0, 201);
    assert_eq!(shop.answer("k2", "pm_timeout_before_charge").await.0, 504);
}

#[tokio::test]
async fn a_timeout_before_the_charge_books_nothing() {
    let shop = shop(settings(|s| s.hold_ms = 50)).await;
    assert_eq!(shop.answer("k1", "pm_timeout_before_charge").await.0, 504);
    assert_eq!(shop.find("k1").await.0, 404);
    assert_eq!(shop.charges(), 0);
    assert_eq!(shop.answer("k1", "pm_timeout_before_charge").await.0, 201);
}

#[tokio::test]
async fn a_reset_books_and_resets_the_connection() {
    let shop = shop(Settings::default()).await;
    let error = shop.post("k1", "pm_reset").await.unwrap_err();
    let causes = format!("{error:?}");
    assert!(causes.contains("ConnectionReset"), "{causes}");
    assert_eq!(shop.charges(), 1);
    assert_eq!(shop.answer("k1", "pm_reset").await.0, 200);
}

#[tokio::test]
async fn a_server_error_after_the_charge_hides_an_approval() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.answer("k1", "pm_500_after_charge").await.0, 500);
    assert_eq!(shop.find("k1").await.1["status"], "approved");
    assert_eq!(shop.answer("k1", "pm_500_after_charge").await.0, 200);
}

#[tokio::test]
async fn an_overloaded_acquirer_books_nothing_until_the_repeat() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.answer("k1", "pm_503").await.0, 503);
    let limited = shop.post("k2", "pm_429").await.unwrap();
    assert_eq!(limited.status(), 429);
    assert_eq!(limited.headers()["retry-after"], "1");
    assert_eq!(shop.charges(), 0);
    assert_eq!(shop.find("k1").await.0, 404);
    assert_eq!(shop.answer("k1", "pm_503").await.0, 201);
    assert_eq!(shop.answer("k2", "pm_429").await.0, 201);
}

#[tokio::test]
async fn a_payment_in_flight_is_found_a_moment_later() {
    let shop = shop(Settings::default()).await;
    let (status, body) = shop.answer("k1", "pm_409_in_flight").await;
    assert_eq!((status, &body["error"]), (409, &"idempotency_key_in_use".into()));
    assert_eq!(shop.find("k1").await.0, 404);
    shop.until_charges(1).await;
    assert_eq!(shop.find("k1").await.1["status"], "approved");
}

#[tokio::test]
async fn unreadable_bodies_hide_an_approval() {
    let shop = shop(Settings::default()).await;
    for method in ["pm_malformed", "pm_html", "pm_empty_body"] {
        let response = shop.post(method, method).await.unwrap();
        assert_eq!(response.status(), 200, "{method}");
        let body = response.text().await.unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&body).is_err(), "{method}");
        assert_eq!(shop.find(method).await.1["status"], "approved", "{method}");
        assert_eq!(shop.answer(method, method).await.0, 200, "{method}");
    }
}

#[tokio::test]
async fn an_array_is_no_charge() {
    let shop = shop(Settings::default()).await;
    let (status, body) = shop.answer("k1", "pm_array_body").await;
    assert_eq!(status, 200);
    assert!(body.is_array());
}

#[tokio::test]
async fn a_truncated_body_ends_before_its_length() {
    let shop = shop(Settings::default()).await;
    let response = shop.post("k1", "pm_truncated").await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(response.content_length().is_some_and(|length| length > 50));
    assert!(response.bytes().await.is_err());
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn wrong_echoes_differ_in_one_field_also_when_looked_up() {
    let shop = shop(Settings::default()).await;
    for (method, field) in
        [("pm_wrong_amount", "amount_minor"), ("pm_wrong_currency", "currency"), ("pm_wrong_reference", "reference")]
    {
        let (status, charge) = shop.answer(method, method).await;
        assert_eq!(status, 201, "{method}");
        for same in ["amount_minor", "currency", "reference"] {
            let asked = &crate::support::order(method, method)[same];
            assert_eq!(&charge[same] == asked, same != field, "{method} {same}");
        }
        assert_eq!(shop.find(method).await, (200, charge), "{method}");
        let booked = &shop.acquirer.ledger_of(method).entries[0];
        assert_eq!((booked.amount_minor, &*booked.currency), (4200, "EUR"));
    }
}

#[tokio::test]
async fn processing_turns_into_an_approval() {
    let shop = shop(settings(|s| s.processing_ms = 150)).await;
    let (status, charge) = shop.answer("k1", "pm_processing_then_ok").await;
    assert_eq!((status, &charge["status"]), (202, &"processing".into()));
    assert_eq!(shop.charges(), 0);
    shop.until_charges(1).await;
    assert_eq!(shop.find("k1").await.1["status"], "approved");
}

#[tokio::test]
async fn processing_may_last_for_ever() {
    let shop = shop(settings(|s| s.processing_ms = 0)).await;
    assert_eq!(shop.answer("k1", "pm_processing_forever").await.0, 202);
    assert_eq!(shop.find("k1").await.1["status"], "processing");
}

#[tokio::test]
async fn a_charge_may_be_found_on_the_third_look_only() {
    let shop = shop(Settings::default()).await;
    assert!(shop.post("k1", "pm_not_found_then_ok").await.is_err());
    assert_eq!(shop.charges(), 1);
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.push(shop.find("k1").await.0);
    }
    assert_eq!(seen, [404, 404, 200]);
}

#[tokio::test]
async fn a_double_charge_shows_two_under_one_key() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.answer("k1", "pm_double_charge").await.0, 500);
    assert_eq!(shop.answer("k1", "pm_double_charge").await.0, 500);
    let (status, found) = shop.find("k1").await;
    assert_eq!(status, 200);
    assert_eq!(found["data"].as_array().unwrap().len(), 2);
    let ledger = shop.acquirer.ledger();
    assert_eq!((ledger.charges, ledger.duplicates.len()), (2, 1));
    assert_eq!(ledger.duplicates[0].transaction_ids.len(), 2);
}

#[tokio::test]
async fn a_trickle_does_not_end_within_a_second() {
    let shop = shop(Settings::default()).await;
    let response = shop.post("k1", "pm_trickle").await.unwrap();
    let body = tokio::time::timeout(Duration::from_millis(300), response.bytes());
    assert!(body.await.is_err());
    assert_eq!(shop.charges(), 1);
}

#[tokio::test]
async fn a_redirect_leads_elsewhere_and_books_nothing() {
    let shop = shop(Settings::default()).await;
    let response = shop.post("k1", "pm_redirect").await.unwrap();
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()["location"], "/moved/charges");
    assert_eq!(shop.charges(), 0);
}

#[tokio::test]
async fn a_huge_body_is_json_of_ten_megabytes() {
    let shop = shop(Settings::default()).await;
    let response = shop.post("k1", "pm_huge_body").await.unwrap();
    let body = response.bytes().await.unwrap();
    assert!(body.len() > 10_000_000);
    let charge: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(charge["status"], "approved");
}

#[tokio::test]
async fn a_nul_text_is_a_decline_below_200_kib() {
    let shop = shop(Settings::default()).await;
    let response = shop.post("k1", "pm_nul_text").await.unwrap();
    assert_eq!(response.status(), 402);
    let body = response.text().await.unwrap();
    assert!((100_000..200 * 1024).contains(&body.len()), "{}", body.len());
    assert!(body.contains(r"\u0000") && body.contains(r"\ud800 "));
    assert!(body.contains(r#""status":"declined""#));
}

#[tokio::test]
async fn a_slow_payment_takes_two_seconds() {
    let shop = shop(Settings::default()).await;
    let started = Instant::now();
    assert_eq!(shop.answer("k1", "pm_slow").await.0, 201);
    assert!(started.elapsed() >= Duration::from_secs(2));
}

#[tokio::test]
async fn a_new_status_is_shown_although_money_moved() {
    let shop = shop(Settings::default()).await;
    let (status, charge) = shop.answer("k1", "pm_new_status").await;
    assert_eq!((status, &charge["status"]), (201, &"paid_out".into()));
    assert_eq!(shop.charges(), 1);
}

#[test]
fn every_method_has_a_name_and_a_meaning_of_its_own() {
    let mut ids: Vec<_> = Method::ALL.iter().map(|method| method.id()).collect();
    for &method in Method::ALL {
        assert_eq!(Method::from_id(method.id()), Some(method));
        assert_eq!(method.fault_name().parse::<Method>().unwrap(), method);
        assert!(method.meaning().ends_with('.'), "{method}");
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), Method::ALL.len());
}

#[test]
fn the_readme_lists_every_method_as_the_code_does() {
    let readme = include_str!("../../README.md");
    for method in Method::ALL {
        let row = format!("| `{method}` | {} |", method.meaning());
        assert!(readme.contains(&row), "missing in README.md: {row}");
    }
}
