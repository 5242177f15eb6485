//! Signals: the first one asks to stop, the second one stops at once.

use crate::failure::Failure;
use std::process::exit;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Tells when SIGINT or SIGTERM was received.
#[derive(Debug)]
pub struct Shutdown(CancellationToken);

impl Shutdown {
    /// Listens to signals from now on. After the first one the process is expected to end soon; a
    /// second one ends it at once, with exit code 128 and the signal's number, as a shell would say it.
    ///
    /// # Errors
    /// When the operating system does not let us.
    pub fn on_signals() -> Result<Self, Failure> {
        let listen = |kind| signal(kind).map_err(|source| Failure::System { what: "listen to signals", source });
        let signals =
            Signals { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? };
        let asked = CancellationToken::new();
        tokio::spawn(watch(signals, asked.clone()));
        Ok(Self(asked))
    }

    /// Waits until the stop is asked for.
    pub async fn requested(&self) {
        self.0.cancelled().await;
    }

    /// Does the work, unless the stop is asked for before it is done.
    pub async fn unless_requested<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.0.run_until_cancelled(work).await
    }
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// The number of the next one.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
        }
    }
}

async fn watch(mut signals: Signals, asked: CancellationToken) {
    signals.next().await;
    tracing::info!("stopping; a second signal stops at once");
    asked.cancel();
    exit(128 + signals.next().await);
}
