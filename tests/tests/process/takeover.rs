use crate::program::{Program, command};
use sandbox::acquirer::{Latency, Settings};
use shared::payment::life::Status;
use tests::client::body;
use tests::{World, eventually};

const PAYMENTS: usize = 120;

async fn slow_world() -> World {
    World::with(Settings { latency_ms: Latency::Fixed { ms: 60 }, ..Settings::default() }).await
}

async fn post_all(world: &World) -> Vec<uuid::Uuid> {
    let api = world.api().await;
    let mut ids = Vec::new();
    for index in 0..PAYMENTS {
        let accepted = api.client.post(&format!("key-{index}"), &body(&format!("order-{index}"), "pm_ok")).await;
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        ids.push(accepted.payment_id());
    }
    ids
}

/// How many jobs a worker holds.
async fn held_by(world: &World, ready_line: &str) -> i64 {
    let name = ready_line.rsplit(' ').next().expect("a name").to_owned();
    sqlx::query_scalar("SELECT count(*) FROM jobs WHERE claimed_by = $1 AND run_at > now()")
        .bind(name)
        .fetch_one(&world.database.pool)
        .await
        .expect("a count")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_payments_of_a_killed_worker_are_taken_over_within_its_lease_and_a_second() {
    let world = slow_world().await;
    let ids = post_all(&world).await;
    let mut victim = Program::start(command(&world, &["worker", "--concurrency", "8"]));
    let named = victim.ready().await;
    eventually("the victim holds work", || async { (held_by(&world, &named).await > 0).then_some(()) }).await;
    victim.signal("KILL");
    victim.ended().await;
    let mut heir = Program::start(command(&world, &["worker"]));
    heir.ready().await;
    for id in ids {
        world.until(id, Status::Paid).await;
    }
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges as usize, ledger.duplicates.len()), (PAYMENTS, 0), "{ledger:?}");
    // Every claim after the first came once the lease (2 s) had lapsed, and within a second of that.
    let waits: Vec<f64> = sqlx::query_scalar(
        "SELECT extract(epoch FROM again.started_at - first.started_at)::float8
         FROM provider_calls first JOIN provider_calls again USING (merchant_id, payment_id)
         WHERE first.attempt = 1 AND again.attempt = 2 AND first.finished_at IS NULL",
    )
    .fetch_all(&world.database.pool)
    .await
    .expect("waits");
    assert!(!waits.is_empty(), "the victim died with calls under way");
    assert!(waits.iter().all(|wait| (2.0..=3.0).contains(wait)), "{waits:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_killed_again_and_again_charge_nothing_twice_and_lose_nothing() {
    let world = slow_world().await;
    let ids = post_all(&world).await;
    for _ in 0..4 {
        let mut victim = Program::start(command(&world, &["worker", "--concurrency", "8"]));
        let named = victim.ready().await;
        eventually("the victim holds work, or none is left", || async {
            let idle = world.count("SELECT count(*) FROM jobs WHERE run_at <= now()").await == 0;
            (idle || held_by(&world, &named).await > 0).then_some(())
        })
        .await;
        victim.signal("KILL");
        victim.ended().await;
    }
    let mut survivor = Program::start(command(&world, &["worker"]));
    survivor.ready().await;
    for id in ids {
        world.until(id, Status::Paid).await;
    }
    world.until_idle().await;
    let ledger = world.acquirer.ledger();
    assert_eq!((ledger.charges as usize, ledger.duplicates.len()), (PAYMENTS, 0), "{ledger:?}");
    assert_eq!(world.count("SELECT count(*) FROM events").await, PAYMENTS as i64);
    assert_eq!(world.count("SELECT count(*) FROM payments WHERE lease_until IS NOT NULL").await, 0);
}
