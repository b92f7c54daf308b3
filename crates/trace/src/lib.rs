//! Spans of requests: the steps of a request and their durations. Spans of sampled requests are exported by OTLP if
//! tracing is enabled; spans of slow requests are logged.
//!
//! The trace of a request is task-local, like its audit notes. Without one, the functions here do nothing.

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

/// Begins a child of the current span. It ends when it is dropped; spans that begin before that are its children.
#[must_use = "the span ends when it is dropped"]
pub fn span(name: &'static str) -> Option<Span> {
    TRACE.try_with(|trace| Trace::enter(trace, name)).ok()
}

/// Begins a span that may run concurrently with others: they do not become its children.
#[must_use = "the span ends when it is dropped"]
pub fn concurrent_span(name: &'static str) -> Option<Span> {
    TRACE.try_with(|trace| Trace::enter_concurrent(trace, name, None)).ok()
}

/// The header `traceparent` for outgoing requests of the current span.
pub fn traceparent() -> Option<String> {
    TRACE.try_with(|trace| trace.is_sampled().then(|| trace.traceparent())).ok().flatten()
}
