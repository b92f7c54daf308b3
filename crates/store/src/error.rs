//! What can go wrong: with one write, with the store as a whole, and when opening it.

use crate::store::{Entry, Key};
use std::io;

/// Why a write was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The precondition did not hold; `current` is what is there instead.
    #[error("conflict on {key}")]
    Conflict {
        /// The key whose precondition failed.
        key: Key,
        /// The entry as it is, so that the caller can decide anew.
        current: Option<Entry>,
    },
    /// A key, a value or a whole transaction has more bytes than allowed.
    #[error("request is too large: the limit is {limit} bytes")]
    TooLarge {
        /// The limit that was exceeded, in bytes.
        limit: usize,
    },
    /// A transaction has more writes than allowed.
    #[error("too many writes in one transaction: the limit is {limit}")]
    TooMany {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// A transaction names a key twice.
    #[error("key {key} occurs twice in one transaction")]
    DuplicateKey {
        /// The key in question.
        key: Key,
    },
    /// The store takes no writes.
    #[error("store is unavailable: {0}")]
    Unavailable(#[from] StoreFault),
}

/// Why a store takes no more writes. None of these heals; the store must be opened anew.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreFault {
    /// The disk has no room left.
    #[error("disk full while writing {file}")]
    DiskFull {
        /// The file that could not grow.
        file: String,
    },
    /// Writing failed.
    #[error("cannot write {file}: {reason}")]
    WriteFailed {
        /// The file that could not be written.
        file: String,
        /// The operating system's words.
        reason: String,
    },
    /// Making a write durable failed. What is on disk is unknown until it is read again.
    #[error("cannot sync {file}: {reason}")]
    SyncFailed {
        /// The file that could not be synced.
        file: String,
        /// The operating system's words.
        reason: String,
    },
    /// The store was closed.
    #[error("store is closed")]
    Closed,
    /// The thread that orders the writes has died.
    #[error("the sequencer stopped unexpectedly")]
    Stopped,
    /// An engine on another machine cannot be reached.
    #[error("backend unreachable: {reason}")]
    Unreachable {
        /// What the connection said.
        reason: String,
    },
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder open.
    #[error("data folder {folder} is in use by another process{}", holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Locked {
        /// The folder.
        folder: String,
        /// The process that holds it, if it said so.
        holder: Option<u32>,
    },
    /// The data is damaged. Nothing was changed on disk.
    #[error("data is corrupt: {file} at offset {offset}: {reason}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// Where in the file the damaged structure begins.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The data was written by a version that this one does not know.
    #[error("{file} has format version {found}; this build reads version {known}")]
    Version {
        /// The file.
        file: String,
        /// The version found in it.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
    /// The operating system refused something.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file it was tried on.
        file: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A backup can only be restored into an empty folder.
    #[error("data folder is not empty: it holds {file}")]
    NotEmpty {
        /// A file that is in the way.
        file: String,
    },
}

impl OpenError {
    /// For `map_err`: an I/O failure of `action` on `file`.
    pub(crate) fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> OpenError {
        let file = file.to_owned();
        move |source| OpenError::Io { action, file, source }
    }

    /// Damage found in `file`.
    pub(crate) fn corrupt(file: &str, offset: u64, reason: impl Into<String>) -> OpenError {
        OpenError::Corrupt { file: file.to_owned(), offset, reason: reason.into() }
    }
}

impl StoreFault {
    /// For `map_err`: writing or extending `file` failed.
    pub(crate) fn write(file: &str) -> impl FnOnce(io::Error) -> StoreFault {
        let file = file.to_owned();
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreFault::DiskFull { file },
            _ => StoreFault::WriteFailed { file, reason: error.to_string() },
        }
    }

    /// For `map_err`: syncing `file` failed. Delayed allocation can report a full disk here too.
    pub(crate) fn sync(file: &str) -> impl FnOnce(io::Error) -> StoreFault {
        let file = file.to_owned();
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreFault::DiskFull { file },
            _ => StoreFault::SyncFailed { file, reason: error.to_string() },
        }
    }
}
