//! Filters: which fields a write through an endpoint can own.

use super::Set;

/// Removes the fields that an endpoint resets, and everything below them, from the fields that a write owns.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The fields that the endpoint resets.
    pub reset: Set,
}

impl Filter {
    /// The fields of `set` that remain.
    pub fn apply(&self, set: Set) -> Set {
        set.recursive_difference(&self.reset)
    }
}
