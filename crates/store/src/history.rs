//! The history of single keys: segments that compaction no longer needs are retained for a while, and the changes of
//! one key are read from them and from the segments in use. Reading happens on a separate thread, one reader at a
//! time.

use crate::clock::Clock;
use crate::disk::Disk;
use crate::error::{OpenError, ReadError, StoreFault};
use crate::frame::{FRAME_HEADER, decode_header};
use crate::manifest::Manifest;
use crate::options::Options;
use crate::segment::{self, Reader, SEGMENT_HEADER, SegmentHeader};
use crate::store::Revision;
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// How long, and up to which size, the log is retained on disk for requests of history. Zero in either retains
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HistoryRetention {
    /// Older changes may be removed.
    pub time: Duration,
    /// The maximum number of bytes that retained segments may take; the oldest go first.
    pub bytes: u64,
}

/// The requested versions of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryQuery {
    /// Only versions before this revision are returned.
    pub before: Option<Revision>,
    /// The maximum number of versions; the newest count.
    pub versions_max: usize,
    /// The size limit in bytes of all values. The newest versions are returned, and at least one whatever its size.
    pub bytes_max: usize,
}

/// A version of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyVersion {
    /// The revision of the change.
    pub revision: Revision,
    /// The commit time in milliseconds since 1970, if it is known.
    pub time_ms: Option<u64>,
    /// The value; `None` if the key was deleted.
    pub value: Option<Bytes>,
    /// Whether the key did not exist before; `None` where that is not known.
    pub is_new: Option<bool>,
}

/// The retained versions of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyHistory {
    /// The revision after which every change is retained.
    pub since: Revision,
    /// The versions, oldest first.
    pub versions: Vec<KeyVersion>,
    /// Whether older versions are retained, too.
    pub has_older: bool,
}

/// The prefix of the file names of segments that only the history needs.
const RETAINED_PREFIX: &str = "history-";

fn retained_name(number: u64) -> String {
    format!("{RETAINED_PREFIX}{number:020}")
}

fn parse_retained_name(name: &str) -> Option<u64> {
    let number = name.strip_prefix(RETAINED_PREFIX)?.parse().ok()?;
    (retained_name(number) == name).then_some(number)
}

/// Decides what happens to files that the manifest no longer needs.
#[derive(Clone)]
pub(crate) struct Retention {
    limits: Option<HistoryRetention>,
    clock: Arc<dyn Clock>,
}

impl Retention {
    pub(crate) fn new(options: &Options) -> Retention {
        Retention { limits: options.history, clock: options.clock.clone() }
    }

    fn is_on(&self) -> bool {
        self.limits.is_some_and(|limits| !limits.time.is_zero() && limits.bytes > 0)
    }

    /// Changes before this time may be removed.
    fn cutoff_ms(&self) -> u64 {
        let time = self.limits.map_or(Duration::MAX, |limits| limits.time);
        self.clock.now_ms().saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
    }

    /// Retains or removes the files that `manifest` does not need, then removes those beyond the limits.
    pub(crate) fn retire(&self, disk: &dyn Disk, manifest: &Manifest) -> io::Result<()> {
        for name in disk.list()?.iter().filter(|name| manifest.supersedes(name)) {
            match SegmentHeader::parse_name(name) {
                Some(number) if self.is_on() => disk.rename(name, &retained_name(number))?,
                _ => disk.remove(name)?,
            }
        }
        // Retained segments are not needed to open the store, so a failure here only costs disk space.
        if let Err(error) = self.trim_segments(disk) {
            tracing::warn!(%error, "retained segments could not be removed");
        }
        Ok(())
    }

    /// Removes the oldest retained segment to make space for writes. Returns whether there was one.
    pub(crate) fn give_up_oldest(disk: &dyn Disk) -> bool {
        let names = disk.list().unwrap_or_default();
        let Some(oldest) = names.iter().filter_map(|name| parse_retained_name(name)).min() else {
            return false;
        };
        match disk.remove(&retained_name(oldest)) {
            Ok(()) => tracing::warn!(segment = oldest, "the disk is nearly full: old history is removed"),
            Err(error) => {
                tracing::warn!(%error, "the disk is nearly full, and old history could not be removed");
                return false;
            }
        }
        true
    }

