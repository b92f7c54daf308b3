//! The limits of the cache: everything that grows stops at one of these.

use pintle_store::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;

/// Events that a watcher takes from the window at once; bounds how long it holds up the sink.
pub(crate) const REPLAY_EVENTS_MAX: usize = 256;
/// Events that a watcher looks at while it holds up the sink.
pub(crate) const REPLAY_SCAN_MAX: usize = 4096;
/// Objects of an initial state that a watcher takes from the view at once.
pub(crate) const INITIAL_OBJECTS_MAX: usize = 128;
/// Steps a watcher may do without finding anything to deliver before others get their turn.
pub(crate) const WATCH_STEPS_MAX: usize = 1024;
/// Groups with more watchers than this are woken by the dispatcher and not by the sink.
pub(crate) const WAKE_DIRECT_MAX: usize = 8;
/// How long a group rests for each watcher that was woken, and at most: a few times what they take to tell their clients.
pub(crate) const WAKE_PAUSE: Duration = Duration::from_micros(50);
pub(crate) const WAKE_PAUSE_MAX: Duration = Duration::from_millis(50);
/// Pauses shorter than this are left out: timers are no finer.
pub(crate) const WAKE_PAUSE_MIN: Duration = Duration::from_millis(1);
/// Wake-ups that are not followed by a pause after one in which a single event came.
pub(crate) const WAKES_WITHOUT_PAUSE: u32 = 16;
/// Pieces of several events that a group keeps for those of its watchers that have not read them yet.
pub(crate) const RUNS_MAX: usize = 16;
/// Other encodings kept beside one object or one event; further ones are made each time.
pub(crate) const ENCODINGS_MAX: usize = 16;
/// Other versions kept beside one object on top of that; they cannot be made each time.
pub(crate) const CONVERTED_MAX: usize = 64;
/// Events per segment of the chain that the watchers of a whole resource follow.
pub(crate) const SEGMENT_EVENTS_ALL: usize = 64;
/// The same for the watchers of one namespace or field value.
pub(crate) const SEGMENT_EVENTS_PART: usize = 16;
/// The same for the watchers of one object: a waiting watcher keeps one segment of old events alive.
pub(crate) const SEGMENT_EVENTS_NAME: usize = 4;
/// Changes of unregistered resources kept as history; beyond it all of it is dropped.
pub(crate) const ORPHAN_EVENTS_MAX: usize = 100_000;
/// How often windows and snapshots are aged.
pub(crate) const AGING_EVERY: Duration = Duration::from_secs(5);
/// ... and how often at most, however little is to be kept.
pub(crate) const AGING_EVERY_MIN: Duration = Duration::from_millis(10);

/// How much the cache remembers. `Options::default()` is right for production.
#[derive(Clone)]
pub struct Options {
    /// Events kept per resource at most.
    pub window_events_max: usize,
    /// Object bytes that the events of one resource may keep alive.
    pub window_bytes_max: usize,
    /// Events older than this are dropped; the store's retention.
    pub retention: Duration,
    /// Snapshots of one resource kept for paged lists.
    pub snapshots_max: usize,
    /// Snapshots unused for this long are dropped.
    pub snapshot_age_max: Duration,
    /// Events that a watcher may be behind before it has to go back to the window.
    pub fanout_events_max: usize,
    /// Events that a watcher of all resources may be behind before it is closed.
    pub wildcard_events_max: usize,
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            window_events_max: 100_000,
            window_bytes_max: 64 << 20,
            retention: Duration::from_secs(5 * 60),
            snapshots_max: 32,
            snapshot_age_max: Duration::from_secs(5 * 60),
            fanout_events_max: 1024,
            wildcard_events_max: 16_384,
            clock: Arc::new(SystemClock),
        }
    }
}
