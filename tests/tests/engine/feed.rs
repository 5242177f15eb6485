use crate::post;
use shared::outbox::feed;
use shared::payment::life::Status;
use sqlx::Connection;
use tests::{World, eventually};
use uuid::Uuid;

#[tokio::test(flavor = "multi_thread")]
async fn the_feed_never_passes_over_an_event_that_committed_late() {
    let world = World::new().await;
    let pool = &world.database.pool;
    // A transaction writes an event first, and commits last.
    let mut slow = sqlx::PgConnection::connect(&world.database.url).await.expect("a connection");
    let mut open = slow.begin().await.expect("a transaction");
    let late = Uuid::now_v7();
    sqlx::query(
        "INSERT INTO events (merchant_id, id, payment_id, payment_intent_id, type, data, occurred_at)
         VALUES ($1, $2, $2, 'order-late', 'payments.succeeded', '{}', now())",
    )
    .bind(world.merchant_id)
    .bind(late)
    .execute(&mut *open)
    .await
    .expect("an event");
    let payment_id = post(&world, 1).await[0];
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    let before = feed(pool, world.merchant_id, None, 10).await.expect("a feed");
    assert!(before.is_empty(), "the later event waits for the earlier one: {before:?}");
    open.commit().await.expect("committed");
    let whole = eventually("both are there", || async {
        let events = feed(pool, world.merchant_id, None, 10).await.expect("a feed");
        (events.len() == 2).then_some(events)
    })
    .await;
    assert_eq!(whole[0].0.id, late, "in the order of their transactions");
    let (_, cursor) = &whole[0];
    let rest = feed(pool, world.merchant_id, Some(cursor), 10).await.expect("a feed");
    assert_eq!(rest.iter().map(|(event, _)| event.payment_id).collect::<Vec<_>>(), [payment_id], "none twice");
}
