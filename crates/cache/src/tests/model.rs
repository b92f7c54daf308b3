//! A store that records all changes, and a simple model of the events that a watcher must receive.

use super::*;
use pintle_store::{BoxFuture, Embedded, Loaded, ReadError, Snapshot, Store, StoreFault, Write, WriteError};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// A small generator of repeatable numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit.max(1)
    }
}

/// The embedded engine with a witness between it and its sink.
pub(crate) struct Recording {
    store: Embedded,
    pub(crate) history: Arc<Mutex<Vec<Change>>>,
}

struct Witness {
    sink: Arc<dyn Sink>,
    history: Arc<Mutex<Vec<Change>>>,
}

impl Sink for Witness {
    fn apply(&self, changes: &[Change]) {
        self.history.lock().unwrap().extend_from_slice(changes);
        self.sink.apply(changes);
    }

    fn reset(&self, loaded: Loaded) {
        self.sink.reset(loaded);
    }
}

impl Recording {
    pub(crate) fn new() -> Recording {
        let store = Embedded::ephemeral(Default::default()).unwrap();
        Recording { store, history: Arc::default() }
    }
}

impl Store for Recording {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.store.write(write)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Revision>, WriteError>> {
        self.store.commit(writes)
    }

    fn load(&self, sink: Arc<dyn Sink>) -> Loaded {
        self.store.load(Arc::new(Witness { sink, history: self.history.clone() }))
    }

    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, StoreFault>> {
        self.store.barrier()
    }

    fn read_at<'a>(
        &'a self,
        prefix: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        self.store.read_at(prefix, revision)
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        self.store.probe(limit)
    }

    fn compacted(&self) -> Revision {
        self.store.compacted()
    }

    fn health(&self) -> Result<(), StoreFault> {
        self.store.health()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.store.close()
    }

    fn snapshot_state(&self) -> Snapshot {
        self.store.snapshot_state()
    }
}

/// The selection of one watcher, in terms of the model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) app: Option<String>,
    pub(crate) node: Option<String>,
}

impl Selection {
    pub(crate) fn filter(&self) -> Filter {
        Filter {
            namespace: self.namespace.as_deref().map(Str::from),
            name: self.name.as_deref().map(Str::from),
            field: self.node.as_deref().map(|node| (0, Str::from(node))),
            matches: self.app.as_deref().map(app),
        }
    }

    fn has(&self, key: &str, text: &str) -> bool {
        let (namespace, name) = key.split_once('/').unwrap();
        let parts: Vec<&str> = text.split('|').collect();
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        is(&self.namespace, namespace)
            && is(&self.name, name)
            && is(&self.app, parts[0])
            && is(&self.node, parts[1])
    }
}

type State = BTreeMap<String, (String, u64)>;

/// The changes of one resource.
fn changes<'a>(
    history: &'a [Change],
    prefix: &'a str,
) -> impl Iterator<Item = (u64, String, Option<String>)> + 'a {
    history.iter().filter_map(move |change| {
        let key = change.key.strip_prefix(prefix)?.to_owned();
        let text = change.value.as_ref().map(|value| String::from_utf8(value[4..].to_vec()).unwrap());
        Some((change.revision.0, key, text))
    })
}

pub(crate) fn state_at(history: &[Change], prefix: &str, at: u64) -> State {
    let mut state = State::new();
    for (revision, key, text) in changes(history, prefix).filter(|change| change.0 <= at) {
        match text {
            Some(text) => drop(state.insert(key, (text, revision))),
            None => drop(state.remove(&key)),
        }
    }
    state
}

/// The lines that a watcher of `selection` must receive after revision `start`.
pub(crate) fn expected(history: &[Change], start: u64, selection: &Selection, initial: bool) -> Vec<String> {
    let mut state = state_at(history, PODS, start);
    let mut lines = Vec::new();
    if initial {
        let selected = state.iter().filter(|(key, (text, _))| selection.has(key, text));
        lines.extend(selected.map(|(key, (text, revision))| format!("ADDED {key}={text}@{revision}")));
        lines.push(format!("InitialEventsEnd({start})"));
    }
    for (revision, key, text) in changes(history, PODS).filter(|change| change.0 > start) {
        let old = match &text {
            Some(text) => state.insert(key.clone(), (text.clone(), revision)),
            None => state.remove(&key),
        };
        let old = old.map(|(text, _)| text).filter(|text| selection.has(&key, text));
        let new = text.filter(|text| selection.has(&key, text));
        match (old, new) {
            (None, Some(new)) => lines.push(format!("ADDED {key}={new}@{revision}")),
            (Some(_), Some(new)) => lines.push(format!("MODIFIED {key}={new}@{revision}")),
            (Some(old), None) => lines.push(format!("DELETED {key}={old}@{revision}")),
            (None, None) => {}
        }
    }
    lines
}
