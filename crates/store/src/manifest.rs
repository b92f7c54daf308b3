//! The manifest: the snapshot and the segments of the store. It is replaced atomically.

use crate::disk::{Disk, DiskFile, TEMPORARY};
use crate::error::{OpenError, StoreFault};
use crate::frame::{le_u32, le_u64};
use crate::segment::SegmentHeader;
use crate::snapshot_file;
use crate::store::Revision;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The name of the manifest's file.
pub(crate) const MANIFEST_FILE: &str = "MANIFEST";

const MAGIC: [u8; 8] = *b"PINTLMAN";
const VERSION: u32 = 1;
const LENGTH: usize = 40;
const CRC_AT: usize = LENGTH - 4;

/// The files with which reading the store starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    /// The snapshot to start from; none in a store that was never compacted.
    pub(crate) snapshot: Option<Revision>,
    /// The oldest segment still needed; all later ones are found by counting up.
    pub(crate) first_segment: u64,
    /// The newest segment that may hold frames. Stores of older builds name the first one here, so
    /// segments after it are read, too.
    pub(crate) newest_segment: u64,
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

    /// Writes the manifest durably.
    pub(crate) fn write(&self, disk: &dyn Disk) -> Result<(), StoreFault> {
        let file = disk.create(&temporary_name()).map_err(StoreFault::write(MANIFEST_FILE))?;
        self.put_in_place(disk, &*file)
    }

    /// Writes to `file`, which has a temporary name, and renames it. After an error, either the old or the new manifest
    /// is on disk.
    fn put_in_place(&self, disk: &dyn Disk, file: &dyn DiskFile) -> Result<(), StoreFault> {
        let write = || {
            file.write_at(0, &self.encode())?;
            file.sync()?;
            disk.rename(&temporary_name(), MANIFEST_FILE)
        };
        write().map_err(StoreFault::write(MANIFEST_FILE))?;
        disk.sync_dir().map_err(StoreFault::sync(MANIFEST_FILE))
    }

    /// Returns whether the file is a segment or snapshot that this manifest no longer needs.
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
        let further = self.newest_segment.saturating_sub(self.first_segment);
        bytes[32..36].copy_from_slice(&u32::try_from(further).unwrap_or(u32::MAX).to_le_bytes());
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
        let first_segment = le_u64(bytes, 24);
        let newest_segment = first_segment.saturating_add(u64::from(le_u32(bytes, 32)));
        Ok(Manifest { snapshot, first_segment, newest_segment })
    }
}

fn temporary_name() -> String {
    format!("{MANIFEST_FILE}{TEMPORARY}")
}

/// The manifest of an open store. The log and the compaction job change it in turn.
pub(crate) struct ManifestFile {
    disk: Arc<dyn Disk>,
    inner: Mutex<Inner>,
}

struct Inner {
    current: Manifest,
    /// A file that is opened and filled in advance, so that the manifest can be replaced even if the process has no
    /// descriptors or the disk has no space left.
    reserve: Option<Box<dyn DiskFile>>,
}

impl ManifestFile {
    /// Takes over the manifest that was read from `disk`.
    pub(crate) fn new(disk: Arc<dyn Disk>, current: Manifest) -> ManifestFile {
        let reserve = create_reserve(&*disk);
        ManifestFile { disk, inner: Mutex::new(Inner { current, reserve }) }
    }

    /// Replaces the manifest with a changed one, durably. After an error the change counts as not made and can be
    /// retried.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Manifest)) -> Result<Manifest, StoreFault> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next = inner.current;
        change(&mut next);
        if next == inner.current {
            return Ok(next);
        }
        match inner.reserve.take() {
            Some(file) => next.put_in_place(&*self.disk, &*file)?,
            None => next.write(&*self.disk)?,
        }
        inner.current = next;
        inner.reserve = create_reserve(&*self.disk);
        Ok(next)
    }
}

fn create_reserve(disk: &dyn Disk) -> Option<Box<dyn DiskFile>> {
    let file = disk.create(&temporary_name()).ok()?;
    // If there is no space now, there may be some when the manifest is replaced.
    let _ = file.write_at(0, &[0; LENGTH]);
    Some(file)
}

impl Drop for ManifestFile {
    fn drop(&mut self) {
        // A leftover is removed at the next start, so an error here is harmless.
        let _ = self.disk.remove(&temporary_name());
    }
}
