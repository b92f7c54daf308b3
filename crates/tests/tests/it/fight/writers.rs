//! Writers that record which writes the server acknowledged.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pintle_testkit::{Client, Request};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{MAPS, sleep_ms};
use crate::random::Random;

const WRITERS: u64 = 4;
const OBJECTS_PER_WRITER: u64 = 25;

/// The state of an object: the number of the write that it came from, or absent.
type State = Option<u64>;

/// The possible states of one object.
#[derive(Debug, Default)]
struct Record {
    /// The state that was acknowledged last.
    acknowledged: State,
    /// States of writes whose outcome is unknown. Each of them may have been executed, even after later ones.
    possible: Vec<State>,
}

/// The acknowledged states by object name. Each object has one writer.
#[derive(Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Record>,
    acknowledged: u64,
    refused: u64,
    unknown: u64,
    next_write: u64,
}

/// The running writers.
pub(super) struct Writing {
    tasks: JoinSet<()>,
    stop: Arc<AtomicBool>,
}

impl Writing {
    /// Waits for the answers to the last requests: an aborted request could be made later.
    pub(super) async fn stop(mut self) {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
    }
}

impl Ledger {
    pub(super) fn start_writers(&self, client: &Client, random: &mut Random) -> Writing {
        let mut writing = Writing { tasks: JoinSet::new(), stop: Arc::default() };
        for writer in 0..WRITERS {
            let (ledger, client, random) = (self.clone(), client.clone(), random.fork());
            let stop = writing.stop.clone();
            writing.tasks.spawn(async move { ledger.write_until(client, writer, random, stop).await });
        }
        writing
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.0.lock().unwrap().acknowledged
    }

    pub(super) fn summary(&self) -> String {
        let contents = self.0.lock().unwrap();
        let (acknowledged, refused, unknown) = (contents.acknowledged, contents.refused, contents.unknown);
        format!("{acknowledged} writes acknowledged, {refused} refused, {unknown} unknown")
    }

    async fn write_until(self, client: Client, writer: u64, mut random: Random, stop: Arc<AtomicBool>) {
        while !stop.load(Ordering::SeqCst) {
            let name = format!("w{writer}-{}", random.below(OBJECTS_PER_WRITER));
            let write = {
                let mut contents = self.0.lock().unwrap();
                contents.next_write += 1;
                contents.next_write
            };
            let exists = self.0.lock().unwrap().objects.get(&name).is_some_and(|r| r.acknowledged.is_some());
            let (request, state) = make_write(&name, write, exists, &mut random);
            let answer = client.send(&request).await;
            let is_broken = answer.is_err();
            self.record(name, state, answer.map(|answer| (answer.status(), answer.text())).ok());
            if is_broken {
                // The server is gone, or closed the connection.
                sleep_ms(50).await;
            }
        }
    }

    fn record(&self, name: String, state: State, answer: Option<(u16, String)>) {
        let mut contents = self.0.lock().unwrap();
        let record = contents.objects.entry(name.clone()).or_default();
        match answer {
            Some((200 | 201, _)) => {
                record.acknowledged = state;
                contents.acknowledged += 1;
            }
            // The object differs from the ledger because of a write whose outcome was unknown.
            Some((404 | 409, text)) => {
                assert!(!record.possible.is_empty(), "{name}: {text}, acknowledged: {record:?}");
                contents.refused += 1;
            }
            Some((429, _)) => contents.refused += 1,
            // A failed store answers that the outcome is unknown, or that it has no space.
            Some((500.., _)) | None => {
                record.possible.push(state);
                contents.unknown += 1;
            }
            Some((code, text)) => panic!("{name}: {code} {text}"),
        }
    }

    /// Compares the server's objects with the acknowledged ones, and continues from their state.
    pub(super) async fn check(&self, client: &Client, round: u32) {
        let answer = client.send(&Request::new("GET", &format!("{MAPS}?labelSelector=fight"))).await.unwrap();
        let list = answer.json().unwrap();
        assert_eq!(answer.status(), 200, "{list}");
        let mut stored = BTreeMap::new();
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap().to_owned();
            let write: u64 = item["data"]["write"].as_str().unwrap().parse().unwrap();
            assert_eq!(item["data"]["payload"], payload(write), "{name} is torn");
            stored.insert(name, write);
        }
        for (name, record) in &mut self.0.lock().unwrap().objects {
            let found = stored.remove(name);
            let is_possible = found == record.acknowledged || record.possible.contains(&found);
            assert!(is_possible, "round {round}: {name} is {found:?}, but {record:?}");
            *record = Record { acknowledged: found, possible: Vec::new() };
        }
        assert!(stored.is_empty(), "round {round}: nobody wrote {stored:?}");
    }
}

fn payload(write: u64) -> Value {
    // Writes of many sizes, so that records end anywhere in a block.
    json!("x".repeat((write * 37 % 5000) as usize))
}

fn make_write(name: &str, write: u64, exists: bool, random: &mut Random) -> (Request, State) {
    let data = json!({"write": write.to_string(), "payload": payload(write)});
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"fight": ""}}, "data": data,
    });
    let path = format!("{MAPS}/{name}");
    match (exists, random.below(4)) {
        (false, _) => (Request::new("POST", MAPS).json(&object), Some(write)),
        (true, 0) => (Request::new("DELETE", &path), None),
        (true, 1) => {
            let patch = json!({"data": data}).to_string();
            (Request::new("PATCH", &path).body("application/merge-patch+json", patch), Some(write))
        }
        (true, _) => (Request::new("PUT", &path).json(&object), Some(write)),
    }
}
