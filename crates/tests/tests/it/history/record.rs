//! The operations of clients and their results, with times.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

/// A moment, in nanoseconds since the recording began.
pub(crate) type Moment = u64;

/// A write as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    /// Unconditionally.
    Replace,
    /// Only at this revision.
    CompareAndSet(u64),
    Delete,
}

/// The outcome of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed at this revision.
    Done(u64),
    /// Certainly not executed.
    Refused(u16),
    /// No answer, or an ambiguous one.
    Unknown,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOp {
    pub(crate) key: String,
    /// Unique among all writes; empty for deletions.
    pub(crate) token: String,
    pub(crate) action: Action,
    pub(crate) outcome: Outcome,
    pub(crate) began: Moment,
    pub(crate) ended: Moment,
}

/// The state of a key: the token of its last write, and the revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) token: String,
    pub(crate) revision: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct GetOp {
    pub(crate) key: String,
    pub(crate) found: Option<Seen>,
    pub(crate) began: Moment,
    pub(crate) ended: Moment,
}

#[derive(Debug, Clone)]
pub(crate) struct ListOp {
    pub(crate) revision: u64,
    /// Whether the client requested that revision: then old state is correct.
    pub(crate) exact: bool,
    pub(crate) items: BTreeMap<String, Seen>,
    pub(crate) began: Moment,
    pub(crate) ended: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WatchItem {
    /// Type, key and state of the object; for a deletion, the revision of the deletion.
    Event(String, String, Seen),
    Bookmark(u64),
}

/// One watch request, from start to end.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) watcher: usize,
    pub(crate) from: u64,
    pub(crate) items: Vec<(WatchItem, Moment)>,
}

#[derive(Default)]
pub(crate) struct History {
    pub(crate) writes: Vec<WriteOp>,
    pub(crate) gets: Vec<GetOp>,
    pub(crate) lists: Vec<ListOp>,
    pub(crate) sessions: Vec<Session>,
}

impl History {
    pub(crate) fn summary(&self) -> String {
        let count =
            |wanted: fn(&Outcome) -> bool| self.writes.iter().filter(|write| wanted(&write.outcome)).count();
        let events: usize = self.sessions.iter().map(|session| session.items.len()).sum();
        format!(
            "{} writes ({} done, {} refused, {} unknown), {} gets, {} lists, {} watches with {events} events",
            self.writes.len(),
            count(|outcome| matches!(outcome, Outcome::Done(_))),
            count(|outcome| matches!(outcome, Outcome::Refused(_))),
            count(|outcome| matches!(outcome, Outcome::Unknown)),
            self.gets.len(),
            self.lists.len(),
            self.sessions.len(),
        )
    }

    /// A run with almost no operations proves nothing.
    pub(crate) fn assert_not_idle(&self) {
        let done = self.writes.iter().filter(|write| matches!(write.outcome, Outcome::Done(_))).count();
        assert!(done > 100 && self.gets.len() > 50 && self.lists.len() > 20, "{}", self.summary());
    }
}

/// Collects from all clients.
pub(crate) struct Recorder {
    began: Instant,
    history: Mutex<History>,
}

impl Default for Recorder {
    fn default() -> Recorder {
        Recorder { began: Instant::now(), history: Mutex::default() }
    }
}

impl Recorder {
    pub(crate) fn now(&self) -> Moment {
        self.began.elapsed().as_nanos() as u64
    }

    pub(crate) fn add(&self, add: impl FnOnce(&mut History)) {
        add(&mut self.history.lock().unwrap());
    }

    pub(crate) fn take(&self) -> History {
        std::mem::take(&mut *self.history.lock().unwrap())
    }
}
