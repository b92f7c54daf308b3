//! A [`Store`] whose values lie in another form than objects have in memory.

use super::{StoredForm, is_object_key};
use bytes::Bytes;
use pintle_cache::unreadable_value;
use pintle_store::{
    BoxFuture, Change, Entry, Loaded, Note, Op, ReadError, Revision, Sink, Snapshot, Store, StoreFault,
    Write, WriteError,
};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Wraps an engine: values are encoded on their way in and decoded on their way out.
pub struct FormStore {
    inner: Arc<dyn Store>,
    form: Arc<dyn StoredForm>,
}

impl FormStore {
    /// `inner` with values in `form`.
    pub fn new(inner: Arc<dyn Store>, form: Arc<dyn StoredForm>) -> FormStore {
        FormStore { inner, form }
    }

    fn encode(&self, write: Write) -> Write {
        let Op::Put(value) = &write.op else { return write };
        if !is_object_key(&write.key) {
            return write;
        }
        let stored = self.form.encode(&write.key, value);
        let encoded = Encoded { note: write.note, value: value.clone(), stored: stored.clone() };
        Write { op: Op::Put(stored), note: Note(Some(Arc::new(encoded))), ..write }
    }
}

/// What a write had in memory, so that its own change need not be decoded.
struct Encoded {
    note: Note,
    value: Bytes,
    stored: Bytes,
}

impl Store for FormStore {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.inner.write(self.encode(write))
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Revision>, WriteError>> {
        self.inner.commit(writes.into_iter().map(|write| self.encode(write)).collect())
    }

    fn load(&self, sink: Arc<dyn Sink>) -> Loaded {
        let form = self.form.clone();
        decode_loaded(&*self.form, self.inner.load(Arc::new(FormSink { form, sink })))
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
                let value = decode(&*self.form, key, &entry.value);
                (key.clone(), Entry { value, ..entry.clone() })
            });
            Ok(Snapshot::from_entries(stored.revision(), entries))
        })
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        self.inner.probe(limit)
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn removes_expired(&self) -> bool {
        self.inner.removes_expired()
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

    /// The values are those of the engine: this is for keys that hold no objects, and for backups.
    fn snapshot_state(&self) -> Snapshot {
        self.inner.snapshot_state()
    }
}

fn decode_loaded(form: &dyn StoredForm, loaded: Loaded) -> Loaded {
    // The value of a key at a revision stands in the entries, in a change, and as what another change replaced.
    let mut decoded: HashMap<(Arc<str>, Revision), Bytes> = HashMap::new();
    let mut decode = |key: &Arc<str>, revision: Revision, stored: &Bytes| {
        let value = decoded.entry((key.clone(), revision));
        value.or_insert_with(|| decode(form, key, stored)).clone()
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

/// The object in memory for a stored value, be it one that cannot be read.
fn decode(form: &dyn StoredForm, key: &str, stored: &Bytes) -> Bytes {
    if !is_object_key(key) {
        return stored.clone();
    }
    form.decode(key, stored).unwrap_or_else(|why| unreadable_value(&why.0))
}

/// Hands changes on in the form in memory.
struct FormSink {
    form: Arc<dyn StoredForm>,
    sink: Arc<dyn Sink>,
}

impl FormSink {
    fn decode(&self, change: &Change) -> Change {
        let encoded = change.note.0.as_ref().and_then(|note| note.downcast_ref::<Encoded>());
        let own = encoded.filter(|encoded| change.value.as_ref() == Some(&encoded.stored));
        let value = match own {
            Some(encoded) => Some(encoded.value.clone()),
            None => change.value.as_ref().map(|stored| decode(&*self.form, &change.key, stored)),
        };
        let note = encoded.map_or_else(|| change.note.clone(), |encoded| encoded.note.clone());
        // Nobody who follows changes looks at the value that was replaced: it is in the cache.
        Change { value, note, ..change.clone() }
    }
}

impl Sink for FormSink {
    fn apply(&self, changes: &[Change]) {
        let changes: Vec<Change> = changes.iter().map(|change| self.decode(change)).collect();
        self.sink.apply(&changes);
    }

    fn advance(&self, revision: Revision) {
        self.sink.advance(revision);
    }

    fn reset(&self, loaded: Loaded) {
        self.sink.reset(decode_loaded(&*self.form, loaded));
    }

    fn compacted(&self, revision: Revision) {
        self.sink.compacted(revision);
    }
}
