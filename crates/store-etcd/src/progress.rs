//! The revision that the sink has seen, and the callers that wait for one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::oneshot;

/// The revision that the sink has seen.
#[derive(Default)]
pub(crate) struct Progress {
    applied: AtomicU64,
    waiters: Mutex<BTreeMap<u64, Vec<oneshot::Sender<()>>>>,
}

impl Progress {
    pub(crate) fn applied(&self) -> u64 {
        self.applied.load(Ordering::Acquire)
    }

    /// Records that the sink has seen `revision`, which is lower than before only after a reload.
    pub(crate) fn set(&self, revision: u64) {
        let reached = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            self.applied.store(revision, Ordering::Release);
            let later = waiters.split_off(&revision.saturating_add(1));
            std::mem::replace(&mut *waiters, later)
        };
        for waiter in reached.into_values().flatten() {
            // A caller that stopped waiting is ignored.
            let _ = waiter.send(());
        }
    }

    /// Waits until the sink has seen `revision`.
    pub(crate) async fn reach(&self, revision: u64) {
        let receiver = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            if self.applied() >= revision {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            waiters.entry(revision).or_default().push(sender);
            receiver
        };
        // The sender is dropped only with the store itself.
        let _ = receiver.await;
    }
}
