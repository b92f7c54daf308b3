//! What the resources of one store share (the published revision), and what those of all stores share (the wake-up queue
//! and the end).

use crate::error::WaitTimeout;
use crate::group::Group;
use crate::options::{Options, SEGMENT_EVENTS_ALL, WAKE_DIRECT_MAX};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// What concerns the resources of one store. Owned by the cache, held by every resource and watcher.
pub(crate) struct Shared {
    pub(crate) options: Options,
    common: Arc<Common>,
    published: AtomicU64,
    /// The memory of the events of all windows.
    pub(crate) history_bytes: Arc<AtomicUsize>,
    /// Views of earlier revisions are gone, see [`crate::Cache::compact_lists`].
    compacted: AtomicU64,
    /// Lists at revisions before this one are refused, because the store's backend refuses them.
    lists_from: AtomicU64,
    /// How often everything was reloaded.
    resets: AtomicU64,
    /// Whether the store cannot deliver changes for now.
    interrupted: AtomicBool,
    announced: watch::Sender<u64>,
    /// The watchers of all resources at once.
    pub(crate) wildcard: Arc<Group>,
}

/// What concerns the resources of all stores.
#[derive(Default)]
struct Common {
    closed: AtomicBool,
    /// Counts how often any store was loaded anew.
    resets: AtomicU64,
    queue: Mutex<Vec<Arc<Group>>>,
    queued: Notify,
    dispatching: AtomicBool,
}

impl Shared {
    /// The oldest revision that lists may show.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted.load(Ordering::Acquire)
    }

    /// Lists of revisions before `revision` are refused from now on.
    pub(crate) fn compact(&self, revision: u64) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    pub(crate) fn new(options: Options) -> Shared {
        let wildcard = Group::new(SEGMENT_EVENTS_ALL, options.wildcard_events_max);
        Shared::with(options, wildcard, Arc::default())
    }

    /// The same for a further store of the same cache.
    pub(crate) fn of_another_store(&self) -> Shared {
        Shared::with(self.options.clone(), self.wildcard.clone(), self.common.clone())
    }

    fn with(options: Options, wildcard: Arc<Group>, common: Arc<Common>) -> Shared {
        Shared {
            options,
            common,
            published: AtomicU64::new(0),
            history_bytes: Arc::default(),
            compacted: AtomicU64::new(0),
            lists_from: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            announced: watch::Sender::new(0),
            wildcard,
        }
    }

    /// Every change up to this revision is in the views and the groups.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, revision: u64) {
        self.published.store(revision, Ordering::Release);
        self.announced.send_replace(revision);
    }

    /// The oldest revision that may be listed.
    pub(crate) fn lists_from(&self) -> u64 {
        self.lists_from.load(Ordering::Acquire)
    }

    pub(crate) fn forbid_lists_before(&self, revision: u64) {
        self.lists_from.store(revision, Ordering::Release);
    }

    /// How often everything was loaded anew.
    pub(crate) fn resets(&self) -> u64 {
        self.resets.load(Ordering::Acquire)
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    pub(crate) fn set_interrupted(&self, is: bool) {
        self.interrupted.store(is, Ordering::Release);
    }

    /// Ends all watches: what they followed is void.
    pub(crate) fn count_reset(&self) {
        self.common.resets.fetch_add(1, Ordering::AcqRel);
        self.resets.fetch_add(1, Ordering::AcqRel);
    }

    /// How often any store of the cache was loaded anew.
    pub(crate) fn resets_of_all(&self) -> u64 {
        self.common.resets.load(Ordering::Acquire)
    }

    /// Waits until the published revision is `revision` or later.
    pub(crate) async fn wait_for(&self, revision: u64, limit: Duration) -> Result<(), WaitTimeout> {
        if self.published() >= revision {
            return Ok(());
        }
        let mut announcements = self.announced.subscribe();
        let reached = announcements.wait_for(|current| *current >= revision || self.is_closed());
        // The outcome is read from the revision itself: all that counts is whether it was reached.
        let _ = timeout(limit, reached).await;
        let current = self.published();
        if current >= revision { Ok(()) } else { Err(WaitTimeout { requested: revision, current }) }
    }

    /// Waits until there are watchers to wake.
    pub(crate) async fn queued(&self) {
        self.common.queued.notified().await;
    }

    pub(crate) fn wake_wildcard(&self) {
        self.wildcard.wake.notify_waiters();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.common.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.common.closed.store(true, Ordering::Release);
        self.announced.send_modify(|_| ());
        self.wildcard.wake.notify_waiters();
        self.common.queued.notify_one();
    }

    /// Wakes the watchers of a group: few of them here, many by the dispatcher, so that a write is not delayed by a
    /// thousand wake-ups.
    pub(crate) fn wake(&self, group: &Arc<Group>) {
        let few = group.watchers.load(Ordering::Relaxed) <= WAKE_DIRECT_MAX;
        if few || !self.common.dispatching.load(Ordering::Acquire) {
            return group.release_all();
        }
        if !group.queued.swap(true, Ordering::AcqRel) {
            self.common.queue.lock().unwrap_or_else(PoisonError::into_inner).push(group.clone());
            self.common.queued.notify_one();
        }
    }

    /// Wakes the watchers of queued groups, except for delayed ones. Returns the end of the shortest delay.
    pub(crate) fn dispatch(&self) -> Option<Instant> {
        let now = Instant::now();
        let queue = || self.common.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut next: Option<Instant> = None;
        let mut resting = std::mem::take(&mut *queue());
        resting.retain(|group| match group.delays_until(now) {
            None => {
                group.release(now);
                false
            }
            Some(until) => {
                next = Some(next.map_or(until, |next| next.min(until)));
                true
            }
        });
        queue().extend(resting);
        next
    }

    /// Sets whether [`Shared::dispatch`] is called; groups already queued are woken.
    pub(crate) fn set_dispatching(&self, dispatching: bool) {
        self.common.dispatching.store(dispatching, Ordering::Release);
        for group in std::mem::take(&mut *self.common.queue.lock().unwrap_or_else(PoisonError::into_inner)) {
            group.queued.swap(false, Ordering::AcqRel);
            group.release_all();
        }
    }
}
