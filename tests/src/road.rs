//! The road between a process and its Postgres, or any other server, which a test can spoil.

use crate::eventually;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// With it begins Postgres' answer when it has executed a prepared statement. A pool's first one on a connection
/// asks whether this is the primary; if that answer were lost, nothing would be executed after it.
const BIND_COMPLETE: u8 = b'2';

/// What the road is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything passes.
    Open,
    /// Everything passes, until Postgres has executed a statement: its answer is lost, and from then on its
    /// connection stands still.
    Deaf,
    /// Connections that are on it stand still: nothing passes any more, not even that a side has left. New ones
    /// pass.
    Frozen,
    /// Connections that are on it are broken; no new ones get on.
    Cut,
}

/// A road of its own to a server.
pub struct Road {
    /// The server's URL by this road.
    pub url: String,
    state: watch::Sender<State>,
}

impl Road {
    /// Builds an open road to the database at `url`, on the current runtime.
    pub async fn to(url: &str) -> Self {
        let (user, rest) = url.split_once('@').expect("a user");
        let (server, database) = rest.split_once('/').expect("a database");
        let (address, state) = build(server.to_owned()).await;
        Self { url: format!("{user}@{address}/{database}"), state }
    }

    /// Builds an open road to the HTTP server at `address`, on the current runtime.
    pub async fn to_http(address: SocketAddr) -> Self {
        let (address, state) = build(address.to_string()).await;
        Self { url: format!("http://{address}"), state }
    }

    /// Makes it so.
    pub fn becomes(&self, state: State) {
        self.state.send_replace(state);
    }

    /// Breaks all connections that are on it; then everything passes.
    pub async fn breaks_once(&self) {
        self.becomes(State::Cut);
        // Each connection watches the state; who waits for new ones does, too.
        eventually("no connection is left", || async { (self.state.receiver_count() == 1).then_some(()) }).await;
        self.becomes(State::Open);
    }
}

/// Opens a port from which everything goes to `server`, as long as the road is open.
async fn build(server: String) -> (SocketAddr, watch::Sender<State>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (state, seen) = watch::channel(State::Open);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let mut seen = seen.clone();
            // What happened before this connection began does not concern it, but for a cut.
            if *seen.borrow_and_update() != State::Cut {
                let server = TcpStream::connect(&server).await.expect("the server");
                tokio::spawn(pass(client, server, seen));
            }
        }
    });
    (address, state)
}

async fn pass(client: TcpStream, server: TcpStream, state: watch::Receiver<State>) {
    let ((mut asks, mut hears), (mut answers, mut is_asked)) = (client.into_split(), server.into_split());
    let is_frozen = || state.has_changed().unwrap_or(false) && *state.borrow() == State::Frozen;
    let mut executed = 0;
    let stands_still = tokio::select! {
        stands_still = carry(&mut asks, &mut is_asked, |_| is_frozen()) => stands_still,
        stands_still = carry(&mut answers, &mut hears, |answer| {
            let executes = answer.first() == Some(&BIND_COMPLETE);
            executed += usize::from(executes);
            is_frozen() || (executes && executed > 1 && *state.borrow() == State::Deaf)
        }) => stands_still,
        () = cut(state.clone()) => false,
    };
    if stands_still {
        cut(state).await;
    }
}

/// Carries bytes (none: the end) until they are not to pass (true), or a side has left (false).
async fn carry(from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf, mut stops: impl FnMut(&[u8]) -> bool) -> bool {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = from.read(&mut buffer).await.unwrap_or_default();
        if stops(&buffer[..length]) {
            return true;
        }
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            return false;
        }
    }
}

/// Ends when the road is cut, or gone.
async fn cut(mut state: watch::Receiver<State>) {
    let _ = state.wait_for(|state| *state == State::Cut).await;
}
