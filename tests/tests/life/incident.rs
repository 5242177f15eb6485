//! Incident 1: the acquirer books a charge after we stopped waiting for it. With its real times.

use crate::{assert_ended_once, profile};
use sandbox::acquirer::Settings;
use shared::acquirer::{Keys, Lookup, provider_key};
use shared::config::{Acquirer, Config};
use shared::payment::life::Status;
use tests::World;
use uuid::Uuid;

/// From the receipt of the charge to its booking: 5.0 s of patience and 0.8 s more.
const BOOKED_AFTER_MS: u64 = 5_800;

/// The real times of a call (0.5 s + 3 s, one resend, a hard deadline of 8 s) under a real lease.
pub fn real_times(world: &mut World) -> &Config {
    let url = profile(world).base_url.clone();
    // Look-ups follow each other within seconds here.
    *profile(world) = Acquirer { absence_final_after_ms: 10_000, ..Acquirer::at(&url) };
    world.config.worker.lease_ms = 30_000;
    &world.config
}

async fn happens(keys: Keys) -> (World, Uuid) {
    let settings = Settings {
        keys_honoured: keys == Keys::Honoured,
        book_after_ms: BOOKED_AFTER_MS,
        hold_ms: BOOKED_AFTER_MS,
        ..Settings::default()
    };
    let mut world = World::with(settings).await;
    real_times(&mut world);
    profile(&mut world).keys = keys;
    profile(&mut world).lookup = Lookup::ByReference;
    let payment_id = world.accepted_one("pm_timeout_after_charge").await;
    let worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    assert_eq!(world.acquirer.ledger().charges, 0, "we stopped waiting before it was booked");
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
    worker.stop().await;
    (world, payment_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_booked_after_we_stopped_waiting_is_one_charge() {
    let ((honoured, sent_twice), (without, sent_once)) = tokio::join!(happens(Keys::Honoured), happens(Keys::None));
    let calls = honoured.acquirer.ledger_of(&provider_key(sent_twice)).calls;
    assert_eq!(calls.posts, 2, "keys protect the resend");
    assert!(calls.lookups > 1, "not found, and not sent again for that: {calls:?}");
    let calls = without.acquirer.ledger_of(&provider_key(sent_once)).calls;
    assert_eq!(calls.posts, 1, "without keys there is none");
    assert!(calls.lookups > 1, "not found, and not sent again for that: {calls:?}");
}
