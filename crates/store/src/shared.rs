//! The state that the sequencer shares with callers: the published state, the sink, the fault.

use crate::error::StoreFault;
use crate::frame::Record;
use crate::options::Options;
use crate::state::Snapshot;
use crate::store::{Change, Loaded, Note, Revision, Sink};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state that the sequencer shares with callers.
pub(crate) struct Shared {
    published: Mutex<Published>,
    revision: AtomicU64,
    compacted: AtomicU64,
    fault: Mutex<Option<StoreFault>>,
    /// Whether `fault` holds one, so that writers need not lock.
    faulty: AtomicBool,
}

/// The visible state, the sink, and history that has not been loaded yet.
struct Published {
    state: Snapshot,
    sink: Option<Arc<dyn Sink>>,
    history: Option<History>,
}

/// Changes that are retained for the next load, up to a number of bytes.
struct History {
    floor: Revision,
    changes: VecDeque<Change>,
    bytes: u64,
    bytes_max: u64,
}

impl History {
    fn extend_history(&mut self, changes: Vec<Change>) {
        self.bytes = self.bytes.saturating_add(changes.iter().map(change_bytes).sum());
        self.changes.extend(changes);
        while self.bytes > self.bytes_max {
            let Some(dropped) = self.changes.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(change_bytes(&dropped));
            self.floor = dropped.revision;
        }
    }
}

fn change_bytes(change: &Change) -> u64 {
    change.key.len().saturating_add(change.value.as_ref().map_or(0, bytes::Bytes::len)) as u64
}

impl Shared {
    /// Creates the state at opening.
    pub(crate) fn new(
        state: Snapshot,
        compacted: Revision,
        history: Vec<Change>,
        options: &Options,
    ) -> Shared {
        let bytes_max = options.history_bytes_max;
        let mut kept = History { floor: compacted, changes: VecDeque::new(), bytes: 0, bytes_max };
        kept.extend_history(history);
        Shared {
            revision: AtomicU64::new(state.revision().0),
            compacted: AtomicU64::new(compacted.0),
            published: Mutex::new(Published { state, sink: None, history: Some(kept) }),
            fault: Mutex::new(None),
            faulty: AtomicBool::new(false),
        }
    }

    /// See [`crate::Store::load`].
    pub(crate) fn load(&self, sink: Arc<dyn Sink>) -> Loaded {
        let mut published = self.published();
        published.sink = Some(sink);
        let entries = published.state.clone();
        let revision = entries.revision();
        match published.history.take() {
            Some(History { floor, changes, .. }) => {
                Loaded { revision, compacted: floor, entries, history: changes.into() }
            }
            None => Loaded { revision, compacted: revision, entries, history: Vec::new() },
        }
    }

    /// The state of this moment.
    pub(crate) fn state(&self) -> Snapshot {
        self.published().state.clone()
    }

    /// The revision of the state.
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// The revision up to which history is compacted.
    pub(crate) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    /// Records that history up to `revision` is compacted.
    pub(crate) fn set_compacted(&self, revision: Revision) {
        self.compacted.store(revision.0, Ordering::Release);
    }

    /// The reason why writes are refused now, if they are.
    pub(crate) fn fault(&self) -> Option<StoreFault> {
        if self.faulty.load(Ordering::Acquire) { self.fault_slot().clone() } else { None }
    }

    /// Stops writes. The first permanent fault stays.
    pub(crate) fn set_fault(&self, fault: StoreFault) {
        let mut slot = self.fault_slot();
        if slot.as_ref().is_none_or(StoreFault::can_pass) {
            *slot = Some(fault);
        }
        self.faulty.store(true, Ordering::Release);
    }

    /// Allows writes again, unless there is a permanent fault.
    pub(crate) fn clear_fault(&self) {
        let mut slot = self.fault_slot();
        if slot.as_ref().is_some_and(StoreFault::can_pass) {
            *slot = None;
            self.faulty.store(false, Ordering::Release);
        }
    }

    fn fault_slot(&self) -> MutexGuard<'_, Option<StoreFault>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        // A panic under this lock ends the sequencer and thus all writes; the state can still be read.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the state without cloning it: a clone would make the next change more expensive.
    pub(crate) fn inspect<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.published().state)
    }

    /// Applies durable records, notifies the sink, and only then makes the new revision visible.
    pub(crate) fn publish(&self, records: Vec<Record>, notes: Vec<Note>) {
        let mut published = self.published();
        let published = &mut *published;
        let state = &mut published.state;
        let changes: Vec<Change> = records
            .into_iter()
            .zip(notes)
            .map(|(record, note)| {
                let change = state.apply(state.revision().next(), record.key, record.value);
                Change { note, ..change }
            })
            .collect();
        if let Some(sink) = &published.sink {
            sink.apply(&changes);
        }
        self.revision.store(published.state.revision().0, Ordering::Release);
        if let Some(history) = &mut published.history {
            // Notes are only for the sink; history must not keep them alive.
            history.extend_history(
                changes.into_iter().map(|change| Change { note: Note::default(), ..change }).collect(),
            );
        }
    }
}
