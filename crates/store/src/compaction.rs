//! Compaction of history: when it happens, up to which revision, and the background job that does it.
//!
//! A store consists of a snapshot and the log after it, and all of that log is history. So compacting history means
//! writing a snapshot of a past state. Past states are retained as marks, which are cheap clones taken from time to
//! time.

use crate::disk::Disk;
use crate::history::Retention;
use crate::manifest::{Manifest, ManifestFile};
use crate::options::Options;
use crate::pace::Pace;
use crate::shared::Shared;
use crate::snapshot_file;
use crate::state::Snapshot;
use crate::store::Revision;
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// The free space is checked each time the log has grown by this fraction of the size that makes a compaction
/// worthwhile.
const SPACE_CHECKS_PER_COMPACTION: u64 = 8;
/// In addition to the space of a snapshot, this fraction of it must be free, for the log until the next compaction.
const SNAPSHOTS_PER_RESERVE: u64 = 4;
/// On a disk that is nearly full, a compaction is worthwhile once the log has grown by this fraction of a snapshot.
const COMPACTIONS_PER_SNAPSHOT: u64 = 8;
/// How long writers wait on a full disk until history is removed, before they are refused.
const GIVE_UP_WAIT_MAX: Duration = Duration::from_secs(2);
/// How often the end of that compaction is checked.
const GIVE_UP_POLL: Duration = Duration::from_millis(1);
/// The number of marks per retention period: the granularity of compaction.
const MARKS_PER_RETENTION: u64 = 5;
/// The number of marks taken while the log grows by the amount after which even young history is dropped. They are
/// needed if much is written in a short time. A mark keeps replaced values and the tree nodes around them in memory,
/// so there are only few.
const MARKS_PER_HISTORY: u64 = 4;
/// The maximum number of marks retained.
const MARKS_MAX: usize = 16;

/// A past state, and the facts at the time when it was current.
#[derive(Clone)]
pub(crate) struct Mark {
    /// The state.
    pub(crate) state: Snapshot,
    /// Every later change has a timestamp at or after this one.
    pub(crate) time_ms: u64,
    /// The size of the log at that time, in bytes.
    pub(crate) log_bytes: u64,
}

/// The reply to a compaction request.
pub(crate) type CompactReply = oneshot::Sender<Result<Revision, String>>;

/// The files that a compaction writes.
#[derive(Clone)]
pub(crate) struct Files {
    /// The folder.
    pub(crate) disk: Arc<dyn Disk>,
    /// The manifest of the store's folder.
    pub(crate) manifest: Arc<ManifestFile>,
    /// The handling of segments that are no longer needed.
    pub(crate) retention: Retention,
    /// The number of bytes that must be free in addition to the space of a snapshot.
    pub(crate) free_bytes_min: u64,
}

impl Files {
    /// The space that must be free: the next compaction needs that of a snapshot.
    fn reserve(&self, snapshot_bytes: u64) -> u64 {
        snapshot_bytes.saturating_add(self.free_bytes_min.max(snapshot_bytes / SNAPSHOTS_PER_RESERVE))
    }
}

/// Decides when to compact and runs the job.
pub(crate) struct Compactor {
    files: Option<Files>,
    shared: Arc<Shared>,
    retention_ms: u64,
    history_bytes_max: u64,
    compact_bytes_min: u64,
    inline: bool,
    marks: VecDeque<Mark>,
    /// The log size and the snapshot size at the last compaction.
    done: Done,
    /// After a failure, no attempt is made until the log has grown to this size.
    retry_at_bytes: u64,
    /// The free space is checked again once the log has grown to this size.
    check_space_at_bytes: u64,
    job: Option<JoinHandle<Outcome>>,
    /// The pace of the running job.
    pace: Pace,
}

/// The result of the last compaction.
#[derive(Clone, Copy)]
pub(crate) struct Done {
    /// The log bytes before the snapshot.
    pub(crate) log_bytes: u64,
    /// The length of the snapshot.
    pub(crate) snapshot_bytes: u64,
}

/// A way to remove history.
pub(crate) enum GiveUp {
    /// A part of the history was removed.
    Done,
    /// A compaction is under way.
    Wait,
    /// A compaction to this mark removes all history before it.
    Compact(Mark),
    /// There is no history, or no space for a snapshot.
    Nothing,
}

type Outcome = Result<(Done, u64), String>;

impl Compactor {
    /// Creates a compactor for the state found on opening. Without a disk it only counts.
    pub(crate) fn new(
        files: Option<Files>,
        shared: Arc<Shared>,
        options: &Options,
        snapshot_bytes: u64,
        mark: Mark,
    ) -> Compactor {
        Compactor {
            files,
            shared,
            retention_ms: options.retention_ms(),
            history_bytes_max: options.history_bytes_max,
            compact_bytes_min: options.compact_bytes_min,
            inline: options.inline,
            marks: VecDeque::from([mark]),
            done: Done { log_bytes: 0, snapshot_bytes },
            retry_at_bytes: 0,
            check_space_at_bytes: 0,
            job: None,
            pace: Pace::Unpaced,
        }
    }

