//! One file of the log: its header, and reading it with the rules for torn and damaged ends.

use crate::disk::DiskFile;
use crate::error::OpenError;
use crate::frame::{
    self, FRAME_ALIGN, FRAME_HEADER, FrameHeader, Record, decode_header, decode_records, le_u32, le_u64,
};
use crate::options::FRAME_BYTES_MAX;
use crate::store::Revision;

/// The header has its own sector, so that no write of a frame can damage it.
pub(crate) const SEGMENT_HEADER: usize = 512;

const MAGIC: [u8; 8] = *b"PINTLSEG";
const VERSION: u32 = 1;
const CRC_AT: usize = SEGMENT_HEADER - 4;

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    /// Segments are numbered without gaps.
    pub(crate) number: u64,
    /// The revision of the first change the segment holds or will hold.
    pub(crate) base: Revision,
    /// A random number that is part of the checksum of every frame.
    pub(crate) salt: u64,
    /// The length with which the file was created; 0 in stores of older builds, which did not record it.
    pub(crate) capacity: u64,
}

impl SegmentHeader {
    /// The file name of segment `number`; names sort like numbers.
    pub(crate) fn file_name(number: u64) -> String {
        format!("segment-{number:020}")
    }

    /// The number in a segment's file name.
    pub(crate) fn parse_name(name: &str) -> Option<u64> {
        let digits = name.strip_prefix("segment-")?;
        let number = digits.parse().ok()?;
        (SegmentHeader::file_name(number) == name).then_some(number)
    }

    /// The header as it is on disk.
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0; SEGMENT_HEADER];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.base.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.salt.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.capacity.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the header of segment `number`.
    pub(crate) fn decode(bytes: &[u8], number: u64) -> Result<SegmentHeader, OpenError> {
        let name = SegmentHeader::file_name(number);
        let corrupt = |reason| OpenError::corrupt(&name, 0, reason);
        let header: &[u8; SEGMENT_HEADER] =
            bytes.first_chunk().ok_or_else(|| corrupt("segment header is cut short"))?;
        if header[0..8] != MAGIC || le_u32(header, CRC_AT) != crc32c::crc32c(&header[..CRC_AT]) {
            return Err(corrupt("segment header is damaged"));
        }
        let found = le_u32(header, 8);
        if found != VERSION {
            return Err(OpenError::Version { file: name, found, known: VERSION });
        }
        if le_u64(header, 16) != number {
            return Err(corrupt("segment header belongs to another segment"));
        }
        let (base, salt, capacity) = (Revision(le_u64(header, 24)), le_u64(header, 32), le_u64(header, 40));
        Ok(SegmentHeader { number, base, salt, capacity })
    }

    /// A segment is filled to its full length before it gets its name, so no crash can shorten it.
    pub(crate) fn check_length(&self, length: u64) -> Result<(), OpenError> {
        if length >= self.capacity {
            return Ok(());
        }
        let reason = format!("segment is cut short: it was made with {} bytes", self.capacity);
        Err(OpenError::corrupt(&SegmentHeader::file_name(self.number), length, reason))
    }
}

/// Reads a whole segment into `buffer`, whose memory is used again for the next one.
pub(crate) fn read(file: &dyn DiskFile, name: &str, buffer: &mut Vec<u8>) -> Result<(), OpenError> {
    let length = file.len().map_err(OpenError::io("measure", name))?;
    buffer.resize(usize::try_from(length).unwrap_or(usize::MAX), 0);
    file.read_at(0, buffer).map_err(OpenError::io("read", name))
}

/// One frame as found in a segment.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The offset at which the frame begins.
    pub(crate) offset: usize,
    /// The offset at which the frame ends.
    pub(crate) end: usize,
    /// The revision of the first record.
    pub(crate) first: Revision,
    /// The commit time.
    pub(crate) time_ms: u64,
    /// The changes.
    pub(crate) records: Vec<Record>,
}

/// Walks the frames of a segment's bytes.
pub(crate) struct Reader<'a> {
    name: String,
    bytes: &'a [u8],
    header: SegmentHeader,
    newest: bool,
    offset: usize,
    next: Revision,
}

