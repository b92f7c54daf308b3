//! The log being written: appending frames, one sync each, and moving on to the next segment.

use crate::disk::{Disk, DiskFile, TEMPORARY, write_zeros};
use crate::error::StoreFault;
use crate::frame::{self, FRAME_ALIGN, FRAME_HEADER, Record};
use crate::options::{FRAME_BYTES_MAX, Options};
use crate::segment::{SEGMENT_HEADER, SegmentHeader};
use crate::store::Revision;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

type Spare = JoinHandle<io::Result<Box<dyn DiskFile>>>;

/// The log's writing end.
pub(crate) struct Log {
    disk: Arc<dyn Disk>,
    file: Box<dyn DiskFile>,
    name: String,
    header: SegmentHeader,
    offset: u64,
    capacity: u64,
    /// Number and first revision of every segment, the one being written last.
    segments: Vec<(u64, Revision)>,
    spare: Option<Spare>,
    buffer: Vec<u8>,
    segment_bytes_max: u64,
    inline: bool,
}

impl Log {
    /// A log that goes on at `offset` of the last of `segments`.
    pub(crate) fn resume(
        disk: Arc<dyn Disk>,
        options: &Options,
        file: Box<dyn DiskFile>,
        segments: Vec<SegmentHeader>,
        offset: u64,
    ) -> io::Result<Option<Log>> {
        let Some(&header) = segments.last() else { return Ok(None) };
        Ok(Some(Log {
            disk,
            capacity: file.len()?,
            file,
            name: SegmentHeader::file_name(header.number),
            header,
            offset,
            segments: segments.iter().map(|segment| (segment.number, segment.base)).collect(),
            spare: None,
            buffer: Vec::new(),
            segment_bytes_max: options.segment_bytes_max,
            inline: options.inline,
        }))
    }

    /// Writes one frame and makes it durable; answers with its length. After an error the log must
    /// not be used again: what the failed write or sync left behind is unknown.
    pub(crate) fn append(
        &mut self,
        first: Revision,
        time_ms: u64,
        records: &[Record],
    ) -> Result<u64, StoreFault> {
        let payload: usize = records.iter().map(Record::encoded_len).sum();
        let length = (FRAME_HEADER + payload).next_multiple_of(FRAME_ALIGN) as u64;
        debug_assert!(payload <= FRAME_BYTES_MAX);
        if self.offset + length > self.capacity {
            self.rotate(first, length)?;
        }
        self.buffer.clear();
        frame::encode(&mut self.buffer, self.header.salt, self.offset, first, time_ms, records);
        debug_assert_eq!(self.buffer.len() as u64, length);
        self.file.write_at(self.offset, &self.buffer).map_err(StoreFault::write(&self.name))?;
        self.file.sync().map_err(StoreFault::sync(&self.name))?;
        self.offset += length;
        self.prepare_spare();
        Ok(length)
    }

    /// The oldest segment needed to know every change after `revision`.
    pub(crate) fn first_segment_after(&self, revision: Revision) -> u64 {
        let needed = self.segments.iter().rfind(|(_, base)| *base <= revision.next());
        needed.map_or(self.header.number, |(number, _)| *number)
    }

    /// Forgets the segments before `first`, whose files are gone.
    pub(crate) fn forget_before(&mut self, first: u64) {
        self.segments.retain(|(number, _)| *number >= first);
    }

    /// Goes on in a new segment. Everything in the old one is durable already.
    fn rotate(&mut self, base: Revision, room: u64) -> Result<(), StoreFault> {
        let number = self.header.number + 1;
        let salt = next_salt(self.header.salt, number);
        let header = SegmentHeader { number, base, salt };
        let spare = self.spare.take().and_then(|spare| spare.join().ok());
        let capacity = self.next_capacity().max(SEGMENT_HEADER as u64 + room);
        self.name = SegmentHeader::file_name(number);
        self.file = match spare {
            Some(Ok(file)) if file.len().is_ok_and(|length| length >= capacity) => {
                put_in_place(&*self.disk, file, &spare_name(), &header)?
            }
            _ => create_segment(&*self.disk, &header, capacity)?,
        };
        self.capacity = self.file.len().map_err(StoreFault::write(&self.name))?;
        self.offset = SEGMENT_HEADER as u64;
        self.header = header;
        self.segments.push((number, base));
        Ok(())
    }

    fn next_capacity(&self) -> u64 {
        self.capacity.saturating_mul(2).min(self.segment_bytes_max)
    }

    /// Zeroing a segment takes a while, so the next one is got ready when this one is half full.
    fn prepare_spare(&mut self) {
        if self.inline || self.spare.is_some() || self.offset < self.capacity / 2 {
            return;
        }
        let (disk, capacity) = (self.disk.clone(), self.next_capacity());
        let prepare = move || {
            let file = zeroed(&*disk, &spare_name(), capacity)?;
            // The zeros go out now, so that putting the segment in place has only the header to sync.
            file.sync()?;
            Ok(file)
        };
        // If there can be no thread now, the segment is made when it is needed.
        self.spare = thread::Builder::new().name("store-spare".into()).spawn(prepare).ok();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // The thread uses the folder, which must be let go before the lock on it is.
        if let Some(spare) = self.spare.take() {
            let _ = spare.join();
            let _ = self.disk.remove(&spare_name());
        }
    }
}

/// Makes a segment that is wholly written, and durable, before it bears its name.
pub(crate) fn create_segment(
    disk: &dyn Disk,
    header: &SegmentHeader,
    capacity: u64,
) -> Result<Box<dyn DiskFile>, StoreFault> {
    let temporary = format!("{}{TEMPORARY}", SegmentHeader::file_name(header.number));
    let file = zeroed(disk, &temporary, capacity).map_err(StoreFault::write(&temporary))?;
    put_in_place(disk, file, &temporary, header)
}

fn put_in_place(
    disk: &dyn Disk,
    file: Box<dyn DiskFile>,
    temporary: &str,
    header: &SegmentHeader,
) -> Result<Box<dyn DiskFile>, StoreFault> {
    let name = SegmentHeader::file_name(header.number);
    file.write_at(0, &header.encode()).map_err(StoreFault::write(&name))?;
    file.sync().map_err(StoreFault::sync(&name))?;
    disk.rename(temporary, &name).map_err(StoreFault::write(&name))?;
    disk.sync_dir().map_err(StoreFault::sync(&name))?;
    Ok(file)
}

/// Real zeros rather than reserved space: overwriting them changes no metadata, so a sync is one write.
fn zeroed(disk: &dyn Disk, name: &str, capacity: u64) -> io::Result<Box<dyn DiskFile>> {
    let file = disk.create(name)?;
    write_zeros(&*file, 0, capacity)?;
    Ok(file)
}

fn spare_name() -> String {
    format!("spare{TEMPORARY}")
}

/// A salt for the next segment, so that a copy of one segment cannot pass for another.
fn next_salt(salt: u64, number: u64) -> u64 {
    // The finaliser of splitmix64: every bit of the input moves every bit of the output.
    let mut z = salt.wrapping_add(number).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