    /// Adds a mark if the last one is old enough.
    pub(crate) fn observe(&mut self, state: impl FnOnce() -> Snapshot, time_ms: u64, log_bytes: u64) {
        let (last_time, last_bytes) = self.marks.back().map_or((0, 0), |mark| (mark.time_ms, mark.log_bytes));
        let old = time_ms.saturating_sub(last_time) >= self.retention_ms / MARKS_PER_RETENTION;
        let far = log_bytes.saturating_sub(last_bytes) >= self.log_bytes_max() / MARKS_PER_HISTORY;
        if (old || far) && self.marks.len() < MARKS_MAX {
            self.marks.push_back(Mark { state: state(), time_ms, log_bytes });
        }
    }

    /// The mark to compact to now, if the saving is worth a snapshot.
    pub(crate) fn due(&mut self, now_ms: u64, log_bytes: u64) -> Option<Mark> {
        self.forget_overtaken(now_ms);
        if self.job.is_some() || log_bytes < self.retry_at_bytes {
            return None;
        }
        // Waiting for as many bytes as the snapshot has keeps the cost of snapshots below that of the log.
        let worth = self.compact_bytes_min.max(self.done.snapshot_bytes);
        let oldest = self.marks.front()?;
        if self.expired(oldest, now_ms) && oldest.log_bytes.saturating_sub(self.done.log_bytes) >= worth {
            return Some(oldest.clone());
        }
        let history_max = self.log_bytes_max();
        if log_bytes.saturating_sub(self.done.log_bytes) <= history_max {
            return None;
        }
        let keep = history_max / 2;
        let fits = self.marks.iter().find(|mark| log_bytes.saturating_sub(mark.log_bytes) <= keep);
        fits.or(self.marks.back()).filter(|mark| mark.log_bytes > self.done.log_bytes).cloned()
    }

    /// The newest state, `current` included, that has no change younger than the retention after it.
    pub(crate) fn newest_expired(&mut self, current: Mark, now_ms: u64) -> Option<Mark> {
        let expired = self.expired(&current, now_ms).then_some(current);
        expired.or_else(|| self.marks.iter().rfind(|mark| self.expired(mark, now_ms)).cloned())
    }

    /// The mark to compact to because the disk is nearly full. Retained segments, which are not needed to open the
    /// store, are removed first.
    pub(crate) fn due_for_space(&mut self, current: impl FnOnce() -> Mark, log_bytes: u64) -> Option<Mark> {
        let files = self.files.as_ref()?;
        if self.job.is_some() || log_bytes < self.check_space_at_bytes.max(self.retry_at_bytes) {
            return None;
        }
        let step = self.compact_bytes_min / SPACE_CHECKS_PER_COMPACTION;
        self.check_space_at_bytes = log_bytes.saturating_add(step);
        let snapshot_bytes = self.shared.inspect(snapshot_file::encoded_len);
        let wanted = files.reserve(snapshot_bytes);
        let free = Retention::make_space(&*files.disk, wanted);
        let gain = |log_bytes: u64| log_bytes.saturating_sub(self.done.log_bytes);
        let worth = self.compact_bytes_min.max(snapshot_bytes / COMPACTIONS_PER_SNAPSHOT);
        if free >= wanted || gain(log_bytes) < worth {
            return None;
        }
        if free < snapshot_bytes {
            tracing::warn!(free, snapshot_bytes, "the disk is nearly full: there is no space for a snapshot");
            return None;
        }
        tracing::warn!(free, wanted, "the disk is nearly full: history is compacted");
        let enough = worth.max(wanted.saturating_sub(free));
        let mark = self.marks.iter().find(|mark| gain(mark.log_bytes) >= enough).cloned();
        Some(mark.unwrap_or_else(current))
    }

    /// Removes a part of the history on a full disk. Returns a mark if that requires a compaction to it.
    pub(crate) fn give_up_history(&mut self, current: impl FnOnce() -> Mark, log_bytes: u64) -> GiveUp {
        let Some(files) = &self.files else { return GiveUp::Nothing };
        if Retention::give_up_oldest(&*files.disk) {
            return GiveUp::Done;
        }
        if self.job.is_some() {
            return GiveUp::Wait;
        }
        let free = files.disk.free_bytes().unwrap_or(u64::MAX);
        let fits = self.shared.inspect(snapshot_file::encoded_len) <= free;
        if !fits || log_bytes <= self.done.log_bytes {
            return GiveUp::Nothing;
        }
        tracing::warn!(free, "the disk is full: history is compacted");
        GiveUp::Compact(current())
    }

    /// Waits for the job to end, but not for long; answers like [`Compactor::poll`].
    pub(crate) fn wait_briefly(&mut self) -> Option<u64> {
        self.pace.skip_pauses();
        let start = Instant::now();
        while self.job.as_ref().is_some_and(|job| !job.is_finished()) && start.elapsed() < GIVE_UP_WAIT_MAX {
            thread::sleep(GIVE_UP_POLL);
        }
        self.poll()
    }

