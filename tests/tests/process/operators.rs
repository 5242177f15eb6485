//! `payonce operator`.

use crate::program::{command, ran};
use serde_json::Value;
use shared::operator::{self, Password};
use std::process::Stdio;
use tests::program::Ended;
use tests::{Client, World};
use tokio::io::AsyncWriteExt;

const PASSWORD: &str = "correct horse battery";

/// Runs `payonce operator` with this on its standard input.
async fn piped(world: &World, args: &[&str], input: &str) -> Ended {
    let mut command = command(world, &[&["operator"], args].concat());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("payonce starts");
    // One that needs no input may have ended without reading any.
    let _ = child.stdin.take().expect("a pipe").write_all(input.as_bytes()).await;
    let output = child.wait_with_output().await.expect("payonce runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Runs `payonce operator` with nothing on its standard input, and well.
async fn well(world: &World, args: &[&str]) -> String {
    let ended = ran(command(world, &[&["operator"], args].concat())).await;
    assert_eq!(ended.code, Some(0), "{args:?}: {}", ended.stderr);
    ended.stdout
}

async fn json(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(&well(world, &[args, &["--json"]].concat()).await).expect("JSON")
}

/// Runs `payonce operator` with this on its standard input, and to a failure that says so in these words.
async fn refused(world: &World, args: &[&str], input: &str, words: &str) {
    let ended = piped(world, args, input).await;
    assert_eq!(ended.code, Some(1), "{args:?}: {}", ended.stdout);
    assert!(ended.stderr.contains(words) && ended.stdout.is_empty(), "{args:?}: {}{}", ended.stdout, ended.stderr);
    assert!(input.trim().is_empty() || !ended.stderr.contains(input.trim()), "a password is not repeated");
}

async fn world_with_ada() -> World {
    let world = World::new().await;
    let made = piped(&world, &["create", "ada", "--role", "operator"], &format!("{PASSWORD}\n")).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert!(made.stdout.contains("ada") && !made.stdout.contains(PASSWORD), "{}", made.stdout);
    world
}

/// Whether the operator of this name has this password.
async fn is_password(world: &World, name: &str, password: &str) -> bool {
    let password = Password::new(password).expect("a password");
    operator::verify(&world.database.pool, name, &password).await.expect("an answer").is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_is_read_from_a_pipe_and_kept_as_a_hash() {
    let world = world_with_ada().await;
    assert!(is_password(&world, "ada", PASSWORD).await);
    assert!(!is_password(&world, "ada", "correct horse batterz").await);
    assert!(!is_password(&world, "eve", PASSWORD).await);
    let sql = "SELECT count(*) FROM operators WHERE password_hash LIKE '$argon2id$v=19$%'";
    assert_eq!(world.count(sql).await, 1);

    let changed = piped(&world, &["password", "ada"], "another horse battery\r\n").await;
    assert_eq!(changed.code, Some(0), "{}", changed.stderr);
    assert!(!is_password(&world, "ada", PASSWORD).await);
    assert!(is_password(&world, "ada", "another horse battery").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_said_and_changes_nothing() {
    let world = world_with_ada().await;
    let create = |name| ["create", name, "--role", "viewer"];
    refused(&world, &create("ada"), "", "exists").await;
    refused(&world, &create(" ada"), PASSWORD, "name").await;
    refused(&world, &create("bob"), "", "at least 12 characters").await;
    refused(&world, &create("bob"), "elevenchars\n", "at least 12 characters").await;
    refused(&world, &create("bob"), "correct horse\nbattery staple\n", "one line").await;
    refused(&world, &["password", "ada"], "short", "at least 12 characters").await;
    for args in [&["password", "bob"][..], &["role", "bob", "viewer"], &["token", "bob"], &["disable", "bob"]] {
        refused(&world, args, PASSWORD, "operator list").await;
    }
    refused(&world, &["revoke", "ada", "payonce_op_abcdef"], "", "operator tokens").await;
    assert_eq!(world.count("SELECT count(*) FROM operators").await, 1);
    assert!(is_password(&world, "ada", PASSWORD).await);
    for (args, words) in [
        (&["create", "bob", "--role", "admin"][..], "viewer, operator or approver"),
        (&["token", "ada", "--days", "0"], "1..=365"),
        (&["token", "ada", "--days", "366"], "1..=365"),
    ] {
        let ended = piped(&world, args, PASSWORD).await;
        assert!(ended.code == Some(2) && ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_shown_once_and_accepted_until_it_is_revoked() {
    let world = world_with_ada().await;
    let api = world.api().await;
    let drawn = json(&world, &["token", "ada", "--days", "7"]).await;
    let token = drawn["token"].as_str().expect("a token").to_owned();
    let client = Client::new(&api.base_url, &token);
    let me = client.get("/ops/api/v1/me").await;
    assert_eq!((&me.json["name"], &me.json["role"]), (&"ada".into(), &"operator".into()), "{}", me.text);

    let listed = well(&world, &["tokens", "ada"]).await;
    let prefix = &token[.."payonce_op_".len() + 6];
    assert!(listed.contains(prefix) && listed.contains("accepted") && !listed.contains(&token), "{listed}");
    well(&world, &["revoke", "ada", prefix]).await;
    assert_eq!(client.get("/ops/api/v1/me").await.status, 401);
    let listed = json(&world, &["tokens", "ada"]).await;
    assert_eq!((&listed[0]["accepted"], listed[0]["revoked_at"].is_string()), (&false.into(), true), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_change_and_a_disabled_operator_stops() {
    let world = world_with_ada().await;
    let api = world.api().await;
    let drawn = well(&world, &["token", "ada"]).await;
    let token = drawn.split_whitespace().find(|word| word.starts_with("payonce_op_")).expect("a token");
    let client = Client::new(&api.base_url, token);
    assert_eq!(json(&world, &["role", "ada", "approver"]).await["role"], "approver");
    assert_eq!(client.get("/ops/api/v1/me").await.json["role"], "approver");

    assert!(well(&world, &["disable", "ada"]).await.contains("refused from now on"));
    assert_eq!(client.get("/ops/api/v1/me").await.status, 401);
    assert!(!is_password(&world, "ada", PASSWORD).await, "nor by the password");
    refused(&world, &["token", "ada"], "", "operator enable").await;
    assert!(well(&world, &["list"]).await.contains("disabled 20"));
    assert!(well(&world, &["tokens", "ada"]).await.contains("refused while the operator is disabled"));

    well(&world, &["enable", "ada"]).await;
    assert_eq!(client.get("/ops/api/v1/me").await.status, 200);
    assert!(is_password(&world, "ada", PASSWORD).await);
    let listed = json(&world, &["list"]).await;
    assert_eq!((&listed[0]["name"], &listed[0]["disabled_at"]), (&"ada".into(), &Value::Null));
}
