use crate::program::{Program, bare};
use serde_json::Value;
use std::path::Path;
use tests::client::body;
use tests::{Client, eventually};

fn dev(info: &Path, data: Option<&Path>) -> Program {
    let info = info.to_str().expect("UTF-8");
    let mut args =
        vec!["dev", "--listen", "127.0.0.1:0", "--acquirer-listen", "127.0.0.1:0", "--workers", "2", "--info", info];
    if let Some(data) = data {
        args.extend(["--data", data.to_str().expect("UTF-8")]);
    }
    Program::start(bare(&args))
}

async fn started(info: &Path) -> Value {
    eventually("dev wrote its info", || async {
        std::fs::read(info).ok().map(|text| serde_json::from_slice(&text).expect("it is written whole"))
    })
    .await
}

fn client(info: &Value) -> Client {
    Client::new(info["api_url"].as_str().expect("a URL"), info["api_key"].as_str().expect("a key"))
}

/// Whether anything still listens on the database's port.
fn database_answers(info: &Value) -> bool {
    let url = info["database_url"].as_str().expect("a URL");
    let address = url.rsplit('@').next().and_then(|rest| rest.split('/').next()).expect("an address");
    std::net::TcpStream::connect(address).is_ok()
}

/// A directory that a server of another user can reach.
fn folder() -> tempfile::TempDir {
    let parent = if Path::new("/var/tmp").is_dir() { "/var/tmp".into() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("payonce-dev").tempdir_in(parent).expect("a directory")
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_pays_and_goes_without_a_trace() {
    let folder = folder();
    let info = folder.path().join("info.json");
    let mut dev = dev(&info, None);
    let told = started(&info).await;
    let paid = client(&told).pay("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!((paid.status, paid.json["status"].as_str()), (201, Some("PAID")), "{}", paid.text);
    let token = told["operator_token"].as_str().expect("a token");
    let me = Client::new(told["api_url"].as_str().expect("a URL"), token).get("/ops/api/v1/me").await;
    assert_eq!((me.json["name"].as_str(), me.json["role"].as_str()), (Some("demo"), Some("approver")), "{}", me.text);
    dev.signal("INT");
    assert_eq!(dev.ended().await, Some(0));
    assert!(!database_answers(&told));
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_keeps_its_data_also_when_it_is_killed() {
    let folder = folder();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
    let (info, data) = (folder.path().join("info.json"), folder.path().join("data"));
    let mut first = dev(&info, Some(&data));
    let told = started(&info).await;
    let paid = client(&told).pay("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!(paid.status, 201, "{}", paid.text);
    first.signal("KILL");
    first.ended().await;
    eventually("the database of a killed dev ends", || async { (!database_answers(&told)).then_some(()) }).await;

    std::fs::remove_file(&info).expect("a file");
    let _second = dev(&info, Some(&data));
    let told = started(&info).await;
    let repeated = client(&told).post("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!(repeated.text, paid.text, "the stored answer outlived the kill");
    assert_eq!(repeated.header("Idempotent-Replayed"), "true");
}
