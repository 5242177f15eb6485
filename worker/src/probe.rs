//! Finds out whether acquirers that were given up are back, by asking them something harmless.

use crate::Context;
use crate::acquirer::AcquirerClient;
use crate::acquirer::gate::{Circuit, probe_rest};
use crate::context::jittered;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Watches the circuits of all acquirers until the set is dropped.
pub(crate) fn start(context: &Arc<Context>) -> JoinSet<()> {
    let mut watching = JoinSet::new();
    for name in context.acquirers.keys() {
        let (context, name) = (context.clone(), name.clone());
        watching.spawn(async move {
            if let Some(acquirer) = context.acquirers.get(&name) {
                watch(&context, &name, acquirer).await;
            }
        });
    }
    watching
}

async fn watch(context: &Context, name: &str, acquirer: &AcquirerClient) {
    let mut circuit = acquirer.gate().circuit();
    loop {
        let now = *circuit.borrow_and_update();
        context.metrics.circuit(name, now.as_str());
        if let Circuit::Open { probes } = now {
            sleep(jittered(probe_rest(probes))).await;
            let answer = acquirer.probe().await;
            tracing::info!(acquirer = name, ?answer, "probed an acquirer that was away");
            acquirer.gate().probed(&answer);
        } else if circuit.changed().await.is_err() {
            return;
        }
    }
}
