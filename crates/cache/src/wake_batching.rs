//! Adaptive batching of wake-ups: after many watchers of one group were woken, events that arrive within a delay are sent together.
//!
//! A batch of many events costs a watcher little more than one event. A writer that waits for its watchers before it
//! writes again gains nothing by the delay, so a delay that gathered a single event is not repeated for some time.

use crate::options::{WAKE_PAUSE, WAKE_PAUSE_MAX, WAKE_PAUSE_MIN, WAKES_WITHOUT_PAUSE};
use tokio::time::Instant;

/// When the watchers of a group may be woken next, and whether the last delay gathered events.
#[derive(Default)]
pub(crate) struct WakeBatching {
    until: Option<Instant>,
    /// Whether an event waits for the end of the delay.
    holds: bool,
    /// How many of the next wake-ups are not followed by a delay.
    skip: u32,
}

impl WakeBatching {
    /// Returns until when an event that arrives at `now` must wait, if it must.
    pub(crate) fn delay_until(&mut self, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|until| *until > now);
        self.holds |= until.is_some();
        until
    }

    /// Records that `watchers` were sent `events`, and starts the delay before they are woken again.
    #[expect(clippy::arithmetic_side_effects, reason = "the clock holds a fraction of a second from now")]
    pub(crate) fn begin(&mut self, now: Instant, watchers: usize, events: usize) {
        let was_in_vain = std::mem::take(&mut self.holds) && events <= 1;
        if was_in_vain {
            self.skip = WAKES_WITHOUT_PAUSE;
        } else if events > 1 {
            self.skip = 0;
        }
        if self.skip > 0 {
            self.skip = self.skip.saturating_sub(1);
            return;
        }
        let watchers = u32::try_from(watchers).unwrap_or(u32::MAX);
        let pause = WAKE_PAUSE.saturating_mul(watchers).min(WAKE_PAUSE_MAX);
        if pause >= WAKE_PAUSE_MIN {
            self.until = Some(now + pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// When a thousand watchers are notified of events at these milliseconds, and of how many.
    fn wake_ups(events: &[u64]) -> Vec<(u64, usize)> {
        let start = Instant::now();
        let mut batching = WakeBatching::default();
        let mut wake_ups = Vec::new();
        let mut events = events.iter().copied().peekable();
        while let Some(first) = events.next() {
            let until = batching.delay_until(start + Duration::from_millis(first));
            let at = until.map_or(first, |until| (until - start).as_millis() as u64);
            let mut count = 1;
            while events.next_if(|event| *event < at).is_some() {
                count += 1;
            }
            batching.begin(start + Duration::from_millis(at), 1000, count);
            wake_ups.push((at, count));
        }
        wake_ups
    }

    #[test]
    fn events_in_quick_succession_go_together_and_single_ones_at_once() {
        for (events, expected) in [
            (&[0, 200, 400][..], &[(0, 1), (200, 1), (400, 1)][..]),
            (&[0, 10, 20, 30, 60, 70, 120], &[(0, 1), (50, 3), (100, 2), (150, 1)]),
            // The second delay collected nothing, so the third and fourth events are not delayed.
            (&[0, 10, 60, 70], &[(0, 1), (50, 1), (60, 1), (70, 1)]),
        ] {
            assert_eq!(wake_ups(events), expected, "{events:?}");
        }
    }

    #[test]
    fn a_rest_is_tried_again_after_some_time() {
        let alone: Vec<u64> = [0, 10].into_iter().chain((1..30).map(|event| event * 60)).collect();
        let burst: Vec<u64> = (0..20).map(|event| 1800 + event * 10).collect();
        let wake_ups = wake_ups(&[alone, burst].concat());
        assert!(wake_ups.iter().any(|(_, count)| *count > 3), "{wake_ups:?}");
    }
}
