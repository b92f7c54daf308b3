//! The frame: all changes of one group commit under one checksum. Bytes in, bytes out; no I/O.
//!
//! One frame is what one sync makes durable, and the next is written only after that sync. So after
//! a crash at most the last frame can be damaged, and a transaction, being inside one frame, is
//! there wholly or not at all.

use crate::options::{FRAME_BYTES_MAX, KEY_BYTES_MAX};
use crate::store::{Key, Revision};
use bytes::Bytes;

/// Frames begin at multiples of this.
pub(crate) const FRAME_ALIGN: usize = 8;
/// The length of a frame's header.
pub(crate) const FRAME_HEADER: usize = 40;
/// The length of a record's header.
pub(crate) const RECORD_HEADER: usize = 8;

const MAGIC: [u8; 4] = *b"PTFR";
const HEADER_CRC_AT: usize = 36;
const FLAG_DELETE: u8 = 1;

/// The header of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameHeader {
    /// The length of all records with padding.
    pub(crate) payload: usize,
    /// The revision of the first record; the following records have consecutive revisions.
    pub(crate) first: Revision,
    /// The commit time of the batch.
    pub(crate) time_ms: u64,
    /// The number of records.
    pub(crate) count: u32,
    payload_crc: u32,
}

/// A change that is written to or read from the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    /// The key that changes.
    pub(crate) key: Key,
    /// The key's new value; `None` if it is deleted.
    pub(crate) value: Option<Bytes>,
}

impl Record {
    /// The number of bytes that the record takes in a frame.
    pub(crate) fn encoded_len(&self) -> usize {
        let value = self.value.as_ref().map_or(0, Bytes::len);
        RECORD_HEADER.saturating_add(self.key.len()).saturating_add(value)
    }
}

/// Appends the frame for position `offset` of a segment with this `salt` to `out`, which must be empty.
#[expect(clippy::indexing_slicing, reason = "the header was put at the start of the buffer")]
pub(crate) fn encode(
    out: &mut Vec<u8>,
    salt: u64,
    offset: u64,
    first: Revision,
    time_ms: u64,
    records: &[Record],
) {
    debug_assert!(out.is_empty());
    out.resize(FRAME_HEADER, 0);
    for record in records {
        encode_record(out, record);
    }
    out.resize(out.len().next_multiple_of(FRAME_ALIGN), 0);
    let payload_crc = crc32c::crc32c_append(seed(salt, offset), &out[FRAME_HEADER..]);
    let payload = out.len().saturating_sub(FRAME_HEADER) as u32;
    out[0..4].copy_from_slice(&MAGIC);
    out[4..8].copy_from_slice(&payload.to_le_bytes());
    out[8..16].copy_from_slice(&first.0.to_le_bytes());
    out[16..24].copy_from_slice(&time_ms.to_le_bytes());
    out[24..28].copy_from_slice(&(records.len() as u32).to_le_bytes());
    out[28..32].copy_from_slice(&payload_crc.to_le_bytes());
    let header_crc = crc32c::crc32c_append(seed(salt, offset), &out[..HEADER_CRC_AT]);
    out[HEADER_CRC_AT..FRAME_HEADER].copy_from_slice(&header_crc.to_le_bytes());
}

fn encode_record(out: &mut Vec<u8>, record: &Record) {
    let flags = if record.value.is_none() { FLAG_DELETE } else { 0 };
    let value: &[u8] = record.value.as_deref().unwrap_or_default();
    out.extend_from_slice(&[flags, 0]);
    out.extend_from_slice(&(record.key.len() as u16).to_le_bytes());
    out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    out.extend_from_slice(record.key.as_bytes());
    out.extend_from_slice(value);
}

