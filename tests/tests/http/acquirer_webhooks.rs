//! `POST /v1/acquirers/{name}/webhooks`: what an acquirer tells us makes us ask, and nothing else.

use crate::{assert_problem, ended, in_doubt, order};
use hmac::{Hmac, KeyInit, Mac};
use sandbox::acquirer::Settings;
use serde_json::{Value, json};
use sha2::Sha256;
use shared::acquirer::provider_key;
use shared::committer::Write;
use shared::config::{Kind, Secret};
use shared::payment::life::Status;
use shared::review::{self, Contradiction, Reason};
use tests::world::Process;
use tests::{Answer, Api, World, eventually};
use uuid::Uuid;

const SECRET: &str = "whsec_of_the_acquirer";
const PATH: &str = "/v1/acquirers/default/webhooks";

/// A world in which the next look-up is an hour away, unless somebody makes it due.
async fn world() -> (World, Api) {
    let mut world = World::with(Settings::default()).await;
    world.config.worker.grace_ms = 3_600_000;
    world.config.acquirers.get_mut("default").expect("there").webhook_secret = Some(Secret(SECRET.to_owned()));
    let api = world.api().await;
    (world, api)
}

/// What an acquirer puts into its header.
fn sign(secret: &str, at: i64, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("any length");
    mac.update(&[format!("{at}.").as_bytes(), body].concat());
    let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("t={at},v1={hex}")
}

fn message(id: &str, payment_id: Uuid, status: &str, transaction_id: &str) -> Value {
    let charge = json!({"transaction_id": transaction_id, "status": status, "reference": provider_key(payment_id),
        "amount_minor": 1999, "currency": "EUR"});
    json!({"id": id, "type": format!("charge.{status}"), "charge": charge})
}

async fn tell_signed(api: &Api, body: &str, signature: &str) -> Answer {
    let request = api.client.http.post(format!("{}{PATH}", api.base_url)).header("Content-Type", "application/json");
    let request = request.header("Acquirer-Signature", signature).body(body.to_owned());
    Answer::of(request.send().await.expect("an answer")).await
}

async fn tell(world: &World, api: &Api, message: &Value) {
    let body = message.to_string();
    let now = shared::db::now(&world.database.pool).await.expect("the time").unix_timestamp();
    let answer = tell_signed(api, &body, &sign(SECRET, now, body.as_bytes())).await;
    assert_eq!((answer.status, answer.text.as_str()), (202, ""), "{:?}", answer.headers);
}

