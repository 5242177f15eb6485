//! A world of its own for every test.

use crate::client::Client;
use crate::database::Database;
use crate::eventually;
use sandbox::acquirer::{Acquirer, Settings};
use shared::committer::{Committer, Verdict, Write};
use shared::config::{self, Config};
use shared::merchant;
use shared::payment::accept::Accept;
use shared::payment::life::Status;
use shared::payment::request::Request;
use shared::payment::{Payment, PaymentKey, read};
use shared::queue::wake::{JOBS, Notifier, PAYMENTS, Wake};
use shared::telemetry::Metrics;
use sqlx::PgPool;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use uuid::Uuid;
use worker::faults::Faults;

/// A database, an acquirer, a merchant, and the configuration that api instances and workers of this
/// world are started with.
pub struct World {
    /// The database.
    pub database: Database,
    /// The acquirer.
    pub acquirer: Acquirer,
    /// The merchant.
    pub merchant_id: Uuid,
    /// Its API key.
    pub api_key: String,
    /// The configuration.
    pub config: Config,
}

/// Short times that still agree with each other, so that no test waits for real ones.
#[must_use]
pub fn short_times(acquirer_url: &str) -> Config {
    let mut config = Config::default();
    let acquirer = config::Acquirer {
        connect_ms: 200,
        read_ms: 300,
        deadline_ms: 1_500,
        absence_final_after_ms: 600,
        ..config::Acquirer::at(acquirer_url)
    };
    config.acquirers.insert("default".to_owned(), acquirer);
    config.worker.lease_ms = 2_000;
    config.worker.grace_ms = 100;
    config.worker.sweep_ms = 100;
    config.worker.shutdown_ms = 10_000;
    config.steps.lookup.backoff_ms = vec![100, 200];
    config.steps.publish.backoff_ms = vec![50];
    config
}

impl World {
    /// A new world with short times.
    pub async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    /// A new world whose acquirer behaves as `settings` say.
    pub async fn with(settings: Settings) -> Self {
        let database = Database::new().await;
        Self::on(database, settings).await
    }

    /// A new world on a migrated database.
    pub async fn on(database: Database, settings: Settings) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let acquirer = Acquirer::start(any, settings).await.expect("an acquirer");
        let (merchant, key) = merchant::create(&database.pool, "demo").await.expect("a merchant");
        let config = short_times(&acquirer.base_url());
        let api_key = key.reveal().to_owned();
        Self { database, acquirer, merchant_id: merchant.id, api_key, config }
    }

    /// Names a payment of the merchant.
    #[must_use]
    pub const fn key(&self, payment_id: Uuid) -> PaymentKey {
        PaymentKey { merchant_id: self.merchant_id, payment_id }
    }

    /// The request of `order-N` under `key-N`, as an api instance hands it to the committer; the same that
    /// [`crate::client::body`] asks for.
    #[must_use]
    pub fn request(&self, n: usize, method: &str) -> Accept {
        Accept {
            merchant_id: self.merchant_id,
            payment_id: Uuid::now_v7(),
            idempotency_key: format!("key-{n}"),
            request: Request {
                payment_intent_id: format!("order-{n}"),
                amount_minor: 1999,
                currency: "EUR".to_owned(),
                payment_method_id: method.to_owned(),
                acquirer: None,
            },
            acquirer: self.config.default_acquirer.clone(),
            metadata: None,
            traceparent: None,
        }
    }

    /// Accepts the requests 1 to `count` at once. No worker hears of it before its next look at the table.
    pub async fn accepted(&self, count: usize, method: &str) -> Vec<Uuid> {
        let Process { committer, .. } = Process::start(&self.database.url);
        let mut accepting = tokio::task::JoinSet::new();
        let mut ids = Vec::with_capacity(count);
        for n in 1..=count {
            let (committer, request) = (committer.clone(), self.request(n, method));
            ids.push(request.payment_id);
            accepting.spawn(async move { committer.write(Write::Accept(request)).await });
        }
        for verdict in accepting.join_all().await {
            assert!(matches!(verdict, Ok(Verdict::Applied(_))), "not accepted: {verdict:?}");
        }
        ids
    }

    /// Accepts the one request of most tests: `order-1` under `key-1`.
    pub async fn accepted_one(&self, method: &str) -> Uuid {
        self.accepted(1, method).await.remove(0)
    }

    /// Starts an api instance.
    pub async fn api(&self) -> Api {
        Api::start(self).await
    }

    /// Starts a worker.
    #[must_use]
    pub fn worker(&self) -> Worker {
        Worker::start(self, Faults::default())
    }

    /// A payment, as it is now.
    pub async fn payment(&self, payment_id: Uuid) -> Payment {
        answered(|| read::one(&self.database.pool, self.key(payment_id))).await.expect("the payment")
    }

    /// Waits until a payment is in `status`.
    pub async fn until(&self, payment_id: Uuid, status: Status) -> Payment {
        eventually(&format!("{payment_id} {status}"), || async {
            Some(self.payment(payment_id).await).filter(|payment| payment.status == status)
        })
        .await
    }

    /// Waits until nothing is left to do.
    pub async fn until_idle(&self) {
        eventually("no jobs", || async { (self.count("SELECT count(*) FROM jobs").await == 0).then_some(()) }).await;
    }

    /// A count, by SQL.
    pub async fn count(&self, sql: &'static str) -> i64 {
        answered(|| sqlx::query_scalar(sql).fetch_one(&self.database.pool)).await
    }

    /// Runs SQL.
    pub async fn run(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.database.pool).await.expect(sql);
    }
}

