//! Admission configuration that is derived from objects and rebuilt only when they change.

use arc_swap::ArcSwapOption;
use std::sync::Arc;

/// A value that is derived from the objects of `N` resources.
pub(super) struct Cached<T, const N: usize>(ArcSwapOption<Read<T, N>>);

struct Read<T, const N: usize> {
    /// The revision of the last change of each resource when the value was derived.
    revisions: [u64; N],
    what: Arc<T>,
}

impl<T, const N: usize> Default for Cached<T, N> {
    fn default() -> Self {
        Cached(ArcSwapOption::empty())
    }
}

impl<T, const N: usize> Cached<T, N> {
    /// Returns the value for these revisions. If it is out of date, `read` derives it again from the previous value.
    pub(super) fn at(&self, revisions: [u64; N], read: impl FnOnce(Option<&T>) -> T) -> Arc<T> {
        let before = self.0.load_full();
        if let Some(known) = before.as_ref().filter(|known| known.revisions == revisions) {
            return known.what.clone();
        }
        // The objects may be newer than `revisions`. That only causes one more read later, never a stale value.
        let what = Arc::new(read(before.as_ref().map(|before| &*before.what)));
        self.0.store(Some(Arc::new(Read { revisions, what: what.clone() })));
        what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_value_is_only_read_again_after_a_change() {
        let slot = Cached::default();
        for (revisions, expected) in [([1, 1], 1), ([1, 1], 1), ([1, 2], 2), ([1, 1], 3)] {
            let read = slot.at(revisions, |before: Option<&i32>| before.copied().unwrap_or(0) + 1);
            assert_eq!(*read, expected, "{revisions:?}");
        }
    }
}
