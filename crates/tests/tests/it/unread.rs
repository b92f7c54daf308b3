//! Clients that do not read their answers: what the server holds for them is limited.

use std::time::Duration;

use crate::fight::frames::{self, push_frame};
use pintle_testkit::server::{ALICE_TOKEN, Options};
use pintle_testkit::wire::Connection;
use pintle_testkit::{Client, Request, Server};
use serde_json::json;
use tokio::time::timeout;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The index of `authorization` in HPACK's static table, as a literal without indexing has it.
const AUTHORIZATION: [u8; 2] = [0x0f, 23 - 15];
const STREAMS: u32 = 100;
const ANSWER_BYTES: u64 = 900_000;

/// The index of `accept`.
const ACCEPT: [u8; 2] = [0x0f, 19 - 15];

/// Opens a connection and sends as many requests on it as a connection may have. The windows of their streams stay closed.
async fn open_streams(client: &Client, path: &str, accept: &str, token: Option<&str>) -> Connection {
    let mut block = frames::get_block(path);
    block.extend(ACCEPT);
    frames::push_text(&mut block, accept.as_bytes());
    if let Some(token) = token {
        block.extend(AUTHORIZATION);
        frames::push_text(&mut block, format!("Bearer {token}").as_bytes());
    }
    let mut bytes = frames::PREFACE.to_vec();
    // The initial window of all streams is 0.
    push_frame(&mut bytes, frames::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    for stream in (1..).step_by(2).take(STREAMS as usize) {
        let flags = frames::END_HEADERS | frames::END_STREAM;
        push_frame(&mut bytes, frames::HEADERS, flags, stream, &block);
    }
    let mut connection = client.target().clone().with_http2().connect().await.unwrap();
    connection.send(&bytes).await.unwrap();
    connection
}

/// How many frames of this kind arrive until the server closes the connection, or is silent for so long; and whether it closed it.
async fn count(connection: &mut Connection, kind: u8, silence: Duration) -> (u32, bool) {
    let mut found = 0;
    loop {
        match timeout(silence, connection.read_frame()).await {
            Ok(Ok((of, _, _))) => found += u32::from(of == kind),
            Ok(Err(_)) => return (found, true),
            Err(_) => return (found, false),
        }
    }
}

/// A server with an object that takes a megabyte, which alice may read.
async fn server_with_long_object(flags: &[&str]) -> Server {
    let flags = flags.iter().map(|flag| flag.to_string()).collect();
    let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let admin = server.admin().unwrap();
    let binding = json!({
        "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.post(bindings, &binding).await.unwrap().0, 201);
    let map = json!({"metadata": {"name": "long"}, "data": {"a": "x".repeat(ANSWER_BYTES as usize)}});
    assert_eq!(admin.post(MAPS, &map).await.unwrap().0, 201);
    assert_eq!(server.alice().unwrap().get(&format!("{MAPS}/long")).await.unwrap().0, 200);
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_objects_that_nobody_reads_are_not_copied() {
    const CONNECTIONS: u64 = 3;
    let server = server_with_long_object(&[]).await;
    let admin = server.admin().unwrap();
    let before = server.peak_bytes();
    let mut open = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection =
            open_streams(&admin, &format!("{MAPS}/long"), "application/json", Some(ALICE_TOKEN)).await;
        _ = count(&mut connection, frames::HEADERS, Duration::from_secs(2)).await;
        open.push(connection);
    }
    let taken = server.peak_bytes() - before;
    let all = ANSWER_BYTES * CONNECTIONS * u64::from(STREAMS);
    assert!(taken < all / 4, "{} MB of {} MB", taken >> 20, all >> 20);
    assert_eq!(admin.send(&Request::new("GET", "/readyz")).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answers_that_nobody_reads_hold_seats() {
    let flags = ["--max-requests-inflight=12", "--max-mutating-requests-inflight=6"];
    let server = server_with_long_object(&flags).await;
    let path = format!("{MAPS}/long");
    let client = server.admin().unwrap();
    let mut connection = open_streams(&client, &path, "application/yaml", Some(ALICE_TOKEN)).await;
    let (answers, _) = count(&mut connection, frames::HEADERS, Duration::from_secs(3)).await;
    assert!(answers <= 18, "{answers}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_unread_answers_of_a_user_end() {
    // As many seats as there are streams, from the start.
    let server = server_with_long_object(&["--max-requests-inflight=3000"]).await;
    let (client, path) = (server.admin().unwrap(), format!("{MAPS}/long"));
    let mut oldest = open_streams(&client, &path, "application/yaml", Some(ALICE_TOKEN)).await;
    let (answers, is_closed) = count(&mut oldest, frames::HEADERS, Duration::from_secs(3)).await;
    assert!(answers == STREAMS && !is_closed, "{answers}");
    let mut next = open_streams(&client, &path, "application/yaml", Some(ALICE_TOKEN)).await;
    assert!(!count(&mut next, frames::HEADERS, Duration::from_secs(3)).await.1);
    assert!(count(&mut oldest, frames::HEADERS, Duration::from_secs(10)).await.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_http2_connection_without_credentials_ends_after_few_answers() {
    let server = Server::start_ephemeral().await.unwrap();
    for (path, answered) in [("/livez?verbose", 16), ("/console/", 64)] {
        let mut connection = open_streams(&server.admin().unwrap(), path, "*/*", None).await;
        let (reset, is_closed) = count(&mut connection, frames::RST_STREAM, Duration::from_secs(30)).await;
        assert!(
            reset >= STREAMS - answered && is_closed,
            "{path}: {reset} streams were reset; closed: {is_closed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_without_credentials_repeats_only_the_beginning_of_a_long_url() {
    let server = Server::start_ephemeral().await.unwrap();
    let stranger = server.admin().unwrap().as_token(None);
    for (url, code) in [
        (format!("/api/v1/watch?{}", "&".repeat(500_000)), 500),
        (format!("/{}", "a".repeat(500_000)), 403),
        (format!("/api/v1/namespaces/{0}/pods/{0}", "a".repeat(250_000)), 403),
    ] {
        let answer = stranger.send(&Request::new("GET", &url)).await.unwrap();
        assert_eq!(answer.status(), code);
        assert!(answer.text().len() < 100_000, "{} bytes", answer.text().len());
    }
}
