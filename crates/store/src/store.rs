//! The types of every store: keys, entries, writes, changes, and the [`Store`] trait.

use crate::error::{ReadError, StoreFault, WriteError};
use crate::history::{HistoryQuery, KeyHistory};
use crate::state::Snapshot;
use bytes::Bytes;
use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A future that can be sent between threads, boxed so that [`Store`] stays object safe.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A key, for example `/registry/configmaps/default/settings`.
pub type Key = Arc<str>;

/// A point in the one global order of changes. An empty store is at 1; its first change is 2.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Revision(pub u64);

impl Revision {
    /// The revision of a store that has seen no change.
    pub const EMPTY: Revision = Revision(1);

    /// The revision after this one.
    pub fn next(self) -> Revision {
        Revision(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The value of one key with its revisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The value as it was written.
    pub value: Bytes,
    /// The revision at which the key was created.
    pub created: Revision,
    /// The revision of the last write to the key.
    pub modified: Revision,
}

/// The precondition of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last modified at this revision.
    Revision(Revision),
    /// There is no precondition.
    Any,
}

/// A value that the writer passes to the sink with the change. The store neither reads nor stores it: it is lost in a
/// restart and ignored in comparisons.
#[derive(Clone, Default)]
pub struct Note(pub Option<Arc<dyn Any + Send + Sync>>);

impl PartialEq for Note {
    fn eq(&self, _: &Note) -> bool {
        true
    }
}

impl Eq for Note {}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Note" } else { "-" })
    }
}

/// The operation of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Sets the value of the key.
    Put(Bytes),
    /// Removes the key. Removing a key that does not exist is a conflict, whatever was expected.
    Delete,
}

/// One conditional write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Write {
    /// The key to change.
    pub key: Key,
    /// The precondition.
    pub expect: Expect,
    /// The change.
    pub op: Op,
    /// The note that is passed to the sink with the change.
    pub note: Note,
    /// The time to live of the key, for engines that remove expired keys themselves ([`Store::removes_expired`]);
    /// other engines ignore it. Zero means for ever, whatever the engine's options are.
    pub ttl: Option<Duration>,
}

impl Write {
    /// A write that puts `value` at `key`.
    pub fn put(key: impl Into<Key>, expect: Expect, value: impl Into<Bytes>) -> Write {
        Write { key: key.into(), expect, op: Op::Put(value.into()), note: Note::default(), ttl: None }
    }

    /// A write that removes `key`.
    pub fn delete(key: impl Into<Key>, expect: Expect) -> Write {
        Write { key: key.into(), expect, op: Op::Delete, note: Note::default(), ttl: None }
    }

    /// This write with a note for the sink.
    pub fn with_note(self, note: Note) -> Write {
        Write { note, ..self }
    }

    /// Refuses a transaction that writes a key twice.
    pub fn require_distinct_keys(writes: &[Write]) -> Result<(), WriteError> {
        if writes.len() < 2 {
            return Ok(());
        }
        let mut seen = HashSet::with_capacity(writes.len());
        match writes.iter().find(|write| !seen.insert(&write.key)) {
            Some(write) => Err(WriteError::DuplicateKey { key: write.key.clone() }),
            None => Ok(()),
        }
    }

    /// This write with a time to live.
    pub fn with_ttl(self, ttl: Option<Duration>) -> Write {
        Write { ttl, ..self }
    }
}

/// One committed change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The revision of the change. The changes of one transaction may share a revision, and revisions may have gaps
    /// if others write to the same backend.
    pub revision: Revision,
    /// The key that the write changed.
    pub key: Key,
    /// The new value; `None` if the key was deleted.
    pub value: Option<Bytes>,
    /// The entry before the change.
    pub previous: Option<Entry>,
    /// The note that the writer attached; empty in loaded history.
    pub note: Note,
}

/// Receives every change, in commit order.
pub trait Sink: Send + Sync {
    /// Called after the changes are durable and before their writers are answered. It delays every later write, so it
    /// must be quick, must not do I/O, and of the store may call only [`Store::revision`], [`Store::compacted`] and
    /// [`Store::health`].
    fn apply(&self, changes: &[Change]);

    /// Called when the store has reached `revision` without a change for this sink: another key of the same backend was
    /// written.
    fn advance(&self, _revision: Revision) {}

