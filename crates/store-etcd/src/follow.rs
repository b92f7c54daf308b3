//! Follows etcd: loads the state, watches all keys, and passes every change to the sink once and in order.

use crate::channel::{Channel, Method};
use crate::compaction;
use crate::grpc::{CallError, code};
use crate::message::{self, KeyValue, RangeRequest, RangeResponse, WatchResponse};
use crate::options::Options;
use crate::pending::Pending;
use crate::progress::Progress;
use bytes::Bytes;
use pintle_store::{Change, Entry, Key, Loaded, Note, Revision, Sink, Snapshot};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// The number of keys in one page of a load.
const PAGE_KEYS: i64 = 1000;
/// The error of a member that has lost its leader.
pub(crate) const NO_LEADER: &str = "etcdserver: no leader";
/// The pause between attempts to open a watch.
const PAUSE: Duration = Duration::from_millis(100);

/// Follows the changes in etcd: the connection, the progress of the watch, and the state that it has delivered so far.
pub(crate) struct Follower {
    channel: Arc<Channel>,
    prefix: String,
    own_prefix: &'static str,
    retains_value: fn(&str) -> bool,
    pub(crate) pending: Pending,
    pub(crate) progress: Progress,
    compacted: AtomicU64,
    current: Mutex<Current>,
    /// Notified when the state contradicts an answer of etcd: everything must be loaded again.
    reload_requested: Notify,
    /// How often everything was loaded.
    loads: watch::Sender<u64>,
}

struct Current {
    state: Snapshot,
    /// The state with all values, as long as there is no sink.
    loaded: Option<Snapshot>,
    sink: Option<Arc<dyn Sink>>,
    cluster_id: u64,
    /// Whether etcd has no leader to follow.
    interrupted: bool,
    /// The last change, which etcd must confirm after a break.
    last: Option<LastChange>,
}

/// A change that only the followed history contains.
#[derive(Clone)]
struct LastChange {
    key: Bytes,
    revision: u64,
    is_delete: bool,
}

impl Follower {
    pub(crate) fn new(channel: Arc<Channel>, options: &Options) -> Follower {
        Follower {
            channel,
            prefix: options.prefix.clone(),
            own_prefix: options.own_prefix,
            retains_value: options.retains_value,
            pending: Pending::default(),
            progress: Progress::default(),
            compacted: AtomicU64::new(0),
            current: Mutex::new(Current {
                state: Snapshot::empty(),
                loaded: None,
                sink: None,
                cluster_id: 0,
                interrupted: false,
                last: None,
            }),
            reload_requested: Notify::new(),
            loads: watch::Sender::new(0),
        }
    }

    /// Follows how often everything was loaded.
    pub(crate) fn loads(&self) -> watch::Receiver<u64> {
        self.loads.subscribe()
    }

    /// Requests a complete reload and waits for it. `loads` is from before etcd contradicted itself.
    pub(crate) async fn load_anew(&self, mut loads: watch::Receiver<u64>) {
        self.reload_requested.notify_one();
        // The sender only ends with the store itself.
        let _ = loads.changed().await;
    }

    /// The key in etcd.
    pub(crate) fn stored_key(&self, key: &str) -> Vec<u8> {
        let rest = key.strip_prefix(self.own_prefix).unwrap_or(key);
        [self.prefix.as_bytes(), rest.as_bytes()].concat()
    }

    /// The key that callers of the store use; `None` for keys outside of the prefix.
    fn own_key(&self, stored: &[u8]) -> Option<Key> {
        let rest = std::str::from_utf8(stored).ok()?.strip_prefix(self.prefix.as_str())?;
        rest.starts_with('/').then(|| Key::from([self.own_prefix, rest].concat()))
    }

    pub(crate) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    pub(crate) fn state(&self) -> Snapshot {
        self.lock().state.clone()
    }

    /// Attaches the sink; see [`pintle_store::Store::load`].
    pub(crate) fn attach(&self, sink: Arc<dyn Sink>) -> Loaded {
        let mut current = self.lock();
        current.sink = Some(sink);
        let entries = current.loaded.take().unwrap_or_else(|| current.state.clone());
        let revision = entries.revision();
        Loaded { revision, compacted: revision, entries, history: Vec::new() }
    }

    /// Reads everything under the prefix at one revision.
    pub(crate) async fn load(&self) -> Result<(), CallError> {
        let (header, entries) = self.read_all(format!("{}/", self.prefix).into_bytes(), 0).await?;
        let revision = Revision(header.revision);
        let loaded = Snapshot::from_entries(revision, entries);
        let mut current = self.lock();
        current.cluster_id = header.cluster_id;
        let newest = loaded.iter().max_by_key(|(_, entry)| entry.modified);
        current.last = newest.map(|(key, entry)| LastChange {
            key: self.stored_key(key).into(),
            revision: entry.modified.0,
            is_delete: false,
        });
        current.state = self.slim(&loaded);
        self.compacted.store(revision.0, Ordering::Release);
        match &current.sink {
            None => current.loaded = Some(loaded),
            Some(sink) => {
                sink.reset(Loaded { revision, compacted: revision, entries: loaded, history: Vec::new() })
            }
        }
        drop(current);
        self.progress.set(revision.0);
        self.loads.send_modify(|loads| *loads = loads.wrapping_add(1));
        Ok(())
    }

