//! The sequencer: the one place where writes are checked, ordered, made durable and published.
//!
//! It works on batches: everything that waits in the queue becomes one frame and one sync.

use crate::clock::Clock;
use crate::compaction::{CompactReply, Compactor, Files, GiveUp, Mark};
use crate::disk::Disk;
use crate::error::{StoreFault, WriteError};
use crate::history::Retention;
use crate::log::Log;
use crate::options::{BATCH_BYTES_MAX, Options};
use crate::recovery::Recovered;
use crate::replies::Replies;
use crate::shared::Shared;
use crate::stage::{Reply, Request, Staged, stage};
use crate::state::Snapshot;
use crate::store::{Op, Write};
use std::sync::Arc;
use std::time::Duration;

/// The first delay before a retry after a transient fault; it doubles each time, up to `RETRY_DELAY_MAX`.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
/// The longest delay between two attempts.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(1);

/// The maximum number of compactions to wait for on a full disk before writes are refused.
const GIVE_UP_ATTEMPTS: usize = 2;

/// Commands to the sequencer.
pub(crate) enum Command {
    /// Commits a write.
    Write(Request),
    /// Compacts history that is past retention at the given time.
    Compact(u64, CompactReply),
    /// Compacts history that is past retention now.
    Age,
    /// Stops after the commands before it.
    Close,
}

/// The sequencer, see the module.
pub(crate) struct Sequencer {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    log: Option<Log>,
    log_bytes: u64,
    last_time_ms: u64,
    compactor: Compactor,
    fault: Option<StoreFault>,
    retry_delay: Duration,
    replies: Replies,
}

impl Sequencer {
    /// A sequencer for a store without files.
    pub(crate) fn ephemeral(options: &Options) -> Sequencer {
        let state = Snapshot::empty();
        let shared = Arc::new(Shared::new(state.clone(), state.revision(), Vec::new(), options));
        let mark = Mark { state, time_ms: 0, log_bytes: 0 };
        let compactor = Compactor::new(None, shared.clone(), options, 0, mark);
        let clock = options.clock.clone();
        Sequencer {
            shared,
            clock,
            log: None,
            log_bytes: 0,
            last_time_ms: 0,
            compactor,
            fault: None,
            retry_delay: RETRY_DELAY_MIN,
            replies: Replies::start(),
        }
    }

    /// A sequencer that continues where the files end.
    pub(crate) fn resume(disk: Arc<dyn Disk>, recovered: Recovered, options: &Options) -> Sequencer {
        let Recovered {
            state,
            compacted,
            history,
            history_bytes,
            snapshot_bytes,
            last_time_ms,
            log,
            manifest,
        } = recovered;
        let mark = Mark { state: state.clone(), time_ms: last_time_ms, log_bytes: history_bytes };
        let files = Files {
            disk,
            manifest,
            retention: Retention::new(options),
            free_bytes_min: options.free_bytes_min,
        };
        let shared = Arc::new(Shared::new(state, compacted, history, options));
        let compactor = Compactor::new(Some(files), shared.clone(), options, snapshot_bytes, mark);
        Sequencer {
            shared,
            clock: options.clock.clone(),
            log: Some(log),
            log_bytes: history_bytes,
            last_time_ms,
            compactor,
            fault: None,
            retry_delay: RETRY_DELAY_MIN,
            replies: Replies::start(),
        }
    }

    /// The state that is shared with callers.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Whether there is a log, so that waiting lets several writers share one sync.
    pub(crate) fn is_durable(&self) -> bool {
        self.log.is_some()
    }

