//! `payonce merchant`

use crate::support::{Ended, payonce_on, postgres, run};
use serde_json::Value;

#[tokio::test]
async fn a_key_is_shown_once_listed_by_its_beginning_and_revoked_by_it() {
    let database = postgres().await;
    let payonce = |arguments: &[&str]| run(payonce_on(&database, "http://127.0.0.1:1", arguments));
    payonce(&["migrate"]);
    let first: Value = json(&payonce(&["merchant", "create", "acme", "--json"]));
    let second: Value = json(&payonce(&["merchant", "keys", "acme", "--new", "--json"]));
    let secret = |made: &Value| made["api_key"].as_str().expect("a key").to_owned();
    assert_ne!(secret(&first), secret(&second));

    let keys: Value = json(&payonce(&["merchant", "keys", "acme", "--json"]));
    let prefix = keys[0]["prefix"].as_str().expect("a prefix");
    assert!(secret(&first).starts_with(prefix) && secret(&first).len() > 2 * prefix.len());
    assert_eq!(payonce(&["merchant", "revoke", "acme", prefix]).code, Some(0));
    let listed = payonce(&["merchant", "keys", "acme"]).out;
    assert_eq!((listed.matches("revoked").count(), listed.matches("accepted").count()), (1, 1), "{listed}");

    let again = payonce(&["merchant", "revoke", "acme", prefix]);
    assert!(again.code == Some(1) && again.err.contains("no live key"), "{again:?}");
    let taken = payonce(&["merchant", "create", "acme"]);
    assert!(taken.code == Some(1) && taken.err.contains("exists"), "{taken:?}");
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.out).unwrap_or_else(|_| panic!("{ended:?}"))
}
