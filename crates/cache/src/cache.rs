//! The cache as a whole: the registered resources, the sink, and the task that wakes watchers.

use crate::error::WaitTimeout;
use crate::event::{Event, Place};
use crate::group::Group;
use crate::options::{AGING_EVERY, AGING_EVERY_MIN, HISTORY_TRIM_PART, Options};
use crate::orphans::Orphans;
use crate::resource::{Registration, Resource};
use crate::shared::Shared;
use crate::stores::{FurtherStore, MAIN, StoreSink};
use crate::watch::Watcher;
use pintle_store::{Change, Entry, Loaded, Revision, Sink, Store};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// The current and recent state of every resource.
pub struct Cache {
    /// The shared state of the resources in the main store.
    pub(crate) shared: Arc<Shared>,
    further: Vec<FurtherStore>,
    resources: RwLock<HashMap<Arc<str>, Arc<Resource>>>,
    /// How often `resources` has changed.
    registrations: AtomicU64,
    /// The entries of unregistered resources, for each store. The lock is held while changes are applied and while
    /// resources are registered or unregistered.
    orphans: Mutex<Vec<Orphans>>,
}

impl Cache {
    /// An empty cache, at revision 0 until a store is attached.
    pub fn new(options: Options) -> Arc<Cache> {
        Cache::with_stores(options, Vec::new())
    }

    /// An empty cache of several stores: one for all resources, and for each item of `further` one that has the
    /// resources with these prefixes. Each store has revisions of its own.
    pub fn with_stores(options: Options, further: Vec<Vec<Arc<str>>>) -> Arc<Cache> {
        let shared = Arc::new(Shared::new(options));
        let further: Vec<FurtherStore> =
            further.into_iter().map(|prefixes| FurtherStore::new(&shared, prefixes)).collect();
        let orphans = std::iter::repeat_with(Orphans::default).take(further.len().saturating_add(1));
        Arc::new(Cache {
            orphans: Mutex::new(orphans.collect()),
            shared,
            further,
            resources: RwLock::default(),
            registrations: AtomicU64::new(0),
        })
    }

    /// Becomes the sink of the main store and takes over its state and history. Must be called once, before the cache
    /// is read; resources may be registered before and after.
    pub fn attach(self: &Arc<Cache>, store: &dyn Store) {
        self.attach_as(MAIN, store, self.clone());
    }

    /// Attaches one of the further stores, which has the number `index` among them.
    pub fn attach_further(self: &Arc<Cache>, index: usize, store: &dyn Store) {
        let number = index.saturating_add(1);
        self.attach_as(number, store, Arc::new(StoreSink { cache: self.clone(), store: number }));
    }

    fn attach_as(&self, number: usize, store: &dyn Store, sink: Arc<dyn Sink>) {
        // The sink waits for this lock, so no change is applied before the state that it modifies.
        let mut orphans = self.lock();
        let loaded = store.load(sink);
        self.take_over(number, loaded, &mut orphans);
    }

    /// Replaces all objects of a store.
    fn take_over(&self, store: usize, loaded: Loaded, orphans: &mut [Orphans]) {
        let Some(orphans) = orphans.get_mut(store) else { return };
        let (shared, revision) = (self.shared_of(store), loaded.revision.0);
        // Count the reset first, so that no watch takes the new state for a continuation of the old one.
        shared.count_reset();
        let resources: Vec<Arc<Resource>> = self.resources_of(store).collect();
        let prefixes: Vec<&str> = resources.iter().map(|resource| &**resource.prefix()).collect();
        let taken = orphans.load(loaded, shared.options.clock.now_ms(), &prefixes);
        if !self.further.is_empty() {
            orphans.retain(|key| self.store_of(key) == store);
        }
        for (resource, orphaned) in resources.iter().zip(taken) {
            resource.fill(orphaned);
            resource.forget_snapshots();
        }
        self.trim_history(store);
        shared.publish(revision);
    }

