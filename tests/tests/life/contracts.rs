//! What an acquirer's contract says is enforced: whether a charge that may have left is sent again, and what is asked
//! instead.

use crate::scripted::{Say, Scripted};
use crate::{left_in_doubt, profile, until_in_review};
use sandbox::acquirer::{Lookup as Found, Settings};
use shared::acquirer::{Keys, Lookup, Replay, Scope, Signature, provider_key};
use shared::payment::life::Status;
use shared::review::Reason;
use tests::{World, eventually};

const APPROVED: Say = Say::Charge(201, "approved", "txn_1");
const NOT_FOUND: Say = Say::Plain(404, r#"{"error":"not_found"}"#);
const UNAVAILABLE: Say = Say::Plain(503, "");

/// A world whose acquirer cannot be asked what became of a charge.
async fn not_to_be_asked(settings: Settings) -> World {
    let mut world = World::with(Settings { lookup: Found::None, ..settings }).await;
    profile(&mut world).lookup = Lookup::None;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acquirer_that_cannot_be_asked_is_sent_the_same_request_again() {
    for method in ["pm_500_after_charge", "pm_503", "pm_malformed", "pm_409_in_flight", "pm_processing_then_ok"] {
        let world = not_to_be_asked(Settings::default()).await;
        let payment_id = world.accepted_one(method).await;
        let worker = world.worker();
        world.until(payment_id, Status::Paid).await;
        worker.stop().await;
        let books = world.acquirer.ledger_of(&provider_key(payment_id));
        assert_eq!((books.charges, books.calls.lookups), (1, 0), "{method}");
        assert!(books.calls.posts >= 2, "{method}: {books:?}");
        assert_eq!(books.keys, [provider_key(payment_id)], "{method}");
        assert_eq!(world.count("SELECT count(*) FROM provider_calls WHERE kind = 'lookup'").await, 0, "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_asked_and_protects_no_repeat_leaves_it_to_a_person_after_the_grace() {
    let changes: [fn(&mut shared::config::Acquirer); 3] = [
        |acquirer| acquirer.keys = Keys::None,
        |acquirer| acquirer.ttl_h = None,
        |acquirer| acquirer.replay_semantics = Replay::Reexecute,
    ];
    for change in changes {
        let mut world = not_to_be_asked(Settings::default()).await;
        change(profile(&mut world));
        let payment_id = world.accepted_one("pm_500_after_charge").await;
        let _worker = world.worker();
        assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive);
        assert_eq!(world.acquirer.ledger().calls.posts, 1);
        let unsent = "SELECT count(*) FROM provider_calls WHERE outcome = 'NOT_SENT'";
        assert_eq!(world.count(unsent).await, 1, "the call that was not made is on record as such");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_executes_anew_is_never_sent_a_cut_off_charge_again_before_it_is_proven_absent() {
    let acquirer = Scripted::start(&[Say::Nothing, APPROVED], &[UNAVAILABLE, NOT_FOUND]).await;
    let mut world = acquirer.world().await;
    profile(&mut world).replay_semantics = Replay::Reexecute;
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Unknown).await;
    assert_eq!(acquirer.posts().len(), 1, "not at once");
    world.until(payment_id, Status::Paid).await;
    worker.stop().await;
    let calls = "SELECT string_agg(concat_ws(' ', kind, outcome), ', ' ORDER BY started_at) FROM provider_calls";
    let calls: String = sqlx::query_scalar(calls).fetch_one(&world.database.pool).await.unwrap();
    assert!(calls.starts_with("charge UNKNOWN, lookup UNKNOWN, lookup NOT_FOUND"), "{calls}");
    assert!(calls.ends_with("lookup NOT_FOUND, charge SUCCESS"), "{calls}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_that_forbids_the_resend_at_once_is_obeyed() {
    let acquirer = Scripted::start(&[Say::Nothing], &[Say::Charge(200, "approved", "txn_1")]).await;
    let mut world = acquirer.world().await;
    profile(&mut world).resend_after_timeout = Some(false);
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    worker.stop().await;
    assert_eq!(acquirer.posts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_in_doubt_is_not_sent_where_its_key_is_not_known() {
    let moves: [fn(&mut shared::config::Acquirer, &str); 3] = [
        |acquirer, elsewhere| (acquirer.scope, acquirer.base_url) = (Scope::Endpoint, elsewhere.to_owned()),
        |acquirer, elsewhere| (acquirer.scope, acquirer.base_url) = (Scope::Region, elsewhere.to_owned()),
        |acquirer, _| "acct_2".clone_into(&mut acquirer.account),
    ];
    for (n, moves) in moves.into_iter().enumerate() {
        let here = Scripted::start(&[UNAVAILABLE], &[NOT_FOUND]).await;
        let there = Scripted::start(&[APPROVED], &[NOT_FOUND]).await;
        let mut world = here.world().await;
        profile(&mut world).scope = [Scope::Endpoint, Scope::Region, Scope::Account][n];
        let payment_id = world.accepted_one("pm_ok").await;
        left_in_doubt(&world, payment_id).await;
        let elsewhere = profile(&mut there.world().await).base_url.clone();
        moves(profile(&mut world), &elsewhere);
        let _worker = world.worker();
        assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive, "move {n}");
        assert_eq!((here.posts().len(), there.posts().len()), (1, 0), "move {n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_profile_knows_as_in_flight_is_unknown_whatever_its_status_means_else() {
    let in_flight = Say::Plain(422, r#"{"errorCode":"704"}"#);
    let acquirer = Scripted::start(&[in_flight], &[Say::Charge(200, "approved", "txn_1")]).await;
    let mut world = acquirer.world().await;
    profile(&mut world).inflight_signature = vec![Signature::of(422, "/errorCode", "704")];
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payment_from_before_the_realm_of_its_key_was_written_down_is_not_sent_again() {
    let acquirer = Scripted::start(&[UNAVAILABLE, APPROVED], &[NOT_FOUND]).await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    left_in_doubt(&world, payment_id).await;
    world.run("UPDATE provider_calls SET key_scope = NULL").await;
    let _worker = world.worker();
    assert_eq!(until_in_review(&world, payment_id).await, Reason::NotFoundInconclusive);
    assert_eq!(acquirer.posts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_nobody_verified_is_shown() {
    let mut world = World::new().await;
    let shown = async |world: &World, stale: u8| {
        let worker = world.worker();
        let line = format!("payonce_acquirer_contract_stale{{acquirer=\"default\"}} {stale}");
        eventually(&line, || async { worker.metrics.render(&world.database.pool).await.contains(&line).then_some(()) })
            .await;
        worker.stop().await;
    };
    shown(&world, 1).await;
    let today = shared::db::today(&world.database.pool).await.expect("a day");
    profile(&mut world).verified_on = Some(today);
    shown(&world, 0).await;
    profile(&mut world).verified_on = Some(today - time::Duration::days(181));
    shown(&world, 1).await;
}
