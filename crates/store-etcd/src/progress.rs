//! The revision that the sink has seen, and the callers that wait for one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// The revision that the sink has seen.
#[derive(Default)]
pub(crate) struct Progress {
    applied: AtomicU64,
    waiters: Mutex<Waiters>,
}

#[derive(Default)]
struct Waiters {
    /// The waiters, ordered by the revision that they wait for and the number of their arrival.
    all: BTreeMap<(u64, u64), oneshot::Sender<()>>,
    next: u64,
}

/// The entry of one caller among the waiters. It is removed if the caller is cancelled: while the watch delivers
/// nothing, requests that time out must not accumulate.
struct Waiting<'a> {
    progress: &'a Progress,
    place: (u64, u64),
}

impl Progress {
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Records that the sink has seen `revision`, which is lower than before only after a reload.
    pub(crate) fn set(&self, revision: u64) {
        let reached = {
            let mut waiters = self.waiters();
            self.applied.store(revision, Ordering::Release);
            let later = waiters.all.split_off(&(revision.saturating_add(1), 0));
            std::mem::replace(&mut waiters.all, later)
        };
        for waiter in reached.into_values() {
            // A caller that stopped waiting is ignored.
            let _ = waiter.send(());
        }
    }

    /// Waits until the sink has seen `revision`.
    pub(crate) async fn reach(&self, revision: u64) {
        let (receiver, _waiting) = {
            let mut waiters = self.waiters();
            if self.applied() >= revision {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            let place = (revision, waiters.next);
            waiters.next = waiters.next.wrapping_add(1);
            waiters.all.insert(place, sender);
            (receiver, Waiting { progress: self, place })
        };
        // The sender is dropped only with the store itself.
        let _ = receiver.await;
    }

    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.progress.waiters().all.remove(&self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn callers_are_woken_at_their_revision_and_leave_nothing_behind() {
        let progress = Progress::default();
        let mut context = Context::from_waker(Waker::noop());
        let mut first = Box::pin(progress.reach(3));
        let mut same = Box::pin(progress.reach(3));
        let mut later = Box::pin(progress.reach(4));
        for waiting in [&mut first, &mut same, &mut later] {
            assert!(waiting.as_mut().poll(&mut context).is_pending());
        }
        drop(same);
        assert_eq!(progress.waiters().all.len(), 2, "one gave up");
        progress.set(3);
        assert_eq!(first.as_mut().poll(&mut context), Poll::Ready(()));
        assert!(later.as_mut().poll(&mut context).is_pending());
        drop(later);
        assert!(progress.waiters().all.is_empty());
    }
}
