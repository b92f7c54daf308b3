//! Keys, bytes and revisions: the [`Store`] trait and the embedded engine behind it.
//!
//! The store never parses a value. It guarantees one global order of changes, compare-and-swap writes, durability
//! before acknowledgement, and a history that survives a restart. The meaning of the bytes, access to them and
//! watches are decided by the crates above.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod backup;
mod clock;
mod compaction;
mod disk;
mod engine;
mod error;
mod frame;
mod history;
mod log;
mod manifest;
mod options;
mod pace;
mod partitioned;
mod recovery;
mod repair;
mod replies;
mod segment;
mod sequencer;
mod shared;
mod snapshot_file;
mod stage;
mod state;
mod store;
mod tree;

#[cfg(any(test, feature = "conformance"))]
#[allow(clippy::arithmetic_side_effects, reason = "code for tests")]
pub mod conformance;
#[cfg(any(test, feature = "conformance"))]
#[allow(clippy::arithmetic_side_effects, reason = "code for tests")]
pub mod sim;
#[cfg(test)]
mod tests;

pub use backup::read_state;
pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{Disk, DiskFile, FolderDisk};
pub use engine::Embedded;
pub use error::{OpenError, ReadError, StoreFault, WriteError};
pub use history::{HistoryQuery, HistoryRetention, KeyHistory, KeyVersion};
pub use options::Options;
pub use partitioned::{Partition, Partitioned};
pub use repair::{REVISION_JUMP, Recovery, recover};
pub use snapshot_file::{read_backup, restore, write_backup};
pub use state::{Snapshot, SnapshotIter};
pub use store::{BoxFuture, Change, Entry, Expect, Key, Loaded, Note, Op, Revision, Sink, Store, Write};
pub use tree::{Iter, Keyed, Tree};
