//! Writes under way, so that their own events are recognized when the watch brings them.

use bytes::Bytes;
use pintle_store::{Key, Note};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One put that was sent or is about to be sent.
pub(crate) struct PendingPut {
    pub(crate) value: Bytes,
    pub(crate) note: Note,
    /// Events up to this revision belong to earlier writes, even if their bytes are the same.
    after: u64,
    /// The revision at which the watch delivered it; 0 until then.
    revision: AtomicU64,
}

impl PendingPut {
    /// The revision at which the watch delivered exactly these bytes under the key.
    pub(crate) fn seen_at(&self) -> Option<u64> {
        Some(self.revision.load(Ordering::Acquire)).filter(|revision| *revision > 0)
    }
}

/// All puts in flight, by key.
#[derive(Default)]
pub(crate) struct Pending(Mutex<HashMap<Key, Vec<Arc<PendingPut>>>>);

/// A put that counts as in flight until this is dropped.
pub(crate) struct Registered<'a> {
    all: &'a Pending,
    key: Key,
    pub(crate) put: Arc<PendingPut>,
}

impl Pending {
    pub(crate) fn register(&self, key: &Key, value: &Bytes, note: &Note, after: u64) -> Registered<'_> {
        let put = Arc::new(PendingPut {
            value: value.clone(),
            note: note.clone(),
            after,
            revision: AtomicU64::new(0),
        });
        self.lock().entry(key.clone()).or_default().push(put.clone());
        Registered { all: self, key: key.clone(), put }
    }

    /// The put that wrote `value`, if it was one of ours.
    pub(crate) fn find(&self, key: &str, value: &[u8], revision: u64) -> Option<Arc<PendingPut>> {
        let puts = self.lock();
        let is_own = |put: &&Arc<PendingPut>| put.value == value && revision > put.after;
        let put = puts.get(key)?.iter().find(is_own)?.clone();
        drop(puts);
        put.revision.store(revision, Ordering::Release);
        Some(put)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Arc<PendingPut>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut puts = self.all.lock();
        let Some(same_key) = puts.get_mut(&self.key) else { return };
        same_key.retain(|put| !Arc::ptr_eq(put, &self.put));
        if same_key.is_empty() {
            puts.remove(&self.key);
        }
    }
}
