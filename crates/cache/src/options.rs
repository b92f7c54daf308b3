//! The limits of the cache: everything that grows is bounded by one of these.

use pintle_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// How many events a watcher replays at once; bounds how long it blocks the sink.
pub(crate) const REPLAY_EVENTS_MAX: usize = 256;
/// How many events a watcher examines while it blocks the sink.
pub(crate) const REPLAY_SCAN_MAX: usize = 4096;
/// How many old events are dropped at once while the sink waits.
pub(crate) const DROP_EVENTS_MAX: usize = 256;
/// If the history of all resources takes too much memory, this part of it is dropped at once.
pub(crate) const HISTORY_TRIM_PART: usize = 64;
/// How many objects of the initial state a watcher takes at once.
pub(crate) const INITIAL_OBJECTS_MAX: usize = 128;
/// How many steps a watcher makes without a delivery before it yields.
pub(crate) const WATCH_STEPS_MAX: usize = 1024;
/// Groups with more watchers than this are woken by the dispatcher and not by the sink.
pub(crate) const WAKE_DIRECT_MAX: usize = 8;
/// How long a group is delayed per woken watcher, and at most: a few times what they need to notify their clients.
pub(crate) const WAKE_PAUSE: Duration = Duration::from_micros(50);
pub(crate) const WAKE_PAUSE_MAX: Duration = Duration::from_millis(50);
/// Shorter delays are skipped: timers have no finer resolution.
pub(crate) const WAKE_PAUSE_MIN: Duration = Duration::from_millis(1);
/// How many wake-ups are not delayed after one with a single event.
pub(crate) const WAKES_WITHOUT_PAUSE: u32 = 16;
/// How many joined runs of events a group caches for watchers that have not read them yet.
pub(crate) const RUNS_MAX: usize = 16;
/// How many other encodings are cached per object or event; further ones are made each time.
pub(crate) const ENCODINGS_MAX: usize = 16;
/// How many converted versions are cached per object in addition; they cannot be made each time.
pub(crate) const CONVERTED_MAX: usize = 64;
/// Events per segment of the chain that the watchers of a whole resource follow.
pub(crate) const SEGMENT_EVENTS_ALL: usize = 64;
/// Like `SEGMENT_EVENTS_ALL`, for the watchers of one namespace or field value.
pub(crate) const SEGMENT_EVENTS_PART: usize = 16;
/// Like `SEGMENT_EVENTS_ALL`, for the watchers of one object: an idle watcher keeps one segment of old events alive.
pub(crate) const SEGMENT_EVENTS_NAME: usize = 4;
/// How many changes of unregistered resources are retained as history; beyond that all of it is dropped.
pub(crate) const ORPHAN_EVENTS_MAX: usize = 100_000;
/// How often old events and snapshots are dropped.
pub(crate) const AGING_EVERY: Duration = Duration::from_secs(5);
/// The shortest interval between those checks.
pub(crate) const AGING_EVERY_MIN: Duration = Duration::from_millis(10);

/// How much history the cache retains. `Options::default()` is right for production.
#[derive(Clone)]
pub struct Options {
    /// The maximum number of events retained per resource.
    pub window_events_max: usize,
    /// Object bytes that the events of one resource may keep alive.
    pub window_bytes_max: usize,
    /// The memory limit for the events of all resources together, including the objects that they keep alive. Beyond
    /// it the oldest events are dropped, of whichever resource.
    pub history_bytes_max: usize,
    /// Events older than this are dropped; the store's retention.
    pub retention: Duration,
    /// The maximum number of snapshots of one resource retained for paged lists.
    pub snapshots_max: usize,
    /// Snapshots unused for this long are dropped.
    pub snapshot_age_max: Duration,
    /// How far a watcher may fall behind before it must replay from the window.
    pub fanout_events_max: usize,
    /// How far a watcher of several resources may fall behind before it is closed.
    pub selection_events_max: usize,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            window_events_max: 100_000,
            window_bytes_max: 64 << 20,
            history_bytes_max: 64 << 20,
            retention: Duration::from_secs(5 * 60),
            snapshots_max: 32,
            snapshot_age_max: Duration::from_secs(5 * 60),
            fanout_events_max: 1024,
            selection_events_max: 16_384,
            clock: Arc::new(SystemClock),
        }
    }
}
