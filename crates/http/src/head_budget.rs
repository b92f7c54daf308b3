//! `HeadBudget`: limits the memory that the incomplete heads of all connections may take together. Any client can
//! begin a large head and never finish it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Heads up to this size are not counted.
const SMALL_HEAD_BYTES: usize = 16 * 1024;
/// The limit in bytes of the larger incomplete heads of all connections together.
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
    /// Returns a share that holds no bytes yet.
    pub(crate) fn share(&self) -> HeadShare {
        HeadShare { budget: self.clone(), bytes: 0 }
    }
}

impl HeadShare {
    /// Reserves the bytes of an incomplete head. Returns whether the budget had so many.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        if bytes <= SMALL_HEAD_BYTES.max(self.bytes) {
            return true;
        }
        let more = bytes.saturating_sub(self.bytes);
        let before = self.budget.0.fetch_add(more, Ordering::Relaxed);
        self.bytes = bytes;
        before.saturating_add(more) <= LARGE_HEADS_BYTES_MAX
    }

    /// Returns all reserved bytes to the budget.
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
