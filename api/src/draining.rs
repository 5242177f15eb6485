//! Telling those who wait that the server is about to stop.

use axum::extract::FromRequestParts;
use http::request::Parts;
use std::convert::Infallible;
use tokio::sync::watch;

/// Tells when the server begins to stop. Cheap to clone. As an argument of a handler it is that of
/// the server which serves the request; where none does (a router called directly) it never begins.
#[derive(Clone, Debug)]
pub struct Draining(Option<watch::Receiver<bool>>);

/// Makes [`Draining`] begin.
#[derive(Debug)]
pub struct Drain(watch::Sender<bool>);

impl Drain {
    /// A pair.
    #[must_use]
    pub fn new() -> (Self, Draining) {
        let (begin, begun) = watch::channel(false);
        (Self(begin), Draining(Some(begun)))
    }

    /// The server is about to stop.
    pub fn begin(&self) {
        self.0.send_replace(true);
    }
}

impl Draining {
    /// Whether it has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.0.as_ref().is_some_and(|begun| *begun.borrow())
    }

    /// Waits until it begins.
    pub async fn begun(&self) {
        match self.0.clone() {
            // A server that is gone has stopped.
            Some(mut begun) => drop(begun.wait_for(|begun| *begun).await),
            None => std::future::pending().await,
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Draining {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or(Self(None)))
    }
}
