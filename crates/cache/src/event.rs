//! What happened to one object, and how one watcher sees it.

use crate::encodings::{EncodingKey, Encodings};
use crate::key::ObjectKey;
use crate::object::Object;
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;

/// How many bits of a place number the changes of one revision.
const ORDINAL_BITS: u32 = 16;

/// A place in the order of all changes: the revision, then the change's number within it, since the changes of one
/// etcd transaction share a revision. No two events of a cache have the same place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Place(u64);

impl Place {
    /// Behind everything.
    pub(crate) const MAX: Place = Place(u64::MAX);

    pub(crate) fn new(revision: u64, ordinal: u64) -> Place {
        Place(revision << ORDINAL_BITS | ordinal.min((1 << ORDINAL_BITS) - 1))
    }

    /// Behind all changes of a revision.
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

    /// `namespace/name` or `name`.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The prefix of the resource that changed.
    pub fn resource(&self) -> &Arc<str> {
        &self.resource
    }

    /// The object after the change; `None` when it was deleted.
    pub fn object(&self) -> Option<&Arc<Object>> {
        self.object.as_ref()
    }

    /// The object before the change; `None` when it was created.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The object bytes that this event may keep alive.
    pub(crate) fn weight(&self) -> usize {
        self.previous.as_ref().map_or(0, |previous| previous.value().len())
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}: {:?} -> {:?}", self.key, self.revision(), self.previous, self.object)
    }
}

/// What a watcher is told happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EventType {
    /// The object came into being or into the selection.
    Added,
    /// The object changed within the selection.
    Modified,
    /// The object went away or out of the selection.
    Deleted,
}

impl EventType {
    /// What a change is to someone who sees only what `passes`; `None` when it is nothing.
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

    /// The same as somebody sees it who sees only the objects that `passes` lets through; `None` when it is nothing.
    pub fn within(&self, passes: impl Fn(&Object) -> bool) -> Option<Delivery> {
        match &self.source {
            Source::Initial(object) => passes(object).then(|| self.clone()),
            Source::Event(event) => {
                let kind = EventType::of(event, passes)?;
                Some(Delivery::event(kind, event.clone()))
            }
        }
    }

    /// The objects that it depends on what the watcher is told: before and after.
    pub fn objects(&self) -> Vec<Arc<Object>> {
        match &self.source {
            Source::Initial(object) => vec![object.clone()],
            Source::Event(event) => event.previous.iter().chain(&event.object).cloned().collect(),
        }
    }

    /// What the watcher is told happened.
    pub fn kind(&self) -> EventType {
        self.kind
    }

    /// The revision to show as the object's resourceVersion.
    pub fn revision(&self) -> u64 {
        match &self.source {
            Source::Event(event) => event.revision(),
            Source::Initial(object) => object.revision(),
        }
    }

    /// The content to show: the last known one for what is deleted, always to be written with
    /// [`Delivery::revision`].
    pub fn object(&self) -> &Arc<Object> {
        match &self.source {
            Source::Initial(object) => object,
            Source::Event(event) => content(self.kind, event),
        }
    }

    /// The event behind it; `None` for an object of the initial state.
    pub fn source(&self) -> Option<&Arc<Event>> {
        match &self.source {
            Source::Event(event) => Some(event),
            Source::Initial(_) => None,
        }
    }

    /// The frame in one encoding, made once for all watchers that are told the same.
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

/// Events without any object are never made, so one of the two is always there.
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
    /// The watcher fell so far behind that what it missed is no longer retained.
    Slow,
    /// The resource was unregistered or registered anew.
    Gone,
    /// The cache was shut down.
    Shutdown,
}

/// What a watcher gets.
#[derive(Clone, Debug)]
pub enum Item {
    /// Something happened to a selected object.
    Event(Delivery),
    /// All objects of the initial state, which is that of this revision, were delivered.
    InitialEventsEnd(u64),
    /// All events up to this revision were delivered.
    Bookmark(u64),
    /// Nothing more will come.
    Closed(CloseReason),
}
