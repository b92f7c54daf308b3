//! The conformance suite for every store. It needs no particular runtime: call [`run`] in the runtime of the store. A
//! failure panics with a description of the violation.

#![allow(clippy::indexing_slicing, reason = "only tests use it, and a panic is a failed test")]

use crate::error::{StoreFault, WriteError};
use crate::store::{BoxFuture, Change, Entry, Expect, Loaded, Revision, Sink, Store, Write};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// Makes stores of the engine under test.
pub trait Harness: Send + Sync {
    /// A store without any key.
    fn create(&self) -> BoxFuture<'_, Arc<dyn Store>>;

    /// Closes and reopens the store; `None` if the store does not outlive its process.
    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Option<Arc<dyn Store>>>;

    /// Compacts all history of the store; `false` if the store does not control compaction.
    fn compact<'a>(&'a self, store: &'a Arc<dyn Store>) -> BoxFuture<'a, bool>;
}

/// Runs the whole suite.
pub async fn run(harness: &dyn Harness) {
    preconditions(harness).await;
    conflicts_carry_the_current_entry(harness).await;
    transactions_are_all_or_nothing(harness).await;
    transactions_have_limits(harness).await;
    sink_sees_every_change_in_order_before_the_writer(harness).await;
    one_winner_per_revision(harness).await;
    load_misses_nothing_and_doubles_nothing(harness).await;
    a_second_load_replaces_the_sink(harness).await;
    snapshots_stand_still(harness).await;
    reads_select_by_prefix(harness).await;
    history_outlives_a_restart(harness).await;
    compaction_forgets_history_and_keeps_state(harness).await;
    a_closed_store_refuses(harness).await;
}

/// A sink that records all changes.
#[derive(Default)]
pub struct Recorder(Mutex<Vec<Change>>);

