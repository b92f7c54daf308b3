//! Errors of reads and watches at a revision.

/// A revision that cannot be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RevisionError {
    /// The revision is too old: changes since then are no longer retained.
    #[error("revision {requested} is too old; the oldest retained is {oldest}")]
    Expired {
        /// The requested revision.
        requested: u64,
        /// The oldest revision that can still be served.
        oldest: u64,
    },
    /// The revision has not been reached yet.
    #[error("revision {requested} lies in the future; the current one is {current}")]
    Future {
        /// The requested revision.
        requested: u64,
        /// The current revision of the cache.
        current: u64,
    },
}

/// The cache did not reach a revision in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("revision {requested} was not reached in time; the current one is {current}")]
pub struct WaitTimeout {
    /// The revision waited for.
    pub requested: u64,
    /// The revision of the cache when the time was up.
    pub current: u64,
}
