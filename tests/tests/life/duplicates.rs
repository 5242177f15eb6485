//! A second charge that nobody was looking for is found, and goes before a person.

use crate::{left_in_doubt, profile};
use shared::acquirer::provider_key;
use shared::committer::Write;
use shared::payment::life::Status;
use shared::payment::scan::{self, Recent};
use shared::review::{Contradiction, Reason, open_of};
use std::time::Duration;
use tests::world::Process;
use tests::{World, eventually};
use uuid::Uuid;

/// A world that searches payments as soon as they are there, by an acquirer that can list by reference.
async fn searching() -> World {
    let mut world = World::new().await;
    profile(&mut world).list_by_reference = Some(true);
    world.config.worker.duplicate_scan_per_second = 100;
    world.config.worker.duplicate_scan_after_s = 0;
    world
}

/// Somebody else's system charges for the same reference, under a key of its own.
async fn charged_by_another_system(world: &World, payment_id: Uuid, key: &str) {
    let charge = serde_json::json!({"reference": provider_key(payment_id), "amount_minor": 1999, "currency": "EUR",
        "payment_method_id": "pm_ok"});
    worker::acquirer::install_tls();
    let post = reqwest::Client::new().post(format!("{}/charges", world.acquirer.base_url()));
    let answer = post.header("Idempotency-Key", key).json(&charge).send().await.expect("an answer");
    assert_eq!(answer.status(), 201);
}

/// A payment that was PENDING when its turn came is not searched; these are searched once more.
async fn from_the_beginning(world: &World) {
    world.run("DELETE FROM duplicate_scans").await;
}

async fn found(world: &World, payment_id: Uuid) -> (Reason, String) {
    eventually("a person is told", || async {
        let open = open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
        assert!(open.len() < 2, "{open:?}");
        open.into_iter().next().map(|review| (review.reason, review.detail))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_charges_for_a_paid_payment_are_found_and_named() {
    let world = searching().await;
    let payment_id = world.accepted_one("pm_ok").await;
    charged_by_another_system(&world, payment_id, "another-key").await;
    let _worker = world.worker();
    let paid = world.until(payment_id, Status::Paid).await;
    from_the_beginning(&world).await;
    let (reason, detail) = found(&world, payment_id).await;
    assert_eq!(reason, Reason::DuplicateAtProvider);
    let entries = world.acquirer.ledger_of(&provider_key(payment_id)).entries;
    assert_eq!(entries.len(), 2);
    assert!(entries.iter().all(|entry| detail.contains(&entry.transaction_id)), "{detail} {entries:?}");
    let after = world.payment(payment_id).await;
    assert_eq!((after.status, after.transaction_id, after.in_review), (Status::Paid, paid.transaction_id, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_charges_for_a_payment_in_doubt_are_found_and_named() {
    let world = searching().await;
    let payment_id = world.accepted_one("pm_processing_forever").await;
    left_in_doubt(&world, payment_id).await;
    for key in ["another-key", "one-more-key"] {
        charged_by_another_system(&world, payment_id, key).await;
    }
    world.run("UPDATE jobs SET run_at = now() + interval '1 hour'").await;
    from_the_beginning(&world).await;
    let _worker = world.worker();
    assert_eq!(found(&world, payment_id).await.0, Reason::DuplicateAtProvider);
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_search_every_payment_once_and_find_nothing_where_there_is_nothing() {
    let world = searching().await;
    let ids = world.accepted(30, "pm_ok").await;
    let workers = [world.worker(), world.worker()];
    for id in &ids {
        world.until(*id, Status::Paid).await;
    }
    from_the_beginning(&world).await;
    eventually("all were searched", || async { (world.acquirer.ledger().calls.lookups >= 30).then_some(()) }).await;
    let last = ids.iter().max().expect("ids").to_string();
    eventually("the last one too", || async {
        let sql = "SELECT max(cursor::text) FROM duplicate_scans";
        let cursor: Option<String> = sqlx::query_scalar(sql).fetch_one(&world.database.pool).await.expect(sql);
        (cursor.as_deref() >= Some(&last)).then_some(())
    })
    .await;
    for worker in workers {
        worker.stop().await;
    }
    assert_eq!(world.count("SELECT count(*) FROM reviews").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_whose_searcher_died_is_searched_by_another_and_told_once() {
    let mut world = searching().await;
    world.config.worker.duplicate_scan_per_second = 0;
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    worker.stop().await;
    charged_by_another_system(&world, payment_id, "another-key").await;
    // It has the page, and told what it found; then it died.
    let recent = Recent { after: Duration::ZERO, within: Duration::from_secs(86_400) };
    let page = scan::take(&world.database.pool, recent, 50, Duration::from_secs(300)).await.expect("asked");
    assert_eq!(page.expect("a page").payments[0].id, payment_id);
    let none = scan::take(&world.database.pool, recent, 50, Duration::from_secs(300)).await.expect("asked");
    assert!(none.is_none(), "one searcher at a time");
    let (reason, detail) = (Reason::DuplicateAtProvider, "two charges".to_owned());
    let committer = Process::start(&world.database.url).committer;
    let told = Write::Contradiction(Contradiction { of: world.key(payment_id), reason, detail });
    committer.write(told).await.expect("told");
    world.run("UPDATE duplicate_scans SET lease_until = now()").await;
    world.config.worker.duplicate_scan_per_second = 100;
    let worker = world.worker();
    eventually("it is searched", || async {
        let sql = "SELECT count(*) FROM duplicate_scans WHERE cursor = (SELECT id FROM payments)";
        (world.count(sql).await == 1).then_some(())
    })
    .await;
    worker.stop().await;
    assert_eq!(world.count("SELECT count(*) FROM reviews").await, 1);
}
