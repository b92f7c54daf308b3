//! Reading the state of a store from its files while another process may be writing to them.

use crate::disk::ReadOnlyFolder;
use crate::error::OpenError;
use crate::manifest::{MANIFEST_FILE, Manifest};
use crate::recovery::Replay;
use crate::state::Snapshot;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// How often reading is tried. A running server may compact its history or write several frames while a segment
/// is read, which looks like damage; it does so rarely.
const ATTEMPTS_MAX: u32 = 40;
/// The time between two attempts.
const ATTEMPT_DELAY: Duration = Duration::from_millis(50);

/// The state of the store in `folder`, with every change that was acknowledged before the call. Takes no lock and
/// changes nothing.
pub fn read_state(folder: &Path) -> Result<Snapshot, OpenError> {
    let disk = ReadOnlyFolder(folder.to_owned());
    let mut attempt = 1;
    loop {
        match read_once(&disk) {
            Err(error) if attempt < ATTEMPTS_MAX && may_be_a_race(&error) => {
                attempt = attempt.saturating_add(1);
                thread::sleep(ATTEMPT_DELAY);
            }
            outcome => return outcome,
        }
    }
}

fn read_once(disk: &ReadOnlyFolder) -> Result<Snapshot, OpenError> {
    let Some(manifest) = Manifest::read(disk)? else {
        let missing = io::Error::new(io::ErrorKind::NotFound, "there is no store in this folder");
        return Err(OpenError::Io { action: "open", file: MANIFEST_FILE.to_owned(), source: missing });
    };
    Ok(Replay::run(disk, &manifest)?.state)
}

fn may_be_a_race(error: &OpenError) -> bool {
    match error {
        OpenError::Corrupt { .. } => true,
        OpenError::Io { file, source, .. } => {
            file != MANIFEST_FILE
                && matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
        }
        _ => false,
    }
}
