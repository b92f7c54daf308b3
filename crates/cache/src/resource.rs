//! One registered resource: its current index, its event window, and its groups of watchers.

use crate::draft::{Draft, Prepared};
use crate::error::{RevisionError, WaitTimeout};
use crate::event::{Event, Place};
use crate::filter::Filter;
use crate::group::{Cursor, Group, GroupKey, Groups};
use crate::key::ObjectKey;
use crate::object::{Extract, Extracted, Object, ReadForm};
use crate::orphans::Orphaned;
use crate::shared::Shared;
use crate::view::{Index, Indexed, View};
use crate::watch::{WatchStart, Watcher};
use crate::window::{Window, WindowEvents};
use arc_swap::ArcSwap;
use bytes::Bytes;
use pintle_store::{Change, Entry, Key, Snapshot};
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Fewer objects than these are decoded on one thread.
const PARALLEL_OBJECTS_MIN: usize = 10_000;

/// The registration of a resource.
#[derive(Clone)]
pub struct Registration {
    /// The prefix of the resource's keys, for example `/registry/configmaps/`. No prefix may contain another.
    pub prefix: Arc<str>,
    /// Whether keys are `namespace/name`.
    pub namespaced: bool,
    /// Reads the metadata and selectable fields of an object.
    pub extract: Arc<dyn Extract>,
}

/// A registered resource.
pub struct Resource {
    pub(crate) shared: Arc<Shared>,
    id: u64,
    registration: Registration,
    reader: ArcSwap<Arc<dyn Extract>>,
    view: ArcSwap<View>,
    live: Mutex<Live>,
    snapshots: Mutex<VecDeque<(u64, View)>>,
    gone: AtomicBool,
    /// The time at which the first unreadable object arrived, in milliseconds of the clock; `u64::MAX` if there was
    /// none.
    unreadable_since_ms: AtomicU64,
    /// How often all watches were ended.
    epoch: AtomicU64,
    /// The number of changes from the store.
    events: AtomicU64,
}

/// The state that the sink changes; readers of views never wait for it.
struct Live {
    index: Index,
    /// The revision of the last change.
    revision: u64,
    window: Window,
    groups: Groups,
}

/// The result of a replay step.
pub(crate) enum Replay {
    /// Some events, and the live cursor if there are no more.
    Events(WindowEvents, Option<Cursor>),
    /// The requested events are no longer retained.
    Expired,
}

impl Resource {
    pub(crate) fn new(shared: &Arc<Shared>, registration: Registration, orphaned: Orphaned) -> Resource {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let (window, groups) =
            (Window::new(0, &shared.options, shared.history_bytes.clone()), Groups::default());
        let live = Live { index: Index::new(), revision: 0, window, groups };
        let resource = Resource {
            shared: shared.clone(),
            id: IDS.fetch_add(1, Ordering::Relaxed),
            reader: ArcSwap::from_pointee(registration.extract.clone()),
            registration,
            view: ArcSwap::from_pointee(View { revision: 0, index: Index::new() }),
            live: Mutex::new(live),
            snapshots: Mutex::default(),
            gone: AtomicBool::new(false),
            unreadable_since_ms: AtomicU64::new(u64::MAX),
            epoch: AtomicU64::new(0),
            events: AtomicU64::new(0),
        };
        resource.fill(orphaned);
        resource
    }

    /// The prefix of the resource's keys.
    pub fn prefix(&self) -> &Arc<str> {
        &self.registration.prefix
    }

    /// Whether the resource's objects have a namespace.
    pub fn namespaced(&self) -> bool {
        self.registration.namespaced
    }

    /// The current state. It contains everything acknowledged before the call; its revision is that of a list.
    pub fn view(&self) -> View {
        // Read the published revision first: the view then contains everything up to it.
        let published = self.shared.published();
        let view = self.view.load();
        View { revision: view.revision.max(published), index: view.index.clone() }
    }

    /// The revision up to which every change of the resource's store is visible.
    pub fn revision(&self) -> u64 {
        self.shared.published()
    }

