//! The road between a process and its Postgres, which a test can spoil.

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the road is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Everything passes.
    Open,
    /// What goes to Postgres passes. Its answer when it has executed a statement, and what comes after that
    /// answer, is lost.
    Deaf,
    /// Connections that are on it stand still for ever; new ones pass.
    Frozen,
    /// Connections that are on it are broken; no new ones get on.
    Cut,
}

/// A road of its own to a database.
pub struct Road {
    /// The database's URL by this road.
    pub url: String,
    state: watch::Sender<State>,
}

impl Road {
    /// Builds an open road to the database at `url`, on the current runtime.
    pub async fn to(url: &str) -> Self {
        let (user, rest) = url.split_once('@').expect("a user");
        let (server, database) = rest.split_once('/').expect("a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("{user}@{}/{database}", listener.local_addr().expect("an address"));
        let (server, (state, seen)) = (server.to_owned(), watch::channel(State::Open));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *seen.borrow() != State::Cut {
                    let server = TcpStream::connect(&server).await.expect("Postgres");
                    tokio::spawn(pass(client, server, seen.clone()));
                }
            }
        });
        Self { url, state }
    }

    /// Makes it so.
    pub fn becomes(&self, state: State) {
        self.state.send_replace(state);
    }
}

async fn pass(client: TcpStream, server: TcpStream, mut state: watch::Receiver<State>) {
    // What was frozen before this connection began does not concern it.
    state.mark_unchanged();
    let ((mut asks, mut hears), (mut answers, mut is_asked)) = (client.into_split(), server.into_split());
    tokio::select! {
        _ = copy(&mut asks, &mut is_asked) => {}
        () = answer(&mut answers, &mut hears, state.clone()) => {}
        now = stopped(state) => {
            if now == State::Frozen {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// Ends when nothing passes any more.
async fn stopped(mut state: watch::Receiver<State>) -> State {
    loop {
        let now = if state.changed().await.is_ok() { *state.borrow_and_update() } else { State::Cut };
        if matches!(now, State::Frozen | State::Cut) {
            return now;
        }
    }
}

async fn answer(answers: &mut OwnedReadHalf, hears: &mut OwnedWriteHalf, state: watch::Receiver<State>) {
    // Postgres' answer to the execution of a prepared statement begins with BindComplete.
    const BIND_COMPLETE: u8 = b'2';
    let (mut buffer, mut lost) = (vec![0; 16 * 1024], false);
    while let Ok(length @ 1..) = answers.read(&mut buffer).await {
        lost |= *state.borrow() == State::Deaf && buffer[0] == BIND_COMPLETE;
        if !lost && hears.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
