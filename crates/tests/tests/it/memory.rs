//! Unread lists and bodies in small chunks take little memory: the server encodes only what the client reads, and joins what
//! it sends.

use pintle_testkit::client::Streaming;
use pintle_testkit::{Client, Options, Request, Server};
use serde_json::json;

/// The number of concurrent lists, none of which is read.
const READERS: usize = 60;
/// The memory limit of all lists beside the objects. If lists were encoded at once, they would take fifty times as much.
const READERS_BYTES_MAX: u64 = 64 << 20;
/// The collection: objects much larger and much smaller than a chunk.
const LARGE: (usize, usize) = (16, 900_000);
const SMALL: (usize, usize) = (500, 30_000);

fn rss_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

async fn fill(client: &Client, path: &str) {
    for (objects, bytes) in [LARGE, SMALL] {
        for number in 0..objects {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("of-{bytes}-{number}")},
                "data": {"payload": "x".repeat(bytes)},
            });
            assert_eq!(client.post(path, &object).await.unwrap().0, 201);
        }
    }
}

/// Starts lists and reads the first part of each. After that the server does not encode further ahead.
async fn begin(client: &Client, path: &str, accept: &str) -> Vec<Streaming> {
    let mut begun = Vec::new();
    for _ in 0..READERS {
        let mut list = client.open(&Request::new("GET", path).header("Accept", accept)).await.unwrap();
        list.next_part().await.unwrap();
        begun.push(list);
    }
    begun
}

#[tokio::test]
async fn lists_that_are_not_read_take_little() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    fill(&client, path).await;
    for accept in [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ] {
        // The first list creates the encodings that are cached beside the objects.
        client.send(&Request::new("GET", path).header("Accept", accept)).await.unwrap();
        let before = rss_bytes(server.pid().unwrap());
        let begun = begin(&client, path, accept).await;
        let taken = rss_bytes(server.pid().unwrap()).saturating_sub(before);
        assert!(taken < READERS_BYTES_MAX, "{accept}: {READERS} lists take {} MiB", taken >> 20);
        drop(begun);
    }
}

/// Bodies that arrive in chunks of a byte, and their chunks. If each chunk were kept, they would take twice the limit.
const CHUNKED_BODIES: usize = 4;
const CHUNKS: usize = 400_000;
const CHUNKED_BYTES_MAX: u64 = 20 << 20;

#[tokio::test]
async fn bodies_in_small_chunks_take_little() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    let before = server.peak_bytes();
    let request = Request::new("POST", "/api/v1/namespaces/default/configmaps")
        .header("Content-Type", "application/json")
        .header("Transfer-Encoding", "chunked");
    let chunks = b"1\r\n \r\n".repeat(10_000);
    let mut open = Vec::new();
    for _ in 0..CHUNKED_BODIES {
        let mut connection = client.target().connect().await.unwrap();
        connection.send(&client.bytes_of(&request)).await.unwrap();
        for _ in 0..CHUNKS / 10_000 {
            connection.send(&chunks).await.unwrap();
        }
        open.push(connection);
    }
    let taken = server.peak_bytes().saturating_sub(before);
    assert!(taken < CHUNKED_BYTES_MAX, "{CHUNKED_BODIES} bodies take {} MiB", taken >> 20);
}

/// A body that is nearly as long as is accepted.
const LONG_BODY_BYTES: usize = 2_900_000;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn long_body() -> Request {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "long"},
        "data": {"payload": "x".repeat(LONG_BODY_BYTES)},
    });
    Request::new("POST", &format!("{MAPS}?dryRun=All")).json(&object)
}

/// Connections on which a long body was sent. If each kept the buffers that it was read into, they would take 2 MB each.
const IDLE_CONNECTIONS: usize = 100;
const IDLE_CONNECTIONS_BYTES_MAX: u64 = 80 << 20;

#[tokio::test]
async fn connections_keep_nothing_of_long_bodies() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    let request = client.bytes_of(&long_body());
    let mut idle = Vec::new();
    let before = rss_bytes(server.pid().unwrap());
    for _ in 0..IDLE_CONNECTIONS {
        let mut connection = client.target().connect().await.unwrap();
        connection.send(&request).await.unwrap();
        assert_eq!(connection.read_head(false).await.unwrap().status, 422);
        while connection.next_part().await.unwrap().is_some() {}
        idle.push(connection);
    }
    let taken = rss_bytes(server.pid().unwrap()).saturating_sub(before);
    assert!(taken < IDLE_CONNECTIONS_BYTES_MAX, "{IDLE_CONNECTIONS} connections take {} MiB", taken >> 20);
}

/// Long bodies that lack their last byte. Without a limit they would take 1.2 GB.
const UNFINISHED_BODIES: usize = 300;
const UNFINISHED_BYTES_MAX: u64 = 300 << 20;

#[tokio::test]
async fn unfinished_bodies_take_a_limited_amount() {
    let options = Options {
        ephemeral: true,
        flags: ["--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1000"]
            .map(String::from)
            .into(),
    };
    let server = Server::start_with(options).await.unwrap();
    let client = server.alice().unwrap();
    let admin = server.admin().unwrap();
    let rights = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(admin.post(path, &rights).await.unwrap().0, 201);
    let request = std::sync::Arc::new(client.bytes_of(&long_body()));
    let mut senders = tokio::task::JoinSet::new();
    for _ in 0..UNFINISHED_BODIES {
        let (target, request) = (client.target().clone(), request.clone());
        senders.spawn(async move {
            let mut connection = target.connect().await.unwrap();
            // The server reads no further if there is no memory for the body, and answers after a while.
            let unfinished = connection.send(&request[..request.len() - 1]);
            _ = tokio::time::timeout(std::time::Duration::from_secs(3), unfinished).await;
            connection
        });
    }
    let held = senders.join_all().await;
    let began = std::time::Instant::now();
    assert_eq!(admin.ask(&long_body()).await.unwrap().0, 422, "exempt requests do not wait");
    assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    let taken = server.peak_bytes();
    assert!(taken < UNFINISHED_BYTES_MAX, "{} bodies take {} MiB", held.len(), taken >> 20);
}
