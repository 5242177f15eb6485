//! What is old enough goes, and nothing else.

use crate::paid;
use shared::committer::{Committer, Write};
use shared::payment::accept::{Accept, Accepted, accept};
use shared::payment::claim::Claim;
use shared::payment::life::Status;
use shared::queue::Step;
use shared::retention::{self, Turn, What};
use sqlx::{PgPool, Postgres, Transaction};
use std::time::Duration;
use tests::world::Process;
use tests::{World, eventually};
use tokio::task::JoinSet;
use uuid::{NoContext, Timestamp, Uuid};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const ALL: [&str; 6] = [KEYS, CALLS, HISTORY, EVENTS, DELIVERIES, "SELECT count(*) FROM payments"];
const KEYS: &str = "SELECT count(*) FROM idempotency_keys";
const CALLS: &str = "SELECT count(*) FROM provider_calls";
const HISTORY: &str = "SELECT count(*) FROM payment_history";
const EVENTS: &str = "SELECT count(*) FROM events";
const DELIVERIES: &str = "SELECT count(*) FROM deliveries";

/// A world in which nothing is purged but by the test.
async fn world() -> World {
    let mut world = World::new().await;
    world.config.retention.rows_per_second = 0;
    world
}

/// A request of ten days ago.
async fn old_request(world: &World, n: usize, method: &str) -> Accept {
    let now = shared::db::now(&world.database.pool).await.expect("the time").unix_timestamp().unsigned_abs();
    let then = Timestamp::from_unix(NoContext, now - 10 * DAY.as_secs(), 0);
    Accept { payment_id: Uuid::new_v7(then), ..world.request(n, method) }
}

async fn accepted(world: &World, requests: Vec<Accept>) -> Vec<Uuid> {
    let Process { committer, .. } = Process::start(&world.database.url);
    let ids = requests.iter().map(|request| request.payment_id).collect();
    let mut accepting = JoinSet::new();
    for request in requests {
        let committer = committer.clone();
        accepting.spawn(async move { committer.write(Write::Accept(request)).await.expect("accepted") });
    }
    accepting.join_all().await;
    ids
}

/// Payments of ten days ago that ended at once, each by `method`.
async fn ended(world: &World, count: usize, method: &str) -> Vec<Uuid> {
    let mut requests = Vec::new();
    for n in 1..=count {
        requests.push(old_request(world, n, method).await);
    }
    let ids = accepted(world, requests).await;
    let worker = world.worker();
    world.until_idle().await;
    worker.stop().await;
    happened_long_ago(world).await;
    ids
}

/// Everything that ended, ended ten days ago.
async fn happened_long_ago(world: &World) {
    world
        .run(
            "ALTER TABLE payments DISABLE TRIGGER payments_final_is_final;
             UPDATE payments SET final_at = final_at - interval '10 days' WHERE final_at > now() - interval '9 days';
             ALTER TABLE payments ENABLE TRIGGER payments_final_is_final;
             UPDATE idempotency_keys SET completed_at = completed_at - interval '10 days'
                WHERE completed_at > now() - interval '9 days';
             -- An event's id is of the moment at which it happened; the payment's is old, and as good.
             UPDATE deliveries d SET event_id = e.payment_id FROM events e WHERE e.id = d.event_id;
             UPDATE events SET id = payment_id, occurred_at = occurred_at - interval '10 days'
                WHERE occurred_at > now() - interval '9 days'",
        )
        .await;
}

async fn rows(world: &World) -> [i64; 6] {
    let mut counts = [0; 6];
    for (count, sql) in counts.iter_mut().zip(ALL) {
        *count = world.count(sql).await;
    }
    counts
}

/// A turn of the world's merchant at these rows, whoever else has it.
async fn turn(world: &World, what: What) -> Turn {
    let pool = &world.database.pool;
    retention::enrol(pool).await.expect("turns");
    let only = "UPDATE purges SET next_at = CASE WHEN what = $1 AND merchant_id = $2
                THEN now() - interval '1 s' ELSE now() + interval '1 day' END";
    sqlx::query(only).bind(what.as_str()).bind(world.merchant_id).execute(pool).await.expect("due");
    retention::take(pool, DAY).await.expect("an answer").expect("a turn")
}

/// Purges these rows until there are no more that are older than `age`; how many went.
async fn purged(world: &World, what: What, age: Duration) -> i64 {
    let mut count = 0;
    loop {
        let turn = turn(world, what).await;
        let batch = retention::purge(&world.database.pool, &turn, age).await.expect("a batch");
        retention::done(&world.database.pool, &turn, &batch, Duration::ZERO).await.expect("done");
        count += batch.purged;
        if !batch.is_full() {
            return count;
        }
    }
}