    /// The state without the values for which `retains_value` is false.
    fn slim(&self, loaded: &Snapshot) -> Snapshot {
        let entries = loaded.iter().map(|(key, entry)| {
            let value = if (self.retains_value)(key) { entry.value.clone() } else { Bytes::new() };
            (key.clone(), Entry { value, ..entry.clone() })
        });
        Snapshot::from_entries(loaded.revision(), entries)
    }

    /// The entries whose key begins with `stored_prefix` at a revision; 0 means the current one.
    pub(crate) async fn read_all(
        &self,
        stored_prefix: Vec<u8>,
        revision: u64,
    ) -> Result<(message::Header, Vec<(Key, Entry)>), CallError> {
        let mut from = stored_prefix;
        let mut end = from.clone();
        if let Some(last) = end.last_mut() {
            // Prefixes end in a slash.
            *last = last.saturating_add(1);
        }
        let mut entries = Vec::new();
        let mut header = message::Header { revision, ..message::Header::default() };
        loop {
            let request =
                RangeRequest { key: &from, range_end: &end, limit: PAGE_KEYS, revision: header.revision };
            let answer = self.channel.read(Method::Range, &request.encode()).await?;
            let page = decode_range(&answer)?;
            // All pages are at the revision of the first.
            if header.revision == 0 {
                header.revision = page.header.revision;
            }
            header.cluster_id = page.header.cluster_id;
            if let Some(last) = page.kvs.last() {
                from = [last.key, b"\0"].concat();
            }
            entries.extend(page.kvs.iter().filter_map(|kv| Some((self.own_key(kv.key)?, new_entry(kv)))));
            if !page.more {
                return Ok((header, entries));
            }
        }
    }

