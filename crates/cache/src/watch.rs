//! One watcher: delivers the initial state if requested, then replays the window, then follows live events, without a
//! gap.

use crate::encodings::EncodingKey;
use crate::error::RevisionError;
use crate::event::{CloseReason, Delivery, Event, Item, Place};
use crate::filter::Filter;
use crate::group::{Cursor, Group, GroupKey, Next};
use crate::object::Object;
use crate::options::{INITIAL_OBJECTS_MAX, WAKE_DIRECT_MAX, WATCH_STEPS_MAX};
use crate::resource::{Replay, Resource};
use crate::run::{Run, RunKey};
use crate::shared::Shared;
use crate::view::View;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::futures::OwnedNotified;
use tokio::time::{Sleep, sleep};

/// The position at which a watch begins.
pub enum WatchStart {
    /// The watch delivers what happens after the call.
    FromNow,
    /// The watch begins with the first change after this revision, which may be in the future.
    FromRevision(u64),
    /// The watch delivers the selected objects of a view as additions, then the changes after the view.
    WithInitialState(View),
}

/// Follows one resource, several or all of them. It has no buffer that could fill up: it is a cursor, and is closed
/// when the next event that it needs is no longer retained.
pub struct Watcher {
    shared: Arc<Shared>,
    /// `None` for several or all resources.
    resource: Option<Arc<Resource>>,
    /// The epoch of the resource when the watch began; 0 for several resources.
    epoch: u64,
    /// How often the state had been reloaded when the watch began.
    resets: u64,
    group: Arc<Group>,
    key: GroupKey,
    filter: Filter,
    phase: Phase,
    /// Everything up to this place was delivered or is not selected.
    position: Place,
    bookmarks: Option<Bookmarks>,
    /// The next wake-up, registered before the last look for events.
    woken: Pin<Box<OwnedNotified>>,
}

struct Bookmarks {
    every: Duration,
    /// The timer is reused, because creating one for each wait costs more than delivering an event.
    due: Pin<Box<Sleep>>,
}

enum Phase {
    Initial(Initial),
    /// Events from the window, up to a place, and then perhaps the live cursor.
    Replay(VecDeque<Arc<Event>>, Place, Option<Cursor>),
    Live(Cursor),
    Ended,
}

struct Initial {
    view: View,
    prefix: String,
    chunk: VecDeque<Arc<Object>>,
    /// Whether no events follow the chunk.
    complete: bool,
}

enum Step {
    Item(Item),
    /// There is no event to deliver yet.
    Wait,
    /// The step made progress, and there may be more to do.
    Again,
    Ended,
}

impl Watcher {
    pub(crate) fn new(
        resource: &Arc<Resource>,
        start: WatchStart,
        filter: Filter,
    ) -> Result<Watcher, RevisionError> {
        let key = filter.group(resource.namespaced());
        let resets = resource.shared.resets();
        let (from, initial) = match start {
            WatchStart::FromNow => (None, None),
            WatchStart::FromRevision(revision) => (Some(revision), None),
            WatchStart::WithInitialState(view) => (Some(view.revision), Some(view)),
        };
        let epoch = resource.epoch();
        let (group, position) = resource.join(&key, from)?;
        let position = Place::end_of(position);
        let phase = match initial {
            None => Phase::Replay(VecDeque::new(), position, None),
            Some(view) => Phase::Initial(Initial::new(view, &filter, &key)),
        };
        let woken = Box::pin(group.wake.clone().notified_owned());
        Ok(Watcher {
            shared: resource.shared.clone(),
            resource: Some(resource.clone()),
            epoch,
            resets,
            group,
            filter: filter.within(&key),
            key,
            phase,
            position,
            bookmarks: None,
            woken,
        })
    }

    /// A watcher of several resources. It must be counted in its group already, so that the sink appends for it.
    pub(crate) fn of_many(shared: &Arc<Shared>, group: Arc<Group>) -> Watcher {
        let resets = shared.resets_of_all();
        let position = Place::end_of(shared.published());
        let phase = Phase::Live(group.end());
        let (shared, key) = (shared.clone(), GroupKey::All);
        let woken = Box::pin(group.wake.clone().notified_owned());
        Watcher {
            shared,
            resource: None,
            epoch: 0,
            resets,
            group,
            key,
            filter: Filter::default(),
            phase,
            position,
            bookmarks: None,
            woken,
        }
    }

