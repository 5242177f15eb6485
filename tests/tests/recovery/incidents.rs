//! The two incidents, as they happened.

use crate::assert_ended_once;
use sandbox::acquirer::Settings;
use shared::config::Acquirer;
use shared::payment::life::Status;
use std::time::Duration;
use tests::client::body;
use tests::{Client, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_that_is_booked_after_we_stopped_waiting_is_one_charge() {
    // The acquirer books 5.8 s after it got the request, and its answer never comes.
    let settings = Settings { book_after_ms: 5_800, hold_ms: 20_000, ..Settings::default() };
    let mut world = World::with(settings).await;
    // The real times of a call: 0.5 s + 3 s, one resend, a hard deadline of 8 s, a lease of 30 s.
    world.config.acquirers.insert("default".to_owned(), Acquirer::at(&world.acquirer.base_url()));
    world.config.worker.lease_ms = 30_000;
    let apis = [world.api().await, world.api().await, world.api().await];
    let _worker = world.worker();
    let accepted = apis[0].client.post("key-1", &body("order-1", "pm_timeout_after_charge")).await;
    let payment_id = accepted.payment_id();
    world.until(payment_id, Status::Unknown).await;
    // The client asks other instances meanwhile, with the same key, and hears no refusal.
    for api in &apis {
        let repeat = api.client.post("key-1", &body("order-1", "pm_timeout_after_charge")).await;
        assert_eq!((repeat.status, repeat.payment_id()), (202, payment_id), "{}", repeat.text);
    }
    world.until(payment_id, Status::Paid).await;
    assert_ended_once(&world, payment_id, Status::Paid).await;
}

/// Passes one request on and resets the client's connection before the answer can come back.
async fn resetting_proxy(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.expect("a client");
        let mut server = TcpStream::connect(to).await.expect("the API");
        let mut request = vec![0; 4096];
        let length = client.read(&mut request).await.expect("a request");
        server.write_all(&request[..length]).await.expect("passed on");
        client.set_zero_linger().expect("a reset instead of a goodbye");
        drop(client);
        // The server's answer is read to its end by nobody.
        let _ = server.read(&mut request).await;
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_posted_again_after_a_reset_is_one_payment() {
    let world = World::new().await;
    let apis = [world.api().await, world.api().await, world.api().await];
    let _worker = world.worker();
    let proxy = resetting_proxy(apis[0].base_url.trim_start_matches("http://").to_owned()).await;
    let through = Client::new(&proxy, &world.api_key);
    let request = body("order-1", "pm_ok");
    let first = through.try_post("key-1", &request, None).await;
    assert!(first.is_err(), "the connection was reset");
    // The phone's HTTP client needs 34 ms to try again; another instance takes it.
    tokio::time::sleep(Duration::from_millis(34)).await;
    let second = apis[1].client.post("key-1", &request).await;
    assert!([201, 202, 409].contains(&second.status), "{}", second.text);
    let third = apis[2].client.pay("key-1", &request).await;
    assert_eq!((third.status, third.json["status"].as_str()), (201, Some("PAID")), "{}", third.text);
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 1);
    assert_ended_once(&world, third.payment_id(), Status::Paid).await;
    assert_eq!(world.acquirer.ledger().calls.posts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_posts_of_one_key_over_three_instances_are_one_charge() {
    let world = World::new().await;
    let apis = [world.api().await, world.api().await, world.api().await];
    let _worker = world.worker();
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(20));
    let mut posts = tokio::task::JoinSet::new();
    for index in 0..20 {
        let (client, barrier) = (apis[index % 3].client.clone(), barrier.clone());
        posts.spawn(async move {
            barrier.wait().await;
            client.post("key-1", &body("order-1", "pm_ok")).await
        });
    }
    let answers = posts.join_all().await;
    let created: Vec<_> = answers.iter().filter(|answer| answer.status == 202).collect();
    assert_eq!(created.len(), 1, "one was accepted");
    let payment_id = created[0].payment_id();
    for answer in &answers {
        let replayed = answer.status == 201 && answer.header("Idempotent-Replayed") == "true";
        let in_progress = answer.status == 409 && answer.code() == "payment_in_progress";
        assert!(answer.status == 202 || replayed || in_progress, "{} {}", answer.status, answer.text);
        assert_eq!(answer.payment_id(), payment_id);
    }
    world.until(payment_id, Status::Paid).await;
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 1);
    assert_ended_once(&world, payment_id, Status::Paid).await;
    assert_eq!(world.acquirer.ledger().calls.posts, 1, "one charge call");
}
