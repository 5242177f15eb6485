//! Payments at their worst moment: cut off, taken over, answered in every way an acquirer can think of.

mod crashes;
mod doubt;
mod incidents;
mod outcomes;
mod owners;
mod twice;

use shared::payment::life::Status;
use tests::World;
use tests::client::body;
use uuid::Uuid;

/// Posts one payment; no worker is needed for that.
async fn posted(world: &World, method: &str) -> Uuid {
    let api = world.api().await;
    let accepted = api.client.post("key-1", &body("order-1", method)).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    accepted.payment_id()
}

/// What must hold when the only payment of a world has ended.
async fn assert_ended_once(world: &World, payment_id: Uuid, status: Status) {
    world.until_idle().await;
    let payment = world.payment(payment_id).await;
    assert_eq!((payment.status, payment.lease_until), (status, None), "{payment:?}");
    let one = [
        ("SELECT count(*) FROM events", "one event"),
        ("SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'", "its delivery is done"),
        (
            "SELECT count(*) FROM payment_history WHERE to_status IN ('PAID', 'DECLINED', 'FAILED')",
            "one end in the history",
        ),
        ("SELECT count(*) FROM idempotency_keys WHERE state = 'COMPLETED'", "the key is completed"),
    ];
    for (sql, what) in one {
        assert_eq!(world.count(sql).await, 1, "{what}");
    }
    let ledger = world.acquirer.ledger();
    let charges = u64::from(status == Status::Paid);
    assert_eq!((ledger.charges, ledger.duplicates.len()), (charges, 0), "{ledger:?}");
}
