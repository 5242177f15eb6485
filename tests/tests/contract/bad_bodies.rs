use crate::{assert_problem, raw_post, world};
use serde_json::{Value, json};
use tests::Api;
use tests::client::body;

/// Posts a body that is all right but for the changes; returns the pointers of the faults.
async fn faults_of(api: &Api, text: String) -> Vec<String> {
    let answer = raw_post(api, "key-1", text, "application/json").await;
    assert_problem(&answer, 400, "invalid_request");
    let errors = answer.json["errors"].as_array().unwrap_or_else(|| panic!("no errors: {}", answer.text)).clone();
    for error in &errors {
        assert!(error["code"].is_string() && error["detail"].is_string(), "{error}");
    }
    errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
}

fn with(member: &str, value: Value) -> String {
    let mut request = body("order-1", "pm_ok");
    request[member] = value;
    request.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_that_is_none_is_named_by_its_pointer() {
    let (world, api) = world().await;
    let many: Value = (0..21).map(|n| (format!("k{n}"), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    let cases = [
        (
            "amount_minor",
            vec![
                json!(0),
                json!(-1),
                json!(9_007_199_254_740_992_i64),
                json!("1999"),
                json!(true),
                json!(null),
                json!(19.5),
            ],
        ),
        ("currency", ["usd", "XXX", "XAU", "XTS", "EURO", "DEM", "ZZZ", ""].map(Value::from).to_vec()),
        (
            "payment_intent_id",
            vec![json!(""), json!("x".repeat(65)), json!("with space"), json!("tab\t"), json!("ü"), json!(7)],
        ),
        ("payment_method_id", vec![json!(""), json!("x".repeat(129)), json!([]), json!("nul\u{0}")]),
        ("acquirer", vec![json!("nobody"), json!(1)]),
        ("metadata", vec![json!([]), json!("x"), many]),
        ("merchant_id", vec![json!("somebody else")]),
    ];
    for (member, values) in cases {
        for value in values {
            assert_eq!(
                faults_of(&api, with(member, value.clone())).await,
                [format!("/{member}")],
                "{member} = {value}"
            );
        }
    }
    for (key, value) in
        [("k".repeat(41), json!("v")), ("k".to_owned(), json!("v".repeat(501))), ("k".to_owned(), json!(1))]
    {
        let pointers = faults_of(&api, with("metadata", json!({ (key.as_str()): value }))).await;
        assert!(pointers.len() == 1 && pointers[0].starts_with("/metadata"), "{pointers:?}");
    }
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0, "nothing is ever stored");
    assert_eq!(world.count("SELECT count(*) FROM idempotency_keys").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_json_integers_and_nothing_else() {
    let (_world, api) = world().await;
    for number in ["1e2", "1.0", "100.00", "0x10", "1E2", "-0", "99999999999999999999999999"] {
        let text = body("order-1", "pm_ok").to_string().replace("1999", number);
        let answer = raw_post(&api, "key-1", text, "application/json").await;
        assert_eq!(answer.status, 400, "{number}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn currencies_of_every_exponent_are_accepted() {
    let (_world, api) = world().await;
    for (n, currency) in ["JPY", "HUF", "KWD", "EUR", "CLF"].into_iter().enumerate() {
        let mut request = body(&format!("order-{n}"), "pm_ok");
        request["currency"] = currency.into();
        request["amount_minor"] = 9_007_199_254_740_991_i64.into();
        let answer = api.client.post(&format!("key-{n}"), &request).await;
        assert_eq!(
            (answer.status, &answer.json["amount_minor"]),
            (202, &request["amount_minor"]),
            "{currency}: {}",
            answer.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_stands_twice_is_refused() {
    let (world, api) = world().await;
    let text = r#"{"payment_intent_id":"order-1","amount_minor":1,"amount_minor":1999,"currency":"EUR","payment_method_id":"pm_ok"}"#;
    assert_eq!(faults_of(&api, text.to_owned()).await, ["/amount_minor"]);
    let nested = body("order-1", "pm_ok").to_string().replace('}', r#","metadata":{"a":"1","a":"2"}}"#);
    assert_eq!(faults_of(&api, nested).await, ["/metadata/a"]);
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_faults_are_told_at_once() {
    let (_world, api) = world().await;
    let mut pointers = faults_of(&api, r#"{"amount_minor":"1","currency":"eur","extra":1}"#.to_owned()).await;
    pointers.sort();
    assert_eq!(pointers, ["/amount_minor", "/currency", "/extra", "/payment_intent_id", "/payment_method_id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_object_is_400() {
    let (_world, api) = world().await;
    for text in ["", "{", "null", "[]", "\"x\"", "{\"a\":1,}", "\u{feff}{}", "{} {}"] {
        let answer = raw_post(&api, "key-1", text, "application/json").await;
        assert_problem(&answer, 400, "invalid_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_content_type_is_415_and_a_body_too_long_413() {
    let (world, api) = world().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"] {
        let answer = raw_post(&api, "key-1", body("order-1", "pm_ok").to_string(), content_type).await;
        assert_eq!(answer.status, 415, "{content_type}: {}", answer.text);
        assert_eq!(answer.header("Content-Type"), "application/problem+json");
    }
    let long = with("metadata", json!({"a": "x".repeat(65 * 1024)}));
    let answer = raw_post(&api, "key-1", long, "application/json").await;
    assert_eq!((answer.status, answer.header("Content-Type")), (413, "application/problem+json"), "{}", answer.text);
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}