/// Asks again while the answer is that the database was away: connections of a pool may be older than
/// the server.
async fn answered<T, F: Future<Output = sqlx::Result<T>>>(ask: impl Fn() -> F) -> T {
    eventually("the database answers", || async {
        match ask().await {
            Err(error) if shared::db::is_outage(&error) => None,
            answer => Some(answer.expect("an answer")),
        }
    })
    .await
}

/// What one process has of its own.
pub struct Process {
    /// Its pool.
    pub pool: PgPool,
    /// Its committer.
    pub committer: Committer,
    /// Its notifier.
    pub notifier: Notifier,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
}

impl Process {
    /// Starts the parts on the current runtime.
    #[must_use]
    pub fn start(url: &str) -> Self {
        let pool = shared::db::pool(url, 8, "tests").expect("a URL");
        let metrics = Arc::new(Metrics::default());
        let notifier = Notifier::start(&pool);
        let committer = Committer::start(pool.clone(), notifier.clone(), metrics.clone());
        Self { pool, committer, notifier, metrics }
    }
}

/// An api instance.
pub struct Api {
    /// Where it is.
    pub base_url: String,
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    /// A client of the world's merchant.
    pub client: Client,
    stop: oneshot::Sender<()>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Api {
    async fn start(world: &World) -> Self {
        let Process { pool, committer, metrics, .. } = Process::start(&world.database.url);
        let changes = Wake::start(world.database.url.clone(), PAYMENTS, metrics.clone());
        let config = Arc::new(world.config.clone());
        let app =
            api::app(api::Services { pool, committer, metrics: metrics.clone(), changes, config: config.clone() });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}", listener.local_addr().expect("an address"));
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(async move {
            api::serve(listener, app, &config.api, async {
                let _ = stopped.await;
            })
            .await
        });
        let client = Client::new(&base_url, &world.api_key);
        Self { base_url, metrics, client, stop, serving }
    }

    /// Stops it gracefully.
    pub async fn stop(self) {
        let _ = self.stop.send(());
        self.serving.await.expect("no panic").expect("a clean end");
    }
}

/// A worker on a runtime of its own, so that it can crash: everything in it ends at once, wherever it
/// is, as if its process had been killed.
pub struct Worker {
    /// Its metrics.
    pub metrics: Arc<Metrics>,
    runtime: Option<tokio::runtime::Runtime>,
    stop: Option<oneshot::Sender<()>>,
    running: Option<tokio::task::JoinHandle<()>>,
}

impl Worker {
    /// Starts a worker with fault points.
    #[must_use]
    pub fn start(world: &World, faults: Faults) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
        let (url, config) = (world.database.url.clone(), Arc::new(world.config.clone()));
        let (stop, stopped) = oneshot::channel::<()>();
        let (metrics, running) = {
            let _inside = runtime.enter();
            let Process { pool, committer, notifier, metrics } = Process::start(&url);
            let listen_url = config.listen_url.as_ref().map_or(url, |listen_url| listen_url.0.clone());
            let wake = Wake::start(listen_url, JOBS, metrics.clone());
            let name = worker::context::incarnation();
            let services =
                worker::Services { pool, committer, notifier, metrics: metrics.clone(), config, name, faults };
            let run = async move {
                let stopped = async {
                    let _ = stopped.await;
                };
                worker::run(services, wake, stopped).await.expect("a clean end");
            };
            (metrics, runtime.spawn(run))
        };
        Self { metrics, runtime: Some(runtime), stop: Some(stop), running: Some(running) }
    }

    /// Stops it gracefully: what runs ends, nothing stays leased.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        self.running.take().expect("running").await.expect("no panic");
    }

    /// Ends it at once, wherever it is.
    pub fn crash(self) {}
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
