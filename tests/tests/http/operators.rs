//! `/ops/api/v1`: operators, their tokens, and what their roles may do.

use crate::{assert_problem, order, stored, world};
use shared::operator::{self, Operator, Password, Role};
use tests::{Answer, Api, Client, World};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const ME: &str = "/ops/api/v1/me";
const ALL: &str = "/ops/api/v1/operators";

/// Makes the operator that is named like its role.
async fn made(world: &World, role: Role) -> Operator {
    let password = Password::new("correct horse battery").expect("a password");
    operator::create(&world.database.pool, role.as_str(), role, &password).await.expect("an operator")
}

/// A client with a new token of the operator that is named like its role.
async fn another(world: &World, api: &Api, role: Role) -> Client {
    let drawn = operator::draw_token(&world.database.pool, role.as_str(), 30).await;
    let (_, _, token) = drawn.expect("a token");
    Client::new(&api.base_url, token.reveal())
}

/// A client of a new operator that is named like its role.
pub async fn operator(world: &World, api: &Api, role: Role) -> Client {
    made(world, role).await;
    another(world, api, role).await
}

/// Asks with these `Authorization` lines.
async fn ask(client: &Client, path: &str, lines: &[&str]) -> Answer {
    let request = client.http.get(format!("{}{path}", client.base_url));
    let request = lines.iter().fold(request, |request, line| request.header("Authorization", *line));
    Answer::of(request.send().await.expect("an answer")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_tells_whose_it_is_and_until_when() {
    let (world, api) = world().await;
    let ada = made(&world, Role::Operator).await;
    let me = another(&world, &api, Role::Operator).await.get(ME).await;
    assert_eq!(me.status, 200, "{}", me.text);
    assert_eq!(me.json["id"], ada.id.to_string());
    assert_eq!((&me.json["name"], &me.json["role"]), (&"operator".into(), &"operator".into()));
    let [token] = &operator::tokens(&world.database.pool, ada.id).await.expect("tokens")[..] else { panic!("one") };
    assert_eq!(me.json["token"]["id"], token.id.to_string());
    let until = me.json["token"]["expires_at"].as_str().expect("a time");
    assert_eq!(OffsetDateTime::parse(until, &Rfc3339).expect("RFC 3339"), token.expires_at);
    assert_eq!(token.expires_at - token.created_at, time::Duration::days(30));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_one_live_token_every_ops_path_is_401() {
    let (world, api) = world().await;
    let token = operator(&world, &api, Role::Approver).await.api_key;
    let good = format!("Bearer {token}");
    let unknown = format!("Bearer payonce_op_{}", "0".repeat(64));
    let (cut, basic) = (&good[..good.len() - 1], format!("Basic {token}"));
    let of_a_merchant = format!("Bearer {}", world.api_key);
    let lines: [&[&str]; 8] =
        [&[], &[""], &["Bearer "], &[&unknown], &[cut], &[&basic], &[&of_a_merchant], &[&good, &good]];
    for path in [ME, ALL] {
        for credential in lines {
            let answer = ask(&api.client, path, credential).await;
            assert_problem(&answer, 401, "unauthorized");
            assert!(answer.header("WWW-Authenticate").starts_with("Bearer "), "{:?}", answer.headers);
            assert!(!answer.text.contains("payonce_op_"), "a credential is not repeated: {}", answer.text);
        }
        assert_eq!(ask(&api.client, path, &[&good]).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_token_is_no_merchants_key() {
    let (world, api) = world().await;
    let approver = operator(&world, &api, Role::Approver).await;
    for path in ["/v1/payments", "/v1/payments/0199aaaa-bbbb-7ccc-8ddd-eeeeffff0001", "/v1/events"] {
        assert_problem(&approver.get(path).await, 401, "unauthorized");
    }
    assert_problem(&approver.post("key-1", &order(1, "pm_ok")).await, 401, "unauthorized");
    assert_eq!(stored(&world).await, [0, 0]);
}

/// Two clients with tokens of one operator, at two api instances.
async fn two_tokens(world: &World, api: &Api, elsewhere: &Api) -> [Client; 2] {
    let one = operator(world, api, Role::Viewer).await;
    let two = another(world, elsewhere, Role::Viewer).await;
    for client in [&one, &two] {
        assert_eq!(client.get(ME).await.status, 200);
    }
    [one, two]
}

async fn statuses(clients: &[Client; 2]) -> [u16; 2] {
    [clients[0].get(ME).await.status, clients[1].get(ME).await.status]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_is_401_from_the_next_request_on_and_the_others_stay() {
    let (world, api) = world().await;
    let elsewhere = world.api().await;
    let clients = two_tokens(&world, &api, &elsewhere).await;
    let pool = &world.database.pool;
    let viewer = operator::named(pool, "viewer").await.expect("there");
    let tokens = operator::tokens(pool, viewer.id).await.expect("tokens");
    operator::revoke(pool, viewer.id, &tokens[0].prefix).await.expect("revoked");
    assert_eq!(statuses(&clients).await, [401, 200]);
    operator::revoke(pool, viewer.id, &tokens[1].id.to_string()).await.expect("revoked");
    assert_eq!(statuses(&clients).await, [401, 401]);
    assert!(operator::revoke(pool, viewer.id, &tokens[0].prefix).await.is_err(), "once is enough");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_operator_stops_at_once_and_is_let_in_again() {
    let (world, api) = world().await;
    let elsewhere = world.api().await;
    let clients = two_tokens(&world, &api, &elsewhere).await;
    let pool = &world.database.pool;
    let first = operator::disable(pool, "viewer").await.expect("disabled");
    assert_eq!(statuses(&clients).await, [401, 401]);
    assert_eq!(operator::disable(pool, "viewer").await.expect("disabled").disabled_at, first.disabled_at);
    assert!(operator::draw_token(pool, "viewer", 30).await.is_err(), "nor gets a new one");
    operator::enable(pool, "viewer").await.expect("enabled");
    assert_eq!(statuses(&clients).await, [200, 200]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_401_and_nothing_says_why() {
    let (world, api) = world().await;
    let viewer = operator(&world, &api, Role::Viewer).await;
    assert_eq!(viewer.get(ME).await.status, 200);
    world.run("UPDATE operator_tokens SET created_at = now() - interval '1 day', expires_at = now()").await;
    let expired = viewer.get(ME).await;
    assert_problem(&expired, 401, "unauthorized");
    let unknown = Client::new(&api.base_url, "payonce_op_0").get(ME).await;
    assert_eq!(expired.json["detail"], unknown.json["detail"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_not_enough_is_403_and_names_the_one_that_is() {
    let (world, api) = world().await;
    for role in [Role::Viewer, Role::Operator] {
        let answer = operator(&world, &api, role).await.get(ALL).await;
        assert_problem(&answer, 403, "forbidden");
        assert_eq!(answer.json["required_role"], "approver");
        assert!(answer.json["detail"].as_str().is_some_and(|detail| detail.contains(role.as_str())), "{}", answer.text);
    }
    let all = operator(&world, &api, Role::Approver).await.get(ALL).await;
    assert_eq!(all.status, 200, "{}", all.text);
    let names: Vec<_> = all.json["data"].as_array().expect("a list").iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["approver", "operator", "viewer"]);
    assert!(!all.text.contains("argon2"), "{}", all.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_role_counts_from_the_next_request_on() {
    let (world, api) = world().await;
    let client = operator(&world, &api, Role::Viewer).await;
    for (role, status) in [(Role::Viewer, 403), (Role::Approver, 200), (Role::Operator, 403)] {
        operator::set_role(&world.database.pool, "viewer", role).await.expect("a role");
        assert_eq!(client.get(ALL).await.status, status, "{role}");
        assert_eq!(client.get(ME).await.json["role"], role.as_str());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_has_a_limit_of_its_own() {
    let mut world = World::new().await;
    world.config.api.requests_per_second = 1;
    let api = world.api().await;
    let first = operator(&world, &api, Role::Viewer).await;
    let second = another(&world, &api, Role::Viewer).await;
    let asked = [first.get(ME), first.get(ME), first.get(ME)];
    let answers = futures_util::future::join_all(asked).await;
    let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!limited.is_empty(), "three at once");
    assert_problem(limited[0], 429, "rate_limited");
    assert_eq!(limited[0].header("Retry-After"), "1");
    assert_eq!((second.get(ME).await.status, api.client.get("/v1/payments").await.status), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_with_different_tokens_is_told_apart() {
    let (world, api) = world().await;
    let mut clients = Vec::new();
    for role in Role::ALL {
        clients.push((operator(&world, &api, role).await, role.as_str()));
    }
    clients.push((Client::new(&api.base_url, "payonce_op_nobody"), "nobody"));
    let crowd = clients.iter().cycle().take(200).map(|(client, name)| async move { (client.get(ME).await, *name) });
    for (answer, name) in futures_util::future::join_all(crowd).await {
        match name {
            "nobody" => assert_problem(&answer, 401, "unauthorized"),
            name => assert_eq!(answer.json["name"], name, "{}", answer.text),
        }
    }
}
