//! Serving HTTP by hand, because an acquirer that fails must be able to reset a connection.

use std::io;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tower::ServiceExt;

use super::broken::Reset;

/// Pause after a failed accept: out of file handles, most likely.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts connections for ever. Dropping the future closes the listener and every connection.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => drop(connections.spawn(converse(stream, router.clone()))),
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            // Only here so that the set does not grow with connections that ended.
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection, until either side ends it.
async fn converse(stream: TcpStream, router: Router) {
    // Without it every answer may wait for the other side's delayed ACK.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| answer(request, router.clone()));
    let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let ended = (&mut connection).await;
    if ended.is_err_and(|error| is_reset(&error)) {
        let stream = connection.into_parts().io.into_inner();
        // Makes the close that follows a RST instead of a FIN.
        let _ = stream.set_zero_linger();
    }
}

async fn answer(request: http::Request<Incoming>, router: Router) -> io::Result<Response> {
    let Ok(response) = router.oneshot(request).await;
    match response.extensions().get::<Reset>() {
        // An error is hyper's way to be told to answer nothing at all.
        Some(Reset) => Err(io::ErrorKind::ConnectionReset.into()),
        None => Ok(response),
    }
}

fn is_reset(error: &hyper::Error) -> bool {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<io::Error>());
    error.is_user() && source.is_some_and(|e| e.kind() == io::ErrorKind::ConnectionReset)
}
