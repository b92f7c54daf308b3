//! Drafts: what a writer prepares for the sink, and where it finds the committed object.

use crate::object::{Extracted, Object, ReadForm};
use pintle_store::Note;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// What selectors need from the object, and its read form unless the sink is to determine it.
pub(crate) type Prepared = (Extracted, Option<ReadForm>);

/// The writer's knowledge of an object before it has a revision. It is the write's note, so that the sink need not
/// parse; afterwards the writer finds the committed object in it.
pub struct Draft {
    resource: u64,
    prepared: Mutex<Option<Prepared>>,
    object: OnceLock<Arc<Object>>,
}

impl Draft {
    pub(crate) fn new(resource: u64, prepared: Prepared) -> Arc<Draft> {
        Arc::new(Draft { resource, prepared: Mutex::new(Some(prepared)), object: OnceLock::new() })
    }

    /// The note for the write of this object. A draft can be used once.
    pub fn note(self: &Arc<Draft>) -> Note {
        Note(Some(self.clone()))
    }

    /// The committed object, available once the write is acknowledged.
    pub fn committed(&self) -> Option<&Arc<Object>> {
        self.object.get()
    }

    /// The draft in a note, if it is one.
    pub(crate) fn of(note: &Note) -> Option<&Draft> {
        note.0.as_ref()?.downcast_ref()
    }

    /// Takes the prepared data, once, and only for the resource it was prepared for.
    pub(crate) fn take(&self, resource: u64) -> Option<Prepared> {
        if self.resource != resource {
            return None;
        }
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn set_committed(&self, object: &Arc<Object>) {
        // A second commit of the same draft leaves the first object in place.
        let _ = self.object.set(object.clone());
    }
}
