//! `GET /v1/events`: the outbox as a feed.

use crate::{ENDS, assert_problem, ended, order, world};
use serde_json::{Value, json};
use shared::merchant;
use shared::payment::life::Status;
use sqlx::{Connection, PgConnection};
use std::collections::HashSet;
use tests::{Client, World, eventually};
use tokio::task::JoinSet;
use uuid::Uuid;

/// A consumer: stores the cursor with what it has read, and reads on from there.
pub struct Reader {
    client: Client,
    limit: usize,
    cursor: Option<String>,
    read: Vec<Value>,
}

impl Reader {
    /// Begins with the first event; reads `limit` at a time.
    pub fn new(client: &Client, limit: usize) -> Self {
        Self { client: client.clone(), limit, cursor: None, read: Vec::new() }
    }

    /// Reads one page; how many entries it had.
    async fn read_on(&mut self) -> usize {
        let after = self.cursor.as_ref().map_or_else(String::new, |cursor| format!("&after={cursor}"));
        let page = self.client.get(&format!("/v1/events?limit={}{after}", self.limit)).await;
        assert_eq!((page.status, &page.json["object"]), (200, &json!("list")), "{}", page.text);
        let events = page.json["data"].as_array().expect("a list");
        assert!(events.len() <= self.limit);
        self.cursor = Some(page.json["next_cursor"].as_str().expect("a cursor, also of an empty page").to_owned());
        self.read.extend(events.iter().cloned());
        events.len()
    }

    /// Reads until so many entries were read. Transactions of other tests on the same server may hold
    /// some back for a while.
    pub async fn until(&mut self, count: usize) {
        let reader = tokio::sync::Mutex::new(&mut *self);
        eventually("so many events", || async {
            let mut reader = reader.lock().await;
            reader.read_on().await;
            (reader.read.len() >= count).then_some(())
        })
        .await;
        assert_eq!(self.read.len(), count, "no more than there are");
    }

