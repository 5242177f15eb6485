//! Where the tests' Postgres comes from: `DATABASE_URL`; else a container, when a Docker engine answers
//! and has the image; else an embedded server. Each test gets a database of its own, copied from a
//! migrated template.

use sandbox::postgres::{Options, Postgres};
use shared::db;
use sqlx::PgPool;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use testcontainers::core::{IntoContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// The image that is used when it is there; none is ever pulled.
const IMAGE: (&str, &str) = ("postgres", "15");

/// A server for the whole test process; it ends with the process, however that ends.
struct Server {
    /// The URL up to and including the last slash.
    url: String,
    template: String,
    _keep: Keep,
}

#[expect(dead_code, reason = "kept alive, never read")]
enum Keep {
    Given,
    Container(Box<ContainerAsync<GenericImage>>, Child),
    Embedded(Box<Postgres>),
}

static SERVER: OnceCell<Server> = OnceCell::const_new();

/// A database of one test.
#[derive(Clone, Debug)]
pub struct Database {
    /// Its URL.
    pub url: String,
    /// A pool for the test's own questions.
    pub pool: PgPool,
}

impl Database {
    /// Makes a database on the shared server.
    pub async fn new() -> Self {
        let server = SERVER.get_or_init(Server::start).await;
        let name = format!("test_{}", Uuid::new_v4().simple());
        let admin = db::pool(&format!("{}postgres", server.url), 1, "tests").expect("a URL");
        let create = format!("CREATE DATABASE {name} TEMPLATE {}", server.template);
        // Two copies of one template at once are refused: take turns.
        sqlx::query("SELECT pg_advisory_lock(42)").execute(&admin).await.expect("a lock");
        sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&admin).await.expect("a database");
        admin.close().await;
        Self::at(&format!("{}{name}", server.url))
    }

    /// A database that exists, on a server of the test's own.
    #[must_use]
    pub fn at(url: &str) -> Self {
        Self { url: url.to_owned(), pool: db::pool(url, 4, "tests").expect("a URL") }
    }
}

impl Server {
    async fn start() -> Self {
        let (url, keep) = find().await;
        let template = format!("template_{}", Uuid::new_v4().simple());
        let admin = db::pool(&format!("{url}postgres"), 1, "tests").expect("a URL");
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {template}")))
            .execute(&admin)
            .await
            .expect("the tests' database user may create databases");
        let pool = db::pool(&format!("{url}{template}"), 1, "tests").expect("a URL");
        db::migrate(&pool).await.expect("the migrations run");
        pool.close().await;
        admin.close().await;
        Self { url, template, _keep: keep }
    }
}

async fn find() -> (String, Keep) {
    if let Ok(url) = std::env::var("DATABASE_URL") {
        let (server, _) = url.rsplit_once('/').expect("DATABASE_URL ends in /database");
        return (format!("{server}/"), Keep::Given);
    }
    if let Some(found) = container().await {
        return found;
    }
    let settings = [("fsync", "off"), ("max_connections", "400")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let postgres = Postgres::start(Options { data: None, port: 0, settings }).await.unwrap_or_else(|e| panic!("{e}"));
    let url = postgres.url("");
    (url, Keep::Embedded(Box::new(postgres)))
}

/// A container, when an engine answers and has the image already.
async fn container() -> Option<(String, Keep)> {
    let (name, tag) = IMAGE;
    let has = Command::new("docker").args(["image", "inspect", &format!("{name}:{tag}")]).output().ok()?;
    if !has.status.success() {
        return None;
    }
    let container = GenericImage::new(name, tag)
        .with_exposed_port(5432.tcp())
        .with_wait_for(WaitFor::message_on_stderr("ready to accept connections"))
        .with_env_var("POSTGRES_PASSWORD", "postgres")
        .with_cmd(["postgres", "-c", "fsync=off", "-c", "max_connections=400"])
        .start()
        .await
        .ok()?;
    let port = container.get_host_port_ipv4(5432).await.ok()?;
    let alive = remove_at_exit(container.id());
    let url = format!("postgres://postgres:postgres@127.0.0.1:{port}/");
    Some((url, Keep::Container(Box::new(container), alive)))
}

/// Statics are never dropped: a shell waits for the end of a pipe that this process holds, and then
/// removes the container. In a process group of its own, so that Ctrl-C does not end it first.
fn remove_at_exit(container: &str) -> Child {
    Command::new("sh")
        .args(["-c", "read -r _; docker rm --force --volumes \"$0\" >/dev/null 2>&1", container])
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("a shell")
}
