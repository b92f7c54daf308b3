//! The sequencer: the one place where writes are checked, ordered, made durable and published.
//!
//! It works on batches: everything that waits in the queue becomes one frame and one sync.

use crate::clock::Clock;
use crate::compaction::{CompactReply, Compactor, Mark};
use crate::error::{StoreFault, WriteError};
use crate::frame::Record;
use crate::log::Log;
use crate::options::{BATCH_BYTES_MAX, Options};
use crate::recovery::Recovered;
use crate::state::Snapshot;
use crate::store::{Change, Entry, Expect, Key, Loaded, Note, Op, Revision, Sink, Write};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::oneshot;

/// What the sequencer can be asked to do.
pub(crate) enum Command {
    /// Commit.
    Write(Request),
    /// Forget history past retention at the given time.
    Compact(u64, CompactReply),
    /// Stop after what came before.
    Close,
}

/// Writes that are committed together, and where to send the first one's revision.
pub(crate) struct Request {
    /// The writes.
    pub(crate) writes: Writes,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Result<Revision, WriteError>>,
}

/// One write, without the detour over the heap, or a transaction.
pub(crate) enum Writes {
    /// A single write.
    One(Write),
    /// All or nothing.
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

/// What the sequencer shares with the callers' side.
pub(crate) struct Shared {
    published: Mutex<Published>,
    revision: AtomicU64,
    compacted: AtomicU64,
    fault: OnceLock<StoreFault>,
}

/// The state everybody may see, the one sink, and the history nobody has taken yet.
struct Published {
    state: Snapshot,
    sink: Option<Arc<dyn Sink>>,
    history: Option<History>,
}

/// Changes kept for whoever loads the store, up to a number of bytes.
pub(crate) struct History {
    floor: Revision,
    changes: VecDeque<Change>,
    bytes: u64,
    bytes_max: u64,
}

impl History {
    fn extend(&mut self, changes: Vec<Change>) {
        self.bytes += changes.iter().map(change_bytes).sum::<u64>();
        self.changes.extend(changes.into_iter().map(|change| Change { note: Note::default(), ..change }));
        while self.bytes > self.bytes_max {
            let Some(dropped) = self.changes.pop_front() else { return };
            self.bytes -= change_bytes(&dropped);
            self.floor = dropped.revision;
        }
    }
}

fn change_bytes(change: &Change) -> u64 {
    (change.key.len() + change.value.as_ref().map_or(0, bytes::Bytes::len)) as u64
}

impl Shared {
    /// The state a store starts with.
    pub(crate) fn new(
        state: Snapshot,
        compacted: Revision,
        history: Vec<Change>,
        options: &Options,
    ) -> Shared {
        let bytes_max = options.history_bytes_max;
        let mut kept = History { floor: compacted, changes: VecDeque::new(), bytes: 0, bytes_max };
        kept.extend(history);
        Shared {
            revision: AtomicU64::new(state.revision().0),
            compacted: AtomicU64::new(compacted.0),
            published: Mutex::new(Published { state, sink: None, history: Some(kept) }),
            fault: OnceLock::new(),
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

    /// The revision up to which history is gone.
    pub(crate) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    /// Notes that history up to `revision` is gone.
    pub(crate) fn set_compacted(&self, revision: Revision) {
        self.compacted.store(revision.0, Ordering::Release);
    }

    /// Why there can be no more writes, if so.
    pub(crate) fn fault(&self) -> Option<StoreFault> {
        self.fault.get().cloned()
    }

    /// Stops writes for good; the first reason stays.
    pub(crate) fn set_fault(&self, fault: StoreFault) {
        let _ = self.fault.set(fault);
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        // A panic under this lock ends the sequencer, and with it all writes; what is there can be read.
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies durable records, tells the sink, and only then lets the new revision be seen.
    fn publish(&self, records: Vec<Record>, notes: Vec<Note>) {
        let mut published = self.published();
        let published = &mut *published;
        let state = &mut published.state;
        let mut changes: Vec<Change> = Vec::with_capacity(records.len());
        for (record, note) in records.into_iter().zip(notes) {
            let change = state.apply(state.revision().next(), record.key, record.value);
            changes.push(Change { note, ..change });
        }
        if let Some(sink) = &published.sink {
            sink.apply(&changes);
        }
        self.revision.store(published.state.revision().0, Ordering::Release);
        if let Some(history) = &mut published.history {
            history.extend(changes);
        }
    }
}

/// See the module.
pub(crate) struct Sequencer {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    log: Option<Log>,
    log_bytes: u64,
    last_time_ms: u64,
    compactor: Compactor,
    failed: Option<StoreFault>,
}

impl Sequencer {
    /// A sequencer for a store that lives in memory only.
    pub(crate) fn ephemeral(options: &Options) -> Sequencer {
        let state = Snapshot::empty();
        let shared = Arc::new(Shared::new(state.clone(), state.revision(), Vec::new(), options));
        let mark = Mark { state, time_ms: 0, log_bytes: 0 };
        let compactor = Compactor::new(None, shared.clone(), options, 0, mark);
        let clock = options.clock.clone();
        Sequencer { shared, clock, log: None, log_bytes: 0, last_time_ms: 0, compactor, failed: None }
    }

    /// A sequencer that goes on where the files end.
    pub(crate) fn resume(
        disk: Arc<dyn crate::disk::Disk>,
        recovered: Recovered,
        options: &Options,
    ) -> Sequencer {
        let Recovered { state, compacted, history, history_bytes, snapshot_bytes, last_time_ms, log } =
            recovered;
        let mark = Mark { state: state.clone(), time_ms: last_time_ms, log_bytes: history_bytes };
        let shared = Arc::new(Shared::new(state, compacted, history, options));
        let compactor = Compactor::new(Some(disk), shared.clone(), options, snapshot_bytes, mark);
        Sequencer {
            shared,
            clock: options.clock.clone(),
            log: Some(log),
            log_bytes: history_bytes,
            last_time_ms,
            compactor,
            failed: None,
        }
    }

    /// What callers see of the store.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Carries out commands in order, as few batches as possible. `false` means to stop.
    pub(crate) fn run(&mut self, commands: impl IntoIterator<Item = Command>) -> bool {
        let mut batch = Vec::new();
        let mut bytes = 0;
        for command in commands {
            match command {
                Command::Write(request) => {
                    bytes += request_bytes(&request);
                    batch.push(request);
                }
                Command::Compact(now_ms, reply) => {
                    self.flush(std::mem::take(&mut batch));
                    bytes = 0;
                    self.compact(now_ms, reply);
                }
                Command::Close => {
                    self.flush(batch);
                    return false;
                }
            }
            if bytes >= BATCH_BYTES_MAX {
                self.flush(std::mem::take(&mut batch));
                bytes = 0;
            }
        }
        self.flush(batch);
        true
    }

    /// One batch: check, log, publish, answer. A conflict, too, is answered only when what it
    /// conflicts with is durable.
    fn flush(&mut self, batch: Vec<Request>) {
        if batch.is_empty() {
            return;
        }
        if let Some(fault) = &self.failed {
            return refuse(batch.into_iter().map(|request| request.reply), fault);
        }
        let now_ms = self.clock.now_ms().max(self.last_time_ms);
        let staged = stage(&self.shared.published().state, batch);
        if let Err(fault) = self.log_records(&staged, now_ms) {
            self.failed = Some(fault.clone());
            self.shared.set_fault(fault.clone());
            return refuse(staged.answers.into_iter().map(|(reply, _)| reply), &fault);
        }
        if !staged.records.is_empty() {
            self.last_time_ms = now_ms;
            self.shared.publish(staged.records, staged.notes);
        }
        for (reply, answer) in staged.answers {
            let _ = reply.send(answer);
        }
        self.maintain(now_ms);
    }

    fn log_records(&mut self, staged: &Staged, now_ms: u64) -> Result<(), StoreFault> {
        if staged.records.is_empty() {
            return Ok(());
        }
        self.log_bytes += match &mut self.log {
            Some(log) => log.append(staged.first, now_ms, &staged.records)?,
            None => staged.records.iter().map(|record| record.encoded_len() as u64).sum(),
        };
        Ok(())
    }

    fn maintain(&mut self, now_ms: u64) {
        self.compactor.observe(|| self.shared.state(), now_ms, self.log_bytes);
        let gone = self.compactor.poll();
        self.forget(gone);
        if let Some(mark) = self.compactor.due(now_ms, self.log_bytes) {
            self.start_compaction(mark, None);
        }
    }

    fn compact(&mut self, now_ms: u64, reply: CompactReply) {
        let gone = self.compactor.wait();
        self.forget(gone);
        let current =
            Mark { state: self.shared.state(), time_ms: self.last_time_ms, log_bytes: self.log_bytes };
        let chosen = self.compactor.newest_expired(current, now_ms);
        match chosen.filter(|mark| mark.state.revision() > self.shared.compacted()) {
            Some(mark) => self.start_compaction(mark, Some(reply)),
            None => drop(reply.send(Ok(self.shared.compacted()))),
        }
    }

    fn start_compaction(&mut self, mark: Mark, reply: Option<CompactReply>) {
        let revision = mark.state.revision();
        let first_segment = self.log.as_ref().map_or(0, |log| log.first_segment_after(revision));
        let gone = self.compactor.start(mark, first_segment, reply);
        self.forget(gone);
    }

    fn forget(&mut self, first_segment: Option<u64>) {
        if let (Some(first), Some(log)) = (first_segment, &mut self.log) {
            log.forget_before(first);
        }
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        // The job uses the folder, which must be let go before the lock on it is.
        self.compactor.wait();
    }
}

fn refuse(replies: impl Iterator<Item = oneshot::Sender<Result<Revision, WriteError>>>, fault: &StoreFault) {
    for reply in replies {
        let _ = reply.send(Err(WriteError::Unavailable(fault.clone())));
    }
}

fn request_bytes(request: &Request) -> usize {
    let size = |write: &Write| match &write.op {
        Op::Put(value) => write.key.len() + value.len(),
        Op::Delete => write.key.len(),
    };
    request.writes.as_slice().iter().map(size).sum()
}

/// A batch after checking: what goes to the log, and what to tell each writer once it is there.
struct Staged {
    first: Revision,
    records: Vec<Record>,
    /// One for each record.
    notes: Vec<Note>,
    answers: Vec<(oneshot::Sender<Result<Revision, WriteError>>, Result<Revision, WriteError>)>,
}

/// Checks each request against the state as the requests before it would leave it.
fn stage(state: &Snapshot, batch: Vec<Request>) -> Staged {
    let first = state.revision().next();
    let mut overlay = Overlay { state, changed: HashMap::new(), next: first };
    let mut records = Vec::with_capacity(batch.len());
    let mut notes = Vec::with_capacity(batch.len());
    let mut answers = Vec::with_capacity(batch.len());
    let last = batch.len() - 1;
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

/// The state with the not yet durable changes of the batch on top.
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

    /// Nobody looks at what the last request changes.
    fn skip(&mut self, writes: &[Write]) {
        self.next = Revision(self.next.0 + writes.len() as u64);
    }
}
