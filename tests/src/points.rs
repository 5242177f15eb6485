//! Sync points: a worker is held at a fault point of the test's choice, until it is let go or crashes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::sync::Semaphore;
use worker::faults::Faults;

/// A fault point at which steps are held.
pub struct Point {
    passed: AtomicUsize,
    name: OnceLock<&'static str>,
    arrived: Semaphore,
    released: Semaphore,
}

impl Point {
    /// Holds whoever comes to the `n`-th fault point, counted from 1 over the whole worker.
    #[must_use]
    pub fn nth(n: usize) -> (Faults, Arc<Self>) {
        Self::held_when(move |count, _| count == n)
    }

    /// Holds the `n`-th who comes to a fault point of this name, counted from 1.
    #[must_use]
    pub fn nth_named(n: usize, point: &'static str) -> (Faults, Arc<Self>) {
        let came = AtomicUsize::new(0);
        Self::held_when(move |_, name| name == point && came.fetch_add(1, Ordering::SeqCst) + 1 == n)
    }

    /// Holds everybody who comes to the fault point of this name.
    #[must_use]
    pub fn named(point: &'static str) -> (Faults, Arc<Self>) {
        Self::held_when(move |_, name| name == point)
    }

    /// Holds the first who comes to the fault point of this name.
    #[must_use]
    pub fn first(point: &'static str) -> (Faults, Arc<Self>) {
        Self::nth_named(1, point)
    }

    fn held_when(holds: impl Fn(usize, &'static str) -> bool + Send + Sync + 'static) -> (Faults, Arc<Self>) {
        let point = Arc::new(Self {
            passed: AtomicUsize::new(0),
            name: OnceLock::new(),
            arrived: Semaphore::new(0),
            released: Semaphore::new(0),
        });
        let watched = point.clone();
        let faults = Faults::at_points(move |name| {
            let held = holds(watched.passed.fetch_add(1, Ordering::SeqCst) + 1, name);
            let point = watched.clone();
            async move {
                if held {
                    point.hold(name).await;
                }
            }
        });
        (faults, point)
    }

    async fn hold(&self, name: &'static str) {
        let _ = self.name.set(name);
        self.arrived.add_permits(1);
        self.released.acquire().await.expect("never closed").forget();
    }

    /// Waits until one more step is held.
    pub async fn reached(&self) {
        self.arrived.acquire().await.expect("never closed").forget();
    }

    /// Lets one step that is held, or will be, go on.
    pub fn release(&self) {
        self.released.add_permits(1);
    }

    /// How many fault points were reached so far.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::SeqCst)
    }

    /// The name of the point at which the first step was held, `""` while none is.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name.get().copied().unwrap_or_default()
    }
}
