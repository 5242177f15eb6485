//! Fault points: every commit and every network call of a step passes one before and one after. In
//! an ordinary build they are nothing; with the feature `fault-points` (tests only) a test stops a
//! worker at any of them, as a crash would.

#[cfg(feature = "fault-points")]
mod points {
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::Arc;

    type Hook = dyn Fn(&'static str) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

    /// What happens at the fault points.
    #[derive(Clone, Default)]
    pub struct Faults(Option<Arc<Hook>>);

    impl Faults {
        /// Runs `hook` at each point and goes on when its future ends; one that never ends is a crash.
        pub fn at_points<F>(hook: impl Fn(&'static str) -> F + Send + Sync + 'static) -> Self
        where
            F: Future<Output = ()> + Send + 'static,
        {
            Self(Some(Arc::new(move |point| Box::pin(hook(point)))))
        }

        pub(crate) async fn point(&self, name: &'static str) {
            if let Some(hook) = &self.0 {
                hook(name).await;
            }
        }
    }
}

#[cfg(not(feature = "fault-points"))]
mod points {
    /// Nothing.
    #[derive(Clone, Copy, Default)]
    pub struct Faults;

    impl Faults {
        #[expect(clippy::unused_async, reason = "the other build waits here")]
        pub(crate) async fn point(self, _: &'static str) {}
    }
}

pub use points::Faults;
