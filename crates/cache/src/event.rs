//! One change of one object, and how a watcher sees it.

use crate::encodings::{EncodingKey, Encodings};
use crate::key::ObjectKey;
use crate::object::Object;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// An estimate of what an allocation takes beside its content: counters, and rounding by the allocator.
const ALLOCATION_BYTES: usize = 64;
/// How many bits of a place number the changes within one revision.
const ORDINAL_BITS: u32 = 16;

/// A position in the order of all changes: the revision, then the change's number within it, because the changes of one
/// etcd transaction share a revision. No two events of a cache have the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Place(u64);

impl Place {
    /// The place after all changes.
    pub(crate) const MAX: Place = Place(u64::MAX);

    pub(crate) fn new(revision: u64, ordinal: u64) -> Place {
        Place(revision << ORDINAL_BITS | ordinal.min((1 << ORDINAL_BITS) - 1))
    }

    /// The place after all changes of a revision.
    pub(crate) fn end_of(revision: u64) -> Place {
        Place::new(revision.min(u64::MAX >> ORDINAL_BITS), u64::MAX)
    }

    pub(crate) fn revision(self) -> u64 {
        self.0 >> ORDINAL_BITS
    }

    pub(crate) fn raw(self) -> u64 {
        self.0
    }

    pub(crate) fn from_raw(raw: u64) -> Place {
        Place(raw)
    }
}

/// One committed change of one object, shared by the window and all watchers.
pub struct Event {
    pub(crate) place: Place,
    pub(crate) at_ms: u64,
    pub(crate) key: ObjectKey,
    pub(crate) resource: Arc<str>,
    pub(crate) object: Option<Arc<Object>>,
    pub(crate) previous: Option<Arc<Object>>,
    frames: Encodings,
}

impl Event {
    pub(crate) fn new(
        resource: &Arc<str>,
        place: Place,
        at_ms: u64,
        key: ObjectKey,
        object: Option<Arc<Object>>,
        previous: Option<Arc<Object>>,
    ) -> Event {
        let resource = resource.clone();
        Event { place, at_ms, key, resource, object, previous, frames: Encodings::default() }
    }

    /// The revision of the change.
    pub fn revision(&self) -> u64 {
        self.place.revision()
    }

    /// The key of the object: `namespace/name` or `name`.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The prefix of the resource that changed.
    pub fn resource(&self) -> &Arc<str> {
        &self.resource
    }

    /// The object after the change; `None` if the change deleted it.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    /// The object before the change; `None` if the change created it.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The time of the commit, or of its arrival if the store does not provide it, in milliseconds since 1970.
    pub fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// The object bytes that this event may keep alive.
    pub(crate) fn weight(&self) -> usize {
        self.previous.as_ref().map_or(0, |previous| previous.value().len())
    }

    /// The memory that this event takes, including the objects that it may keep alive.
    pub(crate) fn memory(&self) -> usize {
        let object =
            self.previous.as_ref().map_or(0, |_| size_of::<Object>().saturating_add(ALLOCATION_BYTES));
        size_of::<Event>()
            .saturating_add(ALLOCATION_BYTES)
            .saturating_add(object)
            .saturating_add(self.weight())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}: {:?} -> {:?}", self.key, self.revision(), self.previous, self.object)
    }
}

/// The type of an event, as a watcher sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventType {
    /// The object was created or is now selected.
    Added,
    /// The object changed and is still selected.
    Modified,
    /// The object was deleted or is no longer selected.
    Deleted,
}

impl EventType {
    /// The type of a change for a watcher that selects by `passes`; `None` if the watcher does not see it.
    pub(crate) fn of(event: &Event, passes: impl Fn(&Object) -> bool) -> Option<EventType> {
        let now = event.object.as_ref().is_some_and(|object| passes(object));
        let before = event.previous.as_ref().is_some_and(|object| passes(object));
        match (before, now) {
            (false, true) => Some(EventType::Added),
            (true, true) => Some(EventType::Modified),
            (true, false) => Some(EventType::Deleted),
            (false, false) => None,
        }
    }

    /// The word in watch frames.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

/// One event as one watcher sees it.
#[derive(Clone, Debug)]
pub struct Delivery {
    kind: EventType,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Event(Arc<Event>),
    Initial(Arc<Object>),
}

impl Delivery {
    pub(crate) fn event(kind: EventType, event: Arc<Event>) -> Delivery {
        Delivery { kind, source: Source::Event(event) }
    }

    pub(crate) fn initial(object: Arc<Object>) -> Delivery {
        Delivery { kind: EventType::Added, source: Source::Initial(object) }
    }

    /// This event for a watcher that also selects by `passes`; `None` if the watcher does not see it.
    pub fn within(&self, passes: impl Fn(&Object) -> bool) -> Option<Delivery> {
        match &self.source {
            Source::Initial(object) => passes(object).then(|| self.clone()),
            Source::Event(event) => {
                let kind = EventType::of(event, passes)?;
                Some(Delivery::event(kind, event.clone()))
            }
        }
    }

    /// The objects before and after the change, which decide the event's type.
    pub fn objects(&self) -> Vec<Arc<Object>> {
        match &self.source {
            Source::Initial(object) => vec![object.clone()],
            Source::Event(event) => event.previous.iter().chain(&event.object).cloned().collect(),
        }
    }

    /// The event's type for the watcher.
    pub fn kind(&self) -> EventType {
        self.kind
    }

    /// The resourceVersion to return with the object.
    pub fn revision(&self) -> u64 {
        match &self.source {
            Source::Event(event) => event.revision(),
            Source::Initial(object) => object.revision(),
        }
    }

    /// The object to return: the last state of a deleted one. Always encode it with [`Delivery::revision`].
    pub fn object(&self) -> &Arc<Object> {
        match &self.source {
            Source::Initial(object) => object,
            Source::Event(event) => content(self.kind, event),
        }
    }

    /// The underlying event; `None` for an object of the initial state.
    pub fn source(&self) -> Option<&Arc<Event>> {
        match &self.source {
            Source::Event(event) => Some(event),
            Source::Initial(_) => None,
        }
    }

    /// The frame in one encoding, made once for all watchers that receive the same event.
    pub fn frame<E>(
        &self,
        key: EncodingKey,
        make: impl FnOnce(&Delivery) -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        match &self.source {
            Source::Initial(_) => make(self),
            Source::Event(event) => {
                let key = (self.kind as u32) << 16 | u32::from(key.0);
                event.frames.get_or_make(key, || make(self))
            }
        }
    }
}

/// An event always has at least one of the two objects.
fn content(kind: EventType, event: &Event) -> &Arc<Object> {
    let (first, second) = match kind {
        EventType::Deleted => (&event.previous, &event.object),
        EventType::Added | EventType::Modified => (&event.object, &event.previous),
    };
    first.as_ref().or(second.as_ref()).unwrap_or_else(|| unreachable!("event without object"))
}

/// Why a watch ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseReason {
    /// The watcher fell behind the retained events.
    Slow,
    /// The resource was unregistered or registered again.
    Gone,
    /// The cache was shut down.
    Shutdown,
}

/// An event as a watcher receives it.
#[derive(Clone, Debug)]
pub enum Item {
    /// A selected object changed.
    Event(Delivery),
    /// All objects of the initial state, at this revision, were delivered.
    InitialEventsEnd(u64),
    /// All events up to this revision were delivered.
    Bookmark(u64),
    /// The watch has ended; no item follows.
    Closed(CloseReason),
}
