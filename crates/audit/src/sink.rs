//! Sinks: a backend (log, webhook) that is written synchronously or through a bounded queue, with events truncated to a
//! maximum size.

mod log;
mod queue;

pub use log::{Format, Log, LogOptions};
pub use queue::{BatchOptions, Batched};

use crate::event::Event;
use pintle_metrics::families;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Receives events.
pub trait Sink: Send + Sync {
    /// Processes an event; returns whether it is stored or queued.
    fn process<'a>(&'a self, event: &'a Event) -> Pending<'a, bool>;

    /// Whether a request is rejected if its event cannot be stored.
    fn is_strict(&self) -> bool;

    /// Writes the queued events.
    fn close(&self) -> Pending<'_, ()>;
}

/// Writes events to a destination.
pub trait Backend: Send + Sync {
    /// The name in metrics and in the log.
    fn name(&self) -> &'static str;

    /// Writes all events or none of them.
    fn write<'a>(&'a self, events: &'a [Event]) -> Pending<'a, Result<(), String>>;
}

/// Sizes beyond which the objects of events are dropped.
#[derive(Clone, Copy, Debug)]
pub struct Truncation {
    /// The size limit in bytes of one event.
    pub event_bytes_max: usize,
    /// The size limit in bytes of the events of one batch.
    pub batch_bytes_max: usize,
}

/// Writes each event before the request continues.
pub struct Blocking {
    /// The destination.
    pub backend: Arc<dyn Backend>,
    /// Whether a failure rejects the request.
    pub strict: bool,
    /// The maximum sizes, if events are truncated.
    pub truncation: Option<Truncation>,
}

impl Sink for Blocking {
    fn process<'a>(&'a self, event: &'a Event) -> Pending<'a, bool> {
        Box::pin(async move {
            let events = truncate_events(self.truncation, vec![event.clone()]);
            write_all(&*self.backend, self.truncation, &events).await
        })
    }

    fn is_strict(&self) -> bool {
        self.strict
    }

    fn close(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }
}

/// Writes events in batches that respect the maximum sizes. Returns whether all of them were written.
pub(crate) async fn write_all(
    backend: &dyn Backend,
    truncation: Option<Truncation>,
    events: &[Event],
) -> bool {
    let limit = truncation.map_or(usize::MAX, |t| t.batch_bytes_max);
    let mut rest = events;
    let mut written = true;
    while !rest.is_empty() {
        let mut bytes = 0_usize;
        let fitting = rest.iter().take_while(|event| {
            bytes = bytes.saturating_add(if truncation.is_some() { size_of(event) } else { 0 });
            bytes <= limit
        });
        let (part, later) = rest.split_at(fitting.count().max(1));
        rest = later;
        if let Err(why) = backend.write(part).await {
            families::AUDIT_ERRORS.add(&[backend.name()], u64::try_from(part.len()).unwrap_or(0));
            tracing::error!(
                "Error in audit plugin '{}' affecting {} audit events: {why}",
                backend.name(),
                part.len()
            );
            written = false;
        }
    }
    written
}

/// The name of truncation among the plugins that lose events.
const TRUNCATION: &str = "truncate";

/// Drops the objects of events that are too big and marks those events; drops events that are still too big.
pub(crate) fn truncate_events(truncation: Option<Truncation>, mut events: Vec<Event>) -> Vec<Event> {
    let Some(Truncation { event_bytes_max, .. }) = truncation else { return events };
    let before = events.len();
    events.retain_mut(|event| {
        if size_of(event) <= event_bytes_max {
            return true;
        }
        event.request_object = None;
        event.response_object = None;
        event.annotations.insert("audit.k8s.io/truncated".into(), "true".into());
        size_of(event) <= event_bytes_max
    });
    let dropped = before.saturating_sub(events.len());
    if dropped > 0 {
        families::AUDIT_ERRORS.add(&[TRUNCATION], u64::try_from(dropped).unwrap_or(0));
        tracing::error!(
            "Error in audit plugin '{TRUNCATION}' affecting {dropped} audit events: event is too large even after truncating"
        );
    }
    events
}

fn size_of(event: &Event) -> usize {
    let mut out = Vec::new();
    event.write(true, &mut out);
    // kube-apiserver measures the encoded event with its line end.
    out.len().saturating_add(1)
}
