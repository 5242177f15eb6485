//! What the first request with a key hears.

use crate::{ENDS, ended, order, path_of, post_bytes, world};
use serde_json::{Value, json};
use shared::payment::life::Status;
use tests::Answer;

/// The members of a payment, all of them, in alphabetical order.
const MEMBERS: [&str; 17] = [
    "acquirer",
    "amount_minor",
    "created_at",
    "currency",
    "decline",
    "failure",
    "final_at",
    "id",
    "in_review",
    "metadata",
    "object",
    "payment_intent_id",
    "payment_method_id",
    "status",
    "transaction_id",
    "updated_at",
    "version",
];

/// The names of the members, in alphabetical order.
fn members(payment: &Value) -> Vec<&str> {
    let mut names: Vec<_> = payment.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

fn time(answer: &Answer, member: &str) -> time::OffsetDateTime {
    let text = answer.json[member].as_str().unwrap_or_else(|| panic!("no {member}: {}", answer.text));
    assert!(text.ends_with('Z'), "UTC: {text}");
    time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).expect("RFC 3339")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_payment_is_202_and_says_where_to_follow_it() {
    let (world, api) = world().await;
    let accepted = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    assert_eq!(accepted.header("Location"), path_of(accepted.payment_id()));
    assert_eq!(accepted.header("Retry-After"), "1");
    assert_eq!(accepted.header("Content-Type"), "application/json");
    assert_eq!((accepted.header("Idempotent-Replayed"), accepted.header("Preference-Applied")), ("", ""));
    let expected = json!({
        "id": accepted.payment_id(), "object": "payment", "payment_intent_id": "order-1", "status": "PENDING",
        "amount_minor": 1999, "currency": "EUR", "payment_method_id": "pm_ok", "acquirer": "default",
        "transaction_id": null, "decline": null, "failure": null, "in_review": false, "metadata": {}, "version": 1,
        "created_at": accepted.json["created_at"], "updated_at": accepted.json["created_at"], "final_at": null,
    });
    assert_eq!(accepted.json, expected);
    assert_eq!(accepted.payment_id().get_version_num(), 7);
    assert_eq!(time(&accepted, "created_at"), world.payment(accepted.payment_id()).await.created_at);
    assert_eq!(api.client.get(accepted.header("Location")).await.text, accepted.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_that_ends_within_the_wait_is_201_whatever_its_end() {
    let (world, api) = world().await;
    let _worker = world.worker();
    for (n, (method, end)) in ENDS.into_iter().enumerate() {
        let answer = ended(&api.client, n, method, end).await;
        assert_eq!(answer.header("Preference-Applied"), "wait=8");
        assert_eq!(answer.header("Location"), path_of(answer.payment_id()));
        assert_eq!((answer.header("Idempotent-Replayed"), answer.header("Retry-After")), ("", ""), "{end}");
        assert_eq!(members(&answer.json), MEMBERS);
        assert_eq!(answer.json["version"], 2);
        assert!(time(&answer, "final_at") >= time(&answer, "created_at"));
        assert_eq!(answer.json["updated_at"], answer.json["final_at"]);
        assert_eq!(api.client.get(&path_of(answer.payment_id())).await.text, answer.text, "GET says the same");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_has_its_own_members() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let paid = ended(&api.client, 1, "pm_ok", Status::Paid).await.json;
    assert!(paid["transaction_id"].as_str().is_some_and(|id| id.starts_with("txn_")), "{paid}");
    assert_eq!([&paid["decline"], &paid["failure"]], [&Value::Null, &Value::Null]);
    let declined = ended(&api.client, 2, "pm_declined", Status::Declined).await.json;
    assert_eq!(declined["decline"]["code"], "insufficient_funds", "{declined}");
    assert_eq!((members(&declined["decline"]), &declined["failure"]), (vec!["code", "message"], &Value::Null));
    let failed = ended(&api.client, 3, "pm_rejected", Status::Failed).await.json;
    assert!(failed["failure"]["code"].is_string(), "{failed}");
    assert_eq!((members(&failed["failure"]), &failed["decline"]), (vec!["code", "message"], &Value::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_in_vain_is_202_with_the_payment_as_it_is_then() {
    let (world, api) = world().await;
    let pending = api.client.try_post("key-1", &order(1, "pm_ok"), Some("wait=1")).await.expect("an answer");
    assert_eq!((pending.status, &pending.json["status"]), (202, &json!("PENDING")), "{}", pending.text);
    assert_eq!((pending.header("Preference-Applied"), pending.header("Retry-After")), ("wait=1", "1"));
    assert_eq!(pending.header("Idempotent-Replayed"), "");
    let _worker = world.worker();
    // The worker is up and busy with nothing else.
    ended(&api.client, 2, "pm_ok", Status::Paid).await;
    let processing = order(3, "pm_processing_forever");
    let unknown = api.client.try_post("key-3", &processing, Some("wait=2")).await.expect("an answer");
    assert_eq!((unknown.status, &unknown.json["status"]), (202, &json!("UNKNOWN")), "{}", unknown.text);
    assert_eq!((unknown.header("Preference-Applied"), unknown.header("Retry-After")), ("wait=2", "1"));
    assert_eq!((unknown.header("Idempotent-Replayed"), unknown.header("Location").is_empty()), ("", false));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_is_8_seconds_at_the_longest_and_what_cannot_be_read_is_ignored() {
    let (world, api) = world().await;
    for (n, ignored) in ["wait=soon", "wait=-1", "respond-async", "wait"].into_iter().enumerate() {
        let answer =
            api.client.try_post(&format!("key-{n}"), &order(n, "pm_ok"), Some(ignored)).await.expect("an answer");
        assert_eq!((answer.status, answer.header("Preference-Applied")), (202, ""), "{ignored}: {}", answer.text);
    }
    let _worker = world.worker();
    for (n, prefer, applied) in [(10, "wait=60", "wait=8"), (11, "respond-async, wait=\"7\"", "wait=7")] {
        let answer =
            api.client.try_post(&format!("key-{n}"), &order(n, "pm_ok"), Some(prefer)).await.expect("an answer");
        assert_eq!((answer.status, answer.header("Preference-Applied")), (201, applied), "{prefer}: {}", answer.text);
    }
}

/// Case 11: minor units go through as they came, whatever the currency's exponent.
#[tokio::test(flavor = "multi_thread")]
async fn an_amount_comes_back_and_is_charged_as_it_was_posted() {
    let (world, api) = world().await;
    let _worker = world.worker();
    for (n, (currency, amount)) in
        [("JPY", "1"), ("EUR", "819"), ("HUF", "100"), ("KWD", "9007199254740991")].into_iter().enumerate()
    {
        let text = order(n, "pm_ok").to_string().replace("1999", amount).replace("EUR", currency);
        let accepted = post_bytes(&api.client, &format!("key-{n}"), text).await;
        assert_eq!(accepted.status, 202, "{currency}: {}", accepted.text);
        assert!(
            accepted.text.contains(&format!(r#""amount_minor":{amount},"currency":"{currency}""#)),
            "{}",
            accepted.text
        );
        world.until(accepted.payment_id(), Status::Paid).await;
        let booked = world.acquirer.ledger_of(&shared::acquirer::provider_key(accepted.payment_id())).entries;
        assert_eq!(booked.len(), 1, "{booked:?}");
        assert_eq!((booked[0].amount_minor.to_string(), booked[0].currency.as_str()), (amount.to_owned(), currency));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_comes_back_as_it_was_posted() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let mut request = order(1, "pm_ok");
    request["metadata"] = json!({"basket": "42", "note": "für 💳\n\"quoted\"", "": "", "a/b~c": "<script>"});
    let paid = api.client.pay("key-1", &request).await;
    assert_eq!(paid.json["metadata"], request["metadata"], "{}", paid.text);
    assert_eq!(api.client.get(&path_of(paid.payment_id())).await.text, paid.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_acquirer_is_the_one_that_was_asked_for() {
    let (mut world, _) = world().await;
    let profile = world.config.acquirers["default"].clone();
    world.config.acquirers.insert("backup".to_owned(), profile);
    let api = world.api().await;
    let mut request = order(1, "pm_ok");
    request["acquirer"] = "backup".into();
    let accepted = api.client.post("key-1", &request).await;
    assert_eq!((accepted.status, &accepted.json["acquirer"]), (202, &json!("backup")), "{}", accepted.text);
}
