//! The options of the embedded store, and the limits that are part of its format.

use crate::clock::{Clock, SystemClock};
use crate::history::HistoryRetention;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

/// The longest key.
pub(crate) const KEY_BYTES_MAX: usize = 4096;
/// The maximum number of writes in one transaction.
pub(crate) const TRANSACTION_WRITES_MAX: usize = 128;
/// The maximum number of bytes in one transaction, record headers included.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 8 << 20;
/// The maximum number of bytes one frame of the log may take; part of the format, because recovery relies on it.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 20;
/// A batch is closed once it has this many bytes, so that batch plus one transaction fit a frame.
pub(crate) const BATCH_BYTES_MAX: usize = 4 << 20;
/// The maximum number of requests taken from the queue at once.
pub(crate) const BATCH_REQUESTS_MAX: usize = 512;

/// The options of the embedded store. `Options::default()` is right for production.
#[derive(Clone)]
pub struct Options {
    /// History younger than this survives a restart, as far as `history_bytes_max` allows.
    pub retention: Duration,
    /// The maximum number of log bytes retained for history; beyond it even young history is compacted.
    pub history_bytes_max: u64,
    /// How long the log stays on disk after compaction, for [`crate::Store::history`]; `None` retains no further
    /// segments and does not remove those already retained.
    pub history: Option<HistoryRetention>,
    /// If fewer bytes than this are free beside the space of a snapshot, history is removed, whatever its age.
    pub free_bytes_min: u64,
    /// Compaction waits until at least this many log bytes can be removed.
    pub compact_bytes_min: u64,
    /// The size of the first log segment. Each segment is twice as large as the previous one, up to
    /// `segment_bytes_max`.
    pub segment_bytes_min: u64,
    /// The maximum size of a log segment.
    pub segment_bytes_max: u64,
    /// The largest value. The default is etcd's default request limit.
    pub value_bytes_max: usize,
    /// Writes that may wait for the sequencer; further writers wait for a place in the queue.
    pub queue_writes_max: usize,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Makes log checksums unpredictable, so that no value can pass for a piece of log.
    pub salt: u64,
    /// Run background work inline instead of on threads, so that simulations are reproducible.
    pub inline: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            retention: Duration::from_secs(5 * 60),
            history_bytes_max: 128 << 20,
            history: None,
            free_bytes_min: 16 << 20,
            compact_bytes_min: 8 << 20,
            segment_bytes_min: 256 << 10,
            segment_bytes_max: 32 << 20,
            value_bytes_max: 3 << 19,
            queue_writes_max: 1024,
            clock: Arc::new(SystemClock),
            salt: RandomState::new().hash_one("salt"),
            inline: false,
        }
    }
}

impl Options {
    /// The retention in the unit of the timestamps.
    pub(crate) fn retention_ms(&self) -> u64 {
        u64::try_from(self.retention.as_millis()).unwrap_or(u64::MAX)
    }
}