    /// Follows until the store is closed.
    pub(crate) async fn run(self: Arc<Follower>) {
        loop {
            let outcome = tokio::select! {
                outcome = self.watch() => outcome,
                () = self.reload_requested.notified() => Outcome::LoadAnew("etcd contradicts what it said before"),
            };
            match outcome {
                Outcome::TryAgain => {}
                Outcome::LoadAnew(why) => {
                    tracing::error!(why, "loading everything from etcd anew; open watches end");
                    if let Err(error) = self.load().await {
                        tracing::error!(%error, "cannot load from etcd");
                    }
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn watch(self: &Arc<Follower>) -> Outcome {
        match self.is_same_history().await {
            Ok(true) => {}
            Ok(false) => return Outcome::LoadAnew("etcd was restored to another state"),
            Err(error) => {
                tracing::debug!(%error, "cannot compare with etcd");
                self.note_leader(&error);
                self.channel.rotate();
                return Outcome::TryAgain;
            }
        }
        let request = message::watch_everything(self.progress.applied().saturating_add(1));
        let stopped = Arc::new(Mutex::new(None));
        let handler = {
            let (follower, stopped) = (self.clone(), stopped.clone());
            move |message: &[u8]| {
                follower.receive(message).map_break(|outcome| {
                    stopped.lock().unwrap_or_else(PoisonError::into_inner).replace(outcome);
                })
            }
        };
        if let Err(error) = self.channel.watch(&request, Box::new(handler)).await {
            tracing::warn!(%error, "the watch of etcd broke");
            self.note_leader(&error);
            self.channel.rotate();
        }
        let outcome = stopped.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.unwrap_or(Outcome::TryAgain)
    }

    /// Applies a message of the watch, in the task that reads the connection: responses to writes that wait for these changes
    /// are read after them.
    fn receive(&self, message: &[u8]) -> ControlFlow<Outcome> {
        let Ok(response) = WatchResponse::decode(message) else {
            return ControlFlow::Break(Outcome::TryAgain);
        };
        self.set_interrupted(false);
        if response.compact_revision > 0 {
            return ControlFlow::Break(Outcome::LoadAnew("etcd compacted changes that were not seen"));
        }
        if response.canceled {
            tracing::warn!(reason = response.cancel_reason, "etcd cancelled the watch");
            self.channel.rotate();
            return ControlFlow::Break(Outcome::TryAgain);
        }
        self.apply(response);
        ControlFlow::Continue(())
    }

    /// kube-apiserver ends its watches while etcd has no leader, but not while etcd is unreachable.
    fn note_leader(&self, error: &CallError) {
        if matches!(error, CallError::Status { message, .. } if message == NO_LEADER) {
            self.set_interrupted(true);
        }
    }

    fn set_interrupted(&self, is: bool) {
        let mut current = self.lock();
        if std::mem::replace(&mut current.interrupted, is) != is
            && let Some(sink) = &current.sink
        {
            sink.interrupted(is);
        }
    }

    /// Whether etcd still has the history that was followed so far: after a restore it has another one.
    async fn is_same_history(&self) -> Result<bool, CallError> {
        let applied = self.progress.applied();
        let (cluster_id, last) = {
            let current = self.lock();
            (current.cluster_id, current.last.clone())
        };
        let health = self.health_key();
        let request = RangeRequest { key: &health, limit: 1, ..RangeRequest::default() };
        let now = decode_range(&self.range(&request).await?)?.header;
        if now.cluster_id != cluster_id || now.revision < applied {
            return Ok(false);
        }
        let Some(last) = last else { return Ok(true) };
        match self.has_change(&last).await {
            // The watch reports whether the events that it needs are compacted, too.
            Err(CallError::Status { code: code::OUT_OF_RANGE, .. }) => Ok(true),
            known => known,
        }
    }

    /// Whether this change is in etcd's history.
    async fn has_change(&self, change: &LastChange) -> Result<bool, CallError> {
        let request = |revision| RangeRequest { key: &change.key, revision, ..RangeRequest::default() };
        let then = self.range(&request(change.revision)).await?;
        let then = decode_range(&then)?;
        if !change.is_delete {
            return Ok(then.kvs.first().is_some_and(|kv| kv.modified == change.revision));
        }
        let before = self.range(&request(change.revision.saturating_sub(1))).await?;
        let before = decode_range(&before)?;
        Ok(then.kvs.is_empty() && !before.kvs.is_empty())
    }

    /// A key that is never written; reading it checks that etcd answers.
    pub(crate) fn health_key(&self) -> Vec<u8> {
        [self.prefix.as_bytes(), b"/health"].concat()
    }

    async fn range(&self, request: &RangeRequest<'_>) -> Result<Bytes, CallError> {
        self.channel.call_led(Method::Range, &request.encode()).await
    }

    fn apply(&self, response: WatchResponse<'_>) {
        let Some(last) = response.events.last().map(|event| event.kv.modified) else { return };
        let applied = self.progress.applied();
        let mut current = self.lock();
        let mut changes = Vec::with_capacity(response.events.len());
        let mut compacted = None;
        for event in response.events {
            let kv = event.kv;
            // After a reconnect, etcd may send events that were already applied.
            if kv.modified <= applied {
                continue;
            }
            let key = Bytes::copy_from_slice(kv.key);
            let (revision, is_delete) = (kv.modified, event.is_delete);
            current.last = Some(LastChange { key, revision, is_delete });
            if kv.key == compaction::KEY {
                compacted = std::str::from_utf8(kv.value).ok().and_then(|text| text.parse().ok());
            }
            if let Some(key) = self.own_key(kv.key) {
                changes.push(self.make_change(&mut current, key, &kv, event.is_delete));
            }
        }
        current.state.advance_to(Revision(last));
        if let Some(loaded) = &mut current.loaded {
            for change in &changes {
                loaded.apply_at(change.revision, change.key.clone(), change.value.clone());
            }
            loaded.advance_to(Revision(last));
        }
        if let Some(revision) = compacted {
            self.compacted.store(revision, Ordering::Release);
        }
        let sink = current.sink.clone();
        // Still under the lock: a sink that is attached now sees none of these changes, which are in its state.
        if let Some(sink) = sink {
            if changes.is_empty() {
                sink.advance(Revision(last))
            } else {
                let reached = changes.last().map(|change| change.revision);
                sink.apply(&changes);
                if reached < Some(Revision(last)) {
                    sink.advance(Revision(last));
                }
            }
            if let Some(revision) = compacted {
                sink.compacted(Revision(revision));
            }
        }
        drop(current);
        self.progress.set(last.max(applied));
    }

    fn make_change(&self, current: &mut Current, key: Key, kv: &KeyValue<'_>, is_delete: bool) -> Change {
        let revision = Revision(kv.modified);
        let own = if is_delete { None } else { self.pending.find(&key, kv.value, kv.modified) };
        let value = (!is_delete).then(|| match &own {
            Some(put) => put.value.clone(),
            None => Bytes::copy_from_slice(kv.value),
        });
        let retained = value.clone().map(|v| if (self.retains_value)(&key) { v } else { Bytes::new() });
        let change = current.state.apply_at(revision, key, retained);
        Change { value, note: own.map_or_else(Note::default, |put| put.note.clone()), ..change }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Outcome {
    /// The watch broke; it continues at the same revision.
    TryAgain,
    /// The thread is lost.
    LoadAnew(&'static str),
}

fn decode_range(message: &Bytes) -> Result<RangeResponse<'_>, CallError> {
    RangeResponse::decode(message).map_err(|error| CallError::malformed(&error))
}

pub(crate) fn new_entry(kv: &KeyValue<'_>) -> Entry {
    Entry {
        value: Bytes::copy_from_slice(kv.value),
        created: Revision(kv.created),
        modified: Revision(kv.modified),
    }
}
