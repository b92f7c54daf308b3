//! The recent events of one resource, in order of revision.

use crate::event::{Event, Place};
use crate::group::GroupKey;
use crate::options::{Options, REPLAY_EVENTS_MAX, REPLAY_SCAN_MAX};
use std::collections::VecDeque;
use std::sync::Arc;

/// The events after `compacted`, every one.
pub(crate) struct Window {
    events: VecDeque<Arc<Event>>,
    compacted: Place,
    bytes: usize,
    events_max: usize,
    bytes_max: usize,
}

/// A stretch of the window.
pub(crate) struct Stretch {
    /// The events of the group that were found.
    pub(crate) events: VecDeque<Arc<Event>>,
    /// All events of the group up to this place are among them.
    pub(crate) scanned: Place,
    /// Whether the end of the window was reached.
    pub(crate) complete: bool,
}

impl Window {
    pub(crate) fn new(compacted: u64, options: &Options) -> Window {
        let (events_max, bytes_max) = (options.window_events_max, options.window_bytes_max);
        let compacted = Place::end_of(compacted);
        Window { events: VecDeque::new(), compacted, bytes: 0, events_max, bytes_max }
    }

    /// The oldest revision from which everything is known.
    pub(crate) fn compacted(&self) -> u64 {
        self.compacted.revision()
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.bytes = self.bytes.saturating_add(event.weight());
        self.events.push_back(event);
        while self.events.len() > self.events_max || self.bytes > self.bytes_max {
            if !self.pop() {
                break;
            }
        }
    }

    fn pop(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else { return false };
        self.bytes = self.bytes.saturating_sub(event.weight());
        self.compacted = event.place;
        true
    }

    /// Drops the events from before `at_ms`.
    pub(crate) fn age(&mut self, at_ms: u64) {
        while self.events.front().is_some_and(|event| event.at_ms < at_ms) {
            self.pop();
        }
    }

    /// Drops the events up to `revision`.
    pub(crate) fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision() <= revision) {
            self.pop();
        }
        self.compacted = self.compacted.max(Place::end_of(revision));
    }

    /// The next events of a group after `position`; `None` when some may already be dropped.
    pub(crate) fn stretch(&self, position: Place, group: &GroupKey) -> Option<Stretch> {
        if position < self.compacted {
            return None;
        }
        let start = self.after(position);
        let mut stretch = Stretch { events: VecDeque::new(), scanned: position, complete: false };
        for event in self.events.range(start..).take(REPLAY_SCAN_MAX) {
            if stretch.events.len() == REPLAY_EVENTS_MAX {
                return Some(stretch);
            }
            stretch.scanned = event.place;
            if group.has(event) {
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