    /// The number of the store that a key or a resource's prefix belongs to.
    fn store_of(&self, key: &str) -> usize {
        let further = self.further.iter().position(|store| store.owns(key));
        further.map_or(MAIN, |index| index.saturating_add(1))
    }

    fn shared_of(&self, store: usize) -> &Arc<Shared> {
        let further = store.checked_sub(1).and_then(|index| self.further.get(index));
        further.map_or(&self.shared, |further| &further.shared)
    }

    fn resources_of(&self, store: usize) -> impl Iterator<Item = Arc<Resource>> {
        let shared = self.shared_of(store).clone();
        self.resources().into_iter().filter(move |resource| Arc::ptr_eq(&resource.shared, &shared))
    }

    fn stores(&self) -> std::ops::RangeInclusive<usize> {
        MAIN..=self.further.len()
    }

    /// Registers a resource with everything that the store has under its prefix. An existing resource is replaced: its
    /// objects are decoded again, its history is dropped, its watches end.
    pub fn register(&self, registration: Registration) -> Arc<Resource> {
        let mut orphans = self.lock();
        // The old resource answers until it is replaced, so readers always find one.
        let old = self.resource(&registration.prefix);
        if let Some(old) = &old {
            self.move_to_orphans(old, &mut orphans);
        }
        let new = self.install_resource(registration, &mut orphans);
        if let Some(old) = old {
            old.retire();
        }
        new
    }

    /// Unregisters a resource and ends its watches. Its objects stay in the store.
    pub fn unregister(&self, prefix: &str) -> bool {
        let mut orphans = self.lock();
        self.remove(prefix, &mut orphans)
    }

    /// The resource registered under exactly this prefix.
    pub fn resource(&self, prefix: &str) -> Option<Arc<Resource>> {
        self.resources.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned()
    }

    /// A number that changes when a resource is registered or unregistered: as long as it is the same, so is what
    /// [`Cache::resource`] returns.
    pub fn registrations(&self) -> u64 {
        self.registrations.load(Ordering::Acquire)
    }

    /// All registered resources, ordered by prefix.
    pub fn resources(&self) -> Vec<Arc<Resource>> {
        let table = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let mut resources: Vec<_> = table.values().cloned().collect();
        resources.sort_unstable_by(|a, b| a.prefix().cmp(b.prefix()));
        resources
    }

    /// The revision up to which every change of the main store is visible.
    pub fn revision(&self) -> u64 {
        self.shared.published()
    }

    /// A number that grows with every change of any store.
    pub fn progress(&self) -> u64 {
        self.stores().fold(0, |sum, store| self.shared_of(store).published().wrapping_add(sum))
    }

    /// Waits until [`Cache::revision`] is `revision` or later.
    pub async fn wait_for(&self, revision: u64, limit: Duration) -> Result<(), WaitTimeout> {
        self.shared.wait_for(revision, limit).await
    }

    /// Watches the events that are `wanted`, of all resources, from now on. Other events do not wake the watcher: `wanted`
    /// decides in the sink, so it must be fast and must not call the cache's writing functions. It sees an event after
    /// the views contain it. There is no replay: a watcher that falls behind is closed and must list everything again.
    pub fn watch_where(&self, wanted: impl Fn(&Event) -> bool + Send + Sync + 'static) -> Watcher {
        // Between two batches, a change is either in the views already or will be delivered.
        let _applied = self.lock();
        Watcher::of_many(&self.shared, self.shared.join_selection(Box::new(wanted)))
    }

