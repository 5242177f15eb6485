//! Bodies that are none: every fault with a pointer to where it is, nothing stored.

use crate::{assert_problem, order, post_bytes, send, stored, world};
use reqwest::Method;
use tests::{Answer, Api};

/// A good body in which `member` is spelled `value`; a member that is not there yet is added.
fn with(member: &str, value: &str) -> String {
    let good = [
        ("payment_intent_id", "\"order-1\""),
        ("amount_minor", "1999"),
        ("currency", "\"EUR\""),
        ("payment_method_id", "\"pm_ok\""),
    ];
    let others = good.iter().filter(|(name, _)| *name != member);
    let members = others.copied().chain([(member, value)]).map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn text(text: &str) -> String {
    format!("{text:?}")
}

/// The faults of a refused body, as `pointer code`.
fn faults(answer: &Answer) -> Vec<String> {
    assert_problem(answer, 400, "invalid_request");
    assert_eq!(answer.json["retryable"], false);
    let errors = answer.json["errors"].as_array().unwrap_or_else(|| panic!("no errors: {}", answer.text));
    let fault = |error: &serde_json::Value| {
        assert!(error["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{error}");
        let [pointer, code] = ["pointer", "code"].map(|member| error[member].as_str().expect(member));
        format!("{pointer} {code}")
    };
    errors.iter().map(fault).collect()
}

/// Posts each body and looks for its one fault.
async fn assert_refused<'a>(api: &Api, cases: impl IntoIterator<Item = (String, &'a str)>) {
    for (body, fault) in cases {
        let answer = post_bytes(&api.client, "key-1", body.clone()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text);
        assert_eq!(faults(&answer), [fault], "{body}");
    }
}

