//! Spans of requests: what a request does and how long each part takes. They are exported by OTLP if tracing is on and the request is
//! sampled, and name the parts of requests that were slow.
//!
//! The trace of a request is found through its task, as its audit notes are. Without one, all of this does nothing.

mod context;
mod export;
mod otlp;
mod span;

pub use context::Parent;
pub use export::{Exporter, Settings};
pub use span::{Span, Trace};

use std::future::Future;
use std::sync::Arc;

tokio::task_local! {
    static TRACE: Arc<Trace>;
}

/// Runs `work` with this trace.
pub async fn with_trace<T>(trace: Option<Arc<Trace>>, work: impl Future<Output = T>) -> T {
    match trace {
        Some(trace) => TRACE.scope(trace, work).await,
        None => work.await,
    }
}

/// Begins a span within the one that is open. It ends when it is dropped; spans that begin meanwhile are within it.
#[must_use = "the span ends when it is dropped"]
pub fn span(name: &'static str) -> Option<Span> {
    TRACE.try_with(|trace| Trace::enter(trace, name)).ok()
}

/// Begins a span beside which others may begin at the same time: none of them is within it.
#[must_use = "the span ends when it is dropped"]
pub fn concurrent_span(name: &'static str) -> Option<Span> {
    TRACE.try_with(|trace| Trace::enter_concurrent(trace, name, None)).ok()
}

/// The header `traceparent` for requests to others that are made within the open span.
pub fn traceparent() -> Option<String> {
    TRACE.try_with(|trace| trace.is_sampled().then(|| trace.traceparent())).ok().flatten()
}
