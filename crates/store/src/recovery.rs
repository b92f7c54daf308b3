//! Opens a store: reads the state and the history from its files and prepares the log for further writes.
//!
//! Nothing on disk is changed before everything has been read and validated.

use crate::disk::{Disk, TEMPORARY, write_zeros};
use crate::error::{OpenError, StoreFault};
use crate::history::Retention;
use crate::log::{Log, create_segment};
use crate::manifest::{MANIFEST_FILE, Manifest, ManifestFile};
use crate::options::Options;
use crate::segment::{self, Reader, SEGMENT_HEADER, SegmentHeader, all_zero};
use crate::snapshot_file;
use crate::state::Snapshot;
use crate::store::{Change, Revision};
use std::ops::Range;
use std::sync::Arc;

/// What recovery read from a store's folder.
pub(crate) struct Recovered {
    /// The state after the last whole frame.
    pub(crate) state: Snapshot,
    /// The revision of the snapshot everything was built from.
    pub(crate) compacted: Revision,
    /// The changes after it.
    pub(crate) history: Vec<Change>,
    /// The bytes those changes take in the log.
    pub(crate) history_bytes: u64,
    /// The length of the snapshot's file.
    pub(crate) snapshot_bytes: u64,
    /// The timestamp of the last frame.
    pub(crate) last_time_ms: u64,
    /// The log, ready for the next frame.
    pub(crate) log: Log,
    /// The manifest, shared by the log and the compaction job.
    pub(crate) manifest: Arc<ManifestFile>,
}

/// Reads the store on `disk`, or makes a new one if there is none.
pub(crate) fn open(disk: Arc<dyn Disk>, options: &Options) -> Result<Recovered, OpenError> {
    // A process that was killed may have left names that no sync has made durable yet.
    disk.sync_dir().map_err(OpenError::io("sync", "data folder"))?;
    let names = disk.list().map_err(OpenError::io("list", "data folder"))?;
    let manifest = match Manifest::read(&*disk)? {
        Some(manifest) => manifest,
        None => create(&*disk, &names, options)?,
    };
    let replay = Replay::run(&*disk, &manifest)?;
    repair_tail(&*disk, &replay)?;
    remove_leftover_files(&*disk, &manifest, options)?;
    replay.finish(disk, manifest, options)
}

/// Makes the first segment of a store, for changes from `base` on.
pub(crate) fn create_first_segment(
    disk: &dyn Disk,
    options: &Options,
    number: u64,
    base: Revision,
) -> Result<(), OpenError> {
    let capacity = options.segment_bytes_min.max(SEGMENT_HEADER as u64);
    let header = SegmentHeader { number, base, salt: options.salt, capacity };
    create_segment(disk, &header).map_err(failed_to("create", &format!("segment {number}")))
}

/// For `map_err`: an operation on `file` failed.
pub(crate) fn failed_to(action: &'static str, file: &str) -> impl FnOnce(StoreFault) -> OpenError {
    let file = file.to_owned();
    move |fault| OpenError::Io { action, file, source: std::io::Error::other(fault) }
}

/// The manifest comes last, so a folder without one holds at most an unused first segment.
fn create(disk: &dyn Disk, names: &[String], options: &Options) -> Result<Manifest, OpenError> {
    for name in names.iter().filter(|name| !name.ends_with(TEMPORARY)) {
        let ours = SegmentHeader::parse_name(name).is_some() || snapshot_file::parse_name(name).is_some();
        if ours && !is_unused_segment(disk, name)? {
            return Err(OpenError::corrupt(MANIFEST_FILE, 0, format!("it is missing, but {name} is there")));
        }
    }
    create_first_segment(disk, options, 1, Revision::EMPTY.next())?;
    let manifest = Manifest { snapshot: None, first_segment: 1, newest_segment: 1 };
    manifest.write(disk).map_err(failed_to("write", MANIFEST_FILE))?;
    Ok(manifest)
}

fn is_unused_segment(disk: &dyn Disk, name: &str) -> Result<bool, OpenError> {
    if SegmentHeader::parse_name(name) != Some(1) {
        return Ok(false);
    }
    let file = disk.open(name).map_err(OpenError::io("open", name))?;
    let mut bytes = Vec::new();
    segment::read(&*file, name, &mut bytes)?;
    Ok(bytes.get(SEGMENT_HEADER..).is_none_or(all_zero))
}

