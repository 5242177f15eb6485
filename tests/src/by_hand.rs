//! A worker without a queue: the test itself claims, and runs what it claimed.

use crate::World;
use crate::eventually;
use crate::world::Process;
use shared::outbox;
use shared::payment::claim;
use shared::queue::{Claimed, Step, Take};
use std::sync::Arc;
use std::time::Duration;
use worker::faults::Faults;
use worker::{Context, Services};

/// The parts of a worker's process.
pub struct ByHand {
    /// What steps run with.
    pub context: Arc<Context>,
}

impl ByHand {
    /// Starts the parts, named `by hand`, with the world's configuration.
    #[must_use]
    pub fn start(world: &World, faults: Faults) -> Self {
        let Process { pool, committer, notifier, metrics } = Process::start(&world.database.url);
        let (config, name) = (Arc::new(world.config.clone()), "by hand".to_owned());
        let services = Services { pool, committer, notifier, metrics, config, name, faults };
        Self { context: Arc::new(Context::new(services).expect("clients of the configured acquirers")) }
    }

    /// Claims up to `limit` due jobs of a step for `lease`.
    pub async fn claim(&self, step: Step, sink: &str, limit: i64, lease: Duration) -> Vec<Claimed> {
        let budget = self.context.budget(step).deliveries;
        let take = Take { step, sink, limit, lease, budget, worker: &self.context.name };
        match step {
            Step::Publish => {
                let claims = outbox::fetch(&self.context.pool, &take).await.expect("claims");
                claims.into_iter().map(|claim| Claimed::Delivery(Box::new(claim))).collect()
            }
            Step::Charge | Step::Lookup | Step::Settle => {
                let claims = claim::fetch(&self.context.pool, &take).await.expect("claims");
                claims.into_iter().map(|claim| Claimed::Payment(Box::new(claim))).collect()
            }
        }
    }

    /// Claims one job of a step as soon as one is due, for the configured lease.
    pub async fn claim_one(&self, step: Step) -> Claimed {
        let sink = if step == Step::Publish { "log" } else { "" };
        eventually("a job is due", || async { self.claim(step, sink, 1, self.context.lease()).await.pop() }).await
    }

    /// Runs a step to its end, and what its commits hand over.
    pub async fn run(&self, claimed: &Claimed) {
        worker::steps::run(self.context.clone(), claimed.clone()).await;
    }
}
