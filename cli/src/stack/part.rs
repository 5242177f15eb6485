//! A task that runs until it is told to stop.

use crate::failure::Failure;
use std::pin::Pin;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// Waits for a failure; see [`Part::failed`].
pub type Failing<'a> = Pin<Box<dyn Future<Output = Failure> + Send + 'a>>;

/// A task that runs until it is told to stop. Dropped, it is told and not waited for.
#[derive(Debug)]
pub struct Part {
    what: String,
    stop: CancellationToken,
    task: JoinHandle<Result<(), Failure>>,
    joined: bool,
}

impl Part {
    /// Starts a task. What it is given resolves when it should stop.
    pub fn start<F>(what: impl Into<String>, run: impl FnOnce(WaitForCancellationFutureOwned) -> F) -> Self
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run(stop.clone().cancelled_owned()));
        Self { what: what.into(), stop, task, joined: false }
    }

    /// Tells it to stop and waits until it has.
    ///
    /// # Errors
    /// What it failed with.
    pub async fn stop(mut self) -> Result<(), Failure> {
        self.stop.cancel();
        if self.joined { Ok(()) } else { self.join().await }
    }

    /// Waits until it ends by itself, which it should not.
    pub async fn failed(&mut self) -> Failure {
        let ended = self.join().await;
        let without_reason = || Failure::Ended { what: self.what.clone(), why: "nobody asked it to".to_owned() };
        ended.err().unwrap_or_else(without_reason)
    }

    async fn join(&mut self) -> Result<(), Failure> {
        let ended = (&mut self.task).await;
        // A task is waited for once; whoever asks again is told nothing new.
        self.joined = true;
        ended.unwrap_or_else(|error| Err(Failure::Ended { what: self.what.clone(), why: error.to_string() }))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
