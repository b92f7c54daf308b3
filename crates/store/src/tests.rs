//! Tests of the engine as a whole: conformance, crashes, damage, failing disks, two processes.

mod crash;
mod damage;
mod engines;
mod failures;
mod history;
mod space;

use crate::{Embedded, ManualClock, Options};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A folder that is removed with its owner.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("pintle-store-{}-{number}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    pub(crate) fn open(&self) -> Embedded {
        Embedded::open(&self.0, Options::default()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Options that trigger all limits early, and run no background work.
pub(crate) fn small_options(clock: Arc<ManualClock>) -> Options {
    Options {
        retention: Duration::from_secs(10),
        history_bytes_max: 16 << 10,
        compact_bytes_min: 4 << 10,
        segment_bytes_min: 2 << 10,
        segment_bytes_max: 8 << 10,
        free_bytes_min: 4 << 10,
        clock,
        salt: 42,
        inline: true,
        ..Options::default()
    }
}
