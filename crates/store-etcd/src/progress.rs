//! How far the sink has come, and who waits for it to come further.

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

    /// The sink has seen `revision`, which is lower than before only when everything was loaded anew.
    pub(crate) fn set(&self, revision: u64) {
        let reached = {
            let mut waiters = self.waiters.lock().unwrap_or_else(PoisonError::into_inner);
            self.applied.store(revision, Ordering::Release);
            let later = waiters.split_off(&(revision + 1));
            std::mem::replace(&mut *waiters, later)
        };
        for waiter in reached.into_values().flatten() {
            // Whoever gave up waiting does not hear of it.
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
        // The sender goes only with the store itself.
        let _ = receiver.await;
    }
}
