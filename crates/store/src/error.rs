//! Errors: of one write, of the store as a whole, and of opening it.

use crate::store::{Entry, Key, Revision};
use std::io;

/// The reason why a write was refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WriteError {
    /// The precondition failed.
    #[error("conflict on {key}")]
    Conflict {
        /// The key whose precondition failed.
        key: Key,
        /// The current entry, so that the caller can retry.
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
    /// The backend refused the write for its own reason, which clients see verbatim.
    #[error("{message}")]
    Refused {
        /// The backend's message.
        message: String,
    },
    /// The value could not be encrypted.
    #[error("{message}")]
    NotTransformed {
        /// The provider's reason.
        message: String,
    },
    /// The backend did not answer in time: the write may have been committed, may yet be, or may be lost.
    #[error("context deadline exceeded")]
    TimedOut,
    /// The answer was lost, or left the outcome open: the write may have been committed, may yet be, or may be lost.
    #[error("{reason}")]
    Unknown {
        /// The message of the backend or the connection, which clients see verbatim.
        reason: String,
    },
}

/// The reason why the state at a revision cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// The backend has compacted the revision.
    #[error("required revision has been compacted")]
    Compacted,
    /// The backend has not reached the revision yet.
    #[error("required revision is a future revision: the current one is {current}")]
    Future {
        /// The revision of the backend.
        current: Revision,
    },
    /// The backend did not answer.
    #[error(transparent)]
    Unavailable(#[from] StoreFault),
}

/// The reason why a store accepts no writes. Some faults are transient: see [`StoreFault::can_pass`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreFault {
    /// The disk has no room left.
    #[error("disk full while writing {file}")]
    DiskFull {
        /// The file that could not grow.
        file: String,
    },
    /// The process, or the system, has no file descriptors left.
    #[error("no file descriptors left while opening {file}")]
    NoDescriptors {
        /// The file that could not be opened.
        file: String,
    },
    /// Writing failed. The log up to the failed write is intact.
    #[error("cannot write {file}: {reason}")]
    WriteFailed {
        /// The file that could not be written.
        file: String,
        /// The operating system's words.
        reason: String,
    },
    /// Making a write durable failed. The content of the disk is unknown until it is read again.
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
        /// The message of the connection.
        reason: String,
    },
}

/// The reason why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the folder open.
    #[error("data folder {folder} is in use by another process{}", holder.map(|pid| format!(" (pid {pid})")).unwrap_or_default())]
    Locked {
        /// The folder.
        folder: String,
        /// The process that holds it, if known.
        holder: Option<u32>,
    },
    /// The data is damaged, or some of it is missing. Nothing was changed on disk.
    #[error("data is corrupt: {file} at offset {offset}: {reason}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// The offset in the file at which the damaged structure begins.
        offset: u64,
        /// A description of the damage.
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
        /// The operation that failed.
        action: &'static str,
        /// The file on which the operation failed.
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
    /// Whether the store recovers by itself once the cause is gone; it retries until then. After a fault that leaves
    /// the content of the log unknown, the store must be reopened.
    pub fn can_pass(&self) -> bool {
        match self {
            StoreFault::DiskFull { .. }
            | StoreFault::NoDescriptors { .. }
            | StoreFault::WriteFailed { .. }
            | StoreFault::Unreachable { .. } => true,
            StoreFault::SyncFailed { .. } | StoreFault::Closed | StoreFault::Stopped => false,
        }
    }

    /// For `map_err`: opening, writing or extending `file` failed.
    pub(crate) fn write(file: &str) -> impl FnOnce(io::Error) -> StoreFault {
        let file = file.to_owned();
        move |error| match resource_of(&error) {
            Some(Resource::Space) => StoreFault::DiskFull { file },
            Some(Resource::Descriptors) => StoreFault::NoDescriptors { file },
            Some(Resource::Time) | None => StoreFault::WriteFailed { file, reason: error.to_string() },
        }
    }

    /// For `map_err`: syncing `file` failed. Delayed allocation can report a full disk here, too. If only a resource
    /// was short, writing the same range again and syncing it makes its content known.
    pub(crate) fn sync(file: &str) -> impl FnOnce(io::Error) -> StoreFault {
        let file = file.to_owned();
        move |error| match resource_of(&error) {
            Some(_) => StoreFault::write(&file)(error),
            None => StoreFault::SyncFailed { file, reason: error.to_string() },
        }
    }
}

/// The resource that the operating system lacked.
enum Resource {
    Space,
    Descriptors,
    Time,
}

fn resource_of(error: &io::Error) -> Option<Resource> {
    use rustix::io::Errno;
    if let Some(Errno::MFILE | Errno::NFILE) = Errno::from_io_error(error) {
        return Some(Resource::Descriptors);
    }
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Resource::Space),
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => {
            Some(Resource::Time)
        }
        _ => None,
    }
}
