//! Unread lists and bodies in small chunks take little memory: the server encodes only what the client reads, and joins what
//! it sends.

use pintle_testkit::client::Streaming;
use pintle_testkit::{Client, Request, Server};
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
