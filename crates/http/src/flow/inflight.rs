//! The plain limits: so many concurrent reads and so many concurrent writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limits on requests in flight; 0 means no limit.
pub struct InFlightLimits {
    reads: Limit,
    writes: Limit,
}

struct Limit {
    most: u64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    current: AtomicU64,
    /// The highest value of `current` since it was last taken.
    watermark: AtomicU64,
}

/// Counts a request as in flight until it is dropped.
pub(crate) struct InFlightGuard(Arc<Counts>);

impl InFlightLimits {
    pub(super) fn new(reads: u64, writes: u64) -> Self {
        let limit = |most| Limit { most, counts: Arc::default() };
        InFlightLimits { reads: limit(reads), writes: limit(writes) }
    }

    /// Returns `None` if the limit is reached.
    pub(super) fn enter(&self, mutating: bool) -> Option<InFlightGuard> {
        let limit = if mutating { &self.writes } else { &self.reads };
        let add = |count: u64| (limit.most == 0 || count < limit.most).then_some(count.saturating_add(1));
        let before = limit.counts.current.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        limit.counts.watermark.fetch_max(before.saturating_add(1), Ordering::Relaxed);
        Some(InFlightGuard(Arc::clone(&limit.counts)))
    }

    /// The highest numbers of reads and writes since the last call.
    pub(super) fn take_watermarks(&self) -> [u64; 2] {
        [&self.reads, &self.writes].map(|limit| limit.counts.watermark.swap(0, Ordering::Relaxed))
    }
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let before = self.0.current.fetch_sub(1, Ordering::Relaxed);
        self.0.watermark.fetch_max(before.saturating_sub(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_have_limits_of_their_own() {
        let limits = InFlightLimits::new(2, 0);
        let first = limits.enter(false);
        let second = limits.enter(false);
        assert!(first.is_some() && second.is_some() && limits.enter(false).is_none());
        assert!((0..100).map(|_| limits.enter(true)).collect::<Vec<_>>().iter().all(Option::is_some));
        drop(first);
        let third = limits.enter(false);
        assert!(third.is_some());
        assert_eq!(limits.take_watermarks(), [2, 100]);
        assert_eq!(limits.take_watermarks(), [0, 0]);
        drop((second, third));
        assert_eq!(limits.take_watermarks(), [1, 0]);
    }
}
