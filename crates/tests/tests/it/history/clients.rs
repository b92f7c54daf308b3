//! The clients: each uses all servers in turn, and records what it sent and received.

use super::NAMESPACE;
use super::record::{Action, GetOp, ListOp, Outcome, Recorder, Seen, Session, WatchItem, WriteOp};
use crate::random::Random;
use pintle_testkit::{Client, Request};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

pub(crate) const KEYS: u64 = 12;
const WORKERS: usize = 6;
const WATCHERS: usize = 4;
/// The time-out of a client: the outcome is then unknown.
const ANSWER_MAX: Duration = Duration::from_secs(12);
const PAUSE_MS: u64 = 20;

fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

pub(crate) struct Fleet {
    workers: JoinSet<()>,
    watchers: JoinSet<()>,
    stop: watch::Sender<bool>,
    /// The revision that each watcher has reached.
    reached: Vec<Arc<AtomicU64>>,
    target: watch::Sender<u64>,
}

impl Fleet {
    pub(crate) fn start(servers: &[Client], recorder: &Arc<Recorder>, seed: u64) -> Fleet {
        let (stop, stopped) = watch::channel(false);
        let (mut workers, mut watchers) = (JoinSet::new(), JoinSet::new());
        for number in 0..WORKERS {
            let worker = Worker {
                number,
                servers: servers.to_vec(),
                recorder: recorder.clone(),
                random: Random::new(seed ^ (number as u64 + 1) << 32),
                known: BTreeMap::new(),
                lists: Vec::new(),
                sent: 0,
            };
            workers.spawn(worker.run(stopped.clone()));
        }
        let (target, wanted) = watch::channel(u64::MAX);
        let mut reached = Vec::new();
        for number in 0..WATCHERS {
            let progress = Arc::new(AtomicU64::new(0));
            reached.push(progress.clone());
            let watcher = Watching {
                number,
                servers: servers.to_vec(),
                recorder: recorder.clone(),
                reached: progress,
                wanted: wanted.clone(),
            };
            watchers.spawn(watcher.run());
        }
        Fleet { workers, watchers, stop, reached, target }
    }

    /// Ends the workers and waits until they have recorded their last operation.
    pub(crate) async fn stop_workers(&mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.workers.join_next().await {
            ended.unwrap();
        }
    }

    /// Waits until every watch reached the revision `last`.
    pub(crate) async fn finish(mut self, last: u64, limit: Duration) {
        self.target.send_replace(last);
        let end = Instant::now() + limit;
        while let Ok(Some(ended)) = tokio::time::timeout_at(end, self.watchers.join_next()).await {
            ended.unwrap();
        }
        let reached: Vec<u64> = self.reached.iter().map(|reached| reached.load(Ordering::Relaxed)).collect();
        assert!(self.watchers.is_empty(), "watches stay behind: {reached:?} of {last}");
    }
}