    /// As [`Cache::watch_where`], for all events of the resources with these prefixes.
    pub fn watch_resources(&self, prefixes: &'static [&'static str]) -> Watcher {
        self.watch_where(move |event| prefixes.contains(&&**event.resource()))
    }

    /// Waits until the cache is shut down, for at most `limit`. Returns whether it is.
    pub async fn closed_within(&self, limit: Duration) -> bool {
        self.shared.closed_within(limit).await
    }

    /// Drops the history of the main store up to `revision`: older views and watches are refused.
    pub fn compact(&self, revision: u64) {
        let revision = revision.min(self.revision());
        if let Some(orphans) = self.lock().get_mut(MAIN) {
            orphans.forget_history(revision);
        }
        for resource in self.resources_of(MAIN) {
            resource.compact(revision);
        }
    }

    /// Wakes watchers and drops old history until shutdown. Run it as a single task; without it, the sink wakes all
    /// watchers itself and no history is dropped.
    #[expect(clippy::arithmetic_side_effects, reason = "the clock holds a few seconds from now")]
    pub async fn run(self: Arc<Cache>) {
        let _running = Dispatching::begin(&self.shared);
        // With a short retention, check more often.
        let every = AGING_EVERY.min(self.shared.options.retention).max(AGING_EVERY_MIN);
        let mut aging = Instant::now() + every;
        while !self.shared.is_closed() {
            let rested = self.shared.dispatch().unwrap_or(aging);
            // After a time-out as well as after a notification there is something to wake or to drop.
            let _ = timeout_at(aging.min(rested), self.shared.queued()).await;
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
        for (store, orphans) in self.lock().iter_mut().enumerate() {
            orphans.age(at_ms, self.shared_of(store).published());
        }
        for resource in self.resources() {
            resource.age();
        }
    }

    /// Refuses lists of revisions before `revision` from now on, as kube-apiserver does once etcd was compacted to
    /// it, even of resources that have not changed since. Watches can still start at older revisions as long as their
    /// events are retained, as in kube-apiserver's watch cache. This applies to the main store.
    pub fn compact_lists(&self, revision: u64) {
        self.shared.compact(revision);
    }

    /// Whether [`Cache::shutdown`] was called.
    pub fn is_closed(&self) -> bool {
        self.shared.is_closed()
    }

    /// Ends all watches, all waits and the task. Reads still work.
    pub fn shutdown(&self) {
        for store in self.stores() {
            self.shared_of(store).close();
        }
        for resource in self.resources() {
            resource.wake_all();
        }
    }

    fn install_resource(&self, registration: Registration, orphans: &mut [Orphans]) -> Arc<Resource> {
        let store = self.store_of(&registration.prefix);
        let shared = self.shared_of(store);
        let mut orphaned = orphans
            .get_mut(store)
            .map_or_else(Default::default, |orphans| orphans.take(&registration.prefix));
        if orphaned.entries.is_empty() && orphaned.history.is_empty() {
            // A newly registered resource has no history: a watch from an older revision gets 410 Gone.
            orphaned.compacted = orphaned.compacted.max(shared.published());
        }
        let prefix = registration.prefix.clone();
        let resource = Arc::new(Resource::new(shared, registration, orphaned));
        let mut table = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        table.insert(prefix, resource.clone());
        self.registrations.fetch_add(1, Ordering::Release);
        resource
    }

    fn remove(&self, prefix: &str, orphans: &mut [Orphans]) -> bool {
        let mut table = self.resources.write().unwrap_or_else(PoisonError::into_inner);
        let Some(resource) = table.remove(prefix) else { return false };
        self.registrations.fetch_add(1, Ordering::Release);
        drop(table);
        self.move_to_orphans(&resource, orphans);
        resource.retire();
        true
    }

    /// Drops the oldest events of a store's resources if all together take too much memory.
    fn trim_history(&self, store: usize) {
        let shared = self.shared_of(store);
        let (max, taken) = (shared.options.history_bytes_max, &shared.history_bytes);
        if taken.load(Ordering::Relaxed) <= max {
            return;
        }
        let target = max.saturating_sub(max / HISTORY_TRIM_PART);
        let resources = self.resources_of(store);
        let mut oldest: BTreeMap<Place, Arc<Resource>> =
            resources.filter_map(|resource| Some((resource.oldest_event()?, resource))).collect();
        while taken.load(Ordering::Relaxed) > target {
            let Some((_, resource)) = oldest.pop_first() else { return };
            resource.drop_events_before(oldest.first_key_value().map_or(Place::MAX, |(next, _)| *next));
            oldest.extend(resource.oldest_event().map(|place| (place, resource)));
        }
    }

    /// Moves the objects of a resource to the unregistered ones.
    fn move_to_orphans(&self, resource: &Resource, orphans: &mut [Orphans]) {
        let Some(orphans) = orphans.get_mut(self.store_of(resource.prefix())) else { return };
        for object in resource.view().iter() {
            let (created, modified) = (Revision(object.created()), Revision(object.revision()));
            let entry = Entry { value: object.value().clone(), created, modified };
            orphans.put(object.key().full().clone(), entry);
        }
        orphans.forget_history(resource.revision());
    }

    /// The resource that a key belongs to, found by trying each prefix that ends in a slash.
    fn owner(&self, key: &str) -> Option<Arc<Resource>> {
        let table = self.resources.read().unwrap_or_else(PoisonError::into_inner);
        let mut ends = key.match_indices('/').map(|(at, _)| at.saturating_add(1));
        ends.find_map(|end| table.get(key.get(..end)?)).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Orphans>> {
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cache as the sink of a store, which is identified by its number.
impl Cache {
    pub(crate) fn apply_changes(&self, store: usize, changes: &[Change]) {
        let Some(last) = changes.last() else { return };
        let shared = self.shared_of(store);
        let mut wake: Vec<Arc<Group>> = Vec::new();
        let mut orphans = self.lock();
        let mut rest = changes;
        while let Some(first) = rest.first() {
            let is_own = self.store_of(&first.key) == store;
            let Some(resource) = self.owner(&first.key).filter(|_| is_own) else {
                if let Some(orphans) = orphans.get_mut(store).filter(|_| is_own) {
                    orphans.apply(first, shared.options.clock.now_ms());
                }
                rest = rest.get(1..).unwrap_or_default();
                continue;
            };
            let same = |change: &&Change| change.key.starts_with(&**resource.prefix());
            let (run, after) = rest.split_at(rest.iter().take_while(same).count().max(1));
            resource.apply(run, ordinal(changes, changes.len().saturating_sub(rest.len())), &mut wake);
            rest = after;
        }
        shared.publish(last.revision.0);
        self.trim_history(store);
        drop(orphans);
        // Wake watchers only now, so that they find the revision published.
        for group in &wake {
            shared.wake(group);
        }
    }

    pub(crate) fn advance_store(&self, store: usize, revision: Revision) {
        let _applied = self.lock();
        let shared = self.shared_of(store);
        shared.publish(shared.published().max(revision.0));
    }

    /// As in kube-apiserver after a failed watch of etcd: all watches end, and clients that return with an older
    /// revision get 410 Gone.
    pub(crate) fn reset_store(&self, store: usize, loaded: Loaded) {
        self.take_over(store, loaded, &mut self.lock());
        for resource in self.resources_of(store) {
            resource.end_watches();
        }
        self.shared.wake_watchers_of_many();
    }

    /// As in kube-apiserver while etcd has no leader: watches end, and new ones are refused until there is one.
    pub(crate) fn interrupt_store(&self, store: usize, is: bool) {
        let shared = self.shared_of(store);
        shared.set_interrupted(is);
        if is {
            shared.count_reset();
            for resource in self.resources_of(store) {
                resource.wake_all();
            }
            shared.wake_watchers_of_many();
        }
    }

    pub(crate) fn compact_store(&self, store: usize, revision: Revision) {
        self.shared_of(store).forbid_lists_before(revision.0);
    }
}

/// The number of a change within its revision: how many earlier changes of the batch have the same one. A store never
/// splits the changes of one revision over several batches.
fn ordinal(changes: &[Change], index: usize) -> u64 {
    let (before, rest) = changes.split_at(index);
    let Some(change) = rest.first() else { return 0 };
    before.iter().rev().take_while(|other| other.revision == change.revision).count() as u64
}

/// While this exists, the dispatcher task wakes the watchers, not the sink.
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
