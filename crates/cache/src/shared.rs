//! What all resources of a cache share: the published revision, the wake-up queue and the end.

use crate::group::Group;
use crate::options::{Options, SEGMENT_EVENTS_ALL, WAKE_DIRECT_MAX};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// Owned by the cache, held by every resource and watcher.
pub(crate) struct Shared {
    pub(crate) options: Options,
    published: AtomicU64,
    /// Views of earlier revisions are gone, see [`crate::Cache::compact_lists`].
    compacted: AtomicU64,
    /// Lists of revisions before this one are refused, because the store's backend refuses them.
    lists_from: AtomicU64,
    /// Counts how often everything was loaded anew.
    resets: AtomicU64,
    /// Whether the store cannot tell of changes for now.
    interrupted: AtomicBool,
    announced: watch::Sender<u64>,
    closed: AtomicBool,
    /// The watchers of all resources at once.
    pub(crate) wildcard: Arc<Group>,
    queue: Mutex<Vec<Arc<Group>>>,
    pub(crate) queued: Notify,
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
        Shared {
            wildcard: Group::new(SEGMENT_EVENTS_ALL, options.wildcard_events_max),
            options,
            published: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            lists_from: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            interrupted: AtomicBool::new(false),
            announced: watch::Sender::new(0),
            closed: AtomicBool::new(false),
            queue: Mutex::new(Vec::new()),
            queued: Notify::new(),
            dispatching: AtomicBool::new(false),
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
        self.resets.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn wake_wildcard(&self) {
        self.wildcard.wake.notify_waiters();
    }

    pub(crate) fn announcements(&self) -> watch::Receiver<u64> {
        self.announced.subscribe()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.announced.send_modify(|_| ());
        self.wildcard.wake.notify_waiters();
        self.queued.notify_one();
    }

    /// Wakes the watchers of a group: the few here, the many by the dispatcher, so that a write is
    /// not held up by a thousand wake-ups.
    pub(crate) fn wake(&self, group: &Arc<Group>) {
        let few = group.watchers.load(Ordering::Relaxed) <= WAKE_DIRECT_MAX;
        if few || !self.dispatching.load(Ordering::Acquire) {
            return group.release_all();
        }
        if !group.queued.swap(true, Ordering::AcqRel) {
            self.queue.lock().unwrap_or_else(PoisonError::into_inner).push(group.clone());
            self.queued.notify_one();
        }
    }

    /// Wakes the watchers of the groups that were left to the dispatcher, but for those that rest. Returns until when.
    pub(crate) fn dispatch(&self) -> Option<Instant> {
        let now = Instant::now();
        let queue = || self.queue.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Says whether someone calls [`Shared::dispatch`]; groups already queued are woken.
    pub(crate) fn set_dispatching(&self, dispatching: bool) {
        self.dispatching.store(dispatching, Ordering::Release);
        for group in std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner)) {
            group.queued.swap(false, Ordering::AcqRel);
            group.release_all();
        }
    }
}
