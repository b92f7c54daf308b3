//! The log's writer: appends frames with one sync each, and rotates segments.

use crate::disk::{Disk, DiskFile, TEMPORARY, write_zeros};
use crate::error::StoreFault;
use crate::frame::{self, FRAME_ALIGN, FRAME_HEADER, Record};
use crate::manifest::ManifestFile;
use crate::options::{FRAME_BYTES_MAX, Options};
use crate::pace::{Pace, PacedFile};
use crate::segment::{SEGMENT_HEADER, SegmentHeader};
use crate::store::Revision;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// The file of the next segment. It is opened as soon as the previous one is in use, so that the log can continue when
/// the process has no descriptors left.
enum Spare {
    /// The file could not be opened.
    Missing,
    /// The file is open and empty.
    Opened(Box<dyn DiskFile>),
    /// A thread fills it with zeros.
    Filling(JoinHandle<io::Result<Box<dyn DiskFile>>>, Pace),
}

/// The log's writing end.
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    manifest: Arc<ManifestFile>,
    file: Box<dyn DiskFile>,
    name: String,
    header: SegmentHeader,
    offset: u64,
    capacity: u64,
    /// Number and first revision of every segment; the last one is being written.
    segments: Vec<(u64, Revision)>,
    spare: Spare,
    buffer: Vec<u8>,
    /// The end of a frame that could not be written completely at `offset`.
    unknown_until: Option<u64>,
    /// The size of a segment that could not be created.
    room_wanted: Option<u64>,
    segment_bytes_min: u64,
    segment_bytes_max: u64,
    inline: bool,
}

impl Log {
    /// A log that continues at `offset` of the last segment.
    pub(crate) fn resume(
        disk: Arc<dyn Disk>,
        manifest: Arc<ManifestFile>,
        options: &Options,
        file: Box<dyn DiskFile>,
        segments: Vec<SegmentHeader>,
        offset: u64,
    ) -> io::Result<Option<Log>> {
        let Some(&header) = segments.last() else { return Ok(None) };
        let mut log = Log {
            disk,
            manifest,
            capacity: file.len()?,
            file,
            name: SegmentHeader::file_name(header.number),
            header,
            offset,
            segments: segments.iter().map(|segment| (segment.number, segment.base)).collect(),
            spare: Spare::Missing,
            buffer: Vec::new(),
            unknown_until: None,
            room_wanted: None,
            segment_bytes_min: options.segment_bytes_min,
            segment_bytes_max: options.segment_bytes_max,
            inline: options.inline,
        };
        log.prepare_spare();
        Ok(Some(log))
    }

    /// Writes one frame and syncs it; returns its length. After a transient error, the frame is not part of the log
    /// once [`Log::heal`] has succeeded; until then a restart may find it. After any other error the log must not be
    /// used again, because the result of the failed sync is unknown.
    pub(crate) fn append(
        &mut self,
        first: Revision,
        time_ms: u64,
        records: &[Record],
    ) -> Result<u64, StoreFault> {
        debug_assert!(self.unknown_until.is_none());
        let payload: usize = records.iter().map(Record::encoded_len).sum();
        let length = FRAME_HEADER.saturating_add(payload).next_multiple_of(FRAME_ALIGN) as u64;
        debug_assert!(payload <= FRAME_BYTES_MAX);
        if self.offset.saturating_add(length) > self.capacity {
            self.rotate(first, length)?;
        }
        let end = self.offset.saturating_add(length);
        self.buffer.clear();
        frame::encode(&mut self.buffer, self.header.salt, self.offset, first, time_ms, records);
        debug_assert_eq!(self.buffer.len() as u64, length);
        if let Err(fault) = self.write_frame() {
            self.unknown_until = Some(end);
            return Err(fault);
        }
        self.offset = end;
        self.prepare_spare();
        Ok(length)
    }

    fn write_frame(&self) -> Result<(), StoreFault> {
        self.file.write_at(self.offset, &self.buffer).map_err(StoreFault::write(&self.name))?;
        self.file.sync().map_err(StoreFault::sync(&self.name))
    }

    /// Makes the log usable again after a transient error: overwrites the failed frame, and creates the segment that
    /// could not be created. `next` is the revision of the next frame.
    pub(crate) fn heal(&mut self, next: Revision) -> Result<(), StoreFault> {
        if let Some(end) = self.unknown_until {
            write_zeros(&*self.file, self.offset, end).map_err(StoreFault::write(&self.name))?;
            self.file.sync().map_err(StoreFault::sync(&self.name))?;
            self.unknown_until = None;
        }
        match self.room_wanted {
            Some(room) => self.rotate(next, room),
            None => Ok(()),
        }
    }

    /// The oldest segment that has changes after `revision`.
    pub(crate) fn first_segment_after(&self, revision: Revision) -> u64 {
        let needed = self.segments.iter().rfind(|(_, base)| *base <= revision.next());
        needed.map_or(self.header.number, |(number, _)| *number)
    }

    /// Drops the segments before `first`, whose files have been removed.
    pub(crate) fn forget_before(&mut self, first: u64) {
        self.segments.retain(|(number, _)| *number >= first);
    }