impl Recorder {
    /// All changes so far.
    pub fn changes(&self) -> Vec<Change> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Sink for Recorder {
    fn apply(&self, changes: &[Change]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(changes);
    }

    fn reset(&self, _: Loaded) {
        panic!("the suite gives no engine a reason to begin anew");
    }
}

/// Polls all futures until all are done.
pub async fn join_all<T: Unpin>(futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut futures = futures;
    std::future::poll_fn(move |context| {
        let mut pending = false;
        for (future, result) in futures.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            match Pin::new(future).poll(context) {
                Poll::Ready(value) => *result = Some(value),
                Poll::Pending => pending = true,
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(results.drain(..).flatten().collect()) }
    })
    .await
}

fn put(key: &str, expect: Expect, value: &str) -> Write {
    Write::put(key, expect, value.to_owned())
}

async fn ok(store: &Arc<dyn Store>, write: Write) -> Revision {
    match store.write(write.clone()).await {
        Ok(revision) => revision,
        Err(error) => panic!("{write:?} was refused: {error}"),
    }
}

fn entry(value: &'static str, created: Revision, modified: Revision) -> Entry {
    Entry { value: Bytes::from_static(value.as_bytes()), created, modified }
}

#[track_caller]
fn assert_conflict<T: std::fmt::Debug>(answer: Result<T, WriteError>, expected: Option<Entry>) {
    match answer {
        Err(WriteError::Conflict { current, .. }) => assert_eq!(current, expected, "the conflicting entry"),
        other => panic!("expected a conflict, got {other:?}"),
    }
}

async fn preconditions(harness: &dyn Harness) {
    let store = harness.create().await;
    let (start, stale) = (store.revision(), Revision(u64::MAX / 2));
    assert_conflict(store.write(put("/a", Expect::Revision(start), "x")).await, None);
    assert_conflict(store.write(Write::delete("/a", Expect::Any)).await, None);
    assert_conflict(store.write(Write::delete("/a", Expect::Absent)).await, None);
    let first = ok(&store, put("/a", Expect::Absent, "1")).await;
    assert!(first > start, "a change takes a new revision");
    assert_conflict(store.write(put("/a", Expect::Absent, "x")).await, Some(entry("1", first, first)));
    assert_conflict(
        store.write(put("/a", Expect::Revision(stale), "x")).await,
        Some(entry("1", first, first)),
    );
    assert_eq!(store.revision(), first, "a refused write takes no revision");
    let second = ok(&store, put("/a", Expect::Revision(first), "2")).await;
    assert_conflict(store.write(Write::delete("/a", Expect::Absent)).await, Some(entry("2", first, second)));
    let third = ok(&store, put("/a", Expect::Any, "3")).await;
    assert_eq!(store.snapshot_state().get("/a"), Some(&entry("3", first, third)));
    let fourth = ok(&store, Write::delete("/a", Expect::Revision(third))).await;
    assert_eq!(store.snapshot_state().get("/a"), None);
    let fifth = ok(&store, put("/a", Expect::Any, "5")).await;
    assert_eq!(store.snapshot_state().get("/a"), Some(&entry("5", fifth, fifth)), "created anew");
    assert!(first < second && second < third && third < fourth && fourth < fifth);
    assert_eq!(store.revision(), fifth);
}

async fn conflicts_carry_the_current_entry(harness: &dyn Harness) {
    let store = harness.create().await;
    let first = ok(&store, put("/a", Expect::Absent, "1")).await;
    let retry = match store.write(put("/a", Expect::Absent, "2")).await {
        Err(WriteError::Conflict { key, current: Some(current) }) => {
            assert_eq!((&*key, current.modified), ("/a", first));
            put("/a", Expect::Revision(current.modified), "2")
        }
        other => panic!("expected a conflict, got {other:?}"),
    };
    ok(&store, retry).await;
}

async fn transactions_are_all_or_nothing(harness: &dyn Harness) {
    let store = harness.create().await;
    let recorder = Arc::new(Recorder::default());
    store.load(recorder.clone());
    assert_eq!(store.commit(Vec::new()).await, Ok(Vec::new()));
    let a = ok(&store, put("/a", Expect::Absent, "1")).await;
    let refused = store.commit(vec![put("/b", Expect::Absent, "1"), put("/a", Expect::Absent, "2")]).await;
    assert_conflict(refused, Some(entry("1", a, a)));
    assert_eq!(store.snapshot_state().get("/b"), None);
    let writes = vec![put("/b", Expect::Absent, "1"), put("/a", Expect::Revision(a), "2")];
    let revisions = store.commit(writes).await.unwrap_or_else(|error| panic!("refused: {error}"));
    assert!(revisions.len() == 2 && a < revisions[0] && revisions[0] <= revisions[1]);
    let state = store.snapshot_state();
    assert_eq!(state.get("/b"), Some(&entry("1", revisions[0], revisions[0])));
    assert_eq!(state.get("/a"), Some(&entry("2", a, revisions[1])));
    let seen: Vec<_> =
        recorder.changes().iter().map(|change| (change.key.to_string(), change.revision)).collect();
    assert_eq!(seen, [("/a".into(), a), ("/b".into(), revisions[0]), ("/a".into(), revisions[1])]);
}

async fn transactions_have_limits(harness: &dyn Harness) {
    let store = harness.create().await;
    let twice = store.commit(vec![put("/a", Expect::Any, "1"), put("/a", Expect::Any, "2")]).await;
    assert_eq!(twice, Err(WriteError::DuplicateKey { key: "/a".into() }));
    let many = (0..10_000).map(|index| put(&format!("/{index}"), Expect::Any, "")).collect();
    let many = store.commit(many).await;
    assert!(matches!(many, Err(WriteError::TooMany { .. })), "{many:?}");
    let large = store.write(Write::put("/a", Expect::Any, vec![0; 64 << 20])).await;
    assert!(matches!(large, Err(WriteError::TooLarge { .. } | WriteError::Refused { .. })), "{large:?}");
    assert!(store.snapshot_state().is_empty());
    assert_eq!(store.health(), Ok(()));
}

async fn sink_sees_every_change_in_order_before_the_writer(harness: &dyn Harness) {
    let store = harness.create().await;
    let recorder = Arc::new(Recorder::default());
    store.load(recorder.clone());
    let writer = |writer: usize| -> BoxFuture<'_, ()> {
        let (store, recorder) = (store.clone(), recorder.clone());
        Box::pin(async move {
            for round in 0..8 {
                let key = format!("/{}", (writer + round) % 5);
                let revision = ok(&store, put(&key, Expect::Any, &format!("{writer}.{round}"))).await;
                let changes = recorder.changes();
                assert!(
                    changes.iter().any(|change| change.revision == revision),
                    "acknowledged before applied"
                );
                assert!(store.revision() >= revision);
            }
        })
    };
    join_all((0..16).map(writer).collect()).await;
    let changes = recorder.changes();
    assert_eq!(changes.len(), 16 * 8);
    assert_ordered(&changes);
    assert_eq!(replay(BTreeMap::new(), &changes), entries(&store));
}

