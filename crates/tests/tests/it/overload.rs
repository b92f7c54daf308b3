//! A server with few seats, and clients that connect and disconnect at random: no request may hang, and no request
//! may stay counted after its end.
//!
//! The seed changes every day and is printed. `SOAK_SEED` repeats the choices of a run, `SOAK_SECONDS` makes it
//! longer.

use crate::random::{Random, setting};
use std::time::{Duration, Instant, SystemTime};

use pintle_testkit::server::Options;
use pintle_testkit::{Client, Request, Server};
use serde_json::json;
use tokio::task::JoinSet;

const SECONDS: u64 = 8;
const CLIENTS: u64 = 64;
const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
const STREAMS: usize = 24;
/// This is longer than a request waits in the queues of priority and fairness. A request without an answer after this
/// time hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn request(random: &mut Random) -> Request {
    let map = json!({"metadata": {"generateName": "m-"}, "data": {"a": "x".repeat(random.index(2000))}});
    match random.below(10) {
        0 => Request::new("POST", MAPS).json(&map),
        1 => Request::new("GET", MAPS),
        2 => Request::new("GET", "/livez"),
        3 => Request::new("GET", "/no/such/path"),
        4 => Request::new("DELETE", &format!("{MAPS}/m-none")),
        _ => Request::new("GET", &format!("{MAPS}/one")),
    }
}

/// Fails the test if the server does not answer. The content of the answer does not matter here, nor whether the
/// server closed the connection instead.
async fn answered<T>(what: &str, waits: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("{what}: no answer"))
}

/// HTTP/1.1: several requests on one connection. The client may leave before an answer, or within one.
async fn keep_alive(client: &Client, random: &mut Random) {
    let Ok(mut connection) = answered("handshake", client.target().connect()).await else { return };
    for _ in 0..1 + random.below(20) {
        let request = request(random);
        if connection.send(&client.bytes_of(&request)).await.is_err() || random.below(40) == 0 {
            return;
        }
        let Ok(_) = answered(&request.path, connection.read_head(false)).await else { return };
        if random.below(40) == 0 || answered(&request.path, connection.skip_body()).await.is_err() {
            return;
        }
    }
}

/// HTTP/1.1: requests that do not wait for the answers to those before them.
async fn pipelined(client: &Client, random: &mut Random) {
    let Ok(mut connection) = answered("handshake", client.target().connect()).await else { return };
    let requests: Vec<Request> = (0..1 + random.below(6)).map(|_| request(random)).collect();
    let bytes: Vec<u8> = requests.iter().flat_map(|request| client.bytes_of(request)).collect();
    if connection.send(&bytes).await.is_err() {
        return;
    }
    for request in &requests {
        let Ok(_) = answered(&request.path, connection.read_head(false)).await else { return };
        let Ok(_) = answered(&request.path, connection.skip_body()).await else { return };
    }
}

/// A watch that the server ends, or that the client leaves.
async fn watch(client: &Client, random: &mut Random) {
    let seconds = 1 + random.below(2);
    let request = Request::new("GET", &format!("{MAPS}?watch=1&timeoutSeconds={seconds}"));
    let Ok(mut watch) = answered("watch", client.open(&request)).await else { return };
    let leaves = random.below(2) == 0;
    let reads = async { while !leaves && matches!(watch.next_part().await, Ok(Some(_))) {} };
    answered("end of a watch", reads).await;
}

