//! Watchers that are disconnected, resume and start over see every change once and in order, across kills of the server
//! and compaction: a watcher that comes too late gets 410 and starts over, but never misses an event silently.
//!
//! `PINTLE_WATCH_ROUNDS` sets the number of kills, `PINTLE_WATCH_SEED` repeats their moments.

use crate::random::{Random, setting};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pintle_testkit::server::Options;
use pintle_testkit::{Client, Request, Server};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

const WRITERS: u64 = 4;
const OBJECTS_PER_WRITER: u64 = 6;
/// Enough for a large watch group, whose watchers receive several events together.
const WATCHERS: u64 = 24;
const NAMESPACE: &str = "watched";
const ROUND_MS: std::ops::Range<u64> = 200..900;
/// How long watchers may take to see the last event.
const CATCH_UP: Duration = Duration::from_secs(20);
/// How long the server retains history.
const COMPACTION: &str = "--etcd-compaction-interval=300ms";
/// How long watchers may pause: longer than the retention, so that some come too late.
const REST_MS_MAX: u64 = 900;
/// The padding of each third object: enough to make the log compact too.
const PADDING_BYTES: usize = 60_000;

/// The state of an object at a revision: the number of its write, `None` once it was deleted.
type Change = Option<u64>;
/// Changes by revision and name.
type History = Arc<Mutex<BTreeMap<(u64, String), Change>>>;

fn version_of(object: &Value) -> u64 {
    let text = object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion in {object}"))
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_else(|| panic!("no name in {object}")).to_owned()
}

fn write_of(object: &Value) -> u64 {
    object["data"]["write"].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{object}"))
}

fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// Creates, updates and deletes the writer's own objects until the server is killed.
async fn write_until_killed(client: Client, history: History, writer: u64, mut random: Random) {
    loop {
        let name = format!("w{writer}-{}", random.below(OBJECTS_PER_WRITER));
        let write = random.below(1_000_000_000);
        let padding = if write.is_multiple_of(3) { PADDING_BYTES } else { 0 };
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "labels": {"half": if write.is_multiple_of(2) { "even" } else { "odd" }}},
            "data": {"write": write.to_string(), "padding": "p".repeat(padding)},
        });
        let path = format!("{}/{name}", collection());
        let answer = match random.below(5) {
            0 => client.delete(&path).await,
            1 | 2 => client.post(&collection(), &object).await,
            _ => client.put(&path, &object).await,
        };
        match answer {
            Ok((200 | 201, stored)) if stored["kind"] == "ConfigMap" => {
                history.lock().unwrap().insert((version_of(&stored), name), Some(write));
            }
            // Deleted, existing already, missing, or the server is shutting down.
            Ok((200 | 404 | 409 | 429 | 503 | 504, _)) => {}
            Ok((status, body)) => panic!("{name}: {status} {body}"),
            Err(_) => return,
        }
    }
}

/// The state of one watcher.
struct Watcher {
    /// The label that it selects; "" is all.
    half: &'static str,
    /// Whether the watcher begins with streamed initial events rather than a list.
    streams: bool,
    objects: BTreeMap<String, (u64, u64)>,
    /// Everything up to here was seen; `None` before the first list.
    revision: Option<u64>,
    random: Random,
    resumed: u64,
    restarted: u64,
    /// How often the watcher's revision was too old.
    expired: u64,
}

impl Watcher {
    fn selects(&self, write: u64) -> bool {
        match self.half {
            "even" => write.is_multiple_of(2),
            "odd" => write % 2 == 1,
            _ => true,
        }
    }

    fn selector(&self) -> String {
        if self.half.is_empty() { String::new() } else { format!("&labelSelector=half%3D{}", self.half) }
    }

    /// Watches from its revision until the stream ends; then, sometimes, starts over without its state.
    async fn run_once(&mut self, client: &Client) {
        if self.random.below(8) == 0 {
            self.revision = None;
            self.restarted += 1;
        }
        if self.revision.is_none() && !self.streams && !self.list(client).await {
            return;
        }
        let seconds = 1 + self.random.below(2);
        let start = match self.revision {
            Some(revision) => format!("&resourceVersion={revision}"),
            None => "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan".to_owned(),
        };
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}{start}{}",
            collection(),
            self.selector()
        );
        let Ok(mut stream) = client.open(&Request::new("GET", &path)).await else { return };
        let mut fresh = (self.revision.is_none()).then(BTreeMap::new);
        let mut buffer = Vec::new();
        while let Ok(Some(part)) = stream.next_part().await {
            buffer.extend_from_slice(&part);
            while let Some(end) = buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let event: Value = serde_json::from_slice(&line).unwrap();
                if !self.take(&event, &mut fresh) {
                    return;
                }
            }
        }
        self.resumed += 1;
    }

    async fn list(&mut self, client: &Client) -> bool {
        let path = format!("{}?{}", collection(), self.selector().trim_start_matches('&'));
        let Ok((200, list)) = client.get(&path).await else { return false };
        self.objects = list["items"].as_array().unwrap().iter().map(entry).collect();
        self.revision = Some(version_of(&list));
        true
    }

    /// Applies an event; `false` if the watch must start again.
    fn take(&mut self, event: &Value, fresh: &mut Option<BTreeMap<String, (u64, u64)>>) -> bool {
        let object = &event["object"];
        let kind = event["type"].as_str().unwrap_or_default();
        if kind == "ERROR" {
            assert_eq!(object["code"], 410, "{event}");
            assert_eq!(object["reason"], "Expired", "{event}");
            self.revision = None;
            self.expired += 1;
            return false;
        }
        let version = version_of(object);
        if let Some(initial) = fresh {
            match kind {
                "ADDED" => drop(initial.insert(name_of(object), (version, write_of(object)))),
                "BOOKMARK" => {
                    assert_eq!(
                        object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true",
                        "{event}"
                    );
                    self.objects = std::mem::take(initial);
                    self.revision = Some(version);
                    *fresh = None;
                }
                _ => panic!("{kind} among initial events"),
            }
            return true;
        }
        let before = self.revision.unwrap_or(0);
        assert!(version >= before, "{kind} at {version} after {before}: {event}");
        match kind {
            "BOOKMARK" => {}
            "DELETED" => {
                let name = name_of(object);
                assert!(version > before, "{event}");
                assert!(self.objects.remove(&name).is_some(), "{name} was deleted without having been there");
            }
            "ADDED" | "MODIFIED" => {
                assert!(version > before, "{event}");
                assert!(self.selects(write_of(object)), "{event}");
                let (name, known) = entry(object);
                let was_there = self.objects.insert(name, known).is_some();
                assert_eq!(was_there, kind == "MODIFIED", "{event}");
            }
            _ => panic!("{event}"),
        }
        self.revision = Some(version);
        true
    }
}