async fn results(world: &World, api: &Api, result: &str) -> bool {
    let line = format!("payonce_acquirer_webhooks_total{{acquirer=\"default\",result=\"{result}\"}} 1");
    api.metrics.render(&world.database.pool).await.contains(&line)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_doubt_is_asked_about_at_once_and_the_message_itself_decides_nothing() {
    let (world, api) = world().await;
    let accepted = in_doubt(&world, &api.client, 1, "pm_500_after_charge").await;
    let payment_id = accepted.payment_id();
    // What it says is wrong; the acquirer's books are what counts.
    tell(&world, &api, &message("evt_1", payment_id, "declined", "txn_of_nobody")).await;
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert!(results(&world, &api, "asked").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_again_changes_nothing() {
    let (world, api) = world().await;
    let payment_id = in_doubt(&world, &api.client, 1, "pm_processing_forever").await.payment_id();
    let hour_away = "SELECT count(*) FROM jobs WHERE step = 'lookup' AND run_at > now() + interval '1 minute'";
    assert_eq!(world.count(hour_away).await, 1);
    let message = message("evt_1", payment_id, "processing", "txn_1");
    tell(&world, &api, &message).await;
    assert_eq!(world.count(hour_away).await, 0);
    world.run("UPDATE jobs SET run_at = now() + interval '1 hour'").await;
    tell(&world, &api, &message).await;
    assert_eq!(world.count(hour_away).await, 1, "somebody replays it");
    assert_eq!(world.count("SELECT count(*) FROM acquirer_webhooks").await, 1);
    assert!(results(&world, &api, "repeated").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_a_person_has_is_asked_about_too() {
    let (world, api) = world().await;
    let payment_id = in_doubt(&world, &api.client, 1, "pm_500_after_charge").await.payment_id();
    world.run("DELETE FROM jobs; UPDATE payments SET in_review = true").await;
    tell(&world, &api, &message("evt_1", payment_id, "approved", "txn_1")).await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contradiction_to_a_final_payment_goes_before_a_person_and_changes_no_state() {
    let (world, api) = world().await;
    let worker = world.worker();
    let declined = ended(&api.client, 1, "pm_declined", Status::Declined).await.payment_id();
    let paid = ended(&api.client, 2, "pm_ok", Status::Paid).await.payment_id();
    worker.stop().await;
    let transaction_id = world.payment(paid).await.transaction_id.expect("a transaction");
    tell(&world, &api, &message("evt_1", declined, "approved", "txn_late")).await;
    tell(&world, &api, &message("evt_2", paid, "approved", "txn_another")).await;
    tell(&world, &api, &message("evt_3", paid, "approved", &transaction_id)).await;
    tell(&world, &api, &message("evt_4", paid, "declined", &transaction_id)).await;
    let open = async |payment_id| {
        let open = review::open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
        open.into_iter().map(|review| (review.reason, review.detail)).collect::<Vec<_>>()
    };
    let late = open(declined).await;
    assert!(late.len() == 1 && late[0].0 == Reason::LateSuccess && late[0].1.contains("txn_late"), "{late:?}");
    let twice = open(paid).await;
    assert!(twice.len() == 1 && twice[0].0 == Reason::DuplicateAtProvider, "{twice:?}");
    assert!(twice[0].1.contains(&transaction_id) && twice[0].1.contains("txn_another"), "{twice:?}");
    assert_eq!(world.payment(declined).await.status, Status::Declined);
    assert_eq!(world.payment(paid).await.transaction_id, Some(transaction_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_taker_died_in_the_middle_is_taken_whole_by_its_repeat() {
    let (world, api) = world().await;
    let worker = world.worker();
    let declined = ended(&api.client, 1, "pm_declined", Status::Declined).await.payment_id();
    worker.stop().await;
    // The contradiction was shown; that the message came was not written down any more.
    let (reason, detail) = (Reason::LateSuccess, "reported as approved".to_owned());
    let shown = Write::Contradiction(Contradiction { of: world.key(declined), reason, detail });
    Process::start(&world.database.url).committer.write(shown).await.expect("shown");
    tell(&world, &api, &message("evt_1", declined, "approved", "txn_late")).await;
    assert_eq!(world.count("SELECT count(*) FROM acquirer_webhooks").await, 1);
    assert_eq!(world.count("SELECT count(*) FROM reviews").await, 1, "one person is told, once");
    assert!(results(&world, &api, "contradicted").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_names_no_payment_of_ours_is_taken_and_nothing_is_revealed() {
    let (world, api) = world().await;
    let somebodys = message("evt_1", Uuid::now_v7(), "approved", "txn_1");
    let mut foreign = somebodys.clone();
    foreign["charge"]["reference"] = "order-of-another-shop".into();
    tell(&world, &api, &somebodys).await;
    tell(&world, &api, &foreign).await;
    tell(&world, &api, &json!({"id": "evt_2", "type": "payout.paid"})).await;
    assert_eq!(world.count("SELECT count(*) FROM acquirer_webhooks").await, 0);
    let line = "payonce_acquirer_webhooks_total{acquirer=\"default\",result=\"unknown_payment\"} 3";
    assert!(api.metrics.render(&world.database.pool).await.contains(line));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_of_another_acquirer_is_not_theirs_to_speak_of() {
    let (world, api) = world().await;
    let payment_id = in_doubt(&world, &api.client, 1, "pm_500_after_charge").await.payment_id();
    world.run("UPDATE payments SET acquirer = 'another'").await;
    tell(&world, &api, &message("evt_1", payment_id, "approved", "txn_1")).await;
    assert_eq!(world.count("SELECT count(*) FROM acquirer_webhooks").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_a_signature_that_holds_is_401_and_is_not_read() {
    let (world, api) = world().await;
    let payment_id = in_doubt(&world, &api.client, 1, "pm_500_after_charge").await.payment_id();
    let body = message("evt_1", payment_id, "approved", "txn_1").to_string();
    let now = shared::db::now(&world.database.pool).await.expect("the time").unix_timestamp();
    let good = sign(SECRET, now, body.as_bytes());
    let forged = sign("another secret", now, body.as_bytes());
    let (old, early) = (sign(SECRET, now - 301, body.as_bytes()), sign(SECRET, now + 360, body.as_bytes()));
    for signature in ["", "nonsense", &forged, &old, &early] {
        assert_problem(&tell_signed(&api, &body, signature).await, 401, "webhook_signature_invalid");
    }
    assert_problem(
        &tell_signed(&api, &body.replace("approved", "declined"), &good).await,
        401,
        "webhook_signature_invalid",
    );
    assert_eq!(world.count("SELECT count(*) FROM acquirer_webhooks").await, 0);
    assert_eq!(tell_signed(&api, &body, &good).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_message_is_told_so() {
    let (world, api) = world().await;
    let now = shared::db::now(&world.database.pool).await.expect("the time").unix_timestamp();
    for body in ["", "[]", "{}", "{\"id\":1}"] {
        let answer = tell_signed(&api, body, &sign(SECRET, now, body.as_bytes())).await;
        assert_problem(&answer, 400, "invalid_request");
    }
    let long = " ".repeat(64 * 1024 + 1);
    assert_problem(&tell_signed(&api, &long, &sign(SECRET, now, long.as_bytes())).await, 413, "payload_too_large");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_is_unknown_or_has_no_secret_has_no_such_path() {
    let (mut world, _api) = world().await;
    world.config.acquirers.get_mut("default").expect("there").webhook_secret = None;
    let api = world.api().await;
    for path in [PATH, "/v1/acquirers/nobody/webhooks"] {
        let request = api.client.http.post(format!("{}{path}", api.base_url)).json(&order(1, "pm_ok"));
        assert_problem(&Answer::of(request.send().await.expect("an answer")).await, 404, "not_found");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_simulated_acquirer_s_own_messages_are_believed() {
    let (world, api) = world().await;
    let settings = Settings {
        webhook_url: Some(format!("{}{PATH}", api.base_url)),
        webhook_secret: Some(SECRET.into()),
        ..Settings::default()
    };
    world.acquirer.set_settings(settings).expect("settings");
    let payment_id = in_doubt(&world, &api.client, 1, "pm_500_after_charge").await.payment_id();
    let told = "SELECT count(*) FROM acquirer_webhooks WHERE type = 'charge.approved' AND outcome = 'SUCCESS'";
    eventually("it told us", || async { (world.count(told).await == 1).then_some(()) }).await;
    // It may have told us before we were in doubt; then it makes nobody ask.
    world.run("UPDATE jobs SET run_at = now()").await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stripe_s_messages_bear_a_header_of_their_own() {
    let (mut world, _api) = world().await;
    world.config.acquirers.get_mut("default").expect("there").kind = Kind::Stripe;
    let api = world.api().await;
    let payment_id = in_doubt_by_hand(&world).await;
    let object = json!({"object": "payment_intent", "id": "pi_1", "status": "succeeded",
        "metadata": {"payonce_payment_id": provider_key(payment_id)}});
    let body = json!({"id": "evt_1", "type": "payment_intent.succeeded", "data": {"object": object}}).to_string();
    let now = shared::db::now(&world.database.pool).await.expect("the time").unix_timestamp();
    let signature = sign(SECRET, now, body.as_bytes());
    assert_problem(&tell_signed(&api, &body, &signature).await, 401, "webhook_signature_invalid");
    let request = api.client.http.post(format!("{}{PATH}", api.base_url)).header("Content-Type", "application/json");
    let answer = request.header("Stripe-Signature", signature).body(body).send().await.expect("an answer");
    assert_eq!(answer.status(), 202);
    assert!(results(&world, &api, "asked").await);
}

/// A payment in doubt that no worker brought there.
async fn in_doubt_by_hand(world: &World) -> Uuid {
    let payment_id = world.accepted_one("pm_ok").await;
    world
        .run(
            "UPDATE payments SET status = 'UNKNOWN', attempt = 1, unknown_at = now(), first_call_at = now();
             UPDATE jobs SET step = 'lookup', run_at = now() + interval '1 hour'",
        )
        .await;
    payment_id
}