    /// Continues in a new segment. Everything in the old one is durable already. After an error the log is unchanged.
    fn rotate(&mut self, base: Revision, room: u64) -> Result<(), StoreFault> {
        self.room_wanted = Some(room);
        let number = self.header.number.saturating_add(1);
        let salt = next_salt(self.header.salt, number);
        let needed = (SEGMENT_HEADER as u64).saturating_add(room);
        let wanted = self.next_capacity().max(needed);
        let file = match self.next_file(wanted) {
            // A smaller segment is better than none.
            Err(error) if is_full(&error) => self.next_file(self.segment_bytes_min.max(needed)),
            other => other,
        };
        let name = SegmentHeader::file_name(number);
        let file = file.map_err(StoreFault::write(&name))?;
        let capacity = file.len().map_err(StoreFault::write(&name))?;
        let header = SegmentHeader { number, base, salt, capacity };
        put_in_place(&*self.disk, &*file, SPARE_FILE, &header)?;
        // Record it before the first frame, so that a missing segment with frames is always noticed.
        self.manifest.update(|manifest| manifest.newest_segment = number)?;
        self.room_wanted = None;
        self.name = name;
        self.file = file;
        self.capacity = capacity;
        self.offset = SEGMENT_HEADER as u64;
        self.header = header;
        self.segments.push((number, base));
        self.prepare_spare();
        Ok(())
    }

    /// The spare file, filled up to `capacity`. After an error there is no spare and its space is free again.
    fn next_file(&mut self, capacity: u64) -> io::Result<Box<dyn DiskFile>> {
        let ready = match std::mem::replace(&mut self.spare, Spare::Missing) {
            Spare::Filling(thread, pace) => {
                pace.skip_pauses();
                thread.join().ok().and_then(Result::ok)
            }
            Spare::Opened(file) => Some(file),
            Spare::Missing => None,
        };
        let filled = match ready {
            Some(file) => Ok(file),
            None => self.disk.create(SPARE_FILE),
        };
        let filled = filled.and_then(|file| fill(file, capacity, &Pace::Unpaced));
        if filled.is_err() {
            let _ = self.disk.remove(SPARE_FILE);
        }
        filled
    }

    fn next_capacity(&self) -> u64 {
        let free = self.disk.free_bytes().unwrap_or(u64::MAX);
        let largest = self.segment_bytes_max.min(free / SEGMENTS_PER_FREE_SPACE);
        self.capacity.saturating_mul(2).min(largest).max(self.segment_bytes_min)
    }

    /// Opens the next segment's file, and has it filled long before it is needed: that takes a while.
    fn prepare_spare(&mut self) {
        if matches!(self.spare, Spare::Missing) {
            // Without descriptors this is retried with the next frame.
            let Ok(file) = self.disk.create(SPARE_FILE) else { return };
            self.spare = Spare::Opened(file);
        }
        if self.inline || self.offset < self.capacity / FILL_AFTER {
            return;
        }
        let file = match std::mem::replace(&mut self.spare, Spare::Missing) {
            Spare::Opened(file) => file,
            // A thread is already filling this file. A second one would overwrite the segment that the file becomes.
            filling => {
                self.spare = filling;
                return;
            }
        };
        let capacity = self.next_capacity();
        let disk = self.disk.clone();
        let pace = Pace::new(self.inline);
        let its_pace = pace.clone();
        let prepare = move || {
            let filled = fill(file, capacity, &its_pace).and_then(|file| file.sync().map(|()| file));
            if filled.is_err() {
                let _ = disk.remove(SPARE_FILE);
            }
            filled
        };
        // If no thread can be spawned, the segment is filled when it is needed.
        if let Ok(thread) = thread::Builder::new().name("store-spare".into()).spawn(prepare) {
            self.spare = Spare::Filling(thread, pace);
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The thread uses the folder, so it must end before the folder's lock is released.
        if let Spare::Filling(thread, pace) = std::mem::replace(&mut self.spare, Spare::Missing) {
            pace.skip_pauses();
            let _ = thread.join();
        }
        let _ = self.disk.remove(SPARE_FILE);
    }
}

/// Creates a segment that is completely written and durable before it gets its final name.
pub(crate) fn create_segment(disk: &dyn Disk, header: &SegmentHeader) -> Result<(), StoreFault> {
    let temporary = format!("{}{TEMPORARY}", SegmentHeader::file_name(header.number));
    let file = disk.create(&temporary).and_then(|file| fill(file, header.capacity, &Pace::Unpaced));
    put_in_place(disk, &*file.map_err(StoreFault::write(&temporary))?, &temporary, header)
}

fn put_in_place(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    temporary: &str,
    header: &SegmentHeader,
) -> Result<(), StoreFault> {
    let name = SegmentHeader::file_name(header.number);
    let write = || {
        file.write_at(0, &header.encode())?;
        // A file that could not be synced is not used, so the state of the disk stays known after an error here.
        file.sync()?;
        disk.rename(temporary, &name)
    };
    write().map_err(StoreFault::write(&name))?;
    disk.sync_dir().map_err(StoreFault::sync(&name))
}

/// Real zeros rather than reserved space: overwriting them changes no metadata, so a sync is one write.
fn fill(file: Box<dyn DiskFile>, capacity: u64, pace: &Pace) -> io::Result<Box<dyn DiskFile>> {
    PacedFile::new(&*file, pace).write_zeros(file.len()?, capacity)?;
    Ok(file)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The next segment is filled with zeros once an eighth of the current one is used.
const FILL_AFTER: u64 = 8;
/// A segment takes at most this part of the free space: segments are removed as a whole, and never the newest one.
const SEGMENTS_PER_FREE_SPACE: u64 = 8;
/// The name of the next segment's file until it is put in place.
const SPARE_FILE: &str = "spare.tmp";

/// A salt for the next segment, so that a copy of one segment is not valid in place of another.
fn next_salt(salt: u64, number: u64) -> u64 {
    // The finalizer of splitmix64: every input bit affects every output bit.
    let mut z = salt.wrapping_add(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
