//! Fan-out: watchers that need the same events share one list of them, and each has a cursor.
//!
//! A push costs the same for one watcher and for a thousand. The list is a chain of segments with write-once slots,
//! so following it takes no lock. Links are weak, so a watcher that does not advance keeps only one segment alive. A
//! watcher that falls behind the chain replays the window.

use crate::Str;
use crate::event::{Event, Place};
use crate::options::{SEGMENT_EVENTS_ALL, SEGMENT_EVENTS_NAME, SEGMENT_EVENTS_PART};
use crate::run::Runs;
use crate::wake_batching::WakeBatching;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::Notify;
use tokio::time::Instant;

/// The events that a group receives.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GroupKey {
    /// All objects of the resource.
    All,
    /// The objects of one namespace.
    Namespace(Str),
    /// One object.
    Name(Str),
    /// Objects whose field has this value, before or after the change.
    Field(usize, Str),
}

impl GroupKey {
    pub(crate) fn has_event(&self, event: &Event) -> bool {
        match self {
            GroupKey::All => true,
            GroupKey::Namespace(namespace) => event.key.namespace() == Some(namespace),
            GroupKey::Name(name) => event.key.as_str() == name,
            GroupKey::Field(index, value) => [&event.object, &event.previous]
                .into_iter()
                .flatten()
                .any(|object| object.field(*index) == value),
        }
    }

    fn segment_events(&self) -> usize {
        match self {
            GroupKey::All => SEGMENT_EVENTS_ALL,
            GroupKey::Namespace(_) | GroupKey::Field(..) => SEGMENT_EVENTS_PART,
            GroupKey::Name(_) => SEGMENT_EVENTS_NAME,
        }
    }
}

struct Segment {
    slots: Box<[OnceLock<Arc<Event>>]>,
    next: OnceLock<Weak<Segment>>,
}

impl Segment {
    fn new(slots: usize) -> Arc<Segment> {
        let slots = (0..slots).map(|_| OnceLock::new()).collect();
        Arc::new(Segment { slots, next: OnceLock::new() })
    }
}

/// The end of the chain: the segments that the group itself keeps alive.
struct Tail {
    segments: VecDeque<Arc<Segment>>,
    last: Arc<Segment>,
    used: usize,
    /// The number of events since the watchers were last woken.
    events_since_wake: usize,
    /// The last event's.
    place: Place,
}

/// Watchers that receive the same events.
pub(crate) struct Group {
    tail: Mutex<Tail>,
    slots: usize,
    segments_max: usize,
    pub(crate) wake: Arc<Notify>,
    pub(crate) watchers: AtomicUsize,
    /// Whether the group is already in the dispatcher's queue.
    pub(crate) queued: AtomicBool,
    wake_batching: Mutex<WakeBatching>,
    /// Large groups of watchers receive events up to this [`Place`], so that all receive the same batch; later events wait for
    /// their release.
    released: AtomicU64,
    pub(crate) runs: Runs,
}

impl Group {
    pub(crate) fn new(segment_events: usize, events_max: usize) -> Arc<Group> {
        let slots = segment_events.min(events_max).max(1);
        let last = Segment::new(slots);
        Arc::new(Group {
            tail: Mutex::new(Tail {
                segments: VecDeque::new(),
                last,
                used: 0,
                events_since_wake: 0,
                place: Place::default(),
            }),
            slots,
            segments_max: events_max.checked_div(slots).unwrap_or(0).max(1),
            wake: Arc::new(Notify::new()),
            watchers: AtomicUsize::new(0),
            queued: AtomicBool::new(false),
            wake_batching: Mutex::new(WakeBatching::default()),
            released: AtomicU64::new(Place::MAX.raw()),
            runs: Runs::default(),
        })
    }

    /// Wakes the watchers of a queued group; later events may be delayed.
    pub(crate) fn release(&self, now: Instant) {
        // Clear the flag first: an event that is pushed from here on queues the group again.
        self.queued.swap(false, Ordering::AcqRel);
        let events_since_wake = {
            // This must happen under the lock: an event that is pushed after the last one was read comes after the
            // released ones.
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            self.released.store(tail.place.raw(), Ordering::Release);
            std::mem::take(&mut tail.events_since_wake)
        };
        self.wake_batching().begin(now, self.watchers.load(Ordering::Relaxed), events_since_wake);
        self.wake.notify_waiters();
    }

    /// Wakes the watchers without any delay.
    pub(crate) fn release_all(&self) {
        self.released.store(Place::MAX.raw(), Ordering::Release);
        self.wake.notify_waiters();
    }

    /// The place up to which watchers may receive events.
    pub(crate) fn released(&self) -> Place {
        Place::from_raw(self.released.load(Ordering::Acquire))
    }

    /// Returns until when the watchers that were woken last are not woken again.
    pub(crate) fn delays_until(&self, now: Instant) -> Option<Instant> {
        self.wake_batching().delay_until(now)
    }

    fn wake_batching(&self) -> MutexGuard<'_, WakeBatching> {
        self.wake_batching.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event without waking watchers, which is done once for many events.
    pub(crate) fn push(&self, event: &Arc<Event>) {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if tail.used == tail.last.slots.len() {
            self.extend_tail(&mut tail);
        }
        if let Some(slot) = tail.last.slots.get(tail.used) {
            // Only this function fills slots, each once.
            let _ = slot.set(event.clone());
        }
        tail.used = tail.used.saturating_add(1);
        tail.events_since_wake = tail.events_since_wake.saturating_add(1);
        tail.place = event.place;
    }