/// The result of replaying the segments on top of the snapshot.
pub(crate) struct Replay {
    pub(crate) state: Snapshot,
    compacted: Revision,
    history: Vec<Change>,
    history_bytes: u64,
    snapshot_bytes: u64,
    last_time_ms: u64,
    segments: Vec<SegmentHeader>,
    /// The revision after the last one read so far.
    log_next: Option<Revision>,
    tail: Tail,
    /// Whether to read a truncated segment as far as possible. The changes in the missing part are lost, so this
    /// needs an explicit request.
    pub(crate) accept_short: bool,
}

/// The end of the newest segment.
#[derive(Default)]
struct Tail {
    /// The offset of the next frame.
    offset: u64,
    /// The last frame, which must be written once more.
    last_frame: Option<(u64, Vec<u8>)>,
    /// The range of a torn frame.
    torn: Option<Range<u64>>,
}

impl Replay {
    /// The state after all segments of the manifest, which must be intact.
    pub(crate) fn run(disk: &dyn Disk, manifest: &Manifest) -> Result<Replay, OpenError> {
        let mut replay = Replay::start(disk, manifest)?;
        let numbers = segment_numbers(disk, manifest)?;
        let mut buffer = Vec::new();
        for (index, number) in numbers.iter().enumerate() {
            replay.read_segment(disk, *number, index.saturating_add(1) == numbers.len(), &mut buffer)?;
        }
        Ok(replay)
    }

    /// The state of the manifest's snapshot.
    pub(crate) fn start(disk: &dyn Disk, manifest: &Manifest) -> Result<Replay, OpenError> {
        let (state, snapshot_bytes) = match manifest.snapshot {
            Some(revision) => snapshot_file::read(disk, revision)?,
            None => (Snapshot::empty(), 0),
        };
        Ok(Replay {
            compacted: state.revision(),
            state,
            history: Vec::new(),
            history_bytes: 0,
            snapshot_bytes,
            last_time_ms: 0,
            segments: Vec::new(),
            log_next: None,
            tail: Tail::default(),
            accept_short: false,
        })
    }

    /// Continues with a segment. After an error the state is that before the damage.
    pub(crate) fn read_segment(
        &mut self,
        disk: &dyn Disk,
        number: u64,
        newest: bool,
        bytes: &mut Vec<u8>,
    ) -> Result<(), OpenError> {
        let name = SegmentHeader::file_name(number);
        let file = disk.open(&name).map_err(OpenError::io("open", &name))?;
        segment::read(&*file, &name, bytes)?;
        let header = SegmentHeader::decode(bytes, number)?;
        if !self.accept_short {
            header.check_length(bytes.len() as u64)?;
        }
        self.check_base(&header)?;
        let mut reader = Reader::new(bytes, header, newest);
        let mut last_frame = None;
        while let Some(frame) = reader.next_frame()? {
            last_frame = Some(frame.offset..frame.end);
            self.apply(&name, frame)?;
        }
        let offset = reader.offset() as u64;
        if reader.next_revision() <= self.compacted && newest {
            let reason = format!("log ends before the snapshot at revision {}", self.compacted);
            return Err(OpenError::corrupt(&name, offset, reason));
        }
        self.tail = Tail {
            offset,
            last_frame: last_frame.and_then(|range| Some((range.start as u64, bytes.get(range)?.to_vec()))),
            torn: reader.torn().then(|| offset..nonzero_end(bytes) as u64),
        };
        self.log_next = Some(reader.next_revision());
        self.segments.push(header);
        Ok(())
    }

    /// A segment starts where the previous one ended; the first may start before the snapshot.
    fn check_base(&self, header: &SegmentHeader) -> Result<(), OpenError> {
        let next = self.log_next.unwrap_or(self.state.revision().next());
        if header.base == next || (self.log_next.is_none() && header.base < next) {
            return Ok(());
        }
        let reason = format!("next segment starts at revision {} instead of {next}", header.base);
        let (file, offset) = match self.segments.last() {
            Some(before) => (SegmentHeader::file_name(before.number), self.tail.offset),
            None => (SegmentHeader::file_name(header.number), 0),
        };
        Err(OpenError::corrupt(&file, offset, reason))
    }