/// HTTP/2: many streams on one connection. Some are cancelled, and the connection may end before the answers.
async fn streams(client: &Client, random: &mut Random) {
    let Ok(connection) = answered("handshake", client.connect_http2()).await else { return };
    let connection = std::sync::Arc::new(connection);
    let mut all = JoinSet::new();
    for _ in 0..STREAMS {
        let (request, connection) = (request(random), std::sync::Arc::clone(&connection));
        let patience = if random.below(6) == 0 { Duration::from_millis(1) } else { PATIENCE };
        all.spawn(async move {
            let sent = tokio::time::timeout(patience, connection.send(&request)).await;
            assert!(sent.is_ok() || patience < PATIENCE, "{}: no answer", request.path);
        });
    }
    if random.below(8) == 0 {
        return all.shutdown().await;
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

async fn come_and_go(clients: [Client; 3], seed: u64, until: Instant) -> u64 {
    let mut random = Random::new(seed);
    let mut rounds = 0;
    while Instant::now() < until {
        // Most requests are of one user, whose flow has more requests than its share of the server.
        let [alice, admin, stranger] = &clients;
        let client = [alice, alice, alice, alice, admin, stranger][random.index(6)];
        match random.below(8) {
            0 => watch(client, &mut random).await,
            1 | 2 => streams(client, &mut random).await,
            3 => pipelined(client, &mut random).await,
            4 => drop(answered("handshake", client.target().connect()).await),
            _ => keep_alive(client, &mut random).await,
        }
        rounds += 1;
    }
    rounds
}

/// The sum of all series of some gauges.
async fn gauges(admin: &Client, names: &[&str]) -> f64 {
    let text = admin.send(&Request::new("GET", "/metrics")).await.unwrap().text();
    let is_of = |line: &&str| names.iter().any(|name| line.starts_with(&format!("{name}{{")));
    let series = text.lines().filter(is_of).filter(|line| !line.contains("\"exempt\""));
    series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

async fn let_alice_in(admin: &Client) {
    let binding = json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.post(path, &binding).await.unwrap().0, 201);
    assert_eq!(admin.post(MAPS, &json!({"metadata": {"name": "one"}})).await.unwrap().0, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_hangs_under_overload_and_all_seats_are_released() {
    let today = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() / SECONDS_PER_DAY;
    let seed = setting("SOAK_SEED").unwrap_or(today);
    let until = Instant::now() + Duration::from_secs(setting("SOAK_SECONDS").unwrap_or(SECONDS));
    println!("SOAK_SEED={seed}");
    let flags = ["--max-requests-inflight=12", "--max-mutating-requests-inflight=6"].map(str::to_owned);
    let server = Server::start_with(Options { ephemeral: true, flags: flags.into() }).await.unwrap();
    let admin = server.admin().unwrap();
    let_alice_in(&admin).await;

    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let alice = server.alice().unwrap();
        let all = [alice.clone(), admin.clone(), alice.as_token(Some("no-such-token"))];
        let seed = seed * CLIENTS + number + 1;
        clients.spawn(come_and_go(all, seed, until));
    }
    let mut rounds = 0;
    while let Some(ended) = clients.join_next().await {
        rounds += ended.unwrap();
    }
    assert!(rounds >= CLIENTS, "{rounds}");

    let counted = [
        "apiserver_flowcontrol_current_executing_requests",
        "apiserver_flowcontrol_current_executing_seats",
        "apiserver_flowcontrol_current_inqueue_requests",
        "apiserver_flowcontrol_current_inqueue_seats",
        "apiserver_longrunning_requests",
    ];
    let end = Instant::now() + PATIENCE;
    let mut left = gauges(&admin, &counted).await;
    while left > 0.0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(100)).await;
        left = gauges(&admin, &counted).await;
    }
    assert_eq!(left, 0.0, "requests stay counted after they ended");
    assert!(!server.log_tail().contains("panicked"), "{}", server.log_tail());
    // A lost turn would delay the next requests, too.
    for _ in 0..50 {
        let one = server.alice().unwrap();
        assert_eq!(answered("after all", one.get(&format!("{MAPS}/one"))).await.unwrap().0, 200);
    }
}

/// Long URLs and OpenAPI documents are both worked on off the threads that answer others, one within the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_urls_do_not_stop_large_bodies_of_other_users() {
    let server = Server::start_with(Options { ephemeral: true, flags: Vec::new() }).await.unwrap();
    let (admin, alice) = (server.admin().unwrap(), server.alice().unwrap());
    let long = format!("/openapi/v2?{}", "a".repeat(70_000));
    let mut flood = JoinSet::new();
    for _ in 0..32 {
        let (alice, long) = (alice.clone(), long.clone());
        flood.spawn(async move { answered("a long URL", alice.get(&long)).await.unwrap().0 });
    }
    let large = json!({"metadata": {"generateName": "m-"}, "data": {"a": "x".repeat(100_000)}});
    let within = Duration::from_secs(20);
    for _ in 0..3 {
        let created = tokio::time::timeout(within, admin.post(MAPS, &large)).await;
        assert_eq!(created.expect("the create waits").unwrap().0, 201);
    }
    while let Some(ended) = flood.join_next().await {
        assert_eq!(ended.unwrap(), 200);
    }
}