    fn extend_tail(&self, tail: &mut Tail) {
        let new = Segment::new(self.slots);
        // Only the last segment has no next one.
        let _ = tail.last.next.set(Arc::downgrade(&new));
        let full = std::mem::replace(&mut tail.last, new);
        tail.segments.push_back(full);
        tail.used = 0;
        // The oldest segment is dropped when no cursor is in it: a cursor can only enter it from an older one.
        while tail.segments.len() >= self.segments_max
            || tail.segments.front().is_some_and(|oldest| Arc::strong_count(oldest) == 1)
        {
            if tail.segments.pop_front().is_none() {
                break;
            }
        }
    }

    /// A cursor that receives the events pushed from now on.
    pub(crate) fn end(&self) -> Cursor {
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        Cursor { segment: tail.last.clone(), index: tail.used }
    }
}

/// A watcher's position in the chain.
pub(crate) struct Cursor {
    segment: Arc<Segment>,
    index: usize,
}

/// The next event at a cursor, if any.
pub(crate) enum Next<'a> {
    Event(&'a Arc<Event>),
    /// There is no further event yet.
    Empty,
    /// The next event is delayed.
    Held,
    /// The next segment is gone.
    Lost,
}

impl Cursor {
    /// The next event, if its place is at most `released`.
    pub(crate) fn next(&mut self, released: Place) -> Next<'_> {
        if self.index == self.segment.slots.len() {
            match self.segment.next.get().map(Weak::upgrade) {
                None => return Next::Empty,
                Some(None) => return Next::Lost,
                Some(Some(next)) => (self.segment, self.index) = (next, 0),
            }
        }
        match self.segment.slots.get(self.index).and_then(OnceLock::get) {
            None => Next::Empty,
            Some(event) if event.place > released => Next::Held,
            Some(event) => {
                self.index = self.index.saturating_add(1);
                Next::Event(event)
            }
        }
    }
}

/// The groups of one resource that have watchers.
#[derive(Default)]
pub(crate) struct Groups {
    all: Option<Arc<Group>>,
    namespaces: HashMap<Str, Arc<Group>>,
    names: HashMap<Str, Arc<Group>>,
    fields: BTreeMap<usize, HashMap<Str, Arc<Group>>>,
}

impl Groups {
    /// Returns the group with this key and counts one more watcher.
    pub(crate) fn join(&mut self, key: &GroupKey, events_max: usize) -> Arc<Group> {
        let new = || Group::new(key.segment_events(), events_max);
        let group = match key {
            GroupKey::All => self.all.get_or_insert_with(new),
            GroupKey::Namespace(namespace) => self.namespaces.entry(namespace.clone()).or_insert_with(new),
            GroupKey::Name(name) => self.names.entry(name.clone()).or_insert_with(new),
            GroupKey::Field(index, value) => {
                self.fields.entry(*index).or_default().entry(value.clone()).or_insert_with(new)
            }
        };
        group.watchers.fetch_add(1, Ordering::Relaxed);
        group.clone()
    }

    /// Counts one watcher less and removes the group with the last one.
    pub(crate) fn leave(&mut self, key: &GroupKey, group: &Group) {
        if group.watchers.fetch_sub(1, Ordering::Relaxed) > 1 {
            return;
        }
        match key {
            GroupKey::All => self.all = None,
            GroupKey::Namespace(namespace) => drop(self.namespaces.remove(namespace)),
            GroupKey::Name(name) => drop(self.names.remove(name)),
            GroupKey::Field(index, value) => self.remove_field(*index, value),
        }
    }

    fn remove_field(&mut self, index: usize, value: &str) {
        let Some(values) = self.fields.get_mut(&index) else { return };
        values.remove(value);
        if values.is_empty() {
            self.fields.remove(&index);
        }
    }

    /// Appends the event to every group that contains it and reports these groups.
    pub(crate) fn push(&self, event: &Arc<Event>, mut pushed: impl FnMut(&Arc<Group>)) {
        let mut push = |group: Option<&Arc<Group>>| {
            if let Some(group) = group {
                group.push(event);
                pushed(group);
            }
        };
        push(self.all.as_ref());
        if !self.namespaces.is_empty() {
            push(event.key.namespace().and_then(|namespace| self.namespaces.get(namespace)));
        }
        if !self.names.is_empty() {
            push(self.names.get(event.key.as_str()));
        }
        for (index, values) in &self.fields {
            let now = event.object.as_ref().map(|object| object.field(*index));
            let before = event.previous.as_ref().map(|object| object.field(*index));
            push(now.and_then(|value| values.get(value)));
            if before != now {
                push(before.and_then(|value| values.get(value)));
            }
        }
    }

    /// All groups.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Group>> {
        let parts = self.namespaces.values().chain(self.names.values());
        let fields = self.fields.values().flat_map(HashMap::values);
        self.all.iter().chain(parts).chain(fields)
    }

    /// How many watchers there are.
    pub(crate) fn watchers(&self) -> usize {
        self.iter().map(|group| group.watchers.load(Ordering::Relaxed)).sum()
    }
}
