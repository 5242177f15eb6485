//! A worker without a queue: the test itself claims, and runs what it claimed.

use crate::World;
use crate::eventually;
use crate::world::Process;
use shared::outbox;
use shared::payment::claim;
use shared::queue::{Claimed, Step, Take};
use std::sync::Arc;
use std::time::Duration;
use worker::acquirer::AcquirerClient;
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

    /// Claims up to `limit` due jobs of a step on a route for `lease`.
    pub async fn claim(&self, step: Step, route: &str, limit: i64, lease: Duration) -> Vec<Claimed> {
        let budget = self.context.budget(step).deliveries;
        let asks = self.context.acquirers.get(route).is_none_or(AcquirerClient::can_be_asked);
        let take = Take { asks, limit, lease, budget, worker: &self.context.name, ..take(step, route) };
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
        let route = route(step);
        eventually("a job is due", || async { self.claim(step, route, 1, self.context.lease()).await.pop() }).await
    }

    /// Runs a step to its end, and what its commits hand over.
    pub async fn run(&self, claimed: &Claimed) {
        worker::steps::run(self.context.clone(), claimed.clone()).await;
    }
}

/// The route of a step's jobs in a world with one acquirer and one sink.
#[must_use]
pub const fn route(step: Step) -> &'static str {
    match step {
        Step::Charge | Step::Lookup => "default",
        Step::Settle => "",
        Step::Publish => "log",
    }
}

/// One job of a lane in such a world, for half a minute.
#[must_use]
pub const fn take(step: Step, route: &str) -> Take<'_> {
    Take {
        step,
        route,
        key_scope: Some("account:"),
        asks: true,
        due_for: Duration::ZERO,
        limit: 1,
        lease: Duration::from_secs(30),
        budget: 5,
        worker: "by hand",
    }
}
