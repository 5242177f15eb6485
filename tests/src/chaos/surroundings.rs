//! What the processes stand between: a Postgres, and an acquirer at the end of a road that can be spoiled.

use super::Storm;
use crate::road::Road;
use sandbox::acquirer::{Acquirer, Latency, Method, Settings};
use sandbox::postgres::{Options, Postgres};
use shared::{db, merchant};
use sqlx::PgPool;
use std::net::SocketAddr;
use tokio::sync::Mutex;

/// Enough for five processes, and for what the killed ones left behind.
const CONNECTIONS: &str = "300";

/// What is left to do: jobs, and payments that have neither ended nor been laid before a person.
const LEFT: &str = "SELECT (SELECT count(*) FROM jobs)
    + (SELECT count(*) FROM payments p WHERE status IN ('PENDING', 'UNKNOWN') AND NOT in_review)";

/// The surroundings of the processes.
pub(super) struct Surroundings {
    /// The database server; it keeps its port over restarts.
    pub postgres: Mutex<Postgres>,
    /// Where it is.
    pub database_url: String,
    /// For looking in.
    pub pool: PgPool,
    /// The acquirer, whose books are read at the end.
    pub acquirer: Acquirer,
    /// The only way to it.
    pub road: Road,
    /// The merchant's credential.
    pub api_key: String,
}

impl Surroundings {
    /// Starts them.
    pub async fn start(storm: &Storm) -> Self {
        let settings = vec![("max_connections".to_owned(), CONNECTIONS.to_owned())];
        let postgres = Postgres::start(Options { settings, ..Options::default() }).await;
        let postgres = postgres.unwrap_or_else(|error| panic!("{error}"));
        let database_url = postgres.url("postgres");
        let pool = db::pool(&database_url, 4, "chaos").expect("a URL");
        db::migrate(&pool).await.expect("the migrations run");
        let (_, credential) = merchant::create(&pool, "chaos").await.expect("a merchant");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let acquirer = Acquirer::start(any, calm(storm)).await.expect("an acquirer");
        let road = Road::to_http(acquirer.addr()).await;
        let api_key = credential.reveal().to_owned();
        Self { postgres: Mutex::new(postgres), database_url, pool, acquirer, road, api_key }
    }

    /// Whether nothing is left to do but for people. A database that is away is no answer.
    pub async fn is_settled(&self) -> bool {
        let left: sqlx::Result<i64> = sqlx::query_scalar(LEFT).fetch_one(&self.pool).await;
        left.is_ok_and(|left| left == 0)
    }
}

/// The acquirer on a quiet day: its faults are those that the clients' payment methods ask for.
fn calm(storm: &Storm) -> Settings {
    Settings {
        seed: storm.seed,
        keys_honoured: storm.keys,
        latency_ms: Latency::Exponential { mean_ms: 60 },
        hold_ms: 900,
        book_after_ms: 700,
        ..Settings::default()
    }
}

/// Every fault that an honest acquirer can have. One that charges twice for one POST is another story
/// (`payonce bench --faults` tells it): no service can hinder that, it can only find it.
pub(super) fn faults() -> impl Iterator<Item = Method> {
    Method::ALL.iter().copied().filter(|method| !matches!(method, Method::Ok | Method::DoubleCharge))
}
