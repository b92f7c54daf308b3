//! Filters: which fields a write of some endpoint can own at all.

use super::Set;

/// What a write that touched some fields owns of them: all but what its endpoint resets, and what is below that.
#[derive(Clone, Debug)]
pub struct Filter {
    /// What the endpoint resets.
    pub reset: Set,
}

impl Filter {
    /// What stays of `set`.
    pub fn apply(&self, set: Set) -> Set {
        set.recursive_difference(&self.reset)
    }
}
