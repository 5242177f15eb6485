//! throw-away
use shared::{
    committer::Committer,
    config::{Acquirer, Config},
    db,
    queue::wake::{Notifier, PAYMENTS, Wake},
    telemetry::{self, Metrics},
};
use std::sync::Arc;
#[tokio::main]
async fn main() {
    let url = std::env::var("TRY_DATABASE_URL").unwrap();
    telemetry::start_logging(shared::config::LogFormat::Pretty);
    let mut config = Config::default();
    config.acquirers.insert("default".into(), Acquirer::at("http://127.0.0.1:1"));
    config.acquirers.insert("other".into(), Acquirer::at("http://127.0.0.1:1"));
    config.api.requests_per_second = std::env::var("RPS").ok().map_or(0, |s| s.parse().unwrap());
    config.api.connections = std::env::var("CONNS").ok().map_or(4096, |s| s.parse().unwrap());
    config.api.request_timeout_ms = std::env::var("RT").ok().map_or(10_000, |s| s.parse().unwrap());
    let pool = db::pool(&url, 12, "try").unwrap();
    let metrics = Arc::new(Metrics::default());
    let committer = Committer::start(pool.clone(), Notifier::start(&pool), metrics.clone());
    let changes = Wake::start(url, PAYMENTS, metrics.clone());
    if let Ok(name) = std::env::var("MERCHANT") {
        let (m, c) = shared::merchant::create(&pool, &name).await.unwrap();
        println!("{} {}", m.id, c.reveal());
        return;
    }
    let config = Arc::new(config);
    let app = api::app(api::Services {
        pool: pool.clone(),
        committer,
        metrics: metrics.clone(),
        changes,
        config: config.clone(),
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:18080").await.unwrap();
    println!("ready");
    api::serve(listener, app, &config.api, async { tokio::signal::ctrl_c().await.unwrap() }).await.unwrap();
    println!("stopped");
}