fn entry(object: &Value) -> (String, (u64, u64)) {
    (name_of(object), (version_of(object), write_of(object)))
}

/// Watches until the watcher has seen the revision `end`, once it is known.
async fn follow(mut watcher: Watcher, mut server: watch::Receiver<(Client, Option<u64>)>) -> Watcher {
    let mut deadline = None;
    loop {
        let (client, end) = server.borrow_and_update().clone();
        if let Some(end) = end {
            if watcher.revision.is_some_and(|revision| revision >= end) {
                return watcher;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + CATCH_UP);
            assert!(Instant::now() < deadline, "{:?} never came to {end}", watcher.revision);
        }
        watcher.run_once(&client).await;
        let rest = if end.is_none() { watcher.random.below(REST_MS_MAX) } else { 10 };
        tokio::time::sleep(Duration::from_millis(rest)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_watcher_sees_the_history() {
    let rounds = setting("PINTLE_WATCH_ROUNDS").unwrap_or(8);
    let mut random = Random::from_setting("PINTLE_WATCH_SEED");
    eprintln!("PINTLE_WATCH_SEED={} PINTLE_WATCH_ROUNDS={rounds}", random.seed());
    let flags = vec![COMPACTION.to_owned()];
    let mut server = Server::start_with(Options { ephemeral: false, flags }).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let (status, _) = server.admin().unwrap().post("/api/v1/namespaces", &namespace).await.unwrap();
    assert_eq!(status, 201);
    let history = History::default();
    let (place, _) = watch::channel((server.admin().unwrap(), None));
    let mut watchers = JoinSet::new();
    for index in 0..WATCHERS {
        let half = ["", "even", "odd"].into_iter().cycle().nth(index as usize).unwrap();
        let watcher = Watcher {
            half,
            streams: index >= WATCHERS / 2,
            objects: BTreeMap::new(),
            revision: None,
            random: random.fork(),
            resumed: 0,
            restarted: 0,
            expired: 0,
        };
        watchers.spawn(follow(watcher, place.subscribe()));
    }
    for round in 0..rounds {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (client, history) = (server.admin().unwrap(), history.clone());
            writers.spawn(write_until_killed(client, history, writer, random.fork()));
        }
        tokio::time::sleep(Duration::from_millis(random.within(ROUND_MS))).await;
        server.kill().unwrap();
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
        server.restart().await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        place.send_replace((server.admin().unwrap(), None));
    }
    // The truth is the server's final state; it includes every acknowledged write that was not changed since.
    let client = server.admin().unwrap();
    let (status, list) = client.get(&collection()).await.unwrap();
    assert_eq!(status, 200, "{list}");
    let truth: BTreeMap<String, (u64, u64)> = list["items"].as_array().unwrap().iter().map(entry).collect();
    for ((version, name), write) in history.lock().unwrap().iter() {
        if let Some((stored, kept)) = truth.get(name) {
            assert!(stored >= version, "{name}: {stored} is older than the acknowledged {version}");
            assert!(stored != version || Some(*kept) == *write, "{name} at {version}");
        }
    }
    // Last writes give every watcher something to wait for.
    for (half, write) in [("even", "0"), ("odd", "1")] {
        let last = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("last-{half}"), "labels": {"half": half}},
            "data": {"write": write},
        });
        let (status, last) = client.post(&collection(), &last).await.unwrap();
        assert_eq!(status, 201, "{last}");
    }
    place.send_replace((client, Some(version_of(&list))));
    let (mut resumed, mut restarted, mut expired) = (0, 0, 0);
    while let Some(done) = watchers.join_next().await {
        let mut watcher = done.unwrap();
        watcher.objects.retain(|name, _| !name.starts_with("last-"));
        let mut expected = truth.clone();
        expected.retain(|_, (_, write)| watcher.selects(*write));
        assert_eq!(watcher.objects, expected, "the view of {:?}", watcher.half);
        resumed += watcher.resumed;
        restarted += watcher.restarted;
        expired += watcher.expired;
    }
    assert!(resumed > 0, "no watcher resumed");
    assert!(expired > 0, "no watcher came too late");
    let snapshots = std::fs::read_dir(server.data_dir().join("store")).unwrap();
    let snapshots =
        snapshots.filter(|f| f.as_ref().unwrap().file_name().to_string_lossy().starts_with("snapshot-"));
    eprintln!(
        "{} changes, {resumed} resumed, {restarted} started over, {expired} came too late, {} snapshots",
        history.lock().unwrap().len(),
        snapshots.count()
    );
}
