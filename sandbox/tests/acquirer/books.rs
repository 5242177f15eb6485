//! `/ledger` and the life of the server.

use std::net::TcpListener;

use sandbox::acquirer::{LedgerView, ReferenceView, Settings};

use crate::support::{order, shop};

#[tokio::test]
async fn the_ledger_over_http_is_the_ledger_in_process() {
    let shop = shop(Settings::default()).await;
    shop.answer("0192f0c1a2b37c4d8e5f00112233aabb", "pm_ok").await;
    shop.answer("k2", "pm_declined").await;
    shop.find("k2").await;
    let (_, plain) = shop.get("/ledger").await;
    let plain: LedgerView = serde_json::from_value(plain).unwrap();
    assert_eq!(plain, shop.acquirer.ledger());
    assert_eq!((plain.charges, plain.calls.posts, plain.calls.lookups), (1, 2, 1));

    let (_, full) = shop.get("/ledger?entries=true").await;
    let full: LedgerView = serde_json::from_value(full).unwrap();
    assert_eq!(full, shop.acquirer.ledger_with_entries());
    let entries = full.entries.unwrap();
    assert_eq!(entries[0].key, "0192f0c1a2b37c4d8e5f00112233aabb");
    assert_eq!(entries[1].status, "declined");
}

#[tokio::test]
async fn calls_are_counted_for_each_reference_with_the_keys_they_bore() {
    let shop = shop(Settings::default()).await;
    for key in ["a", "b", "a"] {
        shop.send(key, &order("r1", "pm_ok")).await.unwrap();
    }
    shop.find("a").await;
    shop.get("/charges?reference=r1").await;
    let (_, view) = shop.get("/ledger?reference=r1").await;
    let view: ReferenceView = serde_json::from_value(view).unwrap();
    assert_eq!((view.calls.posts, view.calls.lookups, view.charges), (3, 2, 2));
    assert_eq!(view.keys, ["a", "b"]);
    assert_eq!(shop.acquirer.ledger().duplicates.len(), 1);
    assert_eq!(shop.acquirer.ledger_of("never seen").calls.posts, 0);
}

#[tokio::test]
async fn a_reset_empties_the_books_but_repeats_no_transaction_id() {
    let shop = shop(Settings::default()).await;
    let (_, before) = shop.answer("k1", "pm_ok").await;
    let request = shop.client.delete(shop.url("/ledger"));
    assert_eq!(request.send().await.unwrap().status(), 204);
    assert_eq!(shop.acquirer.ledger().calls.posts, 0);
    let (status, after) = shop.answer("k1", "pm_ok").await;
    assert_eq!(status, 201);
    assert_ne!(before["transaction_id"], after["transaction_id"]);
}

#[tokio::test]
async fn a_stopped_acquirer_leaves_its_port() {
    let shop = shop(Settings::default()).await;
    assert_eq!(shop.client.get(shop.url("/healthz")).send().await.unwrap().status(), 200);
    let addr = shop.acquirer.addr();
    shop.acquirer.stop().await;
    assert!(shop.client.get(format!("http://{addr}/healthz")).send().await.is_err());
    assert!(TcpListener::bind(addr).is_ok());
}
