//! Contracts on the command line: shown, verified, played, and stormed.

use crate::program::{Program, bare, command, ran};
use serde_json::Value;
use tests::client::body;
use tests::{Client, World};

#[tokio::test(flavor = "multi_thread")]
async fn doctor_shows_the_contracts_and_what_nobody_verified() {
    let world = World::new().await;
    let never = ran(command(&world, &["doctor"])).await;
    assert_eq!(never.code, Some(0), "worth a look, and no fault: {}", never.stdout);
    assert!(never.stdout.contains("nobody has verified default"), "{}", never.stdout);
    let mut old = command(&world, &["doctor"]);
    old.env("PAYONCE_ACQUIRERS__DEFAULT__VERIFIED_ON", "2020-01-31");
    old.env("PAYONCE_ACQUIRERS__DEFAULT__REPLAY_SEMANTICS", "reexecute");
    let old = ran(old).await;
    assert!(old.stdout.contains("default was verified on 2020-01-31"), "{}", old.stdout);
    assert!(old.stdout.contains("acquirers.default.verified_on"), "{}", old.stdout);
    let row = old.stdout.lines().find(|line| line.starts_with("default ")).expect("a row of the table");
    for word in ["honoured", "24 h, less 1 h", "account", "reexecute", "by_key", "when absent"] {
        assert!(row.contains(word), "{word}: {row}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_cannot_be_kept_is_refused_with_its_numbers() {
    let world = World::new().await;
    let mut command = command(&world, &["worker"]);
    let faulty = [
        ("GIVE_UP_AFTER_H", "48", "give_up_after_h = 48 is longer than ttl_h - safety_margin_h = 24 - 1 = 23"),
        ("KEY_MAX_LEN", "30", "key_max_len = 30: our keys have 32 characters"),
        ("LOOKUP_LAG_MS", "700", "absence_final_after_ms = 600 is shorter than lookup_lag_ms = 700"),
        ("VERIFIED_ON", "yesterday", "\"yesterday\" is not a day such as"),
        ("KEY_LOCATION", "cookie:key", "\"cookie:key\" is neither \"header:NAME\" nor \"body:MEMBER\""),
        ("CREDENTIAL_FILE", "/nowhere/at/all", "credential_file: /nowhere/at/all cannot be read"),
    ];
    for (key, value, _) in faulty {
        command.env(format!("PAYONCE_ACQUIRERS__DEFAULT__{key}"), value);
    }
    let ended = ran(command).await;
    assert_eq!(ended.code, Some(1));
    for (key, _, fault) in faulty {
        assert!(ended.stderr.contains(fault), "{key}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_is_routed_on_the_command_line() {
    let world = World::new().await;
    let route = |args: &[&str]| {
        let mut command = bare(&[&["merchant", "route", "demo"], args].concat());
        command.env("DATABASE_URL", &world.database.url);
        for name in ["DEFAULT", "SECOND"] {
            command.env(format!("PAYONCE_ACQUIRERS__{name}__KIND"), "http");
            command.env(format!("PAYONCE_ACQUIRERS__{name}__BASE_URL"), "http://127.0.0.1:9");
        }
        ran(command)
    };
    let shown = route(&[]).await;
    assert!(shown.stdout.contains("default (the service's default)"), "{}{}", shown.stdout, shown.stderr);
    assert!(shown.stdout.contains("may use   all"), "{}", shown.stdout);
    let unknown = route(&["--default", "nobody"]).await;
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no [acquirers] profile named \"nobody\""), "{}", unknown.stderr);
    let outside = route(&["--default", "default", "--allow", "second"]).await;
    assert_eq!(outside.code, Some(1));
    assert!(outside.stderr.contains("add --allow default"), "{}", outside.stderr);
    let set = route(&["--default", "second", "--allow", "second", "--json"]).await;
    let set: Value = serde_json::from_str(&set.stdout).expect("JSON");
    assert_eq!((&set["default_acquirer"], &set["acquirers"][0]), (&"second".into(), &"second".into()));
    let back = route(&["--no-default", "--allow-all"]).await;
    assert!(back.stdout.contains("default (the service's default)"), "{}{}", back.stdout, back.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_plays_a_shipped_contract_and_its_acquirer_tells_the_api() {
    let info = tempfile::tempdir().expect("a directory");
    let file = info.path().join("info.json");
    let path = file.to_str().expect("UTF-8");
    let any = ["--listen", "127.0.0.1:0", "--acquirer-listen", "127.0.0.1:0"];
    let mut dev = Program::start(bare(&[&["dev", "--profile", "adyen_like", "--info", path], &any[..]].concat()));
    dev.line().await.expect("it is up");
    let info: Value = serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("JSON");
    let text = |name: &str| info[name].as_str().expect("a text").to_owned();
    let client = Client::new(&text("api_url"), &text("api_key"));
    let paid = client.pay("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!((&paid.json["status"], &paid.json["acquirer"]), (&"PAID".into(), &"adyen_like".into()), "{}", paid.text);
    let told = "payonce_acquirer_webhooks_total{acquirer=\"adyen_like\",result=\"noted\"} 1";
    tests::eventually(told, || async { client.get("/metrics").await.text.contains(told).then_some(()) }).await;
    dev.signal("INT");
    assert_eq!(dev.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_contract_is_named_with_those_that_are_shipped() {
    for args in [&["dev", "--profile", "strip"][..], &["sandbox", "acquirer", "--profile", "strip"]] {
        let ended = ran(bare(args)).await;
        assert_eq!(ended.code, Some(1), "{args:?}");
        assert!(ended.stderr.contains("strip") && ended.stderr.contains("checkout_like"), "{}", ended.stderr);
    }
}

/// The short form of `payonce bench --faults`.
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_faults_charges_nobody_twice_and_explains_every_review() {
    let storm = ["bench", "--faults", "--payments", "150", "--fault-rate", "0.4", "--json"];
    let storms = ["checkout_like", "no_keys"].map(|name| ran(bare(&[&storm[..], &["--profile", name]].concat())));
    for ended in futures_util::future::join_all(storms).await {
        assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
        let outcome: Value = serde_json::from_str(&ended.stdout).expect("JSON");
        let ends = outcome["ended"].as_object().expect("ends").values().filter_map(Value::as_u64);
        assert_eq!(ends.sum::<u64>(), 150, "{outcome}");
        assert_eq!((&outcome["duplicates"], &outcome["violations"]), (&Value::Array(vec![]), &Value::Array(vec![])));
        assert!(!outcome["reviews"].as_object().expect("reviews").is_empty(), "{outcome}");
    }
}
