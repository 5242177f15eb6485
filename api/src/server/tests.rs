use super::*;
use axum::routing::get;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A server on a port of its own.
struct Running {
    at: SocketAddr,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<io::Result<()>>,
}

impl Running {
    async fn start(app: Router, change: impl FnOnce(&mut config::Api)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let mut api = config::Api::default();
        change(&mut api);
        let shutdown = async { drop(stopped.await) };
        let ended = tokio::spawn(async move { serve(listener, app, &api, shutdown).await });
        Self { at, stop, ended }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at).await.unwrap()
    }

    /// Stops it, and tells how long that took.
    async fn stop(self) -> Duration {
        let began = Instant::now();
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
        began.elapsed()
    }
}

/// Everything the server sends until it closes.
async fn rest_of(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn first_line(stream: &mut TcpStream) -> String {
    let mut piece = vec![0; 4096];
    let length = stream.read(&mut piece).await.unwrap();
    String::from_utf8_lossy(&piece[..length]).lines().next().unwrap_or_default().to_owned()
}

/// Says when a request has come, and answers it when it is told to.
fn slow(came: Arc<Notify>, go_on: Arc<Notify>) -> Router {
    let handler = async move || {
        came.notify_one();
        go_on.notified().await;
        "finished"
    };
    Router::new().route("/", get(handler))
}

#[tokio::test]
async fn a_request_that_was_begun_is_finished_by_a_stop() {
    let (came, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let server = Running::start(slow(came.clone(), go_on.clone()), |_| {}).await;
    let (at, mut client) = (server.at, server.connect().await);
    client.write_all(REQUEST).await.unwrap();
    came.notified().await;
    let stopping = tokio::spawn(server.stop());
    // Longer than a silent connection is waited for.
    sleep(LAST_HEAD * 2).await;
    assert!(TcpStream::connect(at).await.is_err(), "a stopping server takes nobody new");
    assert!(!stopping.is_finished());
    go_on.notify_one();
    assert!(rest_of(&mut client).await.ends_with("finished"));
    stopping.await.unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_silent_connections() {
    let server = Running::start(Router::new().route("/", get("done")), |_| {}).await;
    let (mut silent, mut idle) = (server.connect().await, server.connect().await);
    idle.write_all(REQUEST).await.unwrap();
    assert_eq!(first_line(&mut idle).await, "HTTP/1.1 200 OK");
    // Far less than the time limit on heads.
    assert!(server.stop().await < Duration::from_secs(5));
    assert_eq!(rest_of(&mut silent).await, "");
    assert_eq!(rest_of(&mut idle).await, "");
}

#[tokio::test]
async fn whoever_waits_hears_that_a_stop_begins() {
    let came = Arc::new(Notify::new());
    let here = came.clone();
    let waiting = async move |draining: Draining| {
        here.notify_one();
        draining.begun().await;
        if draining.has_begun() { "let go" } else { "kept" }
    };
    let server = Running::start(Router::new().route("/", get(waiting)), |_| {}).await;
    let mut client = server.connect().await;
    client.write_all(REQUEST).await.unwrap();
    came.notified().await;
    server.stop().await;
    assert!(rest_of(&mut client).await.ends_with("let go"));
}

#[tokio::test]
async fn a_head_that_does_not_end_is_given_up() {
    let limit = |api: &mut config::Api| api.request_timeout_ms = 100;
    let server = Running::start(Router::new().route("/", get("done")), limit).await;
    let mut client = server.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    assert_eq!(rest_of(&mut client).await, "");
    server.stop().await;
}

#[tokio::test]
async fn above_the_cap_a_client_waits_for_its_place() {
    let server = Running::start(Router::new().route("/", get("done")), |api| api.connections = 1).await;
    let mut first = server.connect().await;
    first.write_all(REQUEST).await.unwrap();
    assert_eq!(first_line(&mut first).await, "HTTP/1.1 200 OK");
    let mut second = server.connect().await;
    second.write_all(REQUEST).await.unwrap();
    assert!(timeout(Duration::from_millis(100), first_line(&mut second)).await.is_err());
    drop(first);
    assert_eq!(first_line(&mut second).await, "HTTP/1.1 200 OK");
    drop(second);
    server.stop().await;
}
