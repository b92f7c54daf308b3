//! A [`Store`] that encodes values on write and decodes them on read.

use super::Codec;
use bytes::Bytes;
use pintle_store::{
    BoxFuture, Change, Entry, HistoryQuery, KeyHistory, Loaded, Note, Op, ReadError, Revision, Sink,
    Snapshot, Store, StoreFault, Write, WriteError,
};
use pintle_value::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Wraps a store: values are encoded when they are written and decoded when they are read.
pub struct FormStore {
    inner: Arc<dyn Store>,
    codec: Arc<Codec>,
}

impl FormStore {
    /// Wraps `inner` with `codec`.
    pub fn new(inner: Arc<dyn Store>, codec: Arc<Codec>) -> FormStore {
        FormStore { inner, codec }
    }

    fn encode(&self, write: Write) -> Result<Write, WriteError> {
        if is_encoded(&write.note) { Ok(write) } else { self.codec.encode_write(write, None) }
    }
}

impl Codec {
    /// Encodes the value of a write; `tree` is its object. A [`FormStore`] does this for each write whose value is
    /// not encoded yet.
    pub(crate) fn encode_write(&self, write: Write, tree: Option<&Value>) -> Result<Write, WriteError> {
        let Op::Put(value) = &write.op else { return Ok(write) };
        if self.is_identity() {
            return Ok(write);
        }
        let stored = self.encode(&write.key, value, tree);
        let stored = stored.map_err(|error| WriteError::NotTransformed { message: error.0 })?;
        let encoded = Encoded { note: write.note, value: value.clone(), stored: stored.clone() };
        Ok(Write { op: Op::Put(stored), note: Note(Some(Arc::new(encoded))), ..write })
    }
}

/// The object in memory that a write stores, so that its own change event need not be decoded.
struct Encoded {
    note: Note,
    value: Bytes,
    stored: Bytes,
}

