//! The HTTP/1 server, by hand, for what a ready-made one does not offer together: a cap on connections, a time
//! limit on heads, and a stop that finishes every request that was begun and waits for no silent
//! connection.

use crate::draining::{Drain, Draining};
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use shared::config;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

/// The rest after a failed accept: out of file handles, most likely.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// How long a stop waits for the first request of a connection that has not sent any.
const LAST_HEAD: Duration = Duration::from_millis(250);
/// How long a stop waits for answers. Those who wait for a payment are answered at once, so only a
/// client that does not listen to its answer takes longer.
const LONGEST_STOP: Duration = Duration::from_secs(20);

/// Serves `app` until `shutdown` resolves; then takes no new connection, finishes the requests that
/// were begun, and returns. Above `api.connections` clients wait in the listener's backlog.
///
/// # Errors
/// When the listener is not one.
pub async fn serve(
    listener: TcpListener,
    app: Router,
    api: &config::Api,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    listener.local_addr()?;
    let (drain, draining) = Drain::new();
    let places = Arc::new(Semaphore::new(api.connections));
    let server = Server { app, draining, head_timeout: Duration::from_millis(api.request_timeout_ms) };
    let conversations = TaskTracker::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            (stream, place) = next_client(&listener, &places) => {
                conversations.spawn(server.clone().converse(stream, place));
            }
        }
    }
    drop(listener);
    drain.begin();
    conversations.close();
    if timeout(LONGEST_STOP, conversations.wait()).await.is_err() {
        tracing::warn!(connections = conversations.len(), "stopped without clients that do not take their answers");
    }
    Ok(())
}

/// The next client, once there is a place for it.
async fn next_client(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let place = places.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                sleep(ACCEPT_REST).await;
            }
        }
    }
}

#[derive(Clone)]
struct Server {
    app: Router,
    draining: Draining,
    head_timeout: Duration,
}

impl Server {
    /// One connection, until either side ends it.
    async fn converse(self, stream: TcpStream, _place: Option<OwnedSemaphorePermit>) {
        // Without it an answer may wait for the other side's delayed ACK.
        let _ = stream.set_nodelay(true);
        let spoke = AtomicBool::new(false);
        let service = service_fn(|request| {
            spoke.store(true, Ordering::Relaxed);
            self.answer(request)
        });
        let mut http = http1::Builder::new();
        // It also ends connections that rest between two requests for as long.
        http.timer(TokioTimer::new()).header_read_timeout(self.head_timeout);
        let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
        // Errors end the connection; they are the client's, and its next request tells it the rest.
        tokio::select! {
            _ = connection.as_mut() => return,
            () = self.draining.begun() => connection.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            _ = connection.as_mut() => {}
            () = silence(&spoke) => {}
        }
    }

    async fn answer(
        &self,
        mut request: http::Request<Incoming>,
    ) -> Result<axum::response::Response, std::convert::Infallible> {
        request.extensions_mut().insert(self.draining.clone());
        self.app.clone().oneshot(request.map(Body::new)).await
    }
}

/// Resolves when a connection, told to end, has not sent its first request.
async fn silence(spoke: &AtomicBool) {
    sleep(LAST_HEAD).await;
    if spoke.load(Ordering::Relaxed) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests;
