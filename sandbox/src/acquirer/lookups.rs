//! `GET /charges`.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Response;
use serde::Deserialize;
use tokio::time::sleep;

use super::answers;
use super::charge::Charge;
use super::desk::Desk;
use super::draw::draw;
use super::ledger::Name;
use super::settings::Settings;

/// What a look-up asks by: exactly one of the two.
#[derive(Deserialize)]
pub(super) struct By {
    idempotency_key: Option<String>,
    reference: Option<String>,
}

/// Finds what was booked under a key or for a reference.
pub(super) async fn get(State(desk): State<Arc<Desk>>, Query(by): Query<By>) -> Response {
    let settings = desk.settings();
    let name = match (&by.idempotency_key, &by.reference) {
        (Some(name), None) | (None, Some(name)) => name,
        _ => return answers::bad_lookup(),
    };
    wait(&desk, &settings, name).await;

    let by_key = by.idempotency_key.is_some();
    let lookup = settings.lookup;
    let offered = if by_key { lookup.by_key() } else { lookup.by_reference() };
    if !offered {
        desk.ledger().refuse_lookup();
        return answers::lookup_unsupported();
    }
    let as_list = by_key && settings.lookup_by_key_as_list;
    answers::found(find(&desk, &settings, by_key, name), as_list)
}

async fn wait(desk: &Desk, settings: &Settings, name: &str) {
    let salt = u64::from(desk.clock.now_ms());
    let latency_ms = settings.latency_ms.ms(draw(settings.seed, name, salt));
    if latency_ms > 0 {
        sleep(Duration::from_millis(latency_ms)).await;
    }
}

fn find(desk: &Desk, settings: &Settings, by_key: bool, name: &str) -> Vec<Charge> {
    let now_ms = desk.clock.now_ms();
    let name = Name::from(name);
    let mut ledger = desk.ledger();
    let ids = if by_key {
        ledger.find_by_key(&name, settings, now_ms)
    } else {
        ledger.find_by_reference(&name, settings, now_ms)
    };
    let charges = ids.into_iter().map(|id| ledger.charge(id, now_ms));
    charges.flatten().collect()
}
