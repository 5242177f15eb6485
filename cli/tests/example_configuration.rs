//! `payonce.example.toml` says what is true: every key is in it, with its default.

use figment::Figment;
use figment::providers::{Format, Serialized, Toml};
use serde_json::Value;
use shared::config::{Acquirer, Config};
use std::collections::BTreeSet;

const EXAMPLE: &str = include_str!("../../payonce.example.toml");

/// What the example says, over the defaults, whatever the environment says.
fn load(toml: &str) -> Config {
    let layers = Figment::from(Serialized::defaults(Config::default())).merge(Toml::string(toml));
    let config: Config = layers.extract().expect("the example can be read");
    config.checked().expect("its times agree with each other")
}

/// The example with the keys that have no default too: `#key = value`, where prose is `# prose`.
fn uncommented() -> String {
    let is_key =
        |line: &&str| line.strip_prefix('#').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
    EXAMPLE.lines().map(|line| if is_key(&line) { &line[1..] } else { line }).collect::<Vec<_>>().join("\n")
}

fn keys(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| keys(value, &format!("{path}.{key}"), into)),
        _ => drop(into.insert(path.to_owned())),
    }
}

fn keys_of(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    keys(value, "", &mut found);
    found
}

fn defaults() -> Value {
    let acquirers = [("default".to_owned(), Acquirer::at("http://127.0.0.1:8081"))].into();
    serde_json::to_value(Config { acquirers, ..Config::default() }).expect("JSON")
}

#[test]
fn the_example_holds_the_defaults() {
    assert_eq!(serde_json::to_value(load(EXAMPLE)).expect("JSON"), defaults());
}

#[test]
fn the_example_holds_every_key() {
    let in_file: Value = Figment::from(Toml::string(&uncommented())).extract().expect("TOML");
    assert_eq!(keys_of(&in_file), keys_of(&defaults()));
}

#[test]
fn the_keys_without_a_default_can_be_set_as_the_example_shows() {
    let config = load(&uncommented());
    assert!(config.database_url.is_some() && config.listen_url.is_some());
    assert!(config.api.metrics_listen.is_some() && config.worker.metrics_listen.is_some());
    assert!(config.acquirers["default"].credential.is_some());
}