impl<'a> Reader<'a> {
    /// A reader of the whole segment; only the `newest` one may end in a torn frame.
    pub(crate) fn new(bytes: &'a [u8], header: SegmentHeader, newest: bool) -> Reader<'a> {
        let name = SegmentHeader::file_name(header.number);
        Reader { name, bytes, header, newest, offset: SEGMENT_HEADER, next: header.base }
    }

    /// The offset at which the next frame is or will be written.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The revision after the last one read.
    pub(crate) fn next_revision(&self) -> Revision {
        self.next
    }

    /// Whether there are leftovers of a torn frame after the end.
    pub(crate) fn torn(&self) -> bool {
        !all_zero(self.bytes.get(self.offset..).unwrap_or_default())
    }

    /// The next frame; `None` at the end. Reports corruption wherever an acknowledged frame may have been.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Frame>, OpenError> {
        let header = decode_header(self.bytes, self.header.salt, self.offset);
        let payload = header.and_then(|h| frame::payload(self.bytes, self.header.salt, self.offset, &h));
        let (Some(header), Some(payload)) = (header, payload) else {
            return self.check_end(header).map(|()| None);
        };
        let records = self.check_frame(&header, payload)?;
        let offset = self.offset;
        self.offset = offset.saturating_add(FRAME_HEADER).saturating_add(header.payload);
        self.next = Revision(header.first.0.saturating_add(u64::from(header.count)));
        Ok(Some(Frame { offset, end: self.offset, first: header.first, time_ms: header.time_ms, records }))
    }

    fn check_frame(&self, header: &FrameHeader, payload: &[u8]) -> Result<Vec<Record>, OpenError> {
        if header.first != self.next {
            let reason = format!("frame starts at revision {} instead of {}", header.first, self.next);
            return Err(self.corrupt(reason));
        }
        let records = decode_records(payload, header.count)
            .ok_or_else(|| self.corrupt("frame has a sound checksum but unreadable records"))?;
        if records.is_empty() { Err(self.corrupt("frame has no records")) } else { Ok(records) }
    }

    /// Decides whether a missing frame at `offset` is the end, a torn last frame, or damage.
    fn check_end(&self, header: Option<FrameHeader>) -> Result<(), OpenError> {
        let rest = self.bytes.get(self.offset..).unwrap_or_default();
        if all_zero(rest) {
            return Ok(());
        }
        if !self.newest {
            return Err(self.corrupt("damaged frame in a finished segment"));
        }
        // A frame is only written after the previous one was synced, so any trace of a later frame proves that this one
        // was complete.
        let extent = match header {
            Some(header) => FRAME_HEADER.saturating_add(header.payload),
            None => FRAME_HEADER + FRAME_BYTES_MAX,
        };
        if rest.get(extent..).is_some_and(|beyond| !all_zero(beyond)) {
            return Err(self.corrupt("damaged frame with data after it"));
        }
        if header.is_none() && self.later_frame() {
            return Err(self.corrupt("damaged frame with a sound frame after it"));
        }
        Ok(())
    }

    fn later_frame(&self) -> bool {
        let mut places = (self.offset..self.bytes.len()).step_by(FRAME_ALIGN).skip(1);
        places.any(|at| decode_header(self.bytes, self.header.salt, at).is_some())
    }

    fn corrupt(&self, reason: impl Into<String>) -> OpenError {
        OpenError::corrupt(&self.name, self.offset as u64, reason)
    }
}

/// The last revision of any valid frame in the segment, also after a damaged one.
pub(crate) fn last_revision(bytes: &[u8], header: &SegmentHeader) -> Option<Revision> {
    let places = (SEGMENT_HEADER..bytes.len()).step_by(FRAME_ALIGN);
    let last = places.filter_map(|at| {
        let found = decode_header(bytes, header.salt, at)?;
        frame::payload(bytes, header.salt, at, &found)?;
        Some(found.first.0.saturating_add(u64::from(found.count)).saturating_sub(1))
    });
    last.max().map(Revision)
}

/// Returns whether there are only zeros, which fill preallocated space.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}
