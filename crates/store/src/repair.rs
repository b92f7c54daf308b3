//! Recovers the readable part of a damaged store, and reports what is lost.

use crate::disk::{Disk, FolderDisk};
use crate::error::OpenError;
use crate::manifest::{MANIFEST_FILE, Manifest};
use crate::options::Options;
use crate::pace::Pace;
use crate::recovery::{Replay, create_first_segment, failed_to};
use crate::segment::{self, SegmentHeader};
use crate::snapshot_file;
use crate::state::Snapshot;
use crate::store::Revision;
use std::path::Path;

/// How far revisions jump after changes were lost, so that no revision that a client may have seen is reused.
pub const REVISION_JUMP: u64 = 1_000_000_000;

/// The result of [`recover`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recovery {
    /// The damage, one line for each file.
    pub damage: Vec<String>,
    /// Every change up to this revision was read.
    pub read_until: Revision,
    /// The last revision that is known to have existed; changes after `read_until` are lost.
    pub known_until: Revision,
    /// The number of remaining entries.
    pub entries: usize,
    /// Copies of the unreadable files, for investigation.
    pub saved: Vec<String>,
    /// The revision at which the store continues.
    pub revision: Revision,
}

/// Makes a damaged store usable again with everything up to the damage; `None` if it is sound. With `dry_run` nothing
/// is changed. Files that could not be read are copied first.
pub fn recover(folder: &Path, options: &Options, dry_run: bool) -> Result<Option<Recovery>, OpenError> {
    recover_on(&FolderDisk::open(folder)?, options, dry_run)
}

/// [`recover`] on any disk.
pub(crate) fn recover_on(
    disk: &dyn Disk,
    options: &Options,
    dry_run: bool,
) -> Result<Option<Recovery>, OpenError> {
    let names = disk.list().map_err(OpenError::io("list", "data folder"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| SegmentHeader::parse_name(name)).collect();
    numbers.sort_unstable();
    let mut damage = Vec::new();
    let manifest = match Manifest::read(disk) {
        Ok(Some(manifest)) => manifest,
        Ok(None) if numbers.is_empty() => return Ok(None),
        Ok(None) => {
            damage.push(format!("{MANIFEST_FILE} is missing"));
            guess_manifest(&names, &numbers)
        }
        Err(error @ OpenError::Corrupt { .. }) => {
            damage.push(error.to_string());
            guess_manifest(&names, &numbers)
        }
        Err(error) => return Err(error),
    };
    let newest = numbers.last().copied().unwrap_or(0).max(manifest.newest_segment);
    let mut replay = Replay::start(disk, &manifest)?;
    replay.accept_short = true;
    let damaged_at = read_all(disk, &mut replay, manifest.first_segment..=newest, &mut damage)?;
    if damage.is_empty() {
        return Ok(None);
    }
    let lost = numbers.iter().copied().filter(|number| *number >= damaged_at);
    let mut recovery = Recovery {
        damage,
        read_until: replay.state.revision(),
        known_until: replay.state.revision(),
        entries: replay.state.len(),
        saved: Vec::new(),
        revision: replay.state.revision(),
    };
    for number in lost {
        save_lost(disk, number, dry_run, &mut recovery)?;
    }
    if dry_run {
        return Ok(Some(recovery));
    }
    let base = Revision(recovery.known_until.0.saturating_add(REVISION_JUMP));
    let state = replay.state.renumbered(base);
    recovery.revision = state.revision();
    write_recovered(disk, options, &state, newest.saturating_add(1))?;
    Ok(Some(recovery))
}

/// Copies a segment that could not be read, and records the last revision that is known from it.
fn save_lost(disk: &dyn Disk, number: u64, dry_run: bool, recovery: &mut Recovery) -> Result<(), OpenError> {
    let name = SegmentHeader::file_name(number);
    let file = disk.open(&name).map_err(OpenError::io("open", &name))?;
    let mut bytes = Vec::new();
    segment::read(&*file, &name, &mut bytes)?;
    if let Ok(header) = SegmentHeader::decode(&bytes, number) {
        let before = Revision(header.base.0.saturating_sub(1));
        let last = segment::last_revision(&bytes, &header).unwrap_or(before);
        recovery.known_until = recovery.known_until.max(last).max(before);
    }
    let copy = format!("lost-{name}");
    if !dry_run {
        save_copy(disk, &copy, &bytes)?;
    }
    recovery.saved.push(copy);
    Ok(())
}

/// Writes the recovered state as a snapshot, with a new segment and a manifest for both.
fn write_recovered(
    disk: &dyn Disk,
    options: &Options,
    state: &Snapshot,
    first_segment: u64,
) -> Result<(), OpenError> {
    snapshot_file::write(disk, state, &Pace::Unpaced)
        .map_err(OpenError::io("write", &snapshot_file::file_name(state.revision())))?;
    create_first_segment(disk, options, first_segment, state.revision().next())?;
    let manifest =
        Manifest { snapshot: Some(state.revision()), first_segment, newest_segment: first_segment };
    manifest.write(disk).map_err(failed_to("write", MANIFEST_FILE))
}

/// Reads the segments up to the first that is damaged or missing; returns the number of that one.
fn read_all(
    disk: &dyn Disk,
    replay: &mut Replay,
    numbers: std::ops::RangeInclusive<u64>,
    damage: &mut Vec<String>,
) -> Result<u64, OpenError> {
    let newest = *numbers.end();
    let mut buffer = Vec::new();
    for number in numbers {
        let outcome = replay.read_segment(disk, number, number == newest, &mut buffer);
        let outcome = outcome.and_then(|()| {
            let header = SegmentHeader::decode(&buffer, number)?;
            header.check_length(buffer.len() as u64)
        });
        match outcome {
            Ok(()) => {}
            Err(error @ OpenError::Corrupt { .. }) => {
                damage.push(error.to_string());
                return Ok(number);
            }
            Err(OpenError::Io { file, source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                damage.push(format!("{file} is missing"));
                return Ok(number);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(newest.saturating_add(1))
}

/// Without a manifest the newest snapshot and all segments are read.
fn guess_manifest(names: &[String], numbers: &[u64]) -> Manifest {
    let snapshot = names.iter().filter_map(|name| snapshot_file::parse_name(name)).max();
    let first_segment = numbers.first().copied().unwrap_or(1);
    Manifest { snapshot, first_segment, newest_segment: first_segment }
}

fn save_copy(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<(), OpenError> {
    let write = || {
        let file = disk.create(name)?;
        file.write_at(0, bytes)?;
        file.sync()?;
        disk.sync_dir()
    };
    write().map_err(OpenError::io("write", name))
}
