//! `payonce review` and `payonce deadletter`.

use crate::program::{command, ran};
use serde_json::Value;
use shared::operator::{self, Password, Role};
use shared::payment::life::Status;
use tests::World;
use tests::client::body;
use tests::program::Ended;
use uuid::Uuid;

/// A new operator's token.
async fn token(world: &World, name: &str, role: Role) -> String {
    let (pool, password) = (&world.database.pool, Password::new("correct horse battery").expect("a password"));
    operator::create(pool, name, role, &password).await.expect("an operator");
    let (_, _, token) = operator::draw_token(pool, name, 1).await.expect("a token");
    token.reveal().to_owned()
}

async fn run(world: &World, token: &str, args: &[&str]) -> Ended {
    let mut command = command(world, args);
    command.env("PAYONCE_OPERATOR_TOKEN", token);
    command.env("PAYONCE_REVIEW__FOUR_EYES_DEFAULT_MINOR", "100");
    ran(command).await
}

async fn done(world: &World, token: &str, args: &[&str]) -> String {
    let ended = run(world, token, args).await;
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    ended.stdout
}

async fn json(world: &World, args: &[&str]) -> Value {
    let text = done(world, "", &[args, &["--json"]].concat()).await;
    serde_json::from_str(&text).expect("JSON")
}

#[track_caller]
fn assert_refused(ended: &Ended, code: i32, words: &str) {
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
}

/// `count` payments in doubt, each in review, whose next look-up is far away.
async fn in_review(world: &World, count: usize) -> Vec<Uuid> {
    let api = world.api().await;
    let mut payments = Vec::new();
    for n in 0..count {
        let answer = api.client.post(&format!("key-{n}"), &body(&format!("order-{n}"), "pm_processing_forever")).await;
        payments.push(answer.payment_id());
    }
    let worker = world.worker();
    for id in &payments {
        world.until(*id, Status::Unknown).await;
    }
    worker.stop().await;
    world.run("UPDATE jobs SET run_at = now() + interval '1 h', deliveries = 3").await;
    world
        .run(
            "WITH opened AS (
                 INSERT INTO reviews (merchant_id, payment_id, reason, detail)
                 SELECT merchant_id, id, 'stuck_processing', 'the acquirer is still processing it' FROM payments
                 RETURNING payment_id)
             UPDATE payments SET in_review = true WHERE id IN (SELECT payment_id FROM opened)",
        )
        .await;
    payments
}

async fn due(world: &World) -> i64 {
    world.count("SELECT count(*) FROM jobs WHERE step = 'lookup' AND run_at <= now() AND deliveries = 0").await
}