    /// Waits until [`Resource::revision`] is `revision` or later.
    pub async fn wait_for(&self, revision: u64, limit: Duration) -> Result<(), WaitTimeout> {
        self.shared.wait_for(revision, limit).await
    }

    /// Whether the store cannot tell of changes for now, so that no watch of a client should begin.
    pub fn is_interrupted(&self) -> bool {
        self.shared.is_interrupted()
    }

    /// The revision of the last change; `None` without objects.
    pub fn changed_at(&self) -> Option<u64> {
        let view = self.view.load();
        (!view.is_empty()).then_some(view.revision)
    }

    /// The current version of one object, by `namespace/name` or `name`.
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.view.load().get(key).cloned()
    }

    /// The state at exactly this revision.
    pub fn view_at(&self, revision: u64) -> Result<View, RevisionError> {
        let current = self.view();
        if revision > current.revision {
            return Err(RevisionError::Future { requested: revision, current: current.revision });
        }
        let oldest = self.shared.lists_from();
        if revision < oldest {
            return Err(RevisionError::Expired { requested: revision, oldest });
        }
        let oldest = self.shared.compacted();
        if revision < oldest {
            return Err(RevisionError::Expired { requested: revision, oldest });
        }
        match self.snapshot(revision) {
            Some(view) => Ok(view),
            None => self.rebuild_view(revision),
        }
    }

    /// Retains a view for [`Resource::view_at`]: the next page of a list will need it.
    pub fn pin(&self, view: &View) {
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.retain(|(_, pinned)| pinned.revision != view.revision);
        snapshots.push_back((self.now_ms(), view.clone()));
        while snapshots.len() > self.shared.options.snapshots_max {
            snapshots.pop_front();
        }
    }

    /// The oldest revision that views and watches can start from.
    pub fn oldest(&self) -> u64 {
        self.lock().window.compacted()
    }

    /// How many events are retained and how many watchers there are.
    pub fn stats(&self) -> (usize, usize) {
        let live = self.lock();
        (live.window.len(), live.groups.watchers())
    }

    /// How many changes the store has delivered since the resource was registered.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Extracts what selectors need from an object's JSON.
    pub fn extract(&self, json: &[u8]) -> Extracted {
        self.reader.load().extract(json)
    }

    /// Decodes objects with `reader` from now on. Existing ones are not decoded again, so the result must be the same
    /// for them.
    pub fn set_reader(&self, reader: Arc<dyn Extract>) {
        self.reader.store(Arc::new(reader));
    }

    /// Returns whether there may be undecodable objects.
    pub fn may_have_unreadable(&self) -> bool {
        self.unreadable_since_ms.load(Ordering::Relaxed) != u64::MAX
    }

    /// How long the resource has had objects that cannot be decoded.
    pub fn unreadable_for(&self) -> Duration {
        let since = self.unreadable_since_ms.load(Ordering::Relaxed);
        Duration::from_millis(self.now_ms().saturating_sub(since))
    }

    /// Prepares the extracted values of an object before it is written, so that the sink need not parse it. Without a read
    /// form, the sink asks [`Extract::read_form`].
    pub fn draft(&self, extracted: Extracted, read_form: Option<ReadForm>) -> Arc<Draft> {
        Draft::new(self.id, (extracted, read_form))
    }

    /// Starts a watch.
    pub fn watch(self: &Arc<Resource>, start: WatchStart, filter: Filter) -> Result<Watcher, RevisionError> {
        Watcher::new(self, start, filter)
    }

    /// Whether the resource was unregistered.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    fn snapshot(&self, revision: u64) -> Option<View> {
        let now = self.now_ms();
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        let (used, view) = snapshots.iter_mut().find(|(_, view)| view.revision == revision)?;
        *used = now;
        Some(view.clone())
    }

    fn rebuild_view(&self, revision: u64) -> Result<View, RevisionError> {
        let (mut index, events) = {
            let live = self.lock();
            let oldest = live.window.compacted();
            if revision < oldest {
                return Err(RevisionError::Expired { requested: revision, oldest });
            }
            (live.index.clone(), live.window.since(revision))
        };
        undo(&mut index, &events);
        let view = View { revision, index };
        if !events.is_empty() {
            // A client that lists an older revision usually requests the next page as well.
            self.pin(&view);
        }
        Ok(view)
    }

    /// Adds a watcher that has seen everything up to `from`, or up to now; returns that place.
    pub(crate) fn join(&self, key: &GroupKey, from: Option<u64>) -> Result<(Arc<Group>, u64), RevisionError> {
        let mut live = self.lock();
        let oldest = live.window.compacted();
        let position = from.unwrap_or_else(|| self.shared.published().max(oldest));
        if position < oldest {
            return Err(RevisionError::Expired { requested: position, oldest });
        }
        Ok((live.groups.join(key, self.shared.options.fanout_events_max), position))
    }

    pub(crate) fn leave(&self, key: &GroupKey, group: &Group) {
        self.lock().groups.leave(key, group);
    }

    /// The group's events after `position`. If these are all, also the live cursor, taken under the same lock so that
    /// nothing is missed.
    pub(crate) fn replay(&self, position: Place, key: &GroupKey, group: &Group) -> Replay {
        let live = self.lock();
        match live.window.stretch(position, key) {
            None => Replay::Expired,
            Some(stretch) => {
                let cursor = stretch.complete.then(|| group.end());
                Replay::Events(stretch, cursor)
            }
        }
    }

    /// Applies changes of this resource, in order, and collects the groups to wake. The first is change number
    /// `ordinal` of its revision.
    pub(crate) fn apply(&self, changes: &[Change], mut ordinal: u64, wake: &mut Vec<Arc<Group>>) {
        let at_ms = self.now_ms();
        let mut live = self.lock();
        let mut events = Vec::with_capacity(changes.len());
        let mut before = changes.first().map(|first| first.revision);
        for (index, change) in changes.iter().enumerate() {
            if index > 0 {
                ordinal = if before == Some(change.revision) { ordinal.saturating_add(1) } else { 0 };
            }
            before = Some(change.revision);
            let place = Place::new(change.revision.0, ordinal);
            if let Some(event) = self.make_event(&live.index, change, place, at_ms) {
                live.apply_event(&event);
                events.push(Arc::new(event));
            }
        }
        self.events.fetch_add(u64::try_from(events.len()).unwrap_or(0), Ordering::Relaxed);
        // Update the view first: a watcher that receives an event must find the object changed.
        self.view.store(Arc::new(View { revision: live.revision, index: live.index.clone() }));
        for event in events {
            self.append_to_groups(&live.groups, &event, wake);
            live.window.push(event);
        }
    }

    fn append_to_groups(&self, groups: &Groups, event: &Arc<Event>, wake: &mut Vec<Arc<Group>>) {
        let mut pushed = |group: &Arc<Group>| {
            if !wake.iter().any(|other| Arc::ptr_eq(other, group)) {
                wake.push(group.clone());
            }
        };
        groups.push(event, &mut pushed);
        self.shared.push_to_many(event, &mut pushed);
    }

    fn make_event(&self, index: &Index, change: &Change, place: Place, at_ms: u64) -> Option<Event> {
        let key = ObjectKey::new(&change.key, self.prefix())?;
        let previous = index.get(key.as_str()).map(|indexed| indexed.0.clone());
        let object = match &change.value {
            None => None,
            Some(value) => {
                let revision = change.revision.0;
                // Share the key of the previous entry to save a copy.
                let key = previous.as_ref().map_or_else(|| key.clone(), |previous| previous.key().clone());
                let created = previous.as_ref().map_or(revision, |previous| previous.created());
                let draft = Draft::of(&change.note);
                let prepared = draft.and_then(|draft| draft.take(self.id));
                let object = self.make_object(key, revision, created, value, prepared);
                if let (Some(draft), Some(object)) = (draft, &object) {
                    draft.set_committed(object);
                }
                object
            }
        };
        if object.is_none() && previous.is_none() {
            return None;
        }
        Some(Event::new(self.prefix(), place, at_ms, key, object, previous))
    }

    fn make_object(
        &self,
        key: ObjectKey,
        revision: u64,
        created: u64,
        value: &Bytes,
        prepared: Option<Prepared>,
    ) -> Option<Arc<Object>> {
        let (extracted, read_form) = match prepared {
            Some((extracted, Some(read_form))) => (extracted, read_form),
            Some((extracted, None)) => (extracted, self.reader.load().read_form(value)),
            None => self.reader.load().read(value),
        };
        if let ReadForm::Unreadable(_) = read_form {
            self.unreadable_since_ms.fetch_min(self.now_ms(), Ordering::Relaxed);
        }
        let object = Object::new(key, revision, created, value.clone(), extracted);
        if object.is_none() {
            tracing::error!(prefix = &**self.prefix(), revision, "stored value has no valid header");
        }
        object.map(|object| Arc::new(object.with_read_form(read_form)))
    }

    fn entry_object(&self, key: &Key, entry: &Entry) -> Option<Arc<Object>> {
        let key = ObjectKey::new(key, self.prefix())?;
        self.make_object(key, entry.modified.0, entry.created.0, &entry.value, None)
    }

    /// Takes over state and history from before the registration.
    pub(crate) fn fill(&self, orphaned: Orphaned) {
        let at_ms = self.now_ms();
        let mut live = self.lock();
        live.index = Index::new();
        live.revision = orphaned.compacted;
        live.window =
            Window::new(orphaned.compacted, &self.shared.options, self.shared.history_bytes.clone());
        let mut known: HashMap<Key, Arc<Object>> = HashMap::new();
        for change in &orphaned.history {
            let Some(key) = ObjectKey::new(&change.key, self.prefix()) else { continue };
            let previous = known
                .remove(&change.key)
                .or_else(|| change.previous.as_ref().and_then(|entry| self.entry_object(&change.key, entry)));
            let revision = change.revision.0;
            let created = previous.as_ref().map_or(revision, |previous| previous.created());
            let object = change
                .value
                .as_ref()
                .and_then(|value| self.make_object(key.clone(), revision, created, value, None));
            if let Some(object) = &object {
                known.insert(change.key.clone(), object.clone());
            }
            if object.is_some() || previous.is_some() {
                let place = Place::new(revision, 0);
                let event = Event::new(self.prefix(), place, at_ms, key, object, previous);
                live.revision = revision;
                live.window.push(Arc::new(event));
            }
        }
        let objects = decode_all(&orphaned.entries, |(key, entry)| {
            let seen = known.get(key).filter(|object| object.revision() == entry.modified.0).cloned();
            seen.or_else(|| self.entry_object(key, entry)).map(Indexed)
        });
        let newest = objects.iter().map(|indexed| indexed.0.revision()).max();
        live.revision = live.revision.max(newest.unwrap_or(0));
        live.index = Index::from_items(objects);
        self.view.store(Arc::new(View { revision: live.revision, index: live.index.clone() }));
    }

    /// Drops events and snapshots that are too old.
    pub(crate) fn age(&self) {
        let options = &self.shared.options;
        let now = self.now_ms();
        let at_ms = now.saturating_sub(options.retention.as_millis() as u64);
        while !self.take_old(|event| event.at_ms < at_ms).is_empty() {}
        let oldest = now.saturating_sub(options.snapshot_age_max.as_millis() as u64);
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.retain(|(used, _)| *used >= oldest);
    }

    /// Removes some of the oldest events. The caller drops them after it has released the lock that the sink needs.
    fn take_old(&self, old: impl Fn(&Event) -> bool) -> Vec<Arc<Event>> {
        self.lock().window.take_old(old)
    }

    /// The place of the oldest event that is retained.
    pub(crate) fn oldest_event(&self) -> Option<Place> {
        self.lock().window.oldest()
    }

    /// Drops events before `place`; some of them may remain.
    pub(crate) fn drop_events_before(&self, place: Place) {
        drop(self.take_old(|event| event.place < place));
    }

    /// Drops the events up to `revision`.
    pub(crate) fn compact(&self, revision: u64) {
        self.lock().window.compact(revision);
        let mut snapshots = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshots.retain(|(_, view)| view.revision >= revision);
    }

    /// Drops all snapshots that are retained for paged lists.
    pub(crate) fn forget_snapshots(&self) {
        self.snapshots.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The resource at a revision that only the store still has.
    pub fn view_of(&self, stored: &Snapshot) -> View {
        let entries = stored.iter().filter_map(|(key, entry)| self.entry_object(key, entry));
        let index = entries.map(Indexed).collect();
        View { revision: stored.revision().0, index }
    }

    /// The events of one object that are in memory, oldest first, and the revision after which the events are
    /// complete.
    pub fn events_of(&self, key: &str) -> (u64, Vec<Arc<Event>>) {
        let live = self.lock();
        let oldest = live.window.compacted();
        let mut events = live.window.since(oldest);
        drop(live);
        events.retain(|event| event.key().as_str() == key);
        (oldest, events)
    }

    /// Replaces objects that could not be decrypted and have not changed since by their current values. Watches end,
    /// because an object that did not change has no event.
    pub fn reread(&self, stored: &Snapshot) {
        let mut live = self.lock();
        for (key, entry) in stored.iter() {
            let Some(object_key) = ObjectKey::new(key, self.prefix()) else { continue };
            let is_lost = live.index.get(object_key.as_str()).is_some_and(|Indexed(object)| {
                object.is_untransformable() && object.revision() == entry.modified.0
            });
            if is_lost && let Some(object) = self.entry_object(key, entry) {
                live.index.insert(Indexed(object));
            }
        }
        self.view.store(Arc::new(View { revision: live.revision, index: live.index.clone() }));
        drop(live);
        self.forget_snapshots();
        self.end_watches();
    }

    /// Ends all current watches; new ones can start, with full history.
    pub fn end_watches(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
        self.wake_all();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Ends all watches permanently.
    pub(crate) fn retire(&self) {
        self.gone.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Wakes all watchers so that they notice the end.
    pub(crate) fn wake_all(&self) {
        for group in self.lock().groups.iter() {
            group.wake.notify_waiters();
        }
    }

    fn now_ms(&self) -> u64 {
        self.shared.options.clock.now_ms()
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn apply_event(&mut self, event: &Event) {
        self.revision = event.revision();
        match &event.object {
            Some(object) => drop(self.index.insert(Indexed(object.clone()))),
            None => drop(self.index.remove(event.key.as_str())),
        }
    }
}

/// Decodes entries in order, on all cores if there are many of them.
fn decode_all(
    entries: &[(Key, Entry)],
    decode: impl Fn(&(Key, Entry)) -> Option<Indexed> + Sync,
) -> Vec<Indexed> {
    let threads = if entries.len() < PARALLEL_OBJECTS_MIN {
        1
    } else {
        thread::available_parallelism().map_or(1, NonZero::get)
    };
    let part = entries.len().div_ceil(threads).max(1);
    let decode_part = |part: &[(Key, Entry)]| part.iter().filter_map(&decode).collect::<Vec<Indexed>>();
    thread::scope(|scope| {
        let mut parts = entries.chunks(part);
        let own = parts.next().unwrap_or_default();
        let others: Vec<_> = parts
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, || decode_part(part))))
            .collect();
        let mut objects = decode_part(own);
        for (part, thread) in others {
            objects.extend(match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // If no thread can be spawned, decode on this one.
                Err(_) => decode_part(part),
            });
        }
        objects
    })
}

/// Reverts events, given oldest first: the result has the state of each object before its first event.
fn undo(index: &mut Index, events: &[Arc<Event>]) {
    let mut seen = HashSet::new();
    for event in events.iter().filter(|event| seen.insert(event.key.as_str())) {
        match &event.previous {
            Some(previous) => drop(index.insert(Indexed(previous.clone()))),
            None => drop(index.remove(event.key.as_str())),
        }
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.prefix())
    }
}