    /// The ids of what was read.
    pub fn ids(&self) -> Vec<&str> {
        self.read.iter().map(|event| event["id"].as_str().expect("an id")).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_end_is_told_once_as_a_cloud_event() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let mut reader = Reader::new(&api.client, 20);
    let types = ["payments.succeeded", "payments.declined", "payments.failed"];
    for (n, (method, end)) in ENDS.into_iter().enumerate() {
        let last = ended(&api.client, n, method, end).await;
        reader.until(n + 1).await;
        let event = &reader.read[n];
        let expected = json!({
            "specversion": "1.0", "id": event["id"], "source": "/payonce", "type": types[n],
            "subject": format!("order-{n}"), "time": last.json["final_at"], "datacontenttype": "application/json",
            "data": last.json,
        });
        assert_eq!(event, &expected);
    }
    let ids: HashSet<Uuid> = reader.ids().into_iter().map(|id| id.parse().expect("a UUID")).collect();
    assert_eq!(ids.len(), 3, "each has an id of its own");
    // Read again from the beginning it is the same, ids included.
    let mut again = Reader::new(&api.client, 2);
    again.until(3).await;
    assert_eq!(again.read, reader.read);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_goes_on_with_the_trace_of_its_post() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let post = api.client.request(reqwest::Method::POST, "/v1/payments").header("Idempotency-Key", "key-1");
    let post = post.header("traceparent", format!("00-{trace}-00f067aa0ba902b7-01")).json(&order(1, "pm_ok"));
    assert_eq!(post.send().await.expect("an answer").status(), 202);
    let mut reader = Reader::new(&api.client, 20);
    reader.until(1).await;
    assert!(reader.read[0]["traceparent"].as_str().is_some_and(|parent| parent.contains(trace)), "{}", reader.read[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_feed_has_a_cursor_to_wait_at() {
    let (world, api) = world().await;
    let mut reader = Reader::new(&api.client, 20);
    assert_eq!((reader.read_on().await, reader.read_on().await), (0, 0));
    let _worker = world.worker();
    ended(&api.client, 1, "pm_ok", Status::Paid).await;
    reader.until(1).await;
    assert_eq!(reader.read_on().await, 0, "nothing comes twice");
}

/// An event of the merchant, in a transaction that is still open.
async fn write_event(conn: &mut PgConnection, world: &World, intent: &str) -> String {
    let id = Uuid::now_v7();
    sqlx::query(
        "INSERT INTO events (merchant_id, id, payment_id, payment_intent_id, type, data, occurred_at)
         VALUES ($1, $2, $2, $3, 'payments.succeeded', '{}', now())",
    )
    .bind(world.merchant_id)
    .bind(id)
    .bind(intent)
    .execute(conn)
    .await
    .expect("an event");
    id.to_string()
}

/// Case 21: what commits late is neither skipped nor shown twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_commits_late_is_not_skipped_and_none_comes_twice() {
    let (world, api) = world().await;
    let worker = world.worker();
    let mut reader = Reader::new(&api.client, 20);
    ended(&api.client, 1, "pm_ok", Status::Paid).await;
    reader.until(1).await;
    let mut slow = PgConnection::connect(&world.database.url).await.expect("a connection");
    let mut open = slow.begin().await.expect("a transaction");
    let late = write_event(&mut open, &world, "order-late").await;
    // Two more payments end, and are read as far as they are shown, while the event is on its way.
    for n in [2, 3] {
        ended(&api.client, n, "pm_ok", Status::Paid).await;
        reader.read_on().await;
        assert!(!reader.ids().contains(&late.as_str()), "not committed yet");
    }
    open.commit().await.expect("committed");
    reader.until(4).await;
    assert!(reader.ids().contains(&late.as_str()), "the late one was skipped: {:?}", reader.read);
    ended(&api.client, 4, "pm_ok", Status::Paid).await;
    worker.stop().await;
    reader.until(5).await;
    let mut intents: Vec<_> = reader.read.iter().map(|event| event["subject"].as_str().expect("a subject")).collect();
    intents.sort_unstable();
    assert_eq!(intents, ["order-1", "order-2", "order-3", "order-4", "order-late"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_is_undone_holds_nothing_up_and_is_never_shown() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let mut reader = Reader::new(&api.client, 20);
    let mut slow = PgConnection::connect(&world.database.url).await.expect("a connection");
    let mut open = slow.begin().await.expect("a transaction");
    let undone = write_event(&mut open, &world, "order-undone").await;
    ended(&api.client, 1, "pm_ok", Status::Paid).await;
    reader.read_on().await;
    open.rollback().await.expect("undone");
    reader.until(1).await;
    assert!(!reader.ids().contains(&undone.as_str()));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_interleaved_transactions_are_both_read_whichever_commits_first() {
    let (world, api) = world().await;
    for first_commits_first in [true, false] {
        let mut reader = Reader::new(&api.client, 1);
        let before = usize::try_from(world.count("SELECT count(*) FROM events").await).expect("a count");
        reader.until(before).await;
        let mut connections = Vec::new();
        for _ in 0..2 {
            connections.push(PgConnection::connect(&world.database.url).await.expect("a connection"));
        }
        let [one, two] = connections.as_mut_slice() else { panic!("two") };
        let (mut first, mut second) = (one.begin().await.expect("begun"), two.begin().await.expect("begun"));
        // The older transaction writes before and after the younger one.
        let ids = [
            write_event(&mut first, &world, "order-1").await,
            write_event(&mut second, &world, "order-2").await,
            write_event(&mut first, &world, "order-3").await,
        ];
        let (sooner, later) = if first_commits_first { (first, second) } else { (second, first) };
        sooner.commit().await.expect("committed");
        reader.read_on().await;
        reader.read_on().await;
        later.commit().await.expect("committed");
        reader.until(before + 3).await;
        let read: HashSet<_> = reader.ids().into_iter().collect();
        assert_eq!(read.len(), before + 3, "none twice");
        assert!(ids.iter().all(|id| read.contains(id.as_str())), "none skipped");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_follows_many_writers_reads_each_event_once() {
    const PAYMENTS: usize = 40;
    let (world, api) = world().await;
    let another = world.api().await;
    let (_one, _two) = (world.worker(), world.worker());
    let mut reader = Reader::new(&api.client, 3);
    let mut paying = JoinSet::new();
    for n in 0..PAYMENTS {
        let client = [&api, &another][n % 2].client.clone();
        paying.spawn(async move { ended(&client, n, "pm_ok", Status::Paid).await.payment_id() });
    }
    // It reads all the time while they are written.
    reader.until(PAYMENTS).await;
    let mut paid: Vec<_> = paying.join_all().await.into_iter().map(|id| id.to_string()).collect();
    let mut told: Vec<_> = reader.read.iter().map(|event| event["data"]["id"].as_str().expect("an id")).collect();
    paid.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, paid);
    assert_eq!(reader.read_on().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchant_reads_its_own_events_alone() {
    let (world, api) = world().await;
    let _worker = world.worker();
    let (_, key) = merchant::create(&world.database.pool, "another").await.expect("a merchant");
    let another = Client::new(&api.base_url, key.reveal());
    ended(&api.client, 1, "pm_ok", Status::Paid).await;
    let mut mine = Reader::new(&api.client, 20);
    mine.until(1).await;
    ended(&another, 2, "pm_ok", Status::Paid).await;
    let mut theirs = Reader::new(&another, 20);
    theirs.until(1).await;
    assert_eq!((mine.read_on().await, theirs.read_on().await), (0, 0));
    assert_eq!([&mine.read[0]["subject"], &theirs.read[0]["subject"]], ["order-1", "order-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_is_none_is_400_and_named() {
    let (_world, api) = world().await;
    let cases = [
        "limit=0",
        "limit=101",
        "limit=all",
        "after=",
        "after=nonsense",
        "after=0",
        "after=p_0199aaaabbbb7ccc8dddeeeeffff0001",
        "after=e_1",
        "after=e_-1_0199aaaabbbb7ccc8dddeeeeffff0001",
        "after=e_10000000000000000_0199aaaabbbb7ccc8dddeeeeffff0001",
        "cursor=x",
        "type=payments.succeeded",
    ];
    for query in cases {
        let answer = api.client.get(&format!("/v1/events?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert_problem(&answer, 400, "invalid_request");
        let name = query.split('=').next().expect("a name");
        assert_eq!(answer.json["errors"][0]["parameter"], name, "{}", answer.text);
    }
}