/// Reads the header at `offset` of a segment's bytes; `None` if there is no valid header.
pub(crate) fn decode_header(segment: &[u8], salt: u64, offset: usize) -> Option<FrameHeader> {
    let header: &[u8; FRAME_HEADER] = segment.get(offset..)?.first_chunk()?;
    if header[0..4] != MAGIC {
        return None;
    }
    let crc = crc32c::crc32c_append(seed(salt, offset as u64), &header[..HEADER_CRC_AT]);
    if crc != le_u32(header, HEADER_CRC_AT) {
        return None;
    }
    let payload = le_u32(header, 4) as usize;
    if payload > FRAME_BYTES_MAX || !payload.is_multiple_of(FRAME_ALIGN) {
        return None;
    }
    Some(FrameHeader {
        payload,
        first: Revision(le_u64(header, 8)),
        time_ms: le_u64(header, 16),
        count: le_u32(header, 24),
        payload_crc: le_u32(header, 28),
    })
}

/// The payload of the frame at `offset`, if it is complete.
pub(crate) fn payload<'a>(
    segment: &'a [u8],
    salt: u64,
    offset: usize,
    header: &FrameHeader,
) -> Option<&'a [u8]> {
    let start = offset.checked_add(FRAME_HEADER)?;
    let payload = segment.get(start..start.checked_add(header.payload)?)?;
    (crc32c::crc32c_append(seed(salt, offset as u64), payload) == header.payload_crc).then_some(payload)
}

/// Decodes the records of a whole payload. `None` means that the writer was at fault, not the disk.
pub(crate) fn decode_records(mut payload: &[u8], count: u32) -> Option<Vec<Record>> {
    let mut records = Vec::with_capacity((count as usize).min(payload.len() / RECORD_HEADER));
    for _ in 0..count {
        let (header, rest) = payload.split_first_chunk::<RECORD_HEADER>()?;
        let key_len = usize::from(u16::from_le_bytes([header[2], header[3]]));
        let value_len = le_u32(header, 4) as usize;
        if key_len > KEY_BYTES_MAX || header[0] & !FLAG_DELETE != 0 {
            return None;
        }
        let (key, rest) = rest.split_at_checked(key_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        // Values are copied out one by one: a slice would keep the whole segment in memory.
        let value = (header[0] & FLAG_DELETE == 0).then(|| Bytes::copy_from_slice(value));
        records.push(Record { key: Key::from(std::str::from_utf8(key).ok()?), value });
        payload = rest;
    }
    (payload.len() < FRAME_ALIGN && payload.iter().all(|byte| *byte == 0)).then_some(records)
}

/// Checksums are seeded with their position, so that a frame is only valid where it was written, and bytes chosen by a
/// client are never valid.
fn seed(salt: u64, offset: u64) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&salt.to_le_bytes()), &offset.to_le_bytes())
}

/// The little-endian number at `at`, which must be inside `bytes`.
pub(crate) fn le_u32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The little-endian number at `at`, which must be inside `bytes`.
pub(crate) fn le_u64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record> {
        vec![
            Record { key: "/a".into(), value: Some(Bytes::from_static(b"one")) },
            Record { key: "/b".into(), value: None },
            Record { key: "/c".into(), value: Some(Bytes::new()) },
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 7, 0, Revision(5), 99, &records());
        assert_eq!(bytes.len() % FRAME_ALIGN, 0);
        let header = decode_header(&bytes, 7, 0).unwrap();
        assert_eq!((header.first, header.time_ms, header.count), (Revision(5), 99, 3));
        let payload = payload(&bytes, 7, 0, &header).unwrap();
        assert_eq!(decode_records(payload, header.count).unwrap(), records());
    }

    #[test]
    fn a_frame_is_sound_only_with_its_salt_and_place() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 7, 8, Revision(5), 99, &records());
        assert!(decode_header(&bytes, 7, 0).is_none());
        let shifted = [&[0; 8], bytes.as_slice()].concat();
        assert!(decode_header(&shifted, 7, 8).is_some());
        assert!(decode_header(&shifted, 8, 8).is_none());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = Vec::new();
        encode(&mut bytes, 7, 0, Revision(5), 99, &records());
        for at in 0..bytes.len() * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            let sound = decode_header(&bytes, 7, 0).is_some_and(|h| payload(&bytes, 7, 0, &h).is_some());
            assert!(!sound, "bit {at}");
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }
}