/// Case 11: minor units are integers, spelled as such.
#[tokio::test(flavor = "multi_thread")]
async fn an_amount_is_a_json_integer_from_1_to_2_53_less_1() {
    let (world, api) = world().await;
    let amounts = [
        ("0", "out_of_range"),
        ("-0", "out_of_range"),
        ("-1", "out_of_range"),
        ("9007199254740992", "out_of_range"),
        ("9223372036854775807", "out_of_range"),
        ("9223372036854775808", "out_of_range"),
        ("99999999999999999999999999", "out_of_range"),
        ("8.20", "not_an_integer"),
        ("1999.0", "not_an_integer"),
        ("1e2", "not_an_integer"),
        ("1E2", "not_an_integer"),
        ("1e400", "not_an_integer"),
        ("\"1999\"", "wrong_type"),
        ("true", "wrong_type"),
        ("null", "wrong_type"),
        ("[1999]", "wrong_type"),
        ("{\"value\":1999}", "wrong_type"),
    ];
    let cases = amounts.map(|(amount, code)| (with("amount_minor", amount), format!("/amount_minor {code}")));
    assert_refused(&api, cases.iter().map(|(body, fault)| (body.clone(), fault.as_str()))).await;
    // Not even JSON.
    let spellings = ["01", "+1", "0x10", "1_000", "1,999", ".5", "1.", "NaN", "Infinity"];
    assert_refused(&api, spellings.map(|amount| (with("amount_minor", amount), " malformed_json"))).await;
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_is_visible_ascii_within_its_length() {
    let (world, api) = world().await;
    for (member, most) in [("payment_intent_id", 64), ("payment_method_id", 128)] {
        let values = [
            (text(""), "invalid_length"),
            (text(&"x".repeat(most + 1)), "invalid_length"),
            (text("two words"), "invalid_characters"),
            (text(" "), "invalid_characters"),
            ("\"tab\\t\"".to_owned(), "invalid_characters"),
            ("\"nul\\u0000\"".to_owned(), "invalid_characters"),
            ("\"\\ud83d\"".to_owned(), "invalid_characters"),
            (text("größe"), "invalid_characters"),
            ("7".to_owned(), "wrong_type"),
            ("null".to_owned(), "wrong_type"),
            ("[\"x\"]".to_owned(), "wrong_type"),
        ];
        let cases = values.map(|(value, code)| (with(member, &value), format!("/{member} {code}")));
        assert_refused(&api, cases.iter().map(|(body, fault)| (body.clone(), fault.as_str()))).await;
    }
    assert_eq!(stored(&world).await, [0, 0]);
}

/// Case 11: upper case, active, with minor units.
#[tokio::test(flavor = "multi_thread")]
async fn a_currency_is_an_active_iso_4217_code_with_minor_units() {
    let (world, api) = world().await;
    let no_minor_units = ["XXX", "XAU", "XAG", "XTS", "XDR", "XPT"];
    let withdrawn = ["DEM", "FRF", "HRK", "ZWL", "VEF"];
    let no_code = ["usd", "Eur", "", "EU", "EURO", " EUR", "ZZZ", "978", "ÉUR", "EUR\\u0000"];
    let all = no_minor_units.into_iter().chain(withdrawn).chain(no_code);
    let unknown = all.map(|code| (with("currency", &format!("\"{code}\"")), "/currency unknown_currency"));
    assert_refused(&api, unknown).await;
    let other_types = ["978", "null", "[\"EUR\"]"];
    assert_refused(&api, other_types.map(|value| (with("currency", value), "/currency wrong_type"))).await;
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_is_the_name_of_a_profile() {
    let (world, api) = world().await;
    let unknown = ["nobody", "", "Default", "default "];
    let unknown = unknown.map(|name| (with("acquirer", &text(name)), "/acquirer unknown_acquirer"));
    assert_refused(&api, unknown).await;
    assert_refused(&api, ["1", "null"].map(|value| (with("acquirer", value), "/acquirer wrong_type"))).await;
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_20_short_strings_by_short_names() {
    let (world, api) = world().await;
    let many = |count: usize| (0..count).map(|n| format!("\"{n}\":\"\"")).collect::<Vec<_>>().join(",");
    let long = "k".repeat(41);
    let long_name = format!("/metadata/{long} invalid_length");
    let cases = [
        ("[]".to_owned(), "/metadata wrong_type"),
        ("null".to_owned(), "/metadata wrong_type"),
        ("\"x\"".to_owned(), "/metadata wrong_type"),
        (format!("{{{}}}", many(21)), "/metadata too_many"),
        (format!("{{\"{long}\":\"v\"}}"), long_name.as_str()),
        (format!("{{\"k\":\"{}\"}}", "v".repeat(501)), "/metadata/k invalid_length"),
        (format!("{{\"k\":\"{}\"}}", "💳".repeat(501)), "/metadata/k invalid_length"),
        ("{\"k\":1}".to_owned(), "/metadata/k wrong_type"),
        ("{\"k\":null}".to_owned(), "/metadata/k wrong_type"),
        ("{\"k\":{\"k\":\"v\"}}".to_owned(), "/metadata/k wrong_type"),
        ("{\"k\":\"1\",\"k\":\"1\"}".to_owned(), "/metadata/k duplicate_member"),
        // What Postgres cannot keep, and what is no text; the pointer is escaped.
        ("{\"a/b~\":\"nul\\u0000\"}".to_owned(), "/metadata/a~1b~0 invalid_characters"),
        ("{\"k\":\"\\udcb3\"}".to_owned(), "/metadata/k invalid_characters"),
    ];
    assert_refused(&api, cases.map(|(metadata, fault)| (with("metadata", &metadata), fault))).await;
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_doubled_and_missing_members_are_refused() {
    let (world, api) = world().await;
    // The merchant comes from the credential, never from the body.
    for unknown in ["merchant_id", "idempotency_key", "amount", "Amount_minor", "card_number", "id", "status"] {
        let fault = format!("/{unknown} unknown_field");
        assert_refused(&api, [(with(unknown, "\"4111\""), fault.as_str())]).await;
    }
    let good = with("currency", "\"EUR\"");
    let twice = |member: &str| good.replacen('{', &format!("{{{member},"), 1);
    let cases = [
        (twice("\"amount_minor\":1999"), "/amount_minor duplicate_member"),
        (twice("\"amount_minor\":1"), "/amount_minor duplicate_member"),
        (twice("\"amount\\u005fminor\":1999"), "/amount_minor duplicate_member"),
        (twice("\"payment_intent_id\":\"order-1\""), "/payment_intent_id duplicate_member"),
        (good.replace("\"amount_minor\":1999,", ""), "/amount_minor missing"),
        (good.replace("\"payment_method_id\":\"pm_ok\",", ""), "/payment_method_id missing"),
    ];
    assert_refused(&api, cases).await;
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_told_at_once() {
    let (world, api) = world().await;
    let body = r#"{"amount_minor":"1","currency":"eur","metadata":{"a":1,"b":2},"extra":{}}"#;
    let mut faults = faults(&post_bytes(&api.client, "key-1", body).await);
    faults.sort_unstable();
    let expected = [
        "/amount_minor wrong_type",
        "/currency unknown_currency",
        "/extra unknown_field",
        "/metadata/a wrong_type",
        "/metadata/b wrong_type",
        "/payment_intent_id missing",
        "/payment_method_id missing",
    ];
    assert_eq!(faults, expected);
    // An answer does not grow with the nonsense that it is about.
    let flood = (0..4_000).map(|n| format!("\"x{n}\":1")).collect::<Vec<_>>().join(",");
    let answer = post_bytes(&api.client, "key-1", format!("{{{flood}}}")).await;
    assert_problem(&answer, 400, "invalid_request");
    assert!(answer.text.len() < 10_000, "{} bytes", answer.text.len());
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_json_object_is_refused_as_a_whole() {
    let (world, api) = world().await;
    let no_json: [&[u8]; 12] = [
        b"",
        b" ",
        b"{",
        b"amount_minor=1999&currency=EUR",
        b"{'amount_minor':1999}",
        b"{\"amount_minor\":1999,}",
        b"{} {}",
        b"// none\n{}",
        b"\xef\xbb\xbf{}",
        b"{\"currency\":\"\xff\"}",
        b"\x1f\x8b\x08\x00",
        b"<payment/>",
    ];
    for body in no_json {
        let answer = post_bytes(&api.client, "key-1", body).await;
        assert_eq!(faults(&answer), [" malformed_json"], "{body:?}");
    }
    assert_refused(&api, ["[]", "null", "1", "\"{}\"", "true"].map(|body| (body.to_owned(), " wrong_type"))).await;
    // Nesting does not cost the stack.
    let deep = with("x", &format!("{}{}", "[".repeat(30_000), "]".repeat(30_000)));
    assert_refused(&api, [(deep, "/x unknown_field")]).await;
    assert_eq!(stored(&world).await, [0, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_not_said_to_be_json_is_415() {
    let (world, api) = world().await;
    let post = |headers: Vec<(&'static str, &'static str)>| {
        let request = api.client.request(Method::POST, "/v1/payments").body(order(1, "pm_ok").to_string());
        headers.into_iter().fold(request.header("Idempotency-Key", "key-1"), |r, (name, value)| r.header(name, value))
    };
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "text/json", "json", ""] {
        let answer = Answer::of(post(vec![("Content-Type", kind)]).send().await.expect("an answer")).await;
        assert_problem(&answer, 415, "unsupported_media_type");
    }
    let none = Answer::of(post(vec![]).send().await.expect("an answer")).await;
    assert_problem(&none, 415, "unsupported_media_type");
    let two = vec![("Content-Type", "application/json"), ("Content-Type", "text/plain")];
    assert_problem(&Answer::of(post(two).send().await.expect("an answer")).await, 415, "unsupported_media_type");
    assert_eq!(stored(&world).await, [0, 0]);
    let json = post(vec![("Content-Type", "Application/JSON; charset=utf-8")]);
    assert_eq!(Answer::of(json.send().await.expect("an answer")).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_64_kib_is_413_whether_its_length_is_told_or_not() {
    let (world, api) = world().await;
    let of_length = |length: usize| {
        let body = with("currency", "\"EUR\"");
        let spaces = " ".repeat(length - body.len());
        body + &spaces
    };
    for length in [64 * 1024 + 1, 256 * 1024] {
        let told = post_bytes(&api.client, "key-1", of_length(length)).await;
        assert_problem(&told, 413, "payload_too_large");
        let pieces = of_length(length)
            .into_bytes()
            .chunks(8_192)
            .map(|piece| Ok::<_, std::io::Error>(piece.to_vec()))
            .collect::<Vec<_>>();
        let untold = reqwest::Body::wrap_stream(futures_util::stream::iter(pieces));
        assert_problem(&post_bytes(&api.client, "key-1", untold).await, 413, "payload_too_large");
    }
    assert_eq!(stored(&world).await, [0, 0]);
    assert_eq!(
        post_bytes(&api.client, "key-1", of_length(64 * 1024)).await.status,
        202,
        "64 KiB are no more than that"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_just_within_the_limits_is_accepted() {
    let (world, api) = world().await;
    let metadata = (0..20).map(|n| format!("\"{n:0>2}{}\":\"{}\"", "é".repeat(38), "💳".repeat(500)));
    let cases = [
        with("payment_intent_id", &text(&"~".repeat(64))),
        with("payment_method_id", &text(&"!".repeat(128))),
        with("amount_minor", "1"),
        with("amount_minor", "9007199254740991"),
        with("metadata", &format!("{{{}}}", metadata.collect::<Vec<_>>().join(","))),
        with("metadata", "{}"),
        with("acquirer", "\"default\""),
        with("currency", "\"CLF\""),
    ];
    for (n, body) in cases.into_iter().enumerate() {
        let body = body.replace("order-1", &format!("order-{n}"));
        let answer = post_bytes(&api.client, &format!("key-{n}"), body.clone()).await;
        assert_eq!(answer.status, 202, "{body}: {}", answer.text);
    }
    assert_eq!(stored(&world).await, [8, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_a_refused_request_is_as_good_as_new() {
    let (_world, api) = world().await;
    assert_eq!(
        faults(&post_bytes(&api.client, "key-1", with("amount_minor", "0")).await),
        ["/amount_minor out_of_range"]
    );
    let without_key = send(&api.client, Method::POST, "/v1/payments", &[("Content-Type", "application/json")]).await;
    assert_problem(&without_key, 400, "idempotency_key_missing");
    let accepted = api.client.post("key-1", &order(1, "pm_ok")).await;
    assert_eq!((accepted.status, accepted.header("Idempotent-Replayed")), (202, ""), "{}", accepted.text);
}
