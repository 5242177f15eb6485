//! `kind = "stripe"` against a Stripe server that nobody here wrote. It ignores idempotency keys, so its contract is the
//! one without any: whatever may have left is never sent again.

use shared::acquirer::{Keys, Lookup, provider_key};
use shared::config::{Acquirer, Kind, Secret};
use shared::payment::life::Status;
use shared::review::{Reason, open_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tests::localstripe::{CREDENTIAL, LocalStripe};
use tests::{World, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use uuid::Uuid;

const APPROVED: &str = "4242424242424242";
const DECLINED: &str = "4000000000000341";
const ASKS_THE_SHOPPER: &str = "4000002500003155";

/// A world whose acquirer is at `url`.
async fn world(url: &str) -> World {
    let mut world = World::new().await;
    let short = world.config.acquirers.remove("default").expect("the profile");
    let stripe = Acquirer {
        kind: Kind::Stripe,
        base_url: url.to_owned(),
        credential: Some(Secret(CREDENTIAL.to_owned())),
        keys: Keys::None,
        lookup: Lookup::ByReference,
        read_ms: 1_000,
        deadline_ms: 3_000,
        ..short
    };
    world.config.acquirers.insert("default".to_owned(), stripe);
    world.config.worker.lease_ms = 4_000;
    world.config.clone().checked().expect("it agrees with itself");
    world
}

async fn pays(world: &World, payment_method_id: &str, end: Status) -> Uuid {
    let payment_id = world.accepted_one(payment_method_id).await;
    let worker = world.worker();
    world.until(payment_id, end).await;
    worker.stop().await;
    payment_id
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approved_card_is_paid_by_one_intent_that_bears_our_reference() {
    let stripe = LocalStripe::start().await;
    let world = world(&stripe.url()).await;
    let card = stripe.card(APPROVED).await;
    let payment_id = pays(&world, &card, Status::Paid).await;
    let intents = stripe.intents(&provider_key(payment_id)).await;
    assert_eq!(intents.len(), 1, "{intents:?}");
    let payment = world.payment(payment_id).await;
    assert_eq!(payment.transaction_id.as_deref(), intents[0]["id"].as_str());
    assert_eq!((intents[0]["amount"].as_i64(), intents[0]["currency"].as_str()), (Some(1999), Some("eur")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_declined_card_is_declined_with_the_issuer_s_code() {
    let stripe = LocalStripe::start().await;
    let world = world(&stripe.url()).await;
    let card = stripe.card(DECLINED).await;
    let payment_id = pays(&world, &card, Status::Declined).await;
    assert_eq!(world.payment(payment_id).await.decline_code.as_deref(), Some("card_declined"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_payment_method_is_failed_and_no_intent_is_made() {
    let stripe = LocalStripe::start().await;
    let world = world(&stripe.url()).await;
    let payment_id = pays(&world, "pm_of_nobody", Status::Failed).await;
    assert!(stripe.intents(&provider_key(payment_id)).await.is_empty());
    let payment = world.payment(payment_id).await;
    assert_eq!(payment.failure_message.as_deref(), Some("Not Found"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_credential_is_failed_before_any_money_moves() {
    let stripe = LocalStripe::start().await;
    let mut world = world(&stripe.url()).await;
    let card = stripe.card(APPROVED).await;
    world.config.acquirers.get_mut("default").expect("there").credential = Some(Secret("pk_not_a_secret".to_owned()));
    let payment_id = pays(&world, &card, Status::Failed).await;
    assert!(stripe.intents(&provider_key(payment_id)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_that_asks_the_shopper_is_neither_paid_nor_refused_and_is_looked_up_by_its_id() {
    let stripe = LocalStripe::start().await;
    let world = world(&stripe.url()).await;
    let card = stripe.card(ASKS_THE_SHOPPER).await;
    let payment_id = world.accepted_one(&card).await;
    let _worker = world.worker();
    let asked = "SELECT count(*) FROM provider_calls WHERE kind = 'lookup' AND outcome = 'PROCESSING' AND code = 'requires_action'";
    eventually("it was looked up", || async { (world.count(asked).await > 0).then_some(()) }).await;
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
    assert_eq!(stripe.intents(&provider_key(payment_id)).await.len(), 1);
}

/// A road to the server that can lose an answer: the charge is made, and nobody hears of it.
struct Road {
    url: String,
    loses: Arc<AtomicBool>,
    lost: Arc<Notify>,
    charges: Arc<AtomicUsize>,
}

impl Road {
    async fn to(server: String) -> Self {
        let server = server.strip_prefix("http://").expect("http").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let road = Self { url, loses: Arc::default(), lost: Arc::default(), charges: Arc::default() };
        let (loses, lost, charges) = (road.loses.clone(), road.lost.clone(), road.charges.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Where nobody listens, the client hears that at once.
                if let Ok(server) = TcpStream::connect(&server).await {
                    tokio::spawn(pass(client, server, loses.clone(), lost.clone(), charges.clone()));
                }
            }
        });
        road
    }
}

async fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    loses: Arc<AtomicBool>,
    lost: Arc<Notify>,
    charges: Arc<AtomicUsize>,
) {
    let (mut asked, mut answered) = ([0; 16_384], [0; 16_384]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                charges.fetch_add(usize::from(asked.starts_with(b"POST /v1/payment_intents")), Ordering::SeqCst);
                if server.write_all(&asked[..read]).await.is_err() { return }
            }
            read = server.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return };
                if loses.load(Ordering::SeqCst) {
                    lost.notify_one();
                    return;
                }
                if client.write_all(&answered[..read]).await.is_err() { return }
            }
        }
    }
}

/// A payment whose charge was made, and whose answer was lost; it is in doubt, and nobody asks yet.
async fn charged_and_not_heard(stripe: &LocalStripe) -> (World, Road, Uuid) {
    let road = Road::to(stripe.url()).await;
    let world = world(&road.url).await;
    let card = stripe.card(APPROVED).await;
    road.loses.store(true, Ordering::SeqCst);
    let payment_id = world.accepted_one(&card).await;
    let worker = world.worker();
    road.lost.notified().await;
    world.until(payment_id, Status::Unknown).await;
    worker.stop().await;
    road.loses.store(false, Ordering::SeqCst);
    (world, road, payment_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_whose_answer_was_lost_is_found_by_our_reference_and_never_sent_again() {
    let stripe = LocalStripe::start().await;
    let (world, road, payment_id) = charged_and_not_heard(&stripe).await;
    let _worker = world.worker();
    world.until(payment_id, Status::Paid).await;
    assert_eq!(stripe.intents(&provider_key(payment_id)).await.len(), 1);
    assert_eq!(road.charges.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_in_mid_charge_and_back_without_memory_leaves_it_to_a_person() {
    let mut stripe = LocalStripe::start().await;
    let (world, road, payment_id) = charged_and_not_heard(&stripe).await;
    stripe.restart().await;
    let worker = world.worker();
    let reason = eventually("a person has it", || async {
        let open = open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews");
        open.first().map(|review| review.reason)
    })
    .await;
    worker.stop().await;
    assert_eq!(reason, Reason::NotFoundInconclusive);
    assert_eq!(world.payment(payment_id).await.status, Status::Unknown);
    assert_eq!(road.charges.load(Ordering::SeqCst), 1, "it may have moved money, and there are no keys: never again");
    assert!(stripe.intents(&provider_key(payment_id)).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_charges_for_one_reference_go_before_a_person_with_both_ids() {
    let stripe = LocalStripe::start().await;
    let (world, _road, payment_id) = charged_and_not_heard(&stripe).await;
    let reference = provider_key(payment_id);
    let card = stripe.card(APPROVED).await;
    let second = [
        ("amount", "1999"),
        ("currency", "eur"),
        ("payment_method", card.as_str()),
        ("confirm", "true"),
        ("metadata[payonce_payment_id]", reference.as_str()),
    ];
    let client = reqwest::Client::new();
    let post = client.post(format!("{}/v1/payment_intents", stripe.url())).bearer_auth(CREDENTIAL).form(&second);
    assert!(post.send().await.expect("an answer").status().is_success());
    let _worker = world.worker();
    let review = eventually("a person has it", || async {
        open_of(&world.database.pool, world.key(payment_id)).await.expect("reviews").into_iter().next()
    })
    .await;
    assert_eq!(review.reason, Reason::DuplicateAtProvider);
    for intent in stripe.intents(&reference).await {
        assert!(review.detail.contains(intent["id"].as_str().expect("an id")), "{}", review.detail);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_amount_with_a_third_decimal_place_is_refused_before_it_is_sent() {
    let stripe = LocalStripe::start().await;
    let world = world(&stripe.url()).await;
    let mut request = world.request(1, "pm_1");
    (request.request.currency, request.request.amount_minor) = ("KWD".to_owned(), 10_005);
    let payment_id = request.payment_id;
    let committer = tests::world::Process::start(&world.database.url).committer;
    committer.write(shared::committer::Write::Accept(request)).await.expect("accepted");
    let _worker = world.worker();
    let failed = world.until(payment_id, Status::Failed).await;
    assert_eq!((failed.failure_code.as_deref(), failed.first_call_at), (Some("amount_not_representable"), None));
}

/// An account with more intents than are walked.
#[tokio::test(flavor = "multi_thread")]
async fn where_the_list_is_too_long_the_search_is_asked() {
    let mut server = mockito::Server::new_async().await;
    let intent = |id: &str, reference: &str| {
        serde_json::json!({"id": id, "object": "payment_intent", "status": "succeeded", "amount": 1999, "currency": "eur",
            "metadata": {"payonce_payment_id": reference}})
    };
    let page = serde_json::json!({"data": [intent("pi_other", "another")], "has_more": true}).to_string();
    let list = server.mock("GET", mockito::Matcher::Regex("^/v1/payment_intents[?].*created".to_owned()));
    let list = list.with_body(page).expect(10).create_async().await;
    let charge = server.mock("POST", "/v1/payment_intents").with_status(500).expect(1).create_async().await;
    let world = world(&server.url()).await;
    let payment_id = world.accepted_one("pm_card").await;
    let found =
        serde_json::json!({"data": [intent("pi_ours", &provider_key(payment_id))], "has_more": false}).to_string();
    let search = server.mock("GET", mockito::Matcher::Regex("^/v1/payment_intents/search[?]".to_owned()));
    let search = search.match_header("stripe-version", shared::acquirer::stripe::API_VERSION);
    let search = search.with_body(found).expect(1).create_async().await;
    let worker = world.worker();
    let paid = world.until(payment_id, Status::Paid).await;
    worker.stop().await;
    assert_eq!(paid.transaction_id.as_deref(), Some("pi_ours"));
    for mock in [list, charge, search] {
        mock.assert_async().await;
    }
}