async fn one_winner_per_revision(harness: &dyn Harness) {
    let store = harness.create().await;
    let mut current = ok(&store, put("/a", Expect::Absent, "")).await;
    for round in 0..5 {
        let attempts = (0..8)
            .map(|racer| store.write(put("/a", Expect::Revision(current), &format!("{round}.{racer}"))));
        let answers = join_all(attempts.collect()).await;
        let won: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().ok()).collect();
        assert_eq!(won.len(), 1, "exactly one write at a revision wins");
        current = *won[0];
        for answer in answers.iter().filter(|answer| answer.is_err()) {
            match answer {
                Err(WriteError::Conflict { current: Some(seen), .. }) => assert_eq!(seen.modified, current),
                other => panic!("expected a conflict, got {other:?}"),
            }
        }
    }
}

/// A load and the sink that was attached by it.
type Attached = (Loaded, Arc<Recorder>);

async fn load_misses_nothing_and_doubles_nothing(harness: &dyn Harness) {
    let store = harness.create().await;
    let writes = (0..64).map(|index| {
        let store = store.clone();
        let write = put(&format!("/{}", index % 7), Expect::Any, &index.to_string());
        Box::pin(async move { ok(&store, write).await }) as BoxFuture<'_, Revision>
    });
    let loading = {
        let store = store.clone();
        let recorder = Arc::new(Recorder::default());
        Box::pin(async move {
            ok(&store, put("/loader", Expect::Any, "")).await;
            Some((store.load(recorder.clone()), recorder))
        })
    };
    let mut futures: Vec<BoxFuture<'_, Option<Attached>>> = vec![loading];
    for write in writes {
        futures.push(Box::pin(async move {
            write.await;
            None
        }));
    }
    let (loaded, recorder) =
        join_all(futures).await.into_iter().flatten().next().unwrap_or_else(|| panic!("not loaded"));
    let changes = recorder.changes();
    assert_ordered(&changes);
    assert!(changes.iter().all(|change| change.revision > loaded.revision), "nothing twice");
    let state = loaded.entries.iter().map(|(key, entry)| (key.to_string(), entry.clone())).collect();
    assert_eq!(replay(state, &changes), entries(&store), "nothing missed");
    assert_history(&loaded);
}

async fn a_second_load_replaces_the_sink(harness: &dyn Harness) {
    let store = harness.create().await;
    let (first, second) = (Arc::new(Recorder::default()), Arc::new(Recorder::default()));
    store.load(first.clone());
    let a = ok(&store, put("/a", Expect::Any, "1")).await;
    let loaded = store.load(second.clone());
    assert_eq!((loaded.revision, loaded.compacted, loaded.history.len()), (a, a, 0));
    let b = ok(&store, put("/b", Expect::Any, "1")).await;
    assert_eq!(first.changes().iter().map(|change| change.revision).collect::<Vec<_>>(), [a]);
    assert_eq!(second.changes().iter().map(|change| change.revision).collect::<Vec<_>>(), [b]);
}

async fn snapshots_stand_still(harness: &dyn Harness) {
    let store = harness.create().await;
    for key in ["/a/1", "/a/2", "/b/1"] {
        ok(&store, put(key, Expect::Any, "1")).await;
    }
    let before = store.snapshot_state();
    ok(&store, Write::delete("/a/1", Expect::Any)).await;
    ok(&store, put("/a/2", Expect::Any, "2")).await;
    assert_eq!(before.prefix("/a/").map(|(key, _)| &**key).collect::<Vec<_>>(), ["/a/1", "/a/2"]);
    assert_eq!(before.get("/a/2").map(|entry| &*entry.value), Some(&b"1"[..]));
    assert_eq!(before.len(), 3);
    assert_eq!(store.snapshot_state().prefix("/a/").map(|(key, _)| &**key).collect::<Vec<_>>(), ["/a/2"]);
    assert_eq!(store.snapshot_state().revision(), store.revision());
}

async fn reads_select_by_prefix(harness: &dyn Harness) {
    let store = harness.create().await;
    for key in ["/a/1", "/a/12", "/b/1"] {
        ok(&store, put(key, Expect::Absent, "x")).await;
    }
    // A whole key is a prefix, too: of itself and of longer keys.
    for (prefix, expected) in [
        ("/a/", vec!["/a/1", "/a/12"]),
        ("/a/1", vec!["/a/1", "/a/12"]),
        ("/b/1", vec!["/b/1"]),
        ("/c", vec![]),
    ] {
        let read = match store.read_at(prefix, store.revision()).await {
            Ok(read) => read,
            Err(error) => panic!("{prefix} cannot be read: {error}"),
        };
        let keys: Vec<&str> = read.iter().map(|(key, _)| &**key).collect();
        assert_eq!(keys, expected, "{prefix}");
    }
}

