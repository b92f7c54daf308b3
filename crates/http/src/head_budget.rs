//! `HeadBudget`: how many bytes the heads of all connections may take while they are incomplete. Anyone can begin a large head and
//! never end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A head up to this size counts as nothing.
const SMALL_HEAD_BYTES: usize = 16 * 1024;
/// The size limit in bytes of larger heads, all together.
const LARGE_HEADS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The bytes of large heads that are incomplete.
#[derive(Clone, Default)]
pub(crate) struct HeadBudget(Arc<AtomicUsize>);

/// The part of the budget that one connection takes.
pub(crate) struct HeadShare {
    budget: HeadBudget,
    bytes: usize,
}

impl HeadBudget {
    /// A share of nothing.
    pub(crate) fn share(&self) -> HeadShare {
        HeadShare { budget: self.clone(), bytes: 0 }
    }
}

impl HeadShare {
    /// Takes the bytes of a head that is incomplete; whether there are so many.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        if bytes <= SMALL_HEAD_BYTES.max(self.bytes) {
            return true;
        }
        let more = bytes.saturating_sub(self.bytes);
        let before = self.budget.0.fetch_add(more, Ordering::Relaxed);
        self.bytes = bytes;
        before.saturating_add(more) <= LARGE_HEADS_BYTES_MAX
    }

    /// Gives all bytes back.
    pub(crate) fn release(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 {
            self.budget.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for HeadShare {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_heads_share_a_budget_that_they_give_back() {
        let budget = HeadBudget::default();
        let mut shares: Vec<HeadShare> = (0..65).map(|_| budget.share()).collect();
        let granted = shares.iter_mut().filter_map(|share| share.grow_to(1 << 20).then_some(())).count();
        assert_eq!(granted, 64);
        assert!(budget.share().grow_to(SMALL_HEAD_BYTES), "small heads are always granted");
        assert!(!budget.share().grow_to(1 << 20));
        shares.truncate(1);
        assert!(budget.share().grow_to(1 << 20));
        shares.clear();
        assert_eq!(budget.0.load(Ordering::Relaxed), 0);
    }
}
