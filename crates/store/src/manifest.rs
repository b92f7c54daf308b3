//! The manifest: which snapshot and which segments make up the store. Replaced as a whole, or not at all.

use crate::disk::{Disk, replace};
use crate::error::OpenError;
use crate::frame::{le_u32, le_u64};
use crate::segment::SegmentHeader;
use crate::snapshot_file;
use crate::store::Revision;
use std::io;

/// The name of the manifest's file.
pub(crate) const MANIFEST_FILE: &str = "MANIFEST";

const MAGIC: [u8; 8] = *b"PINTLMAN";
const VERSION: u32 = 1;
const LENGTH: usize = 40;
const CRC_AT: usize = LENGTH - 4;

/// Where reading the store begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    /// The snapshot to start from; none in a store that was never compacted.
    pub(crate) snapshot: Option<Revision>,
    /// The oldest segment still needed; all later ones are found by counting up.
    pub(crate) first_segment: u64,
}

impl Manifest {
    /// Reads the manifest; `None` if there is no such file.
    pub(crate) fn read(disk: &dyn Disk) -> Result<Option<Manifest>, OpenError> {
        let file = match disk.open(MANIFEST_FILE) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(OpenError::io("open", MANIFEST_FILE)(error)),
        };
        if file.len().map_err(OpenError::io("measure", MANIFEST_FILE))? != LENGTH as u64 {
            return Err(OpenError::corrupt(MANIFEST_FILE, 0, "manifest has the wrong length"));
        }
        let mut bytes = [0; LENGTH];
        file.read_at(0, &mut bytes).map_err(OpenError::io("read", MANIFEST_FILE))?;
        Manifest::decode(&bytes).map(Some)
    }

    /// Makes this the manifest, durably.
    pub(crate) fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        replace(disk, MANIFEST_FILE, &self.encode())
    }

    /// Whether the file is a segment or snapshot that this manifest has no use for.
    pub(crate) fn supersedes(&self, name: &str) -> bool {
        let old_segment = SegmentHeader::parse_name(name).is_some_and(|number| number < self.first_segment);
        let old_snapshot = snapshot_file::parse_name(name).is_some_and(|found| Some(found) != self.snapshot);
        old_segment || old_snapshot
    }

    fn encode(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[0..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.snapshot.map_or(0, |revision| revision.0).to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_segment.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; LENGTH]) -> Result<Manifest, OpenError> {
        if bytes[0..8] != MAGIC || le_u32(bytes, CRC_AT) != crc32c::crc32c(&bytes[..CRC_AT]) {
            return Err(OpenError::corrupt(MANIFEST_FILE, 0, "manifest is damaged"));
        }
        let found = le_u32(bytes, 8);
        if found != VERSION {
            return Err(OpenError::Version { file: MANIFEST_FILE.to_owned(), found, known: VERSION });
        }
        let snapshot = Some(le_u64(bytes, 16)).filter(|revision| *revision != 0).map(Revision);
        Ok(Manifest { snapshot, first_segment: le_u64(bytes, 24) })
    }
}
