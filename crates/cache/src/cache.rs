//! The cache as a whole: the registered resources, the sink, and the one task that serves them.

use crate::error::WaitTimeout;
use crate::filter::Filter;
use crate::group::Group;
use crate::options::{AGING_EVERY, AGING_EVERY_MIN, Options};
use crate::orphans::Orphans;
use crate::resource::{Registration, Resource};
use crate::shared::Shared;
use crate::watch::Watcher;
use pintle_store::{Change, Entry, Loaded, Revision, Sink, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Every resource as it is and as it recently was.
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
    resources: RwLock<HashMap<Arc<str>, Arc<Resource>>>,
    /// Held while changes are applied and while resources come and go.
    orphans: Mutex<Orphans>,
}

impl Cache {
    /// An empty cache, at revision 0 until a store is attached.
    pub fn new(options: Options) -> Arc<Cache> {
        let shared = Arc::new(Shared::new(options));
        Arc::new(Cache { shared, resources: RwLock::default(), orphans: Mutex::default() })
    }

    /// Becomes the sink of `store` and takes over its state and history. Once in a cache's life and
    /// before anything is read; resources may be registered before and after.
    pub fn attach(self: &Arc<Cache>, store: &dyn Store) {
        // The sink waits for this lock, so that no change is applied before what it changes.
        let mut orphans = self.lock();
        let loaded = store.load(self.clone());
        let revision = loaded.revision.0;
        // First of all, so that no watch takes anything of the new state for what follows the old one.
        self.shared.count_reset();
        orphans.load(loaded, self.shared.options.clock.now_ms());
        for resource in self.resources() {
            resource.fill(orphans.take(resource.prefix()));
        }
        self.shared.publish(revision);
    }

    /// Adds a resource with everything the store has under its prefix. A resource that is there
    /// already is replaced: its objects are read anew, its history is dropped, its watches end.
    pub fn register(&self, registration: Registration) -> Arc<Resource> {
        let mut orphans = self.lock();
        // The old one answers until the new one takes its place: no reader finds nothing in between.
        let old = self.resource(&registration.prefix);
        if let Some(old) = &old {
            self.give_back(old, &mut orphans);
        }
        let new = self.install(registration, &mut orphans);
        if let Some(old) = old {
            old.retire();
        }
        new
    }

    /// Removes a resource and ends its watches. What the store has of it stays there.
    pub fn unregister(&self, prefix: &str) -> bool {
        let mut orphans = self.lock();
        self.remove(prefix, &mut orphans)
    }

    /// The resource registered under exactly this prefix.
    pub fn resource(&self, prefix: &str) -> Option<Arc<Resource>> {
        self.resources.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned()
    }