    fn apply(&mut self, name: &str, frame: segment::Frame) -> Result<(), OpenError> {
        self.last_time_ms = self.last_time_ms.max(frame.time_ms);
        let last = Revision(frame.first.0.saturating_add(frame.records.len() as u64).saturating_sub(1));
        if last <= self.compacted {
            return Ok(());
        }
        if frame.first != self.state.revision().next() {
            let reason =
                format!("frame at revision {} does not follow {}", frame.first, self.state.revision());
            return Err(OpenError::corrupt(name, frame.offset as u64, reason));
        }
        self.history_bytes = self.history_bytes.saturating_add(frame.end.saturating_sub(frame.offset) as u64);
        for record in frame.records {
            let revision = self.state.revision().next();
            self.history.push(self.state.apply(revision, record.key, record.value));
        }
        Ok(())
    }

    fn finish(
        self,
        disk: Arc<dyn Disk>,
        manifest: Manifest,
        options: &Options,
    ) -> Result<Recovered, OpenError> {
        let newest = self.segments.last().map_or(0, |segment| segment.number);
        let manifest = Arc::new(ManifestFile::new(disk.clone(), manifest));
        // A crash may have happened between creating a segment and recording it here.
        manifest
            .update(|manifest| manifest.newest_segment = newest)
            .map_err(failed_to("write", MANIFEST_FILE))?;
        let name = SegmentHeader::file_name(newest);
        let file = disk.open(&name).map_err(OpenError::io("open", &name))?;
        let log = Log::resume(disk, manifest.clone(), options, file, self.segments, self.tail.offset);
        let log = log.map_err(OpenError::io("measure", &name))?;
        Ok(Recovered {
            state: self.state,
            compacted: self.compacted,
            history: self.history,
            history_bytes: self.history_bytes,
            snapshot_bytes: self.snapshot_bytes,
            last_time_ms: self.last_time_ms,
            log: log.ok_or_else(|| OpenError::corrupt(MANIFEST_FILE, 0, "there are no segments"))?,
            manifest,
        })
    }
}

/// The segments from the manifest's first to its newest, and later ones. It is an error if one is missing.
fn segment_numbers(disk: &dyn Disk, manifest: &Manifest) -> Result<Vec<u64>, OpenError> {
    let names = disk.list().map_err(OpenError::io("list", "data folder"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| SegmentHeader::parse_name(name)).collect();
    numbers.retain(|number| *number >= manifest.first_segment);
    numbers.sort_unstable();
    let last = numbers.last().copied().unwrap_or(0).max(manifest.newest_segment);
    match (manifest.first_segment..=last).find(|number| numbers.binary_search(number).is_err()) {
        Some(missing) => Err(OpenError::corrupt(&SegmentHeader::file_name(missing), 0, "segment is missing")),
        None => Ok(numbers),
    }
}

fn nonzero_end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at.saturating_add(1))
}

/// Overwrites a torn frame, and writes the last frame again: after a failed sync the page cache shows pages that were
/// never written and marks them clean, so only writing them again makes them durable.
fn repair_tail(disk: &dyn Disk, replay: &Replay) -> Result<(), OpenError> {
    let Some(newest) = replay.segments.last() else { return Ok(()) };
    let name = SegmentHeader::file_name(newest.number);
    let file = disk.open(&name).map_err(OpenError::io("open", &name))?;
    if let Some(torn) = &replay.tail.torn {
        tracing::warn!(
            segment = name,
            offset = torn.start,
            "dropping an unfinished write at the end of the log"
        );
        write_zeros(&*file, torn.start, torn.end).map_err(OpenError::io("write", &name))?;
    }
    if let Some((offset, bytes)) = &replay.tail.last_frame {
        file.write_at(*offset, bytes).map_err(OpenError::io("write", &name))?;
    }
    file.sync().map_err(OpenError::io("sync", &name))
}

/// Removes files that earlier runs left unfinished or that are no longer needed.
fn remove_leftover_files(disk: &dyn Disk, manifest: &Manifest, options: &Options) -> Result<(), OpenError> {
    for name in disk.list().map_err(OpenError::io("list", "data folder"))? {
        if is_unfinished(&name) {
            disk.remove(&name).map_err(OpenError::io("remove", &name))?;
        }
    }
    Retention::new(options).retire(disk, manifest).map_err(OpenError::io("tidy", "data folder"))
}

/// Only files with our own names are removed.
fn is_unfinished(name: &str) -> bool {
    let ours = ["segment-", "snapshot-", "spare", MANIFEST_FILE];
    name.ends_with(TEMPORARY) && ours.iter().any(|prefix| name.starts_with(prefix))
}