    /// Starts the job, which must be the only one: two must not write the manifest. Answers like
    /// [`Compactor::poll`] if the job has ended already.
    pub(crate) fn start(
        &mut self,
        mark: Mark,
        first_segment: u64,
        reply: Option<CompactReply>,
    ) -> Option<u64> {
        debug_assert!(self.job.is_none());
        let (files, shared) = (self.files.clone(), self.shared.clone());
        let pace = Pace::new(self.inline);
        self.pace = pace.clone();
        let retry_at_bytes = mark.log_bytes.saturating_add(self.compact_bytes_min);
        let job = move || {
            let outcome = run(files, &shared, &mark, first_segment, &pace);
            if let Some(reply) = reply {
                let _ = reply.send(outcome.clone().map(|_| shared.compacted()));
            }
            outcome
        };
        if self.inline || self.files.is_none() {
            let outcome = job();
            return self.record_outcome(outcome);
        }
        match thread::Builder::new().name("store-compact".into()).spawn(job) {
            Ok(handle) => self.job = Some(handle),
            Err(_) => self.retry_at_bytes = retry_at_bytes,
        }
        None
    }

    /// Handles a job that has ended; returns the first segment that remains.
    pub(crate) fn poll(&mut self) -> Option<u64> {
        if self.job.as_ref()?.is_finished() { self.wait() } else { None }
    }

    /// Waits for the job to end.
    pub(crate) fn wait(&mut self) -> Option<u64> {
        self.pace.skip_pauses();
        let outcome = self.job.take()?.join().unwrap_or_else(|_| Err("the job panicked".to_owned()));
        self.record_outcome(outcome)
    }

    fn record_outcome(&mut self, outcome: Outcome) -> Option<u64> {
        match outcome {
            Ok((done, first_segment)) => {
                self.done = done;
                let overtaken = self.marks.iter().take_while(|mark| mark.log_bytes < done.log_bytes).count();
                self.release(overtaken);
                Some(first_segment)
            }
            Err(reason) => {
                // The log still has all changes, so this only costs disk space.
                tracing::warn!(reason, "cannot compact the store's history");
                let newest = self.marks.back().map_or(0, |mark| mark.log_bytes);
                self.retry_at_bytes = newest.saturating_add(self.compact_bytes_min);
                None
            }
        }
    }

    fn expired(&self, mark: &Mark, now_ms: u64) -> bool {
        mark.time_ms.saturating_add(self.retention_ms) <= now_ms
    }

    /// Of the marks past retention only the newest can be chosen; the older ones only take memory.
    fn forget_overtaken(&mut self, now_ms: u64) {
        let expired = self.marks.iter().take_while(|mark| self.expired(mark, now_ms)).count();
        self.release(expired.saturating_sub(1));
    }

    /// How much the log may grow before even young history is dropped.
    fn log_bytes_max(&self) -> u64 {
        self.history_bytes_max.max(self.done.snapshot_bytes)
    }

    /// Drops the oldest marks. A mark may own a large part of a tree, and writers must not wait until all of that is
    /// freed.
    fn release(&mut self, count: usize) {
        let released: Vec<Mark> = self.marks.drain(..count).collect();
        if !released.is_empty() && !self.inline {
            // If no thread can be spawned, the marks are dropped here.
            let _ = thread::Builder::new().name("store-release".into()).spawn(move || drop(released));
        }
    }
}

/// The order is snapshot, manifest, removal: at every moment all files that the manifest names exist.
fn run(files: Option<Files>, shared: &Shared, mark: &Mark, first_segment: u64, pace: &Pace) -> Outcome {
    let revision = mark.state.revision();
    let snapshot_bytes = match files {
        Some(files) => write_compaction(&files, &mark.state, first_segment, pace)?,
        None => 0,
    };
    shared.set_compacted(revision);
    Ok((Done { log_bytes: mark.log_bytes, snapshot_bytes }, first_segment))
}

fn write_compaction(files: &Files, state: &Snapshot, first_segment: u64, pace: &Pace) -> Result<u64, String> {
    let length = snapshot_file::write(&*files.disk, state, pace).map_err(|error| error.to_string())?;
    let change = |manifest: &mut Manifest| {
        manifest.snapshot = Some(state.revision());
        manifest.first_segment = first_segment;
    };
    let manifest = files.manifest.update(change).map_err(|fault| {
        remove_unused(&*files.disk, state.revision());
        fault.to_string()
    })?;
    files.retention.retire(&*files.disk, &manifest).map_err(|error| error.to_string())?;
    Retention::make_space(&*files.disk, files.reserve(length));
    Ok(length)
}

/// Removes a snapshot that is not in the manifest, because nothing else would remove it on a full disk. After a
/// failed sync of the folder the new manifest may be in place.
fn remove_unused(disk: &dyn Disk, revision: Revision) {
    let is_unused = matches!(Manifest::read(disk), Ok(Some(found)) if found.snapshot != Some(revision));
    if is_unused {
        let _ = disk.remove(&snapshot_file::file_name(revision));
    }
}
