//! `payonce dev`

use crate::support::{Running, pay, payonce, run};
use cli::commands::dev::Info;
use rustix::process::Signal;
use std::net::TcpStream;
use std::path::Path;

const ANY_PORTS: [&str; 5] = ["dev", "--listen", "127.0.0.1:0", "--acquirer-listen", "127.0.0.1:0"];

/// A running `dev` and what it wrote about itself.
fn dev(info: &Path, more: &[&str]) -> (Running, Info) {
    let arguments = [&ANY_PORTS, &["--info", info.to_str().expect("UTF-8")][..], more].concat();
    let mut dev = Running::start(payonce(&arguments));
    assert!(dev.line().starts_with("payonce is up"));
    let text = std::fs::read(info).expect("the file is there before the first line");
    (dev, serde_json::from_slice(&text).expect("JSON"))
}

fn answers(url: &str) -> bool {
    let address = url.rsplit(['/', '@']).find(|part| part.contains(':')).expect("an address");
    TcpStream::connect(address).is_ok()
}

#[tokio::test]
async fn a_payment_is_paid_and_ctrl_c_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a directory");
    let (dev, info) = dev(&folder.path().join("info.json"), &["--workers", "2"]);
    let payment = pay(&info.api_url, &info.api_key, "order-1", "pm_ok", "wait=5").await;
    assert_eq!(payment["status"], "PAID", "{payment}");
    let (code, _) = dev.stopped_by(Signal::INT);
    assert_eq!(code, Some(0));
    for url in [&info.api_url, &info.acquirer_url, &info.database_url] {
        assert!(!answers(url), "{url} still answers");
    }
}

#[tokio::test]
async fn a_kept_database_remembers_payments_and_gives_the_merchant_a_new_key() {
    let folder = tempfile::Builder::new().tempdir_in("/var/tmp").expect("a directory");
    // Root's server runs as somebody else, who must get in.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
    let (file, data) = (folder.path().join("info.json"), folder.path().join("data"));
    let data = ["--data", data.to_str().expect("UTF-8")];
    let (first, before) = dev(&file, &data);
    let paid = pay(&before.api_url, &before.api_key, "order-1", "pm_ok", "wait=5").await;
    assert_eq!(first.stopped_by(Signal::TERM).0, Some(0));

    let (second, after) = dev(&file, &data);
    assert_eq!(after.merchant_id, before.merchant_id);
    assert_ne!(after.api_key, before.api_key);
    assert_eq!(pay(&after.api_url, &after.api_key, "order-1", "pm_ok", "wait=5").await, paid);
    assert_eq!(second.stopped_by(Signal::TERM).0, Some(0));
}

#[tokio::test]
async fn a_second_signal_stops_at_once() {
    let folder = tempfile::tempdir().expect("a directory");
    let (dev, info) = dev(&folder.path().join("info.json"), &[]);
    pay(&info.api_url, &info.api_key, "order-1", "pm_timeout_after_charge", "wait=1").await;
    dev.signal(Signal::INT);
    while answers(&info.api_url) {
        std::thread::yield_now();
    }
    let (code, _) = dev.stopped_by(Signal::INT);
    assert_eq!(code, Some(130), "while a worker still waits for the acquirer");
}

#[test]
fn a_taken_port_is_told_with_the_flag_that_chooses_another() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    for flag in ["--listen", "--acquirer-listen"] {
        let mut arguments = ANY_PORTS;
        let place = arguments.iter().position(|argument| *argument == flag).expect("there") + 1;
        arguments[place] = &address;
        let ended = run(payonce(&arguments));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let told =
            format!("cannot listen on {address}: another process listens there; choose another address with {flag}");
        assert!(ended.err.contains(&told), "{ended:?}");
    }
}
