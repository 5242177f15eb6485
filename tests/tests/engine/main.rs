//! The committer, the queue and the outbox, under load and without their database.

mod committer;
mod feed;
mod outage;
mod publish;
mod queue;
mod retention;
mod silence;
mod wake;

use shared::acquirer::Answer;
use shared::committer::Write;
use shared::payment::accept::Accept;
use shared::payment::claim::{self, Claim};
use shared::payment::life::Outcome;
use shared::payment::request::Request;
use shared::payment::settle::Settle;
use shared::queue::{Step, Take};
use std::time::Duration;
use tests::World;
use tests::by_hand::{route, take};
use tests::client::body;
use uuid::Uuid;

/// An accept of the intent `order-N`, with a key of its own.
fn accept(world: &World, n: usize) -> Accept {
    Accept {
        merchant_id: world.merchant_id,
        payment_id: Uuid::now_v7(),
        idempotency_key: Uuid::new_v4().to_string(),
        request: Request {
            payment_intent_id: format!("order-{n}"),
            amount_minor: 1999,
            currency: "EUR".to_owned(),
            payment_method_id: "pm_ok".to_owned(),
            acquirer: None,
        },
        acquirer: "default".to_owned(),
        metadata: None,
        traceparent: None,
    }
}

/// Posts `count` payments over HTTP.
async fn post(world: &World, count: usize) -> Vec<Uuid> {
    let api = world.api().await;
    let mut ids = Vec::new();
    for n in 0..count {
        ids.push(api.client.post(&format!("key-{n}"), &body(&format!("order-{n}"), "pm_ok")).await.payment_id());
    }
    ids
}

/// Claims up to `limit` due payments for `lease`.
async fn claimed(world: &World, step: Step, limit: i64, lease: Duration) -> Vec<Claim> {
    let take = Take { limit, lease, ..take(step, route(step)) };
    claim::fetch(&world.database.pool, &take).await.expect("claims")
}

/// The write that settles a claim as PAID.
fn paid(claim: &Claim) -> Settle {
    let answer = Answer {
        outcome: Outcome::Success,
        transaction_id: Some("txn_1".to_owned()),
        ..Answer::unknown(Some(201), "SUCCESS", "approved")
    };
    let sinks = ["log".to_owned()];
    Settle::new(&claim.payment, &answer, claim.clock.now(), "by hand", &sinks, Duration::from_secs(30)).expect("open")
}

fn write(settle: Settle) -> Write {
    Write::Settle(Box::new(settle))
}
