//! An acquirer that says what a test tells it to say, and remembers what it was asked.

use crate::profile;
use mockito::{Matcher, Mock, Request, ServerGuard};
use serde_json::{Value, json};
use shared::payment::life::Status;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tests::World;

/// What it says to one request.
#[derive(Clone, Copy)]
pub enum Say {
    /// Nothing but blanks, until we have stopped waiting.
    Nothing,
    /// A charge of ours with this HTTP status, status and transaction.
    Charge(u16, &'static str, &'static str),
    /// This HTTP status with this body.
    Plain(u16, &'static str),
}

/// What a POST brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its `Idempotency-Key`.
    pub key: String,
    /// Its `X-Request-Id`.
    pub request_id: String,
    /// Its body, byte for byte.
    pub body: Vec<u8>,
}

/// The acquirer.
pub struct Scripted {
    server: ServerGuard,
    posts: Arc<Mutex<Vec<Sent>>>,
}

impl Scripted {
    /// Answers the first POST with the first of `posts` and so on, the last again and again; look-ups
    /// likewise.
    pub async fn start(posts: &[Say], lookups: &[Say]) -> Self {
        let mut acquirer = Self { server: mockito::Server::new_async().await, posts: Arc::default() };
        for say in posts {
            let sent = acquirer.posts.clone();
            let mock = acquirer.server.mock("POST", "/charges");
            let status = move |request: &Request, status| {
                sent.lock().expect("nobody panicked").push(Sent::of(request));
                status
            };
            says(mock, *say, status).create_async().await;
        }
        for say in lookups {
            let mock = acquirer.server.mock("GET", Matcher::Regex("^/charges".to_owned()));
            says(mock, *say, |_, status| status).create_async().await;
        }
        acquirer
    }

    /// A world with this acquirer.
    pub async fn world(&self) -> World {
        let mut world = World::new().await;
        profile(&mut world).base_url = self.server.url();
        world
    }

    /// The POSTs so far.
    pub fn posts(&self) -> Vec<Sent> {
        self.posts.lock().expect("nobody panicked").clone()
    }
}

fn says(mock: Mock, say: Say, status: impl Fn(&Request, usize) -> usize + Send + Sync + 'static) -> Mock {
    let code = match say {
        Say::Nothing => 200,
        Say::Charge(code, ..) | Say::Plain(code, _) => code,
    };
    let mock = mock.with_status_code_from_request(move |request| status(request, code.into()));
    match say {
        Say::Nothing => mock.with_chunked_body(|body| {
            // Blanks are nothing; that they cannot be written is how it hears that nobody waits any more.
            loop {
                body.write_all(b" ")?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }),
        Say::Charge(_, status, transaction_id) => {
            mock.with_body_from_request(move |request| charge(request, status, transaction_id).to_string().into())
        }
        Say::Plain(_, body) => mock.with_body(body),
    }
}

/// The charge that a request is about.
fn charge(request: &Request, status: &str, transaction_id: &str) -> Value {
    let order: Value = serde_json::from_slice(request.body().expect("a body")).unwrap_or_default();
    let asked = request.path_and_query().split_once('=').map(|(_, key)| Value::from(key));
    let reference = asked.unwrap_or_else(|| order["reference"].clone());
    json!({"transaction_id": transaction_id, "status": status, "reference": reference, "amount_minor": 1999, "currency": "EUR"})
}

impl Sent {
    fn of(request: &Request) -> Self {
        let header = |name: &str| {
            let values = request.header(name);
            assert_eq!(values.len(), 1, "one {name}");
            values[0].to_str().expect("visible ASCII").to_owned()
        };
        let body = request.body().expect("a body").clone();
        Self { key: header("Idempotency-Key"), request_id: header("X-Request-Id"), body }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scripted_acquirer_speaks_its_lines_in_order_and_repeats_the_last() {
    let declined = Say::Charge(200, "declined", "txn_1");
    let acquirer = Scripted::start(&[Say::Plain(503, ""), Say::Nothing], &[Say::Plain(500, ""), declined]).await;
    let world = acquirer.world().await;
    let payment_id = world.accepted_one("pm_ok").await;
    let worker = world.worker();
    world.until(payment_id, Status::Declined).await;
    worker.stop().await;
    assert_eq!(acquirer.posts().len(), 1);
    let calls = "SELECT string_agg(concat_ws(' ', kind, http_status), ', ' ORDER BY started_at) FROM provider_calls";
    let calls: String = sqlx::query_scalar(calls).fetch_one(&world.database.pool).await.unwrap();
    assert_eq!(calls, "charge 503, lookup 500, lookup 200");
}
