//! The recent events of one resource, in order of revision.

use crate::event::{Event, Place};
use crate::group::GroupKey;
use crate::options::{DROP_EVENTS_MAX, Options, REPLAY_EVENTS_MAX, REPLAY_SCAN_MAX};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All events after the revision `compacted`.
pub(crate) struct Window {
    events: VecDeque<Arc<Event>>,
    compacted: Place,
    bytes: usize,
    events_max: usize,
    bytes_max: usize,
    /// The memory of the events of all windows.
    memory: Arc<AtomicUsize>,
}

/// A stretch of the window.
pub(crate) struct WindowEvents {
    /// The events of the group that were found.
    pub(crate) events: VecDeque<Arc<Event>>,
    /// All events of the group up to this place are among them.
    pub(crate) scanned: Place,
    /// Whether the end of the window was reached.
    pub(crate) complete: bool,
}

impl Window {
    /// Creates a window. The memory that its events take is added to `memory` and subtracted again.
    pub(crate) fn new(compacted: u64, options: &Options, memory: Arc<AtomicUsize>) -> Window {
        let (events_max, bytes_max) = (options.window_events_max, options.window_bytes_max);
        let compacted = Place::end_of(compacted);
        Window { events: VecDeque::new(), compacted, bytes: 0, events_max, bytes_max, memory }
    }

    /// The revision after which all events are retained.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted.revision()
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes = self.bytes.saturating_add(event.weight());
        self.memory.fetch_add(event.memory(), Ordering::Relaxed);
        self.events.push_back(event);
        while self.events.len() > self.events_max || self.bytes > self.bytes_max {
            if self.pop().is_none() {
                break;
            }
        }
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(event.weight());
        self.memory.fetch_sub(event.memory(), Ordering::Relaxed);
        self.compacted = event.place;
        Some(event)
    }

    /// The place of the oldest event.
    pub(crate) fn oldest(&self) -> Option<Place> {
        self.events.front().map(|event| event.place)
    }

    /// Removes the oldest events while they are `old`, at most [`DROP_EVENTS_MAX`]. The caller drops them and calls
    /// again if there were any.
    pub(crate) fn take_old(&mut self, old: impl Fn(&Event) -> bool) -> Vec<Arc<Event>> {
        let mut taken = Vec::new();
        while taken.len() < DROP_EVENTS_MAX && self.events.front().is_some_and(|event| old(event)) {
            taken.extend(self.pop());
        }
        taken
    }

    /// Drops the events up to `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision() <= revision) {
            self.pop();
        }
        self.compacted = self.compacted.max(Place::end_of(revision));
    }

    /// The next events of a group after `position`; `None` when some may already be dropped.
    pub(crate) fn stretch(&self, position: Place, group: &GroupKey) -> Option<WindowEvents> {
        if position < self.compacted {
            return None;
        }
        let start = self.after(position);
        let mut stretch = WindowEvents { events: VecDeque::new(), scanned: position, complete: false };
        for event in self.events.range(start..).take(REPLAY_SCAN_MAX) {
            if stretch.events.len() == REPLAY_EVENTS_MAX {
                return Some(stretch);
            }
            stretch.scanned = event.place;
            if group.has_event(event) {
                stretch.events.push_back(event.clone());
            }
        }
        stretch.complete = self.events.len().saturating_sub(start) <= REPLAY_SCAN_MAX;
        Some(stretch)
    }

    /// The events after `revision`, which must not be before `compacted`.
    pub(crate) fn since(&self, revision: u64) -> Vec<Arc<Event>> {
        self.events.range(self.after(Place::end_of(revision))..).cloned().collect()
    }

    fn after(&self, place: Place) -> usize {
        self.events.partition_point(|event| event.place <= place)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        let memory: usize = self.events.iter().map(|event| event.memory()).sum();
        self.memory.fetch_sub(memory, Ordering::Relaxed);
    }
}