    /// All registered resources, ordered by prefix.
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        let table = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let mut resources: Vec<_> = table.values().cloned().collect();
        resources.sort_unstable_by(|a, b| a.prefix().cmp(b.prefix()));
        resources
    }

    /// The revision up to which every change is visible.
    pub fn revision(&self) -> u64 {
        self.shared.published()
    }

    /// Waits until [`Cache::revision`] is `revision` or later.
    pub async fn wait_for(&self, revision: u64, limit: Duration) -> Result<(), WaitTimeout> {
        if self.revision() >= revision {
            return Ok(());
        }
        let mut announcements = self.shared.announcements();
        let reached = announcements.wait_for(|current| *current >= revision || self.shared.is_closed());
        // The outcome is read from the revision itself: all that counts is whether it was reached.
        let _ = timeout(limit, reached).await;
        let current = self.revision();
        if current >= revision { Ok(()) } else { Err(WaitTimeout { requested: revision, current }) }
    }

    /// Watches all resources from now on. There is no replay: a watcher that falls behind is closed
    /// and must look at everything again.
    pub fn watch_all(&self, filter: Filter) -> Watcher {
        // Between two batches: a change is either in the views already or will be delivered.
        let _applied = self.lock();
        Watcher::wildcard(&self.shared, filter)
    }

    /// Forgets history up to `revision`: older views and watches are refused.
    pub fn compact(&self, revision: u64) {
        let revision = revision.min(self.revision());
        self.lock().forget_history(revision);
        for resource in self.resources() {
            resource.compact(revision);
        }
    }

    /// Wakes watchers and ages windows until shutdown. To be run as one task; without it, the sink
    /// wakes all watchers itself and nothing grows old.
    #[expect(clippy::arithmetic_side_effects, reason = "the clock holds a few seconds from now")]
    pub async fn run(self: Arc<Cache>) {
        let _running = Dispatching::begin(&self.shared);
        // Where little is kept, that is looked after more often.
        let every = AGING_EVERY.min(self.shared.options.retention).max(AGING_EVERY_MIN);
        let mut aging = Instant::now() + every;
        while !self.shared.is_closed() {
            let rested = self.shared.dispatch().unwrap_or(aging);
            // Whether it came to an end makes no difference: then there is something to wake or to age.
            let _ = timeout_at(aging.min(rested), self.shared.queued.notified()).await;
            if Instant::now() >= aging {
                self.age();
                aging = Instant::now() + every;
            }
        }
    }

    /// Drops events and snapshots that are older than the options allow.
    pub fn age(&self) {
        let options = &self.shared.options;
        let at_ms = options.clock.now_ms().saturating_sub(options.retention.as_millis() as u64);
        self.lock().age(at_ms, self.revision());
        for resource in self.resources() {
            resource.age();
        }
    }

    /// Refuses lists of revisions before `revision` from now on, as kube-apiserver does once etcd was compacted to it:
    /// also of resources that have not changed since. Watches go on from older revisions as long as their
    /// events are retained, as from kube-apiserver's watch cache.
    pub fn compact_lists(&self, revision: u64) {
        self.shared.compact(revision);
    }

    /// Whether the store cannot tell of changes for now, so that no watch of a client should begin.
    pub fn is_interrupted(&self) -> bool {
        self.shared.is_interrupted()
    }

    /// Whether [`Cache::shutdown`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Ends all watches, all waits and the task. Reads still work.
    pub fn shutdown(&self) {
        self.shared.close();
        for resource in self.resources() {
            resource.wake_all();
        }
    }

    fn install(&self, registration: Registration, orphans: &mut Orphans) -> Arc<Resource> {
        let mut orphaned = orphans.take(&registration.prefix);
        if orphaned.entries.is_empty() && orphaned.history.is_empty() {
            // What is new has no past: a watch from before is told so, as where the cache begins with the resource.
            orphaned.compacted = orphaned.compacted.max(self.revision());
        }
        let prefix = registration.prefix.clone();
        let resource = Arc::new(Resource::new(&self.shared, registration, orphaned));
        let mut table = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(prefix, resource.clone());
        resource
    }

    fn remove(&self, prefix: &str, orphans: &mut Orphans) -> bool {
        let mut table = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        let Some(resource) = table.remove(prefix) else { return false };
        drop(table);
        self.give_back(&resource, orphans);
        resource.retire();
        true
    }

    /// Turns the objects of a resource into what nobody has registered.
    fn give_back(&self, resource: &Resource, orphans: &mut Orphans) {
        for object in resource.view().iter() {
            let (created, modified) = (Revision(object.created()), Revision(object.revision()));
            let entry = Entry { value: object.value().clone(), created, modified };
            orphans.put(object.key().full().clone(), entry);
        }
        orphans.forget_history(self.revision());
    }

    /// The resource that a key belongs to: prefixes end in a slash, and keys have few of those.
    fn owner(&self, key: &str) -> Option<Arc<Resource>> {
        let table = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let mut ends = key.match_indices('/').map(|(at, _)| at.saturating_add(1));
        ends.find_map(|end| table.get(key.get(..end)?)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Orphans> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Cache {
    fn apply(&self, changes: &[Change]) {
        let Some(last) = changes.last() else { return };
        let mut wake: Vec<Arc<Group>> = Vec::new();
        let mut orphans = self.lock();
        let mut rest = changes;
        while let Some(first) = rest.first() {
            let Some(resource) = self.owner(&first.key) else {
                orphans.apply(first, self.shared.options.clock.now_ms());
                rest = rest.get(1..).unwrap_or_default();
                continue;
            };
            let same = |change: &&Change| change.key.starts_with(&**resource.prefix());
            let (run, after) = rest.split_at(rest.iter().take_while(same).count().max(1));
            resource.apply(run, ordinal(changes, changes.len().saturating_sub(rest.len())), &mut wake);
            rest = after;
        }
        self.shared.publish(last.revision.0);
        drop(orphans);
        // Only now: whoever wakes up finds the revision published.
        for group in &wake {
            self.shared.wake(group);
        }
    }

    fn advance(&self, revision: Revision) {
        let _applied = self.lock();
        self.shared.publish(self.revision().max(revision.0));
    }

    /// As kube-apiserver does when its watch of etcd cannot go on: all watches end, and clients that come back with a
    /// revision from before get 410 Gone.
    fn reset(&self, loaded: Loaded) {
        let mut orphans = self.lock();
        let revision = loaded.revision.0;
        // First of all, so that no watch takes anything of the new state for what follows the old one.
        self.shared.count_reset();
        orphans.load(loaded, self.shared.options.clock.now_ms());
        for resource in self.resources() {
            resource.fill(orphans.take(resource.prefix()));
            resource.forget_snapshots();
        }
        self.shared.publish(revision);
        drop(orphans);
        for resource in self.resources() {
            resource.end_watches();
        }
        self.shared.wake_wildcard();
    }

    /// As kube-apiserver does while etcd has no leader: watches end, and new ones are refused until it has one again.
    fn interrupted(&self, is: bool) {
        self.shared.set_interrupted(is);
        if is {
            self.shared.count_reset();
            for resource in self.resources() {
                resource.wake_all();
            }
            self.shared.wake_wildcard();
        }
    }

    fn compacted(&self, revision: Revision) {
        self.shared.forbid_lists_before(revision.0);
    }
}

/// The number of a change within its revision: how many before it in the batch have the same one. A store never
/// spreads the changes of one revision over several batches.
fn ordinal(changes: &[Change], index: usize) -> u64 {
    let (before, rest) = changes.split_at(index);
    let Some(change) = rest.first() else { return 0 };
    before.iter().rev().take_while(|other| other.revision == change.revision).count() as u64
}

/// Tells the sink that somebody else wakes the watchers, as long as that is true.
struct Dispatching(Arc<Shared>);

impl Dispatching {
    fn begin(shared: &Arc<Shared>) -> Dispatching {
        shared.set_dispatching(true);
        Dispatching(shared.clone())
    }
}

impl Drop for Dispatching {
    fn drop(&mut self) {
        self.0.set_dispatching(false);
    }
}
