//! Seats that are reserved for flows that hold none.
//!
//! Fair queuing decides which request gets the next free seat, and no executing request loses its seat. In
//! kube-apiserver busy flows therefore take all seats. A quiet flow then waits until a request ends, which takes long
//! if all of them are long lists. Here a part of the seats is reserved for flows that hold none, while the level has
//! had requests of several flows. All other seats are assigned as in kube-apiserver, and a flow that is alone can use
//! all seats.

use std::collections::HashMap;
use std::time::Duration;

/// A flow that has had no requests for so long no longer counts as one of several.
const RECENT: Duration = Duration::from_secs(60);

/// This part of the seats is reserved, so levels with fewer seats than this are as in kube-apiserver.
const RESERVED_PART: u64 = 8;

/// How many of a level's seats are reserved.
pub(super) fn reserved_of(seats: u64) -> u64 {
    seats / RESERVED_PART
}

/// The two flows that had requests last, and when; the last one first.
#[derive(Default)]
pub(super) struct RecentFlows {
    last: Option<(u64, Duration)>,
    other: Option<(u64, Duration)>,
}

impl RecentFlows {
    pub(super) fn add(&mut self, flow: u64, now: Duration) {
        if self.last.is_some_and(|(last, _)| last != flow) {
            self.other = self.last;
        }
        self.last = Some((flow, now));
    }

    /// Whether more than one flow had requests recently.
    pub(super) fn are_several(&self, now: Duration) -> bool {
        self.other.is_some_and(|(_, at)| now.saturating_sub(at) < RECENT)
    }
}

/// How many requests of each flow hold seats. Flows that hold none have no entry.
#[derive(Default)]
pub(super) struct SeatedFlows(HashMap<u64, usize>);

impl SeatedFlows {
    pub(super) fn holds_none(&self, flow: u64) -> bool {
        !self.0.contains_key(&flow)
    }

    pub(super) fn add(&mut self, flow: u64) {
        let requests = self.0.entry(flow).or_default();
        *requests = requests.saturating_add(1);
    }

    pub(super) fn remove(&mut self, flow: u64) {
        if let Some(requests) = self.0.get_mut(&flow) {
            *requests = requests.saturating_sub(1);
            if *requests == 0 {
                self.0.remove(&flow);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