async fn purged_all(world: &World, age: Duration) -> Vec<i64> {
    let mut counts = Vec::new();
    for what in What::ALL {
        counts.push(purged(world, what, age).await);
    }
    counts
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_enough_goes_and_payments_stay() {
    let world = world().await;
    let ids = ended(&world, 3, "pm_ok").await;
    assert_eq!(rows(&world).await, [3, 3, 6, 3, 3, 3]);
    assert_eq!(purged_all(&world, 11 * DAY).await, [0; 6], "ten days are not eleven");
    assert_eq!(purged_all(&world, 7 * DAY).await, [3, 0, 3, 6, 3, 0]);
    assert_eq!(rows(&world).await, [0, 0, 0, 0, 0, 3]);
    for id in ids {
        assert_eq!(world.payment(id).await.status, Status::Paid);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_has_an_age_of_its_own_and_none_means_for_ever() {
    let mut world = world().await;
    ended(&world, 2, "pm_ok").await;
    let retention = &mut world.config.retention;
    (retention.every_ms, retention.rows_per_second) = (50, 1_000_000);
    (retention.provider_calls_h, retention.payment_history_h) = (24, 0);
    (retention.events_h, retention.acquirer_webhooks_h) = (11 * 24, 0);
    let worker = world.worker();
    let gone = || async { (rows(&world).await[..2] == [0, 0]).then_some(()) };
    eventually("keys and calls are gone", gone).await;
    assert_eq!(rows(&world).await, [0, 0, 4, 2, 2, 2], "history is kept for ever, events for another day");
    let text = worker.metrics.render(&world.database.pool).await;
    for line in ["{what=\"idempotency_keys\"} 2", "{what=\"provider_calls\"} 2"] {
        assert!(text.contains(&format!("payonce_purged_total{line}")), "{line}: {text}");
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_may_look_at_no_rows_deletes_none() {
    let mut world = world().await;
    ended(&world, 1, "pm_ok").await;
    world.config.retention.every_ms = 1;
    let worker = world.worker();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(world.count("SELECT count(*) FROM purges").await, 0);
    assert_eq!(rows(&world).await[0], 1);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_payment_that_is_not_final_goes_and_its_key_goes_when_it_has_ended() {
    let world = world().await;
    let request = old_request(&world, 1, "pm_processing_forever").await;
    let open = accepted(&world, vec![request]).await[0];
    let worker = world.worker();
    world.until(open, Status::Unknown).await;
    worker.stop().await;
    let before = rows(&world).await;
    assert_eq!(purged_all(&world, HOUR).await, [0; 6]);
    assert_eq!(purged_all(&world, HOUR).await, [0; 6], "nor the next time");
    assert_eq!(rows(&world).await, before);
    assert_eq!(world.count("SELECT count(*) FROM late_keys").await, 1, "put aside");

    // Ten days later it is paid, and that too is long ago.
    world.run("UPDATE payments SET lease_until = NULL; UPDATE jobs SET run_at = now(), claimed_by = NULL").await;
    let claim = crate::claimed(&world, Step::Lookup, 1, DAY).await.remove(0);
    settled(&world, &claim).await;
    assert_eq!(purged_all(&world, HOUR).await[..2], [0, 0], "not for long enough");
    happened_long_ago(&world).await;
    assert_eq!(purged_all(&world, HOUR).await[..2], [0, 1]);
    assert_eq!(rows(&world).await[..3], [0, 0, 0]);
    assert_eq!(world.count("SELECT count(*) FROM late_keys").await, 0);
}

async fn settled(world: &World, claim: &Claim) {
    let Process { committer, .. } = Process::start(&world.database.url);
    committer.write(crate::write(paid(claim))).await.expect("written");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_before_a_person_keeps_its_calls_and_history() {
    let world = world().await;
    ended(&world, 2, "pm_declined").await;
    world
        .run(
            "INSERT INTO reviews (merchant_id, payment_id, reason, detail)
             SELECT merchant_id, id, 'late_success', 'the acquirer reports txn_9 as approved'
             FROM payments WHERE payment_intent_id = 'order-1'",
        )
        .await;
    assert_eq!(purged_all(&world, DAY).await, [2, 0, 1, 2, 2, 0]);
    world
        .run("UPDATE reviews SET state = 'RESOLVED', resolution = 'resolved', resolved_by = 'ann', resolved_at = now()")
        .await;
    assert_eq!(purged_all(&world, DAY).await, [0, 0, 1, 2, 0, 0], "the next round finds what had to stay");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_some_sink_has_not_got_stays_with_all_its_deliveries() {
    let world = world().await;
    ended(&world, 3, "pm_ok").await;
    world
        .run(
            "INSERT INTO deliveries (merchant_id, event_id, sink, state)
             SELECT merchant_id, id, 'slow', CASE payment_intent_id WHEN 'order-1' THEN 'PENDING' ELSE 'DEAD' END
             FROM events WHERE payment_intent_id IN ('order-1', 'order-2')",
        )
        .await;
    assert_eq!(purged(&world, What::Events, DAY).await, 1);
    assert_eq!([world.count(EVENTS).await, world.count(DELIVERIES).await], [2, 4]);
    world.run("UPDATE deliveries SET state = 'DELIVERED', delivered_at = now()").await;
    assert_eq!(purged(&world, What::Events, DAY).await, 2);
    assert_eq!([world.count(EVENTS).await, world.count(DELIVERIES).await], [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_acquirers_told_us_goes_by_its_own_age() {
    let world = world().await;
    ended(&world, 1, "pm_ok").await;
    world
        .run(
            "INSERT INTO acquirer_webhooks (merchant_id, payment_id, acquirer, message_id, type, received_at)
             SELECT merchant_id, id, 'default', message, 'charge.approved', now() - age FROM payments
             CROSS JOIN (VALUES ('msg_1', interval '10 days'), ('msg_2', interval '1 hour')) AS m (message, age)",
        )
        .await;
    assert_eq!(purged(&world, What::AcquirerWebhooks, DAY).await, 1);
    assert_eq!(world.count("SELECT count(*) FROM acquirer_webhooks WHERE message_id = 'msg_2'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_is_append_only_again_after_the_purge() {
    let world = world().await;
    ended(&world, 1, "pm_ok").await;
    let mut conn = world.database.pool.acquire().await.expect("a connection");
    sqlx::query("SELECT set_config('payonce.retention', 'on', true)").execute(&mut *conn).await.expect("one statement");
    let delete = sqlx::query("DELETE FROM payment_history").execute(&mut *conn).await;
    assert!(delete.is_err_and(|error| error.to_string().contains("append-only")), "it ends with its statement");
}

async fn answer_to(world: &World, committer: &Committer, request: Accept) -> Accepted {
    accept(committer, &world.database.pool, request).await.expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_was_purged_makes_a_new_payment_and_never_repeats_the_old_answer() {
    let world = world().await;
    let refused = ended(&world, 1, "pm_declined").await[0];
    let Process { committer, .. } = Process::start(&world.database.url);
    let again = world.request(1, "pm_declined");
    let before = answer_to(&world, &committer, again.clone()).await;
    assert!(matches!(before, Accepted::Replay { payment_id, .. } if payment_id == refused), "{before:?}");
    assert_eq!(purged(&world, What::IdempotencyKeys, DAY).await, 1);
    let made = answer_to(&world, &committer, again.clone()).await;
    assert!(matches!(&made, Accepted::Created(payment) if payment.id == again.payment_id), "{made:?}");
    // The purge comes past the old payment once more: the key is another one's now.
    world.run("UPDATE purges SET cursor = '00000000-0000-0000-0000-000000000000'").await;
    assert_eq!(purged(&world, What::IdempotencyKeys, DAY).await, 0);
    let repeated = answer_to(&world, &committer, world.request(1, "pm_declined")).await;
    assert!(matches!(&repeated, Accepted::InProgress(payment) if payment.id == again.payment_id), "{repeated:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paid_intent_is_never_paid_again_though_its_key_was_purged() {
    let world = world().await;
    let paid = ended(&world, 1, "pm_ok").await[0];
    assert_eq!(purged_all(&world, DAY).await, [1, 0, 1, 2, 1, 0]);
    let Process { committer, .. } = Process::start(&world.database.url);
    let other_key = Accept { idempotency_key: "another".to_owned(), ..world.request(1, "pm_ok") };
    for request in [world.request(1, "pm_ok"), other_key] {
        let answer = answer_to(&world, &committer, request).await;
        assert!(matches!(&answer, Accepted::IntentPaid(payment) if payment.id == paid), "{answer:?}");
    }
    assert_eq!(world.count(KEYS).await, 0, "a refused request keeps no key");
}

/// Takes turns until there are none.
async fn take_turns(pool: PgPool) -> [i64; 2] {
    let (mut taken, mut gone) = (0, 0);
    while let Some(turn) = retention::take(&pool, DAY).await.expect("an answer") {
        let batch = retention::purge(&pool, &turn, DAY).await.expect("a batch");
        retention::done(&pool, &turn, &batch, DAY).await.expect("done");
        (taken, gone) = (taken + 1, gone + batch.purged);
    }
    [taken, gone]
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_turns_and_each_row_goes_once() {
    let world = world().await;
    ended(&world, 200, "pm_ok").await;
    retention::enrol(&world.database.pool).await.expect("turns");
    let pool = || shared::db::pool(&world.database.url, 2, "tests").expect("a URL");
    let (one, other) = tokio::join!(tokio::spawn(take_turns(pool())), tokio::spawn(take_turns(pool())));
    let [one, other] = [one, other].map(|ended| ended.expect("no panic"));
    assert_eq!([one[0] + other[0], one[1] + other[1]], [6, 200 + 200 + 400 + 200]);
    assert_eq!(rows(&world).await, [0, 0, 0, 0, 0, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_batch_at_once_harms_nothing_and_counts_once() {
    let world = world().await;
    ended(&world, 200, "pm_ok").await;
    for what in What::ALL {
        let turn = turn(&world, what).await;
        let (pool, twice) = (&world.database.pool, &turn);
        // A lease that lapsed while its owner was still at it.
        let (one, other) = tokio::join!(retention::purge(pool, twice, DAY), retention::purge(pool, twice, DAY));
        let [one, other] = [one, other].map(|batch| batch.expect("a batch"));
        let expected = match what {
            What::PaymentHistory => 400,
            What::LateKeys | What::AcquirerWebhooks => 0,
            _ => 200,
        };
        assert_eq!(one.purged + other.purged, expected, "{what:?}");
        for batch in [one, other] {
            retention::done(pool, &turn, &batch, DAY).await.expect("done");
        }
    }
    assert_eq!(rows(&world).await, [0, 0, 0, 0, 0, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_takes_so_many_rows_and_no_payment_is_left_with_half_its_history() {
    let world = world().await;
    ended(&world, 1, "pm_ok").await;
    // As if there were many: 4,000 payments like this one, with three lines each.
    world
        .run(
            "INSERT INTO payments (merchant_id, id, payment_intent_id, idempotency_key, status, amount_minor, currency,
                                   payment_method_id, acquirer, transaction_id, attempt, created_at, final_at)
             SELECT merchant_id, (substr(id::text, 1, 24) || lpad(n::text, 12, '0'))::uuid, 'many-' || n, 'many-' || n,
                    status, amount_minor, currency, payment_method_id, acquirer, transaction_id, attempt, created_at, final_at
             FROM payments CROSS JOIN generate_series(1, 4000) AS n;
             INSERT INTO payment_history (merchant_id, payment_id, version, to_status, attempt, actor, reason)
             SELECT merchant_id, id, v, status, attempt, 'client', 'accepted'
             FROM payments CROSS JOIN generate_series(1, 3) AS v WHERE payment_intent_id LIKE 'many-%'",
        )
        .await;
    let turn = turn(&world, What::PaymentHistory).await;
    let batch = retention::purge(&world.database.pool, &turn, DAY).await.expect("a batch");
    assert!(batch.is_full() && (10_000..10_003).contains(&batch.purged), "{batch:?}");
    let halves = "SELECT count(*) FROM (SELECT FROM payment_history WHERE payment_id IN
                  (SELECT id FROM payments WHERE payment_intent_id LIKE 'many-%') GROUP BY payment_id HAVING count(*) < 3) AS h";
    assert_eq!(world.count(halves).await, 0);
    retention::done(&world.database.pool, &turn, &batch, DAY).await.expect("done");
    let due = "SELECT count(*) FROM purges WHERE what = 'payment_history' AND next_at <= now()";
    assert_eq!(world.count(due).await, 1, "there may be more, so the next batch is due");
    assert_eq!(batch.purged + purged(&world, What::PaymentHistory, DAY).await, 12_002);
}

/// Keeps whoever deletes the last of these rows in the middle of it.
async fn held(world: &World, sql: &'static str) -> Transaction<'static, Postgres> {
    let mut held = world.database.pool.begin().await.expect("a transaction");
    sqlx::query(sql).execute(&mut *held).await.expect("a lock");
    held
}

/// The connection that waits for a lock.
async fn waiting(world: &World) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let pid = || async { sqlx::query_scalar(sql).fetch_optional(&world.database.pool).await.expect("an answer") };
    eventually("somebody waits for a lock", pid).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_that_is_killed_in_the_middle_leaves_no_half_and_is_made_up_for() {
    let world = world().await;
    ended(&world, 20, "pm_ok").await;
    let before = rows(&world).await;
    let last = [
        (What::IdempotencyKeys, "SELECT FROM idempotency_keys ORDER BY payment_id DESC LIMIT 1 FOR UPDATE"),
        (What::ProviderCalls, "SELECT FROM provider_calls ORDER BY payment_id DESC LIMIT 1 FOR UPDATE"),
        (What::PaymentHistory, "SELECT FROM payment_history ORDER BY payment_id DESC LIMIT 1 FOR UPDATE"),
        (What::Events, "SELECT FROM events ORDER BY id DESC LIMIT 1 FOR UPDATE"),
    ];
    for (what, lock) in last {
        let held = held(&world, lock).await;
        let (pool, turn) = (world.database.pool.clone(), turn(&world, what).await);
        let purging = tokio::spawn(async move { retention::purge(&pool, &turn, DAY).await });
        let kill = sqlx::query("SELECT pg_terminate_backend($1)").bind(waiting(&world).await);
        kill.execute(&world.database.pool).await.expect("it dies");
        assert!(purging.await.expect("no panic").is_err(), "{what:?}");
        held.rollback().await.expect("let go");
        assert_eq!(rows(&world).await, before, "{what:?}: all of it or nothing");
    }
    assert_eq!(purged_all(&world, DAY).await, [20, 0, 20, 40, 20, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_with_the_key_that_is_being_purged_hears_the_old_answer_or_makes_a_new_payment() {
    let world = world().await;
    let refused = ended(&world, 2, "pm_declined").await;
    let Process { committer, .. } = Process::start(&world.database.url);
    // The purge has deleted the key of the older payment, and stands still at the other one.
    let older = usize::from(refused[1] < refused[0]);
    let held = held(&world, "SELECT FROM idempotency_keys ORDER BY payment_id DESC LIMIT 1 FOR UPDATE").await;
    let (pool, turn) = (world.database.pool.clone(), turn(&world, What::IdempotencyKeys).await);
    let purging = tokio::spawn(async move { retention::purge(&pool, &turn, DAY).await });
    waiting(&world).await;
    let before = answer_to(&world, &committer, world.request(older + 1, "pm_declined")).await;
    assert!(matches!(before, Accepted::Replay { payment_id, .. } if payment_id == refused[older]), "{before:?}");
    held.rollback().await.expect("let go");
    assert_eq!(purging.await.expect("no panic").expect("a batch").purged, 2);
    let after = answer_to(&world, &committer, world.request(older + 1, "pm_declined")).await;
    assert!(matches!(after, Accepted::Created(_)), "{after:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn posts_that_race_a_purge_never_make_two_live_payments_or_a_key_without_one() {
    let world = world().await;
    let refused = ended(&world, 40, "pm_declined").await;
    let Process { committer, pool, .. } = Process::start(&world.database.url);
    let turn = turn(&world, What::IdempotencyKeys).await;
    let mut posting = JoinSet::new();
    for n in 1..=40 {
        for _ in 0..3 {
            let (committer, pool, request) = (committer.clone(), pool.clone(), world.request(n, "pm_declined"));
            posting.spawn(async move { (n, accept(&committer, &pool, request).await.expect("an answer")) });
        }
    }
    let batch = retention::purge(&world.database.pool, &turn, DAY).await.expect("a batch");
    assert_eq!(batch.purged, 40, "a repeat changes no key");
    for (_, answer) in posting.join_all().await {
        match answer {
            Accepted::Replay { payment_id, .. } => assert!(refused.contains(&payment_id)),
            Accepted::Created(payment) | Accepted::InProgress(payment) => assert!(!refused.contains(&payment.id)),
            other => panic!("{other:?}"),
        }
    }
    let keys_of_open = "SELECT count(*) FROM idempotency_keys k JOIN payments p ON p.id = k.payment_id
                        WHERE p.status = 'PENDING' AND k.state = 'IN_PROGRESS'";
    let open = world.count("SELECT count(*) FROM payments WHERE status = 'PENDING'").await;
    assert_eq!([world.count(KEYS).await, world.count(keys_of_open).await], [open, open]);
}