    /// Removes retained segments, the oldest first, until `wanted` bytes are free. Returns how many bytes are free; if
    /// that is unknown, there is no limit.
    pub(crate) fn make_space(disk: &dyn Disk, wanted: u64) -> u64 {
        loop {
            let free = disk.free_bytes().unwrap_or(u64::MAX);
            if free >= wanted || !Retention::give_up_oldest(disk) {
                return free;
            }
        }
    }

    fn trim_segments(&self, disk: &dyn Disk) -> io::Result<()> {
        let Some(limits) = self.limits else { return Ok(()) };
        let names = disk.list()?;
        let retained: BTreeMap<u64, &String> =
            names.iter().filter_map(|name| Some((parse_retained_name(name)?, name))).collect();
        let mut sizes = BTreeMap::new();
        for (number, name) in &retained {
            sizes.insert(*number, disk.open(name)?.len()?);
        }
        let mut total: u64 = sizes.values().sum();
        let cutoff_ms = self.cutoff_ms();
        for (number, name) in retained {
            // All of a segment is at least as old as the first frame of the next one.
            let is_old =
                first_time_ms(disk, number.saturating_add(1)).is_some_and(|time_ms| time_ms <= cutoff_ms);
            if self.is_on() && total <= limits.bytes && !is_old {
                break;
            }
            disk.remove(name)?;
            total = total.saturating_sub(sizes.get(&number).copied().unwrap_or(0));
        }
        Ok(())
    }
}

/// The time at which the first frame of a segment was written; `None` if there is no such frame.
fn first_time_ms(disk: &dyn Disk, number: u64) -> Option<u64> {
    let names = [retained_name(number), SegmentHeader::file_name(number)];
    let file = names.iter().find_map(|name| disk.open(name).ok())?;
    let mut bytes = [0; SEGMENT_HEADER + FRAME_HEADER];
    file.read_at(0, &mut bytes).ok()?;
    let header = SegmentHeader::decode(&bytes, number).ok()?;
    Some(decode_header(&bytes, header.salt, SEGMENT_HEADER)?.time_ms)
}

/// Reads the past of keys from the disk of an engine, which may let go of it at any time.
pub(crate) struct HistoryReader {
    disk: Weak<dyn Disk>,
    retention: Retention,
    turn: Arc<Semaphore>,
    closing: Arc<AtomicBool>,
}

impl HistoryReader {
    pub(crate) fn new(disk: &Arc<dyn Disk>, options: &Options) -> HistoryReader {
        let retention = Retention::new(options);
        let turn = Arc::new(Semaphore::new(1));
        HistoryReader { disk: Arc::downgrade(disk), retention, turn, closing: Arc::default() }
    }

    /// The size of all files in bytes; `None` if it cannot be determined.
    pub(crate) fn disk_bytes(&self) -> Option<u64> {
        let disk = self.disk.upgrade()?;
        // A file may be removed after it was listed.
        let length = |name: &String| disk.open(name).and_then(|file| file.len()).ok();
        Some(disk.list().ok()?.iter().filter_map(length).sum())
    }

    /// Ends the current reading and refuses further ones, so that the files can be released.
    pub(crate) async fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Ok(_turn) = self.turn.acquire().await {
            self.turn.close();
        }
    }

    /// The versions of `key` up to revision `until`, all of which must be on disk.
    pub(crate) async fn read(
        &self,
        key: &str,
        query: HistoryQuery,
        until: Revision,
    ) -> Result<KeyHistory, ReadError> {
        let turn = self.turn.clone().acquire_owned().await.map_err(|_| StoreFault::Closed)?;
        let disk = self.disk.upgrade().ok_or(StoreFault::Closed)?;
        let (reply, answer) = oneshot::channel();
        // This flag is set when the caller has gone.
        let abandoned = Abandoned(Arc::default());
        let mut scan = Scan {
            key: key.to_owned(),
            query,
            until,
            cutoff_ms: self.retention.cutoff_ms(),
            abandoned: abandoned.0.clone(),
            closing: self.closing.clone(),
            found: Found::default(),
        };
        let job = move || {
            let outcome = scan.run(&*disk);
            // The caller that receives the answer, or the next one, may rely on the disk being free.
            drop(disk);
            drop(turn);
            _ = reply.send(outcome);
        };
        let spawned = thread::Builder::new().name("store-history".into()).spawn(job);
        spawned.map_err(|_| StoreFault::Stopped)?;
        answer.await.map_err(|_| StoreFault::Stopped)?.map_err(|error| {
            tracing::warn!(%error, "cannot read the past of a key");
            ReadError::Unavailable(StoreFault::Stopped)
        })
    }
}