async fn history_outlives_a_restart(harness: &dyn Harness) {
    let store = harness.create().await;
    let recorder = Arc::new(Recorder::default());
    store.load(recorder.clone());
    ok(&store, put("/a", Expect::Any, "1")).await;
    ok(&store, put("/a", Expect::Any, "2")).await;
    ok(&store, put("/b", Expect::Any, "1")).await;
    ok(&store, Write::delete("/a", Expect::Any)).await;
    let (revision, compacted, expected) = (store.revision(), store.compacted(), entries(&store));
    let Some(store) = harness.reopen(store).await else { return };
    assert_eq!((store.revision(), store.compacted()), (revision, compacted));
    let loaded = store.load(Arc::new(Recorder::default()));
    assert_eq!((loaded.revision, loaded.compacted), (revision, compacted));
    assert_eq!(loaded.history, recorder.changes());
    assert_eq!(entries(&store), expected);
    assert!(ok(&store, put("/a", Expect::Absent, "3")).await > revision);
}

async fn compaction_forgets_history_and_keeps_state(harness: &dyn Harness) {
    let store = harness.create().await;
    ok(&store, put("/a", Expect::Any, "1")).await;
    ok(&store, put("/b", Expect::Any, "1")).await;
    let middle = ok(&store, Write::delete("/a", Expect::Any)).await;
    if !harness.compact(&store).await {
        return;
    }
    assert_eq!(store.compacted(), middle);
    let last = ok(&store, put("/b", Expect::Any, "2")).await;
    assert_eq!(store.compacted(), middle, "new history is kept");
    let expected = entries(&store);
    let Some(store) = harness.reopen(store).await else { return };
    assert_eq!((store.revision(), store.compacted()), (last, middle));
    let loaded = store.load(Arc::new(Recorder::default()));
    assert_eq!((loaded.compacted, loaded.history.len()), (middle, 1));
    assert_history(&loaded);
    assert!(loaded.history[0].previous.as_ref().is_some_and(|entry| &*entry.value == b"1"));
    assert_eq!(entries(&store), expected);
}

async fn a_closed_store_refuses(harness: &dyn Harness) {
    let store = harness.create().await;
    ok(&store, put("/a", Expect::Any, "1")).await;
    assert_eq!(store.health(), Ok(()));
    store.close().await;
    assert_eq!(store.health(), Err(StoreFault::Closed));
    let late = store.write(put("/a", Expect::Any, "2")).await;
    assert_eq!(late, Err(WriteError::Unavailable(StoreFault::Closed)));
    store.close().await;
    assert_eq!(store.snapshot_state().len(), 1, "what is there can still be read");
}

fn entries(store: &Arc<dyn Store>) -> BTreeMap<String, Entry> {
    store.snapshot_state().iter().map(|(key, entry)| (key.to_string(), entry.clone())).collect()
}

/// Applies changes and checks that the previous value in each is correct.
pub fn replay(mut state: BTreeMap<String, Entry>, changes: &[Change]) -> BTreeMap<String, Entry> {
    for change in changes {
        let before = state.remove(&*change.key);
        assert_eq!(before, change.previous, "the entry replaced at revision {}", change.revision);
        let created = before.map_or(change.revision, |entry| entry.created);
        if let Some(value) = &change.value {
            let entry = Entry { value: value.clone(), created, modified: change.revision };
            state.insert(change.key.to_string(), entry);
        }
    }
    state
}

fn assert_ordered(changes: &[Change]) {
    assert!(changes.is_sorted_by_key(|change| change.revision), "changes in commit order");
}

/// History must lie between `compacted` and `revision` and end in the state.
pub fn assert_history(loaded: &Loaded) {
    assert_ordered(&loaded.history);
    let inside = |change: &Change| change.revision > loaded.compacted && change.revision <= loaded.revision;
    assert!(loaded.history.iter().all(inside), "history outside of its bounds");
    let mut latest = BTreeMap::new();
    for change in &loaded.history {
        let before = latest.insert(&change.key, change);
        let follows = before.is_none_or(|before| match (&before.value, &change.previous) {
            (Some(value), Some(previous)) => previous.value == value && previous.modified == before.revision,
            (None, None) => true,
            _ => false,
        });
        assert!(follows, "the change at {} does not follow the one before it", change.revision);
    }
    for (key, change) in latest {
        let live = loaded.entries.get(key).map(|entry| (&entry.value, entry.modified));
        assert_eq!(
            live,
            change.value.as_ref().map(|value| (value, change.revision)),
            "end of history of {key}"
        );
    }
}
