use crate::program::{Program, bare, command, ran};
use sandbox::acquirer::Settings;
use tests::client::body;
use tests::database::Database;
use tests::{Client, World, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn migrate_may_run_from_several_processes_at_once() {
    let world = World::on(Database::new().await, Settings::default()).await;
    world.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    let runs: Vec<_> = (0..4).map(|_| tokio::spawn(ran(command(&world, &["migrate"])))).collect();
    for run in runs {
        let ended = run.await.expect("it runs");
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
    assert_eq!(world.count("SELECT count(*) FROM payments").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_migrations_api_and_worker_say_what_to_run() {
    let world = World::new().await;
    world.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public").await;
    for what in ["api", "worker"] {
        let ended = ran(command(&world, &[what])).await;
        assert_eq!(ended.code, Some(1), "{what}");
        assert!(ended.stderr.contains("payonce migrate"), "{what}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{what} was never ready");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_database_commands_say_where_to_name_one() {
    for args in [&["api"][..], &["worker"], &["migrate"], &["merchant", "list"]] {
        let mut command = bare(args);
        command.env("PAYONCE_ACQUIRERS__DEFAULT__KIND", "http");
        command.env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", "http://127.0.0.1:9");
        let ended = ran(command).await;
        assert_eq!(ended.code, Some(1), "{args:?}");
        assert!(ended.stderr.contains("DATABASE_URL"), "{args:?}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_configuration_is_listed_at_once() {
    let world = World::new().await;
    let mut command = command(&world, &["worker"]);
    command.env("PAYONCE_WORKER__LEASE_MS", "1000").env("PAYONCE_KEY_RETENTION_H", "1").env("PAYONCE_NO_SUCH_KEY", "1");
    let ended = ran(command).await;
    assert_eq!(ended.code, Some(1));
    for fault in ["lease_ms = 1000", "key_retention_h = 1", "no_such_key"] {
        assert!(ended.stderr.contains(fault), "{fault}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_merchants_key_is_shown_once_and_rotated_without_a_gap() {
    let world = World::new().await;
    let made = ran(command(&world, &["merchant", "create", "shop", "--json"])).await;
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let made: serde_json::Value = serde_json::from_str(&made.stdout).expect("JSON");
    let old = made["api_key"].as_str().expect("a key").to_owned();
    let again = ran(command(&world, &["merchant", "create", "shop"])).await;
    assert!(again.code == Some(1) && again.stderr.contains("exists"), "{}", again.stderr);
    let added = ran(command(&world, &["merchant", "keys", "shop", "--new", "--json"])).await;
    let added: serde_json::Value = serde_json::from_str(&added.stdout).expect("JSON");
    let new = added["api_key"].as_str().expect("a key").to_owned();
    let listed = ran(command(&world, &["merchant", "keys", "shop"])).await;
    assert!(!listed.stdout.contains(&old) && !listed.stdout.contains(&new), "{}", listed.stdout);

    let api = world.api().await;
    let asks = |key: String| {
        let client = Client::new(&api.base_url, &key);
        async move { client.get("/v1/payments").await.status }
    };
    assert_eq!((asks(old.clone()).await, asks(new.clone()).await), (200, 200));
    let prefix = &old[.."payonce_sk_".len() + 6];
    let revoked = ran(command(&world, &["merchant", "revoke", "shop", prefix])).await;
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    assert_eq!((asks(old).await, asks(new).await), (401, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_finds_what_is_wrong_and_says_what_to_do() {
    let world = World::new().await;
    let well = ran(command(&world, &["doctor"])).await;
    assert_eq!(well.code, Some(0), "{}{}", well.stdout, well.stderr);
    let mut ill = command(&world, &["doctor"]);
    ill.env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", "http://127.0.0.1:9");
    let ill = ran(ill).await;
    assert!(ill.code == Some(1) && ill.stdout.contains('✗'), "{}", ill.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_acquirer_runs_alone_and_is_paid_through() {
    let world = World::new().await;
    let mut acquirer = Program::start(bare(&["sandbox", "acquirer", "--port", "0"]));
    let url = acquirer.ready().await.rsplit(' ').next().expect("a URL").to_owned();
    let mut worker = command(&world, &["worker"]);
    worker.env("PAYONCE_ACQUIRERS__DEFAULT__BASE_URL", &url);
    let mut worker = Program::start(worker);
    worker.ready().await;
    let api = world.api().await;
    let paid = api.client.pay("key-1", &body("order-1", "pm_ok")).await;
    assert_eq!(paid.json["status"], "PAID", "{}", paid.text);
    let ledger = Client::new(&url, "").get("/ledger").await;
    assert_eq!(ledger.json["charges"], 1, "{}", ledger.text);
    let gone = || async { (world.count("SELECT count(*) FROM jobs").await == 0).then_some(()) };
    eventually("published", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_named_without_its_password() {
    let mut command = bare(&["merchant", "list"]);
    command.env("DATABASE_URL", "postgres://payonce:hunter2@127.0.0.1:9/payonce");
    let ended = ran(command).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("127.0.0.1:9/payonce") && ended.stderr.contains("cannot be reached"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_an_acquirer_is_refused() {
    for what in ["api", "worker"] {
        let mut command = bare(&[what]);
        command.env("DATABASE_URL", "postgres://127.0.0.1:9/payonce");
        let ended = ran(command).await;
        assert_eq!(ended.code, Some(1), "{what}");
        assert!(ended.stderr.contains("[acquirers.default]"), "{what}: {}", ended.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_named_with_the_flag_that_changes_it() {
    let world = World::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let ended = ran(command(&world, &["api", "--listen", &address])).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&address) && ended.stderr.contains("--listen"), "{}", ended.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn dev_keeps_away_from_a_database_with_other_merchants() {
    let world = World::new().await;
    world.run("UPDATE merchants SET name = 'a real shop'").await;
    let ended = ran(command(&world, &["dev", "--listen", "127.0.0.1:0", "--acquirer-listen", "127.0.0.1:0"])).await;
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains("none of them is the demo merchant"), "{}", ended.stderr);
}