/// Stops the reading thread when it is dropped.
struct Abandoned(Arc<AtomicBool>);

impl Drop for Abandoned {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The parameters of one scan over the log.
struct Scan {
    key: String,
    query: HistoryQuery,
    until: Revision,
    /// Retained frames before this time are no longer returned.
    cutoff_ms: u64,
    abandoned: Arc<AtomicBool>,
    closing: Arc<AtomicBool>,
    found: Found,
}

/// The versions that a scan has found so far.
#[derive(Default)]
struct Found {
    versions: VecDeque<KeyVersion>,
    bytes: usize,
    has_older: bool,
    /// The revision before the first one that was read, and the next expected one.
    since: Option<Revision>,
    next: Option<Revision>,
    /// Whether the key exists at this point of the walk.
    exists: Option<bool>,
}

impl Scan {
    fn run(&mut self, disk: &dyn Disk) -> io::Result<KeyHistory> {
        let mut segments: BTreeMap<u64, String> = BTreeMap::new();
        for name in disk.list()? {
            let retained = parse_retained_name(&name);
            if let Some(number) = retained.or_else(|| SegmentHeader::parse_name(&name)) {
                segments.insert(number, name);
            }
        }
        let mut buffer = Vec::new();
        for (number, name) in segments {
            let done = self.found.next.is_some_and(|next| next > self.until);
            if done {
                break;
            }
            if self.abandoned.load(Ordering::Relaxed) || self.closing.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match self.read_segment(disk, number, &name, &mut buffer) {
                Ok(()) => {}
                // The segment was removed since it was listed, or is a damaged one that a recovery left behind: the
                // history begins after it.
                Err(error) => {
                    tracing::debug!(%error, "a segment is left out of the past");
                    self.found = Found::default();
                }
            }
        }
        let found = std::mem::take(&mut self.found);
        Ok(KeyHistory {
            since: found.since.unwrap_or(self.until),
            versions: found.versions.into(),
            has_older: found.has_older,
        })
    }

    fn read_segment(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        name: &str,
        buffer: &mut Vec<u8>,
    ) -> Result<(), OpenError> {
        let retained = name.starts_with(RETAINED_PREFIX);
        // Compaction may have renamed it since it was listed.
        let file = disk.open(name).or_else(|_| disk.open(&retained_name(number)));
        let file = file.map_err(OpenError::io("open", name))?;
        segment::read(&*file, name, buffer)?;
        let header = SegmentHeader::decode(buffer, number)?;
        if self.found.next != Some(header.base) {
            let is_first_of_all = header.base == Revision::EMPTY.next();
            self.found = Found {
                since: Some(Revision(header.base.0.saturating_sub(1))),
                exists: is_first_of_all.then_some(false),
                ..Found::default()
            };
        }
        // The end of the newest segment is being written, so frames beyond `until` are not read.
        let mut reader = Reader::new(buffer, header, true);
        while reader.next_revision() <= self.until {
            let Some(frame) = reader.next_frame()? else { break };
            for (offset, record) in frame.records.into_iter().enumerate() {
                if *record.key == *self.key {
                    let revision = Revision(frame.first.0.saturating_add(offset as u64));
                    let is_past = retained && frame.time_ms < self.cutoff_ms;
                    self.found.add(revision, frame.time_ms, record.value, is_past, &self.query);
                }
            }
        }
        self.found.next = Some(reader.next_revision());
        Ok(())
    }
}

impl Found {
    fn add(
        &mut self,
        revision: Revision,
        time_ms: u64,
        value: Option<Bytes>,
        is_past: bool,
        query: &HistoryQuery,
    ) {
        let is_new = if value.is_some() { self.exists.map(|exists| !exists) } else { Some(false) };
        self.exists = Some(value.is_some());
        if is_past {
            self.since = self.since.max(Some(revision));
            return;
        }
        if query.before.is_some_and(|before| revision >= before) {
            return;
        }
        self.bytes = self.bytes.saturating_add(value.as_ref().map_or(0, Bytes::len));
        self.versions.push_back(KeyVersion { revision, time_ms: Some(time_ms), value, is_new });
        while self.versions.len() > query.versions_max.max(1)
            || (self.bytes > query.bytes_max && self.versions.len() > 1)
        {
            let Some(dropped) = self.versions.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(dropped.value.as_ref().map_or(0, Bytes::len));
            self.has_older = true;
        }
    }
}