    /// Delivers a bookmark whenever `every` has passed. Must be called within a runtime.
    pub fn with_bookmarks(mut self, every: Duration) -> Watcher {
        self.bookmarks = Some(Bookmarks { every, due: Box::pin(sleep(every)) });
        self
    }

    /// Returns the next item for the client; `None` after [`Item::Closed`]. Dropping the future loses no item.
    pub async fn next(&mut self) -> Option<Item> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// [`Watcher::next`] for callers that are polled themselves.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            match self.advance() {
                Step::Item(item) => return Poll::Ready(Some(item)),
                Step::Ended => return Poll::Ready(None),
                // Let other tasks run first.
                Step::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Step::Wait => {}
            }
            // The future registers for wake-ups when it is created, so look for events once more after that.
            if self.woken.as_mut().poll(context).is_ready() {
                self.woken.set(self.group.wake.clone().notified_owned());
                continue;
            }
            let is_due = |bookmarks: &mut Bookmarks| bookmarks.due.as_mut().poll(context).is_ready();
            return if self.bookmarks.as_mut().is_some_and(is_due) {
                Poll::Ready(Some(self.make_bookmark()))
            } else {
                Poll::Pending
            };
        }
    }

    /// Is ready when the watch has ended, even if earlier items are unread. It is for callers that wait for something
    /// else before they read on.
    pub fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if self.shared.is_closed() || self.is_void() || self.is_outdated() {
                return Poll::Ready(());
            }
            if self.woken.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.woken.set(self.group.wake.clone().notified_owned());
        }
    }

    fn is_outdated(&self) -> bool {
        self.resource.as_ref().is_some_and(|resource| resource.is_gone() || resource.epoch() != self.epoch)
    }

    /// The next item, if it is available without waiting.
    pub fn try_next(&mut self) -> Option<Item> {
        loop {
            match self.advance() {
                Step::Item(item) => return Some(item),
                Step::Wait | Step::Ended => return None,
                Step::Again => {}
            }
        }
    }

    /// Returns the event that was just delivered and the following ones as one run, if a watcher that receives the
    /// same events stored it with [`Watcher::store_run`]. The events count as delivered.
    pub fn take_run(&mut self, first: &Delivery, encoding: EncodingKey) -> Option<Bytes> {
        let run = self.group.runs.get(self.run_key(first, encoding)?)?;
        self.position = self.position.max(run.last);
        Some(run.bytes)
    }

    /// Stores the frames of all events delivered since `first`, for other watchers.
    pub fn store_run(&self, first: &Delivery, encoding: EncodingKey, bytes: &Bytes) {
        if let Some(key) = self.run_key(first, encoding) {
            self.group.runs.store_run(key, Run { bytes: bytes.clone(), last: self.position });
        }
    }

    /// Only large groups share runs, and only watchers that receive every event of the group.
    fn run_key(&self, first: &Delivery, encoding: EncodingKey) -> Option<RunKey> {
        let is_large_group = self.group.watchers.load(Ordering::Relaxed) > WAKE_DIRECT_MAX;
        let first = first.source().filter(|_| is_large_group && self.filter.is_all())?.place;
        Some(RunKey { epoch: self.epoch, first, encoding })
    }

    /// The revision up to which all selected events were delivered, for a bookmark. `None` while the initial state is
    /// being delivered, and after a reload.
    pub fn progress(&self) -> Option<u64> {
        match self.phase {
            Phase::Initial(_) => None,
            _ if self.is_void() => None,
            _ => Some(self.position.revision()),
        }
    }

    fn make_bookmark(&mut self) -> Item {
        if let Some(Bookmarks { every, due }) = &mut self.bookmarks {
            due.set(sleep(*every));
        }
        // The sink does not wake watchers for changes of other resources, so read the published revision of those
        // here.
        match self.advance() {
            Step::Item(item) => item,
            Step::Wait | Step::Again | Step::Ended => Item::Bookmark(self.position.revision()),
        }
    }

    fn advance(&mut self) -> Step {
        for _ in 0..WATCH_STEPS_MAX {
            let step = self.step();
            // Check this after the step: a reset increments its counter before it replaces anything, so the step
            // found events from before the reset, or they are not delivered. A client must never see the revision of
            // an event whose predecessors were lost.
            if self.is_void() && !matches!(step, Step::Ended) {
                return self.close(CloseReason::Slow);
            }
            match step {
                Step::Again => {}
                step => return step,
            }
        }
        Step::Again
    }

    /// Whether everything was loaded anew since the watch began.
    fn is_void(&self) -> bool {
        let resets = match self.resource {
            Some(_) => self.shared.resets(),
            None => self.shared.resets_of_all(),
        };
        self.resets != resets
    }

    fn step(&mut self) -> Step {
        if let Phase::Ended = self.phase {
            return Step::Ended;
        }
        if self.shared.is_closed() {
            return self.close(CloseReason::Shutdown);
        }
        // Read this before looking for events: if there are none, all events up to here were seen.
        let published = self.shared.published();
        match &mut self.phase {
            Phase::Ended => Step::Ended,
            Phase::Initial(initial) => match initial.next() {
                None => {
                    self.phase = Phase::Replay(VecDeque::new(), self.position, None);
                    Step::Item(Item::InitialEventsEnd(self.position.revision()))
                }
                Some(object) if self.filter.passes(&object) => {
                    Step::Item(Item::Event(Delivery::initial(object)))
                }
                Some(_) => Step::Again,
            },
            Phase::Replay(events, scanned, cursor) => match events.pop_front() {
                Some(event) => self.deliver(&event),
                None => {
                    self.position = self.position.max(*scanned);
                    match cursor.take() {
                        Some(cursor) => self.phase = Phase::Live(cursor),
                        None => return self.replay(),
                    }
                    Step::Again
                }
            },
            Phase::Live(cursor) => match cursor.next(self.group.released()) {
                // A watcher of several resources never replays, and revisions of several stores do not compare.
                Next::Event(event) if self.resource.is_some() && event.place <= self.position => Step::Again,
                Next::Event(event) => {
                    // As in `deliver`, without touching the count of an event that is not selected.
                    self.position = event.place;
                    match self.filter.classify(event) {
                        None => Step::Again,
                        Some(kind) => Step::Item(Item::Event(Delivery::event(kind, event.clone()))),
                    }
                }
                Next::Lost => self.replay(),
                Next::Held => Step::Wait,
                Next::Empty => self.idle(published),
            },
        }
    }

    fn deliver(&mut self, event: &Arc<Event>) -> Step {
        if event.place <= self.position {
            return Step::Again;
        }
        self.position = event.place;
        match self.filter.classify(event) {
            None => Step::Again,
            Some(kind) => Step::Item(Item::Event(Delivery::event(kind, event.clone()))),
        }
    }

    fn idle(&mut self, published: u64) -> Step {
        self.position = self.position.max(Place::end_of(published));
        if self.is_outdated() { self.close(CloseReason::Gone) } else { Step::Wait }
    }

    fn replay(&mut self) -> Step {
        let Some(resource) = &self.resource else { return self.close(CloseReason::Slow) };
        match resource.replay(self.position, &self.key, &self.group) {
            Replay::Expired => self.close(CloseReason::Slow),
            Replay::Events(stretch, cursor) => {
                self.phase = Phase::Replay(stretch.events, stretch.scanned, cursor);
                Step::Again
            }
        }
    }

    fn close(&mut self, reason: CloseReason) -> Step {
        self.phase = Phase::Ended;
        Step::Item(Item::Closed(reason))
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        match &self.resource {
            Some(resource) => resource.leave(&self.key, &self.group),
            None => drop(self.group.watchers.fetch_sub(1, Ordering::SeqCst)),
        }
    }
}

impl Initial {
    fn new(view: View, filter: &Filter, key: &GroupKey) -> Initial {
        let mut initial = Initial { view, prefix: String::new(), chunk: VecDeque::new(), complete: false };
        if let GroupKey::Name(name) = key {
            initial.chunk.extend(initial.view.get(name).cloned());
            initial.complete = true;
        } else if let Some(namespace) = &filter.namespace {
            initial.prefix = format!("{namespace}/");
        }
        initial.refill(None);
        initial
    }

    fn next(&mut self) -> Option<Arc<Object>> {
        let object = self.chunk.pop_front()?;
        self.refill(Some(&object));
        Some(object)
    }

    /// Takes the objects after `last`, once those before them are delivered.
    fn refill(&mut self, last: Option<&Object>) {
        if self.complete || !self.chunk.is_empty() {
            return;
        }
        let after = last.map(|object| object.key().as_str());
        self.chunk = self.view.chunk(&self.prefix, after, INITIAL_OBJECTS_MAX).into();
        self.complete = self.chunk.len() < INITIAL_OBJECTS_MAX;
    }
}
