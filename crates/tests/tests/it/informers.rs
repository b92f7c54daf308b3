//! The requests of client-go's informers, byte for byte where it matters: list and watch, and watch-list in protobuf.

use pintle_testkit::client::Streaming;
use pintle_testkit::{Client, Request, Server};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// client-go's Accept for built-in resources.
const ACCEPT: &str = "application/vnd.kubernetes.protobuf,application/json";
const MAGIC: &[u8] = b"k8s\0";

async fn create(client: &Client, name: &str) {
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}});
    assert_eq!(client.post(MAPS, &map).await.unwrap().0, 201);
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((first, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        shift += 7;
        if first & 0x80 == 0 {
            break;
        }
    }
    value
}

/// The length-delimited fields of a message, by number.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while !message.is_empty() {
        let tag = varint(&mut message);
        match tag & 7 {
            0 => drop(varint(&mut message)),
            2 => {
                let length = varint(&mut message) as usize;
                let (value, rest) = message.split_at(length);
                found.push((tag >> 3, value));
                message = rest;
            }
            wire => panic!("wire type {wire}"),
        }
    }
    found
}

fn field(message: &[u8], number: u64) -> &[u8] {
    fields(message).into_iter().find(|(n, _)| *n == number).map_or(&[][..], |(_, value)| value)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The object in the envelope.
fn unwrapped(envelope: &[u8]) -> &[u8] {
    field(envelope.strip_prefix(MAGIC).expect("the magic of Kubernetes' protobuf"), 2)
}

/// Reads frames: a length in four bytes, and a WatchEvent.
struct Frames(Streaming, Vec<u8>);

impl Frames {
    async fn open(client: &Client, query: &str) -> Frames {
        let request = Request::new("GET", &format!("{MAPS}?{query}"));
        // client-go adds this to the Accept of a watch.
        let accept = format!("{PROTOBUF};type=watch,application/json;type=watch,{ACCEPT}");
        let stream = client.open(&request.header("Accept", &accept)).await.unwrap();
        assert_eq!(stream.head.status, 200);
        assert_eq!(stream.head.get("content-type"), Some("application/vnd.kubernetes.protobuf;stream=watch"));
        Frames(stream, Vec::new())
    }

    /// Type, name, resourceVersion and the annotations of the next event.
    async fn next(&mut self) -> Option<(String, String, u64, String)> {
        loop {
            if let Some((head, rest)) = self.1.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*head) as usize;
                if let Some(frame) = rest.get(..length) {
                    let kind = text(field(frame, 1));
                    let metadata = field(unwrapped(field(field(frame, 2), 1)), 1).to_vec();
                    let annotations = fields(&metadata).into_iter().filter(|(n, _)| *n == 12);
                    let annotations: Vec<_> = annotations.map(|(_, entry)| text(field(entry, 1))).collect();
                    let version = text(field(&metadata, 6)).parse().unwrap();
                    let event = (kind, text(field(&metadata, 1)), version, annotations.join(","));
                    self.1.drain(..4 + length);
                    return Some(event);
                }
            }
            self.1.extend_from_slice(&self.0.next_part().await.unwrap()?);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_and_watch() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    // client-go lists from the cache first (resourceVersion=0), then watches from the revision of the list.
    let list = Request::new("GET", &format!("{MAPS}?limit=500&resourceVersion=0")).header("Accept", ACCEPT);
    let answer = client.send(&list).await.unwrap();
    assert_eq!((answer.status(), answer.head.get("content-type")), (200, Some(PROTOBUF)));
    let list = unwrapped(&answer.body);
    let names: Vec<_> = fields(list)
        .into_iter()
        .filter(|(n, _)| *n == 2)
        .map(|(_, item)| text(field(field(item, 1), 1)))
        .collect();
    assert_eq!(names, ["a", "b", "c"]);
    let version: u64 = text(field(field(list, 1), 2)).parse().unwrap();
    let query = format!("allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=3&watch=true");
    let mut frames = Frames::open(&client, &query).await;
    create(&client, "d").await;
    let (kind, name, created, _) = frames.next().await.unwrap();
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "d"));
    assert!(created > version);
    assert_eq!(client.delete(&format!("{MAPS}/d")).await.unwrap().0, 200);
    let (kind, name, deleted, _) = frames.next().await.unwrap();
    assert_eq!((kind.as_str(), name.as_str()), ("DELETED", "d"));
    assert!(deleted > created);
    // The last bookmark comes before the time-out, and the stream ends cleanly.
    let (kind, name, progress, _) = frames.next().await.unwrap();
    assert_eq!((kind.as_str(), name.as_str()), ("BOOKMARK", ""));
    assert!(progress >= deleted);
    assert!(frames.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_list() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let query = "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=true";
    let mut frames = Frames::open(&client, query).await;
    let mut newest = 0;
    for expected in ["a", "b", "c"] {
        let (kind, name, version, _) = frames.next().await.unwrap();
        assert_eq!((kind.as_str(), name.as_str()), ("ADDED", expected));
        newest = newest.max(version);
    }
    let (kind, _, synced, annotations) = frames.next().await.unwrap();
    assert_eq!((kind.as_str(), annotations.as_str()), ("BOOKMARK", "k8s.io/initial-events-end"));
    assert!(synced >= newest);
    create(&client, "d").await;
    let (kind, name, version, _) = frames.next().await.unwrap();
    assert_eq!((kind.as_str(), name.as_str()), ("ADDED", "d"));
    assert!(version > synced);
    // After a reconnect from the bookmark, events since then arrive once.
    drop(frames);
    let query = format!("allowWatchBookmarks=true&resourceVersion={synced}&timeoutSeconds=300&watch=true");
    let mut frames = Frames::open(&client, &query).await;
    assert_eq!(frames.next().await.unwrap().2, version);
}