impl Store for FormStore {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        match self.encode(write) {
            Ok(write) => self.inner.write(write),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Revision>, WriteError>> {
        match writes.into_iter().map(|write| self.encode(write)).collect() {
            Ok(writes) => self.inner.commit(writes),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn load(&self, sink: Arc<dyn Sink>) -> Loaded {
        let codec = self.codec.clone();
        decode_loaded(&self.codec, self.inner.load(Arc::new(FormSink { codec, sink })))
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, StoreFault>> {
        self.inner.barrier()
    }

    fn read_at<'a>(
        &'a self,
        prefix: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        Box::pin(async move {
            let stored = self.inner.read_at(prefix, revision).await?;
            let entries = stored.iter().map(|(key, entry)| {
                let value = self.codec.decode(key, &entry.value);
                (key.clone(), Entry { value, ..entry.clone() })
            });
            Ok(Snapshot::from_entries(stored.revision(), entries))
        })
    }

    fn history<'a>(
        &'a self,
        key: &'a str,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<Option<KeyHistory>, ReadError>> {
        Box::pin(async move {
            let Some(mut history) = self.inner.history(key, query).await? else { return Ok(None) };
            for version in &mut history.versions {
                version.value = version.value.take().map(|stored| self.codec.decode(key, &stored));
            }
            Ok(Some(history))
        })
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        self.inner.probe(limit)
    }

    fn age(&self) {
        self.inner.age();
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn sizes(&self) -> BoxFuture<'_, Vec<Option<u64>>> {
        self.inner.sizes()
    }

    fn removes_expired(&self) -> bool {
        self.inner.removes_expired()
    }

    fn is_outdated<'a>(&'a self, key: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            if !self.codec.encrypts() {
                return false;
            }
            // A store that other servers write to does not hold values in memory.
            let state = if self.inner.is_shared() {
                match self.inner.read_at(key, self.inner.revision()).await {
                    Ok(state) => state,
                    Err(_) => return false,
                }
            } else {
                self.inner.snapshot_state()
            };
            state.get(key).is_some_and(|entry| self.codec.is_outdated(key, &entry.value))
        })
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn health(&self) -> Result<(), StoreFault> {
        self.inner.health()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    /// Returns the values in stored form: this is for keys that are not objects, and for backups.
    fn snapshot_state(&self) -> Snapshot {
        self.inner.snapshot_state()
    }
}

fn decode_loaded(codec: &Codec, loaded: Loaded) -> Loaded {
    let is_as_in_memory = |key: &Arc<str>, value: &Bytes| codec.is_as_in_memory(key, value);
    if loaded.entries.iter().all(|(key, entry)| is_as_in_memory(key, &entry.value))
        && loaded.history.iter().all(|change| {
            let values = change.value.iter().chain(change.previous.as_ref().map(|entry| &entry.value));
            values.into_iter().all(|value| is_as_in_memory(&change.key, value))
        })
    {
        return loaded;
    }
    // The same value can appear as an entry, in a change, and as the previous value of another change; decode it once.
    let mut decoded: HashMap<(Arc<str>, Revision), Bytes> = HashMap::new();
    let mut decode = |key: &Arc<str>, revision: Revision, stored: &Bytes| {
        let value = decoded.entry((key.clone(), revision));
        value.or_insert_with(|| codec.decode(key, stored)).clone()
    };
    let mut entry = |key: &Arc<str>, entry: &Entry| Entry {
        value: decode(key, entry.modified, &entry.value),
        ..entry.clone()
    };
    let entries: Vec<_> = loaded.entries.iter().map(|(key, old)| (key.clone(), entry(key, old))).collect();
    let history = loaded.history.into_iter().map(|change| {
        let previous = change.previous.as_ref().map(|previous| entry(&change.key, previous));
        let as_entry = |value| Entry { value, created: change.revision, modified: change.revision };
        let value = change.value.clone().map(|value| entry(&change.key, &as_entry(value)).value);
        Change { previous, value, ..change }
    });
    let history = history.collect();
    Loaded { entries: Snapshot::from_entries(loaded.revision, entries), history, ..loaded }
}

/// Forwards changes in decoded form.
struct FormSink {
    codec: Arc<Codec>,
    sink: Arc<dyn Sink>,
}

impl FormSink {
    fn decode(&self, change: &Change) -> Change {
        let encoded = change.note.0.as_ref().and_then(|note| note.downcast_ref::<Encoded>());
        let own = encoded.filter(|encoded| change.value.as_ref() == Some(&encoded.stored));
        let value = match own {
            Some(encoded) => Some(encoded.value.clone()),
            None => change.value.as_ref().map(|stored| self.codec.decode(&change.key, stored)),
        };
        let note = encoded.map_or_else(|| change.note.clone(), |encoded| encoded.note.clone());
        // Followers read the previous value from the cache, so it is not decoded here.
        Change { value, note, ..change.clone() }
    }
}

/// Returns whether a note carries the object of its write.
fn is_encoded(note: &Note) -> bool {
    note.0.as_ref().is_some_and(|note| note.is::<Encoded>())
}

impl Sink for FormSink {
    fn apply(&self, changes: &[Change]) {
        let is_as_in_memory = |change: &Change| {
            let value = change.value.as_ref();
            !is_encoded(&change.note)
                && value.is_none_or(|value| self.codec.is_as_in_memory(&change.key, value))
        };
        if changes.iter().all(is_as_in_memory) {
            return self.sink.apply(changes);
        }
        let changes: Vec<Change> = changes.iter().map(|change| self.decode(change)).collect();
        self.sink.apply(&changes);
    }

    fn advance(&self, revision: Revision) {
        self.sink.advance(revision);
    }

    fn reset(&self, loaded: Loaded) {
        self.sink.reset(decode_loaded(&self.codec, loaded));
    }

    fn interrupted(&self, is: bool) {
        self.sink.interrupted(is);
    }

    fn compacted(&self, revision: Revision) {
        self.sink.compacted(revision);
    }
}