/// Creates the object that ends the history, with retries, and returns its revision.
pub(crate) async fn create_last(client: &Client, name: &str, limit: Duration) -> u64 {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        let object = config_map(name, "last");
        if let Ok(Ok((status, answer))) = timeout(ANSWER_MAX, client.post(&collection(), &object)).await {
            if status == 201 {
                return version_of(&answer);
            }
            // An earlier attempt was executed after all.
            if status == 409
                && let Ok((200, found)) = client.get(&format!("{}/{name}", collection())).await
            {
                return version_of(&found);
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("the healed cluster takes no writes");
}

struct Worker {
    number: usize,
    servers: Vec<Client>,
    recorder: Arc<Recorder>,
    random: Random,
    /// The last revision seen of each key, for compare-and-set.
    known: BTreeMap<String, u64>,
    /// Revisions of earlier lists, to list again.
    lists: Vec<u64>,
    sent: u64,
}

impl Worker {
    async fn run(mut self, stopped: watch::Receiver<bool>) {
        while !*stopped.borrow() {
            let server = self.random.index(self.servers.len());
            let client = self.servers[server].clone();
            let key = format!("k{}", self.random.below(KEYS));
            match self.random.below(100) {
                0..25 => self.write(&client, key, Action::Create).await,
                25..35 => self.write(&client, key, Action::Replace).await,
                35..55 => {
                    if let Some(revision) = self.known.get(&key).copied() {
                        self.write(&client, key, Action::CompareAndSet(revision)).await;
                    }
                }
                55..65 => self.write(&client, key, Action::Delete).await,
                65..85 => self.get(&client, key).await,
                85..93 => self.list(&client, None).await,
                93..97 => self.list_pages(&client).await,
                _ => {
                    let choice = self.random.index(self.lists.len());
                    let revision = self.lists.get(choice).copied();
                    self.list(&client, revision).await;
                }
            }
            sleep(Duration::from_millis(self.random.below(PAUSE_MS))).await;
        }
    }

    async fn write(&mut self, client: &Client, key: String, action: Action) {
        self.sent += 1;
        let token = match action {
            Action::Delete => String::new(),
            _ => format!("<{}.{}>", self.number, self.sent),
        };
        let path = format!("{}/{key}", collection());
        let mut object = config_map(&key, &token);
        let request = match &action {
            Action::Create => Request::new("POST", &collection()).json(&object),
            Action::Replace => Request::new("PUT", &path).json(&object),
            Action::CompareAndSet(revision) => {
                object["metadata"]["resourceVersion"] = revision.to_string().into();
                Request::new("PUT", &path).json(&object)
            }
            Action::Delete => Request::new("DELETE", &path),
        };
        let began = self.recorder.now();
        let answer = timeout(ANSWER_MAX, client.send_json(&request)).await;
        let ended = self.recorder.now();
        let outcome = match answer {
            Ok(Ok((200 | 201, _))) if action == Action::Delete => Outcome::Done(0),
            Ok(Ok((200 | 201, object))) => {
                let revision = version_of(&object);
                self.known.insert(key.clone(), revision);
                Outcome::Done(revision)
            }
            Ok(Ok((status @ 400..500, _))) => Outcome::Refused(status),
            _ => Outcome::Unknown,
        };
        let write = WriteOp { key, token, action, outcome, began, ended };
        self.recorder.add(|history| history.writes.push(write));
    }

    async fn get(&mut self, client: &Client, key: String) {
        let began = self.recorder.now();
        let answer = timeout(ANSWER_MAX, client.get(&format!("{}/{key}", collection()))).await;
        let ended = self.recorder.now();
        let found = match answer {
            Ok(Ok((200, object))) => Some(seen(&object)),
            Ok(Ok((404, _))) => None,
            _ => return,
        };
        if let Some(found) = &found {
            self.known.insert(key.clone(), found.revision);
        }
        self.recorder.add(|history| history.gets.push(GetOp { key, found, began, ended }));
    }

    async fn list(&mut self, client: &Client, exact: Option<u64>) {
        let query = match exact {
            None => collection(),
            Some(revision) => {
                format!("{}?resourceVersion={revision}&resourceVersionMatch=Exact", collection())
            }
        };
        let began = self.recorder.now();
        let answer = timeout(ANSWER_MAX, client.get(&query)).await;
        let ended = self.recorder.now();
        let Ok(Ok((200, list))) = answer else { return };
        let (revision, items) = (version_of(&list), items_of(&list));
        if exact.is_none() {
            self.lists.push(revision);
        }
        let op = ListOp { revision, exact: exact.is_some(), items, began, ended };
        self.recorder.add(|history| history.lists.push(op));
    }

    /// Lists in pages from different servers. All pages must be of the revision of the first.
    async fn list_pages(&mut self, client: &Client) {
        let began = self.recorder.now();
        let mut items = BTreeMap::new();
        let (mut revision, mut token) = (0, String::new());
        let mut client = client.clone();
        loop {
            let path = format!("{}?limit=4&continue={token}", collection());
            let Ok(Ok((200, page))) = timeout(ANSWER_MAX, client.get(&path)).await else { return };
            revision = if token.is_empty() { version_of(&page) } else { revision };
            items.extend(items_of(&page));
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
            client = self.servers[self.random.index(self.servers.len())].clone();
        }
        let ended = self.recorder.now();
        let op = ListOp { revision, exact: false, items, began, ended };
        self.recorder.add(|history| history.lists.push(op));
    }
}

struct Watching {
    number: usize,
    servers: Vec<Client>,
    recorder: Arc<Recorder>,
    reached: Arc<AtomicU64>,
    wanted: watch::Receiver<u64>,
}

impl Watching {
    /// Watches until the wanted revision, on the next server whenever a watch ends.
    async fn run(self) {
        let mut from = 0;
        for turn in self.number.. {
            let client = &self.servers[turn % self.servers.len()];
            if from == 0 {
                match timeout(ANSWER_MAX, client.get(&collection())).await {
                    Ok(Ok((200, list))) => from = version_of(&list),
                    _ => {
                        sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                }
            }
            let mut session = Session { watcher: self.number, from, items: Vec::new() };
            let is_expired = self.watch(client, &mut session).await;
            if !session.items.is_empty() {
                from = self.reached.load(Ordering::Relaxed).max(from);
            }
            self.recorder.add(|history| history.sessions.push(session));
            if from >= *self.wanted.borrow() {
                return;
            }
            if is_expired {
                from = 0;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Returns whether the server no longer has the revision.
    async fn watch(&self, client: &Client, session: &mut Session) -> bool {
        let path =
            format!("{}?watch=1&allowWatchBookmarks=true&resourceVersion={}", collection(), session.from);
        let Ok(Ok(mut stream)) = timeout(ANSWER_MAX, client.open(&Request::new("GET", &path))).await else {
            return false;
        };
        if stream.head.status != 200 {
            return stream.head.status == 410;
        }
        let mut buffer = Vec::new();
        let mut wanted = self.wanted.clone();
        // A watch of a paused server is silent, so another server is tried now and then.
        let mut silent = 0;
        while silent < 5 {
            if self.reached.load(Ordering::Relaxed) >= *wanted.borrow_and_update() {
                return false;
            }
            let part = match timeout(Duration::from_secs(1), stream.next_part()).await {
                Err(_) => {
                    silent += 1;
                    continue;
                }
                Ok(Ok(Some(part))) => part,
                Ok(_) => return false,
            };
            silent = 0;
            let now = self.recorder.now();
            buffer.extend_from_slice(&part);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { return false };
                let object = &event["object"];
                let item = match event["type"].as_str().unwrap_or_default() {
                    "ERROR" => return object["code"] == 410,
                    "BOOKMARK" => WatchItem::Bookmark(version_of(object)),
                    kind => WatchItem::Event(kind.to_owned(), name_of(object), seen(object)),
                };
                self.reached.fetch_max(version_of(object), Ordering::Relaxed);
                session.items.push((item, now));
            }
        }
        false
    }
}

fn config_map(name: &str, token: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"token": token}})
}

fn version_of(object: &Value) -> u64 {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("no resourceVersion in {object}"))
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn seen(object: &Value) -> Seen {
    let token = object["data"]["token"].as_str().unwrap_or_default().to_owned();
    Seen { token, revision: version_of(object) }
}

fn items_of(list: &Value) -> BTreeMap<String, Seen> {
    // Ignore the ConfigMap that the controller manager creates.
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| (name_of(item), seen(item))).collect()
}