#[tokio::test(flavor = "multi_thread")]
async fn open_reviews_are_listed_by_what_was_asked_for() {
    let world = World::new().await;
    in_review(&world, 2).await;
    let all = json(&world, &["review", "list"]).await;
    assert_eq!((all["count"].as_i64(), &all["data"][0]["reason"]), (Some(2), &"stuck_processing".into()));
    for (filter, count) in [
        (["--merchant", "demo"], 2),
        (["--acquirer", "default"], 2),
        (["--reason", "stuck_processing"], 2),
        (["--reason", "conflicted"], 0),
        (["--acquirer", "bank"], 0),
        (["--older-than", "1h"], 0),
        (["--assigned-to", "ada"], 0),
    ] {
        let found = json(&world, &[&["review", "list"][..], &filter].concat()).await;
        assert_eq!(found["count"].as_i64(), Some(count), "{filter:?}");
    }
    let table = done(&world, "", &["review", "list", "--limit", "1"]).await;
    assert!(table.contains("MINOR UNITS") && table.contains("1 of 2; --limit shows more"), "{table}");
    let none = done(&world, "", &["deadletter", "list"]).await;
    assert!(none.contains("No review is open"), "{none}");
    assert_refused(&run(&world, "", &["review", "list", "--merchant", "nobody"]).await, 1, "nobody");
    assert_refused(&run(&world, "", &["review", "list", "--reason", "bad"]).await, 2, "stuck_processing");
    assert_refused(&run(&world, "", &["review", "list", "--older-than", "soon"]).await, 2, "15m");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_review_is_shown_with_what_can_be_done_now_and_nothing_else() {
    let world = World::new().await;
    let payment_id = in_review(&world, 1).await[0].to_string();
    let text = done(&world, "", &["review", "show", &payment_id]).await;
    for part in ["stuck_processing", "order-0", "CAN BE DONE NOW", "Charges nothing", "accepted"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let shown = json(&world, &["review", "show", &payment_id]).await;
    let words = |of: &Value| of["action"].as_str().expect("a word").to_owned();
    let actions: Vec<_> = shown["actions"].as_array().expect("actions").iter().map(words).collect();
    assert!(actions.contains(&"ask".to_owned()) && actions.contains(&"propose".to_owned()), "{actions:?}");
    assert!(!["approve", "redeliver", "resolve"].iter().any(|no| actions.iter().any(|word| word == no)), "{actions:?}");
    let review = shown["review"]["id"].as_str().expect("an id");
    assert!(done(&world, "", &["review", "show", review]).await.contains("order-0"));
    for id in ["nonsense", "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001"] {
        assert_refused(&run(&world, "", &["review", "show", id]).await, 4, "payonce review list");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deed_takes_an_operator_and_a_reason_and_a_repeat_is_a_replay() {
    let world = World::new().await;
    let payment_id = in_review(&world, 1).await[0].to_string();
    let ask = ["review", "ask", &payment_id, "--why", "the shopper called"];
    assert_refused(&run(&world, "", &ask).await, 5, "PAYONCE_OPERATOR_TOKEN");
    assert_refused(&run(&world, "payonce_op_nobody", &ask).await, 5, "payonce operator token");
    let viewer = token(&world, "vera", Role::Viewer).await;
    assert_refused(&run(&world, &viewer, &ask).await, 5, "takes the role operator");
    let ada = token(&world, "ada", Role::Operator).await;
    assert_refused(&run(&world, &ada, &["review", "ask", &payment_id, "--why", " "]).await, 2, "a reason is missing");
    assert_eq!(due(&world).await, 0);
    assert!(done(&world, &ada, &ask).await.contains("asks the acquirer now"));
    assert_eq!(due(&world).await, 1);
    assert!(done(&world, &ada, &ask).await.contains("done before"));
    let bob = token(&world, "bob", Role::Operator).await;
    assert_refused(&run(&world, &bob, &ask).await, 3, "being asked already");
    assert!(done(&world, &ada, &["review", "assign", &payment_id, "--to", "bob"]).await.contains("bob looks after it"));
    assert_refused(&run(&world, &ada, &["review", "assign", &payment_id, "--to", "eve"]).await, 3, "no operator named");
    done(&world, &ada, &["review", "comment", &payment_id, "called them"]).await;
    let close = ["review", "resolve", &payment_id, "--why", "enough"];
    assert_refused(&run(&world, &ada, &close).await, 3, "the payment is UNKNOWN");
    operator::disable(&world.database.pool, "ada").await.expect("disabled");
    assert_refused(&run(&world, &ada, &ask).await, 5, "disabled");
    assert_eq!(world.count("SELECT count(*) FROM audit").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn above_the_amount_another_approver_has_to_say_so_too() {
    let world = World::new().await;
    let payment_id = in_review(&world, 1).await[0];
    let id = payment_id.to_string();
    let ada = token(&world, "ada", Role::Approver).await;
    let bob = token(&world, "bob", Role::Approver).await;
    let failed = ["review", "resolve", &id, "--why", "never booked", "--as", "failed"];
    assert_refused(&run(&world, &ada, &failed).await, 2, "a code for the merchant is missing");
    let failed = [&failed[..], &["--code", "never_booked", "--evidence", "their mail, case 7"]].concat();
    let stale = run(&world, &ada, &[&failed[..], &["--version", "1"]].concat()).await;
    assert_refused(&stale, 3, "the payment changed meanwhile");
    assert!(done(&world, &ada, &failed).await.contains("waits for another person"));
    assert!(done(&world, &ada, &failed).await.contains("waits for another person"), "a repeat says the same");
    let approve = ["review", "approve", &id, "--why", "seen their mail"];
    assert_refused(&run(&world, &ada, &approve).await, 3, "another person");
    assert!(done(&world, &bob, &approve).await.contains("is approved"));
    let reject = ["review", "reject", &id, "--why", "no"];
    assert_refused(&run(&world, &ada, &reject).await, 3, "already");
    assert_eq!(world.count("SELECT count(*) FROM decisions WHERE state = 'APPROVED'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_asked_about_only_after_their_number_was_seen() {
    let world = World::new().await;
    in_review(&world, 3).await;
    let ada = token(&world, "ada", Role::Operator).await;
    let many = ["review", "ask", "--all", "--merchant", "demo"];
    let why = ["--why", "they are back"];
    let asked = run(&world, &ada, &[&many[..], &why].concat()).await;
    assert_refused(&asked, 2, "3 open reviews match");
    assert!(done(&world, &ada, &[&many[..], &["--dry-run"]].concat()).await.contains("3 of 3"));
    assert_eq!(due(&world).await, 0);
    let yes = [&many[..], &why, &["--yes"]].concat();
    assert!(done(&world, &ada, &yes).await.contains("3 done, 0 done before, 0 refused"));
    assert_eq!(due(&world).await, 3);
    assert!(done(&world, &ada, &yes).await.contains("0 done, 3 done before, 0 refused"));
    let wrong = ["review", "ask", "--all", "--reason", "delivery_exhausted", "--dry-run"];
    assert_refused(&run(&world, &ada, &wrong).await, 2, "never done about delivery_exhausted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_taken_up_again_on_its_own_route() {
    let world = World::new().await;
    let api = world.api().await;
    let worker = world.worker();
    api.client.pay("key-1", &body("order-1", "pm_ok")).await;
    world.until_idle().await;
    worker.stop().await;
    world
        .run(
            "WITH dead AS (
                 UPDATE deliveries SET state = 'DEAD', delivered_at = NULL RETURNING merchant_id, event_id, sink)
             INSERT INTO reviews (merchant_id, payment_id, event_id, sink, reason, detail)
             SELECT e.merchant_id, e.payment_id, e.id, d.sink, 'delivery_exhausted', 'refused'
             FROM dead d JOIN events e ON e.merchant_id = d.merchant_id AND e.id = d.event_id",
        )
        .await;
    let ada = token(&world, "ada", Role::Operator).await;
    let letters = json(&world, &["deadletter", "list"]).await;
    assert_eq!((letters["count"].as_i64(), &letters["data"][0]["sink"]), (Some(1), &"log".into()));
    let id = letters["data"][0]["id"].as_str().expect("an id");
    let replay = ["deadletter", "replay", id, "--why", "they are back"];
    assert!(done(&world, &ada, &replay).await.contains("fresh budget"));
    assert!(done(&world, &ada, &replay).await.contains("done before"));
    assert_eq!(world.count("SELECT count(*) FROM jobs WHERE step = 'publish' AND route = 'log'").await, 1);
    let worker = world.worker();
    world.until_idle().await;
    worker.stop().await;
    assert_eq!(world.count("SELECT count(*) FROM deliveries WHERE state = 'DELIVERED'").await, 1);
}