    /// Called when the store can no longer follow the changes (the backend compacted them, or was restored to another
    /// state): everything loaded or applied before is invalid, and `loaded` replaces it. Its revision may be lower
    /// than the previous one.
    fn reset(&self, loaded: Loaded);

    /// Called when the backend cannot deliver changes for now (`true`: it has no leader), and when it can again. No
    /// change is lost in between.
    fn interrupted(&self, _is: bool) {}

    /// Called when the backend no longer answers reads of revisions before `revision`.
    fn compacted(&self, _revision: Revision) {}
}

/// The state that [`Store::load`] returns, with the position in the stream of changes at which the sink starts.
#[derive(Debug)]
pub struct Loaded {
    /// The sink receives each change after this revision exactly once.
    pub revision: Revision,
    /// `history` reaches back to just after this revision.
    pub compacted: Revision,
    /// The state at `revision`.
    pub entries: Snapshot,
    /// The changes after `compacted` up to `revision`, oldest first.
    pub history: Vec<Change>,
}

/// An engine.
pub trait Store: Send + Sync {
    /// Commits one write and returns its revision. After `Ok` the change is durable and the sink has seen it; after
    /// [`WriteError::Conflict`] the sink has seen the conflicting entry. Dropping the future does not undo the write.
    /// After [`WriteError::Unavailable`] it is unknown whether the write will be found after a restart, and after
    /// [`WriteError::TimedOut`] or [`WriteError::Unknown`] whether it was or will be committed.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>>;

    /// Commits all of the writes or none, and returns one revision for each, in order. All preconditions refer to the
    /// state before the transaction; no key may occur twice.
    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Revision>, WriteError>>;

    /// Attaches the only sink and returns state and history at that moment. A later call replaces the sink and returns
    /// the state of that moment, without history.
    fn load(&self, sink: Arc<dyn Sink>) -> Loaded;

    /// The revision of the last change that is durable and that the sink has seen.
    fn revision(&self) -> Revision;

    /// Returns a revision that includes every write acknowledged before this call, by any server on the same backend,
    /// once the sink has seen that revision. One request to the backend serves all concurrent callers. Waits as long as
    /// the backend does not answer: the caller sets the time limit.
    fn barrier(&self) -> BoxFuture<'_, Result<Revision, StoreFault>>;

    /// `barrier` of the store that has `key`, if keys are in different stores.
    fn barrier_for<'a>(&'a self, _key: &'a str) -> BoxFuture<'a, Result<Revision, StoreFault>> {
        self.barrier()
    }

    /// The entries whose key begins with `prefix`, as they were at `revision`.
    fn read_at<'a>(
        &'a self,
        prefix: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Snapshot, ReadError>>;

    /// The retained versions of one key, as far back as the engine has them; `None` if the engine has no history of
    /// single keys at all.
    fn history<'a>(
        &'a self,
        _key: &'a str,
        _query: HistoryQuery,
    ) -> BoxFuture<'a, Result<Option<KeyHistory>, ReadError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Checks whether the backend answers; the error is the text of a health check.
    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>>;

    /// The sizes of the backends' databases in bytes, in the order of the backends; `None` for one that does not answer.
    fn sizes(&self) -> BoxFuture<'_, Vec<Option<u64>>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    /// Removes history that is past retention. Writes do this too; if there are none, a caller must do it from time
    /// to time.
    fn age(&self) {}

    /// Whether other servers may write to the same backend.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether the engine removes keys whose [`Write::ttl`] has passed.
    fn removes_expired(&self) -> bool {
        false
    }

    /// Returns whether the value under `key` would now be stored differently, for instance with another encryption key.
    fn is_outdated<'a>(&'a self, _key: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(std::future::ready(false))
    }

    /// The revision up to which history is compacted: a restart would load only later changes.
    fn compacted(&self) -> Revision;

    /// Returns the reason why the store accepts no writes, if it does not. A transient fault disappears once the store
    /// accepts writes again ([`StoreFault::can_pass`]).
    fn health(&self) -> Result<(), StoreFault>;

    /// Finishes the queued writes, refuses later ones and releases the files.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// The whole state at one revision; cheap, and unaffected by later writes.
    fn snapshot_state(&self) -> Snapshot;
}
