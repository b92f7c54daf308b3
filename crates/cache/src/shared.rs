//! The state that the resources of one store share (the published revision), and the state that the resources of all
//! stores share (the wake-up queue and the shutdown flag).

use crate::error::WaitTimeout;
use crate::event::Event;
use crate::group::Group;
use crate::options::{Options, SEGMENT_EVENTS_ALL, WAKE_DIRECT_MAX};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// State of all resources of one store. Owned by the cache, shared with every resource and watcher.
pub(crate) struct Shared {
    pub(crate) options: Options,
    common: Arc<Common>,
    published: AtomicU64,
    /// The memory of the events of all windows.
    pub(crate) history_bytes: Arc<AtomicUsize>,
    /// Views of revisions before this one have been dropped, see [`crate::Cache::compact_lists`].
    compacted: AtomicU64,
    /// Lists at revisions before this one are refused, because the store's backend refuses them.
    lists_from: AtomicU64,
    /// How often everything was reloaded.
    resets: AtomicU64,
    /// Whether the store cannot deliver changes for now.
    interrupted: AtomicBool,
    announced: watch::Sender<u64>,
}

/// Returns whether a watcher of several resources receives an event. The sink calls it for each event.
pub(crate) type Wanted = Box<dyn Fn(&Event) -> bool + Send + Sync>;

/// A watcher of several resources.
struct Selection {
    wanted: Wanted,
    group: Arc<Group>,
}

/// State of the resources of all stores.
#[derive(Default)]
struct Common {
    closed: AtomicBool,
    ended: Notify,
    selections: Mutex<Vec<Selection>>,
    /// Counts how often any store was loaded anew.
    resets: AtomicU64,
    queue: Mutex<Vec<Arc<Group>>>,
    queued: Notify,
    dispatching: AtomicBool,
}

impl Shared {
    /// The oldest revision that lists may return.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted.load(Ordering::Acquire)
    }

    /// Refuses lists of revisions before `revision` from now on.
    pub(crate) fn compact(&self, revision: u64) {
        self.compacted.fetch_max(revision, Ordering::AcqRel);
    }

    pub(crate) fn new(options: Options) -> Shared {
        Shared::with_options(options, Arc::default())
    }

    /// The state for a further store of the same cache.
    pub(crate) fn of_another_store(&self) -> Shared {
        Shared::with_options(self.options.clone(), self.common.clone())
    }

    fn with_options(options: Options, common: Arc<Common>) -> Shared {
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

    /// Ends all watches, because the revisions that they followed are no longer valid.
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

    /// Returns a group for one watcher of the events that are `wanted`.
    pub(crate) fn join_selection(&self, wanted: Wanted) -> Arc<Group> {
        let group = Group::new(SEGMENT_EVENTS_ALL, self.options.selection_events_max);
        group.watchers.fetch_add(1, Ordering::SeqCst);
        let mut selections = self.selections();
        selections.retain(|selection| selection.group.watchers.load(Ordering::SeqCst) > 0);
        selections.push(Selection { wanted, group: group.clone() });
        group
    }

    /// Appends an event to the groups of several resources that want it, and reports these groups.
    pub(crate) fn push_to_many(&self, event: &Arc<Event>, mut pushed: impl FnMut(&Arc<Group>)) {
        for Selection { wanted, group } in &*self.selections() {
            if group.watchers.load(Ordering::SeqCst) > 0 && wanted(event) {
                group.push(event);
                pushed(group);
            }
        }
    }

    /// Wakes the watchers of several resources.
    pub(crate) fn wake_watchers_of_many(&self) {
        for selection in &*self.selections() {
            selection.group.wake.notify_waiters();
        }
    }

    fn selections(&self) -> MutexGuard<'_, Vec<Selection>> {
        self.common.selections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end of the cache, for at most `limit`. Unlike [`Shared::wait_for`] it does not wake up at every
    /// change. Returns whether the cache is closed.
    pub(crate) async fn closed_within(&self, limit: Duration) -> bool {
        let mut ended = std::pin::pin!(self.common.ended.notified());
        ended.as_mut().enable();
        if !self.is_closed() {
            // The flag tells whether the cache ended or the time was up.
            let _ = timeout(limit, ended).await;
        }
        self.is_closed()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.common.closed.load(Ordering::Acquire)
    }

    pub(crate) fn close(&self) {
        self.common.closed.store(true, Ordering::Release);
        self.announced.send_modify(|_| ());
        self.common.ended.notify_waiters();
        self.wake_watchers_of_many();
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
