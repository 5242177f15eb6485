//! A simulated acquirer behind a real HTTP server.
//!
//! It speaks the wire form of a plain HTTP acquirer (`POST` and `GET /charges`) and plays any
//! contract about keys, repeats and look-ups ([`Settings`]; [`profiles`](crate::profiles) has six),
//! keeps its own books (`/ledger`) and fails on demand: by magic payment methods ([`Method`]), by
//! rates and latencies ([`Settings`], `/faults`). What it books it books in its own time: a client
//! that gives up and leaves does not undo a charge, as in life.

mod answers;
mod behaviour;
mod broken;
mod charge;
mod charges;
mod clock;
mod control;
mod desk;
mod draw;
mod key_location;
mod latency;
mod ledger;
mod lookups;
mod method;
mod order;
mod refusal;
mod secret;
mod server;
mod settings;
mod webhooks;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use desk::Desk;
pub use draw::fault_of;
pub use key_location::{InvalidKeyLocation, KeyLocation};
pub use latency::Latency;
pub use ledger::{Calls, Duplicate, EntryView, LedgerView, ReferenceView};
pub use method::{Method, UnknownFault};
pub use refusal::Refusal;
pub use secret::Secret;
pub use settings::{InvalidSettings, Lookup, Replay, Settings};

/// A running acquirer. Dropping it closes its port and every connection.
pub struct Acquirer {
    addr: SocketAddr,
    desk: Arc<Desk>,
    serving: JoinHandle<()>,
}

impl Acquirer {
    /// Starts an acquirer on `listen`; port 0 takes any free one.
    ///
    /// # Errors
    /// The address cannot be listened on, or the settings are invalid
    /// ([`io::ErrorKind::InvalidInput`]).
    pub async fn start(listen: SocketAddr, settings: Settings) -> io::Result<Acquirer> {
        settings.validate().map_err(|invalid| io::Error::new(io::ErrorKind::InvalidInput, invalid))?;
        let listener = TcpListener::bind(listen).await?;
        let addr = listener.local_addr()?;
        let desk = Arc::new(Desk::new(settings));
        let serving = tokio::spawn(server::serve(listener, router(desk.clone())));
        Ok(Acquirer { addr, desk, serving })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What a client puts before `/charges`: `http://ADDRESS:PORT`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// The books, without their lines; the same as `GET /ledger`.
    pub fn ledger(&self) -> LedgerView {
        let now_ms = self.desk.clock.now_ms();
        self.desk.ledger().view(now_ms, false)
    }

    /// The books with every line; the same as `GET /ledger?entries=true`.
    pub fn ledger_with_entries(&self) -> LedgerView {
        let now_ms = self.desk.clock.now_ms();
        self.desk.ledger().view(now_ms, true)
    }

    /// The books about one reference; the same as `GET /ledger?reference=…`.
    pub fn ledger_of(&self, reference: &str) -> ReferenceView {
        let now_ms = self.desk.clock.now_ms();
        self.desk.ledger().reference_view(reference, now_ms)
    }

    /// Empties the books; the same as `DELETE /ledger`. A booking still on its way is lost.
    pub fn reset_ledger(&self) {
        self.desk.ledger().reset();
    }

    /// The settings in force.
    pub fn settings(&self) -> Settings {
        (*self.desk.settings()).clone()
    }

    /// Puts other settings in force, for every call that arrives from now on.
    ///
    /// # Errors
    /// What [`Settings::validate`] refuses; the old settings then stay.
    pub fn set_settings(&self, settings: Settings) -> Result<(), InvalidSettings> {
        settings.validate()?;
        self.desk.change_settings(|_| Ok(settings)).map(drop)
    }

    /// Changes some of the settings, as `PUT /faults` does.
    ///
    /// # Errors
    /// What [`Settings::validate`] refuses; the old settings then stay.
    pub fn change_settings(&self, change: impl FnOnce(&mut Settings)) -> Result<(), InvalidSettings> {
        let changed = self.desk.change_settings(|settings| {
            let mut settings = settings.clone();
            change(&mut settings);
            settings.validate().map(|()| settings)
        });
        changed.map(drop)
    }

    /// Stops at once: the port is closed when this returns, and answers not sent yet never come.
    pub async fn stop(mut self) {
        self.serving.abort();
        // Only ever the cancellation that was just asked for.
        let _ = (&mut self.serving).await;
    }
}

impl Drop for Acquirer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn router(desk: Arc<Desk>) -> Router {
    let books = get(control::ledger).delete(control::reset_ledger);
    Router::new()
        .route("/charges", get(lookups::get).post(charges::post))
        .route("/ledger", books)
        .route("/faults", get(control::faults).put(control::change_faults))
        .route("/healthz", get(control::health))
        .fallback(|| async { answers::unknown_path() })
        .with_state(desk)
}
