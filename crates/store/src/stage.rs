//! Checks a batch of requests against the state. Pure: nothing is changed or sent here.

use crate::error::WriteError;
use crate::frame::Record;
use crate::state::Snapshot;
use crate::store::{Entry, Expect, Key, Note, Op, Revision, Write};
use std::collections::HashMap;
use tokio::sync::oneshot;

/// The revision of a request's first write, or the reason why it was refused.
pub(crate) type Answer = Result<Revision, WriteError>;
/// The channel of an answer.
pub(crate) type Reply = oneshot::Sender<Answer>;

/// Writes that are committed together, and the channel for the first one's revision.
pub(crate) struct Request {
    /// The writes.
    pub(crate) writes: Writes,
    /// The channel for the answer to the write.
    pub(crate) reply: Reply,
}

/// One write without an allocation, or a transaction.
pub(crate) enum Writes {
    /// A single write.
    One(Write),
    /// A transaction: all writes or none.
    Many(Vec<Write>),
}

impl Writes {
    /// The writes in order.
    pub(crate) fn as_slice(&self) -> &[Write] {
        match self {
            Writes::One(write) => std::slice::from_ref(write),
            Writes::Many(writes) => writes,
        }
    }

    fn into_records(self) -> impl Iterator<Item = (Record, Note)> {
        let (one, many) = match self {
            Writes::One(write) => (Some(write), Vec::new()),
            Writes::Many(writes) => (None, writes),
        };
        one.into_iter().chain(many).map(|write| {
            let value = match write.op {
                Op::Put(value) => Some(value),
                Op::Delete => None,
            };
            (Record { key: write.key, value }, write.note)
        })
    }
}

/// A checked batch: the records for the log, and the answers to send once they are durable.
pub(crate) struct Staged {
    /// The revision of the first record.
    pub(crate) first: Revision,
    /// The changes of all accepted requests.
    pub(crate) records: Vec<Record>,
    /// The notes of the writers for the sink, one for each record.
    pub(crate) notes: Vec<Note>,
    /// One answer for each request.
    pub(crate) answers: Vec<(Reply, Answer)>,
}

/// Checks each request against the state as the requests before it would leave it.
pub(crate) fn stage(state: &Snapshot, batch: Vec<Request>) -> Staged {
    let first = state.revision().next();
    let mut overlay = Overlay { state, changed: HashMap::new(), next: first };
    let mut records = Vec::with_capacity(batch.len());
    let mut notes = Vec::with_capacity(batch.len());
    let mut answers = Vec::with_capacity(batch.len());
    let last = batch.len().saturating_sub(1);
    for (index, Request { writes, reply }) in batch.into_iter().enumerate() {
        let answer = match overlay.check(writes.as_slice()) {
            Err(conflict) => Err(conflict),
            Ok(()) => {
                let revision = overlay.next;
                if index == last {
                    overlay.skip(writes.as_slice());
                } else {
                    overlay.apply(writes.as_slice());
                }
                for (record, note) in writes.into_records() {
                    records.push(record);
                    notes.push(note);
                }
                Ok(revision)
            }
        };
        answers.push((reply, answer));
    }
    Staged { first, records, notes, answers }
}

/// The state with the batch's changes that are not durable yet.
struct Overlay<'a> {
    state: &'a Snapshot,
    changed: HashMap<Key, Option<Entry>>,
    next: Revision,
}

impl Overlay<'_> {
    fn get(&self, key: &Key) -> Option<&Entry> {
        match self.changed.get(key) {
            Some(changed) => changed.as_ref(),
            None => self.state.get(key),
        }
    }

    fn check(&self, writes: &[Write]) -> Result<(), WriteError> {
        for write in writes {
            let current = self.get(&write.key);
            let expected = match write.expect {
                Expect::Absent => current.is_none(),
                Expect::Revision(revision) => current.is_some_and(|entry| entry.modified == revision),
                Expect::Any => true,
            };
            if !expected || (write.op == Op::Delete && current.is_none()) {
                return Err(WriteError::Conflict { key: write.key.clone(), current: current.cloned() });
            }
        }
        Ok(())
    }

    fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            let created = self.get(&write.key).map_or(self.next, |entry| entry.created);
            let entry = match &write.op {
                Op::Put(value) => Some(Entry { value: value.clone(), created, modified: self.next }),
                Op::Delete => None,
            };
            self.changed.insert(write.key.clone(), entry);
            self.next = self.next.next();
        }
    }

    /// Changes of the last request need not be tracked.
    fn skip(&mut self, writes: &[Write]) {
        self.next = Revision(self.next.0.saturating_add(writes.len() as u64));
    }
}