    /// Executes commands in order, in as few batches as possible. Returns `false` if it must stop.
    pub(crate) fn run(&mut self, commands: impl IntoIterator<Item = Command>) -> bool {
        let mut batch = Vec::new();
        let mut bytes = 0_usize;
        for command in commands {
            match command {
                Command::Write(request) => {
                    bytes = bytes.saturating_add(request_bytes(&request));
                    batch.push(request);
                }
                Command::Compact(now_ms, reply) => {
                    self.flush(std::mem::take(&mut batch));
                    bytes = 0;
                    self.compact(now_ms, reply);
                }
                Command::Age => {
                    let now_ms = self.clock.now_ms().max(self.last_time_ms);
                    self.maintain(now_ms);
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

    /// Processes one batch: check, log, publish, answer. A conflict is also only answered once the conflicting write
    /// is durable.
    fn flush(&mut self, batch: Vec<Request>) {
        if batch.is_empty() {
            return;
        }
        if let Some(fault) = &self.fault {
            return refuse_all(batch.into_iter().map(|request| request.reply), fault);
        }
        let now_ms = self.clock.now_ms().max(self.last_time_ms);
        let staged = self.shared.inspect(|state| stage(state, batch));
        let mut logged = self.log_records(&staged, now_ms);
        if matches!(logged, Err(StoreFault::DiskFull { .. })) {
            logged = self.heal_log().and_then(|()| self.log_records(&staged, now_ms));
        }
        if let Err(fault) = logged {
            self.note_fault(fault.clone());
            return refuse_all(staged.answers.into_iter().map(|(reply, _)| reply), &fault);
        }
        if !staged.records.is_empty() {
            self.last_time_ms = now_ms;
            self.shared.publish(staged.records, staged.notes);
        }
        self.replies.send(staged.answers);
        self.maintain(now_ms);
    }

    /// When to call [`Sequencer::heal`]; `None` without a transient fault.
    pub(crate) fn heal_after(&self) -> Option<Duration> {
        self.fault.as_ref().filter(|fault| fault.can_pass()).map(|_| self.retry_delay)
    }

    /// Tries to continue after a transient fault.
    pub(crate) fn heal(&mut self) {
        match self.heal_log() {
            Ok(()) => {
                tracing::warn!("the store takes writes again");
                self.fault = None;
                self.retry_delay = RETRY_DELAY_MIN;
                self.shared.clear_fault();
            }
            Err(fault) => {
                self.retry_delay = self.retry_delay.saturating_mul(2).min(RETRY_DELAY_MAX);
                self.note_fault(fault);
            }
        }
    }

    /// Makes the log usable again. As long as the disk is full, history is removed, the least needed first.
    fn heal_log(&mut self) -> Result<(), StoreFault> {
        let next = self.shared.revision().next();
        loop {
            let Some(log) = &mut self.log else { return Ok(()) };
            match log.heal(next) {
                Err(StoreFault::DiskFull { file }) if !self.give_up_history() => {
                    return Err(StoreFault::DiskFull { file });
                }
                Err(StoreFault::DiskFull { .. }) => {}
                other => return other,
            }
        }
    }

    /// Removes a part of the history; `false` if that is not possible or takes too long. A running compaction may
    /// fail because the log took the space of its snapshot. The log has released it by now, so one more is tried.
    fn give_up_history(&mut self) -> bool {
        for _ in 0..GIVE_UP_ATTEMPTS {
            let current = self.current_mark();
            let gone = match self.compactor.give_up_history(|| current, self.log_bytes) {
                GiveUp::Done => return true,
                GiveUp::Nothing => return false,
                GiveUp::Wait => self.compactor.wait_briefly(),
                GiveUp::Compact(mark) => {
                    self.start_compaction(mark, None).or_else(|| self.compactor.wait_briefly())
                }
            };
            self.forget_segments(gone);
            if gone.is_some() {
                return true;
            }
        }
        false
    }

    fn current_mark(&self) -> Mark {
        Mark { state: self.shared.state(), time_ms: self.last_time_ms, log_bytes: self.log_bytes }
    }

    fn note_fault(&mut self, fault: StoreFault) {
        if self.fault.as_ref() != Some(&fault) {
            tracing::error!(%fault, passing = fault.can_pass(), "the store takes no writes");
        }
        self.fault = Some(fault.clone());
        self.shared.set_fault(fault);
    }

    fn log_records(&mut self, staged: &Staged, now_ms: u64) -> Result<(), StoreFault> {
        if staged.records.is_empty() {
            return Ok(());
        }
        let appended = match &mut self.log {
            Some(log) => log.append(staged.first, now_ms, &staged.records)?,
            None => staged.records.iter().map(|record| record.encoded_len() as u64).sum(),
        };
        self.log_bytes = self.log_bytes.saturating_add(appended);
        Ok(())
    }

    fn maintain(&mut self, now_ms: u64) {
        self.compactor.observe(|| self.shared.state(), now_ms, self.log_bytes);
        let gone = self.compactor.poll();
        self.forget_segments(gone);
        let due = self.compactor.due(now_ms, self.log_bytes);
        let due = due.or_else(|| {
            let current = || Mark { state: self.shared.state(), time_ms: now_ms, log_bytes: self.log_bytes };
            self.compactor.due_for_space(current, self.log_bytes)
        });
        if let Some(mark) = due {
            self.start_compaction(mark, None);
        }
    }

    fn compact(&mut self, now_ms: u64, reply: CompactReply) {
        let gone = self.compactor.wait();
        self.forget_segments(gone);
        let current = self.current_mark();
        let chosen = self.compactor.newest_expired(current, now_ms);
        match chosen.filter(|mark| mark.state.revision() > self.shared.compacted()) {
            Some(mark) => drop(self.start_compaction(mark, Some(reply))),
            None => drop(reply.send(Ok(self.shared.compacted()))),
        }
    }

    /// Returns the first segment that remains if the compaction has ended already.
    fn start_compaction(&mut self, mark: Mark, reply: Option<CompactReply>) -> Option<u64> {
        let revision = mark.state.revision();
        let first_segment = self.log.as_ref().map_or(0, |log| log.first_segment_after(revision));
        let gone = self.compactor.start(mark, first_segment, reply);
        self.forget_segments(gone);
        gone
    }

    fn forget_segments(&mut self, first_segment: Option<u64>) {
        if let (Some(first), Some(log)) = (first_segment, &mut self.log) {
            log.forget_before(first);
        }
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        // The job uses the folder, so it must end before the folder's lock is released.
        self.compactor.wait();
    }
}

fn refuse_all(replies: impl Iterator<Item = Reply>, fault: &StoreFault) {
    for reply in replies {
        let _ = reply.send(Err(WriteError::Unavailable(fault.clone())));
    }
}

fn request_bytes(request: &Request) -> usize {
    let size = |write: &Write| match &write.op {
        Op::Put(value) => write.key.len().saturating_add(value.len()),
        Op::Delete => write.key.len(),
    };
    request.writes.as_slice().iter().map(size).sum()
}
