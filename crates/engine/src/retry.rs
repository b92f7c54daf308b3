//! Optimistic concurrency: an operation reads the current state, computes its writes from it and commits them on the
//! condition that the state has not changed since. If it has, the operation starts again.
//!
//! An operation is a `loop` over its attempts that returns with its result and calls [`Attempts::again`] after a
//! conflict.

use crate::Target;
use pintle_meta::Status;

/// How often an operation on an object is attempted.
pub(crate) const ATTEMPTS_MAX: usize = 64;

/// The outcome of one attempt that did not fail.
pub(crate) enum Attempt<T> {
    /// The operation is done.
    Done(T),
    /// Another write changed the state that this attempt was based on.
    Conflict,
}

/// Counts the attempts of one operation.
pub(crate) struct Attempts {
    conflicts: usize,
    max: usize,
}

impl Attempts {
    /// Allows `max` attempts.
    pub(crate) fn new(max: usize) -> Self {
        Attempts { conflicts: 0, max }
    }

    /// The number of attempts that ended with a conflict.
    pub(crate) fn conflicts(&self) -> usize {
        self.conflicts
    }

    /// Must be called after each conflict. Returns an error if there is no further attempt.
    pub(crate) fn again(&mut self, error: impl FnOnce() -> Status) -> Result<(), Status> {
        self.conflicts = self.conflicts.saturating_add(1);
        if self.conflicts < self.max { Ok(()) } else { Err(error()) }
    }
}

/// The error of an operation whose attempts all lost against other writes to the object.
pub(crate) fn too_many_conflicts(target: &Target) -> Status {
    Status::conflict(&target.group_resource(), &target.name, "the object is being modified")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_conflict_is_the_error() {
        let mut attempts = Attempts::new(3);
        for (number, is_last) in [(1, false), (2, false), (3, true)] {
            let again = attempts.again(|| Status::unclassified(format!("conflict {number}")));
            assert_eq!(again.map_err(|status| status.message).err().is_some(), is_last, "{number}");
            assert_eq!(attempts.conflicts(), number);
        }
    }
}
