//! A server killed at any moment loses no acknowledged write, and its revisions never go backward.
//!
//! `PINTLE_CRASH_ROUNDS` sets the number of kills, `PINTLE_CRASH_SEED` repeats their moments.

use crate::random::{Random, setting};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pintle_testkit::{Client, Server};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const WRITERS: u64 = 16;
/// Every writer creates this many objects and then updates them in turn, so that both kinds of writes occur.
const OBJECTS_PER_WRITER: u64 = 50;
const NAMESPACE: &str = "crash";
const KILL_AFTER_MS: std::ops::Range<u64> = 5..400;

/// An acknowledged write: for each object the newest one and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Acknowledged {
    write: u64,
    version: u64,
}

type Ledger = Arc<Mutex<BTreeMap<String, Acknowledged>>>;

fn version_of(object: &Value) -> u64 {
    let text = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion in {object}"))
}

fn config_map(name: &str, write: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        // Writes of many sizes, so that records end anywhere in a block.
        "data": {"write": write.to_string(), "payload": "x".repeat((write * 37 % 5000) as usize)},
    })
}

/// Writes until the server is killed. `first` numbers the writes of this writer across rounds.
async fn write_until_killed(client: Client, ledger: Ledger, writer: u64, first: u64) -> u64 {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    for write in first.. {
        let name = format!("w{writer}-{}", write % OBJECTS_PER_WRITER);
        let object = config_map(&name, write);
        let exists = ledger.lock().unwrap().contains_key(&name);
        let answer = if exists {
            client.put(&format!("{path}/{name}"), &object).await
        } else {
            client.post(&path, &object).await
        };
        match answer {
            // Created just before an earlier kill, unacknowledged: it is updated from the next round on.
            Ok((409, _)) if !exists => {
                if let Ok((200, updated)) = client.put(&format!("{path}/{name}"), &object).await {
                    let version = version_of(&updated);
                    ledger.lock().unwrap().insert(name, Acknowledged { write, version });
                }
            }
            Ok((200 | 201, stored)) => {
                let version = version_of(&stored);
                let before = ledger.lock().unwrap().insert(name.clone(), Acknowledged { write, version });
                let is_newer = before.is_none_or(|before| before.version < version);
                assert!(is_newer, "{name}: {version} after {before:?}");
            }
            Ok((status @ (429 | 500..), body)) => {
                // A server that is shutting down may say so; such a write is not acknowledged.
                assert!(status != 500, "{name}: 500 {body}");
            }
            Ok((status, body)) => panic!("{name}: {status} {body}"),
            Err(_) => return write + 1,
        }
    }
    first
}

/// Checks that every acknowledged write exists, unchanged or overwritten by a later one, at its version or a newer one.
async fn check(client: &Client, ledger: &Ledger, newest: &mut u64) {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let (status, list) = client.get(&path).await.unwrap();
    assert_eq!(status, 200, "{list}");
    let list_version = version_of(&list);
    assert!(list_version >= *newest, "the list's version went back from {newest} to {list_version}");
    let mut found = BTreeMap::new();
    for item in list["items"].as_array().unwrap() {
        let name = item["metadata"]["name"].as_str().unwrap().to_owned();
        let write: u64 = item["data"]["write"].as_str().unwrap().parse().unwrap();
        let payload = item["data"]["payload"].as_str().map_or(0, str::len);
        assert_eq!(payload, (write * 37 % 5000) as usize, "{name} is torn");
        assert!(version_of(item) <= list_version, "{name} is newer than the list");
        found.insert(name, Acknowledged { write, version: version_of(item) });
    }
    for (name, acknowledged) in ledger.lock().unwrap().iter_mut() {
        let Some(stored) = found.get(name) else { panic!("{name} is lost: {acknowledged:?}") };
        assert!(stored.version >= acknowledged.version, "{name}: {stored:?}, acknowledged {acknowledged:?}");
        assert!(stored.write >= acknowledged.write, "{name}: {stored:?}, acknowledged {acknowledged:?}");
        let unchanged = stored.version == acknowledged.version;
        assert_eq!(unchanged, stored.write == acknowledged.write, "{name}: {stored:?}, {acknowledged:?}");
        *acknowledged = *stored;
    }
    *newest = list_version;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_kills() {
    let rounds = setting("PINTLE_CRASH_ROUNDS").unwrap_or(20);
    let mut random = Random::from_setting("PINTLE_CRASH_SEED");
    eprintln!("PINTLE_CRASH_SEED={} PINTLE_CRASH_ROUNDS={rounds}", random.seed());
    let mut server = Server::start().await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let (status, _) = server.admin().unwrap().post("/api/v1/namespaces", &namespace).await.unwrap();
    assert_eq!(status, 201);
    let ledger = Ledger::default();
    let mut newest = 0;
    let mut next = vec![0; WRITERS as usize];
    for round in 0..rounds {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let first = next[writer as usize];
            let (client, ledger) = (server.admin().unwrap(), ledger.clone());
            writers.spawn(async move { (writer, write_until_killed(client, ledger, writer, first).await) });
        }
        tokio::time::sleep(Duration::from_millis(random.within(KILL_AFTER_MS))).await;
        server.kill().unwrap();
        while let Some(done) = writers.join_next().await {
            let (writer, write) = done.unwrap();
            next[writer as usize] = write;
        }
        server.restart().await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        check(&server.admin().unwrap(), &ledger, &mut newest).await;
    }
    assert!(ledger.lock().unwrap().len() as u64 >= WRITERS, "hardly anything was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_starts_with_everything() {
    let mut server = Server::start().await.unwrap();
    let path = "/api/v1/namespaces/default/configmaps";
    let (status, stored) = server.admin().unwrap().post(path, &config_map("kept", 7)).await.unwrap();
    assert_eq!(status, 201, "{stored}");
    let exit = server.terminate().await.unwrap().unwrap();
    assert!(exit.success(), "{exit}\n{}", server.log_tail());
    server.restart().await.unwrap();
    let (status, found) = server.admin().unwrap().get(&format!("{path}/kept")).await.unwrap();
    assert_eq!((status, found), (200, stored));
}
