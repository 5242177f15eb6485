use crate::{accept, claimed, paid, post, write};
use shared::committer::{Committer, Verdict, Write, WriteError};
use shared::db;
use shared::payment::PaymentKey;
use shared::queue::Step;
use shared::queue::wake::Notifier;
use std::pin::pin;
use std::time::Duration;
use tests::World;
use tests::world::Process;
use tokio::task::JoinSet;
use uuid::Uuid;

const ROWS: usize = 50;

/// Hands in all writes while the committer cannot begin, so that they share its next batch.
pub async fn in_one_batch(url: &str, nobody: PaymentKey, writes: Vec<Write>) -> Vec<Result<Verdict, WriteError>> {
    let pool = db::pool(url, 1, "tests").expect("a URL");
    let (held, metrics) = (pool.acquire().await.expect("the only connection"), std::sync::Arc::default());
    let committer = Committer::start(pool.clone(), Notifier::start(&pool), metrics);
    // The first batch is a lone write that changes nothing; it waits for the connection.
    let nothing = shared::payment::claim::Drop { of: nobody };
    let mut first = pin!(committer.write(Write::Drop(nothing)));
    assert!(futures_util::poll!(&mut first).is_pending(), "handed in");
    tests::eventually("it is taken", || async { (committer.waiting() == 0).then_some(()) }).await;
    let (mut waiting, count) = (JoinSet::new(), writes.len());
    for (index, write) in writes.into_iter().enumerate() {
        let committer = committer.clone();
        waiting.spawn(async move { (index, committer.write(write).await) });
    }
    tests::eventually("all wait", || async { (committer.waiting() == count).then_some(()) }).await;
    drop(held);
    assert!(first.await.is_ok());
    let mut verdicts = waiting.join_all().await;
    verdicts.sort_by_key(|(index, _)| *index);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_row_of_fifty_harms_none_of_the_others() {
    let world = World::new().await;
    post(&world, ROWS).await;
    let claims = claimed(&world, Step::Charge, 50, Duration::from_secs(30)).await;
    let mut settles: Vec<_> = claims.iter().map(paid).collect();
    settles[17].settled.transaction_id = None;
    let verdicts =
        in_one_batch(&world.database.url, world.key(Uuid::nil()), settles.into_iter().map(write).collect()).await;
    for (index, verdict) in verdicts.iter().enumerate() {
        match verdict {
            Err(WriteError::Refused { constraint, .. }) if index == 17 => {
                assert_eq!(constraint, "payments_paid_has_transaction");
            }
            other => assert!(index != 17 && matches!(other, Ok(Verdict::Applied(_))), "{index}: {other:?}"),
        }
    }
    assert_eq!(world.count("SELECT count(*) FROM payments WHERE status = 'PAID'").await, 49);
    assert_eq!(world.count("SELECT count(*) FROM events").await, 49);
    let transactions = world.count("SELECT count(DISTINCT xmin::text) FROM payments WHERE status = 'PAID'").await;
    assert!((2..=6).contains(&transactions), "halves of halves, not row by row: {transactions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_row_of_fifty_is_told_apart_in_the_same_commit() {
    let world = World::new().await;
    post(&world, ROWS).await;
    let claims = claimed(&world, Step::Charge, 50, Duration::from_secs(30)).await;
    let mut settles: Vec<_> = claims.iter().map(paid).collect();
    settles[23].fence.attempt -= 1;
    let verdicts =
        in_one_batch(&world.database.url, world.key(Uuid::nil()), settles.into_iter().map(write).collect()).await;
    let stale: Vec<_> = verdicts.iter().enumerate().filter(|(_, v)| matches!(v, Ok(Verdict::Stale))).collect();
    assert_eq!(stale.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [23]);
    assert_eq!(verdicts.iter().filter(|v| matches!(v, Ok(Verdict::Applied(_)))).count(), 49);
    assert_eq!(world.count("SELECT count(DISTINCT xmin::text) FROM payments WHERE status = 'PAID'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_intents_from_two_instances_make_one_live_payment_each() {
    let world = World::new().await;
    let committers = [Process::start(&world.database.url), Process::start(&world.database.url)].map(|p| p.committer);
    for round in 0..5 {
        let mut accepts = JoinSet::new();
        for n in 0..ROWS {
            for (instance, committer) in committers.iter().enumerate() {
                // The two go through the intents from opposite ends.
                let n = if instance == 0 { n } else { ROWS - 1 - n };
                let (committer, accept) = (committer.clone(), accept(&world, round * ROWS + n));
                accepts.spawn(async move { committer.write(Write::Accept(accept)).await });
            }
        }
        let verdicts = accepts.join_all().await;
        let applied = verdicts.iter().filter(|v| matches!(v, Ok(Verdict::Applied(_)))).count();
        let stale = verdicts.iter().filter(|v| matches!(v, Ok(Verdict::Stale))).count();
        assert_eq!((applied, stale), (ROWS, ROWS), "{verdicts:?}");
    }
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 5 * 50);
    assert_eq!(world.count("SELECT count(*) FROM idempotency_keys").await, 5 * 50, "a lost intent keeps no key");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_on_two_intents_at_once_makes_one_payment() {
    let world = World::new().await;
    let committers = [Process::start(&world.database.url), Process::start(&world.database.url)].map(|p| p.committer);
    for n in 0..30 {
        let (mut one, mut other) = (accept(&world, 2 * n), accept(&world, 2 * n + 1));
        one.idempotency_key = format!("key-{n}");
        other.idempotency_key = format!("key-{n}");
        let (first, second) =
            tokio::join!(committers[0].write(Write::Accept(one)), committers[1].write(Write::Accept(other)));
        let applied = [&first, &second].into_iter().filter(|v| matches!(v, Ok(Verdict::Applied(_)))).count();
        assert_eq!(applied, 1, "{first:?} {second:?}");
    }
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 30);
}
