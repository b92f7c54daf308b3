//! Metrics of a watch: its events, their sizes, and how long the initial events took.

use pintle_engine::Target;
use pintle_metrics::{Handle, families};
use std::time::Instant;

/// The series of one watch, resolved once.
pub(super) struct WatchMetrics {
    began: Instant,
    is_initial: bool,
    sent: u64,
    events: Handle,
    sizes: Handle,
    dispatched: Handle,
}

impl WatchMetrics {
    /// A watch of these objects that begins now.
    pub(super) fn new(target: &Target) -> Self {
        let (group, resource) = (target.kind.group.as_str(), target.kind.plural.as_str());
        let version = target.kind_version().name.as_str();
        WatchMetrics {
            began: Instant::now(),
            is_initial: true,
            sent: 0,
            events: families::WATCH_EVENTS.with(&[group, resource, version]),
            sizes: families::WATCH_EVENT_BYTES.with(&[group, resource, version]),
            dispatched: families::CACHE_EVENTS_DISPATCHED.with(&[group, resource]),
        }
    }

    /// Counts an event of this size.
    pub(super) fn event(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(u64::from(self.is_initial));
        self.events.add(1);
        self.dispatched.add(1);
        #[expect(clippy::cast_precision_loss, reason = "a size to be put in a bucket")]
        self.sizes.observe(families::WATCH_EVENT_BYTES.buckets(), bytes as f64);
    }

    /// Records that the initial events have been sent.
    pub(super) fn initial_end(&mut self, target: &Target, announces: bool) {
        self.is_initial = false;
        let (group, resource) = (target.kind.group.as_str(), target.kind.plural.as_str());
        families::INITIAL_EVENTS.add(&[group, resource], self.sent);
        if announces {
            let scope = if target.namespace.is_empty() { "cluster" } else { "namespace" };
            let labels = [group, resource, scope, target.kind_version().name.as_str()];
            families::WATCH_LIST_DURATION.observe(&labels, self.began.elapsed().as_secs_f64());
        }
    }
}
