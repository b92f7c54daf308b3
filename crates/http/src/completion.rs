//! Runs once when an answer is complete (its last byte was produced or the client is gone): counts the request and
//! releases what it held, however it ended.

use crate::body::{Aborted, Body, Chunks};
use crate::flow::Held;
use crate::lifecycle::Ordinary;
use crate::metrics::{Labels, LongRunning, Metrics};
use crate::spans::{self, RequestLog};
use crate::unread::Reading;
use bytes::Bytes;
use pintle_trace::Trace;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// Runs a function when it is dropped, which is when the request is complete.
pub(crate) struct Completion {
    pub(crate) metrics: Arc<Metrics>,
    /// The metric labels of the request, if it is counted.
    pub(crate) labels: Option<Labels>,
    pub(crate) began: Instant,
    pub(crate) code: u16,
    pub(crate) bytes: u64,
    /// The audit record, whose last event is emitted on completion.
    pub(crate) audit: Option<Box<pintle_audit::Record>>,
    /// The spans of the request, which end on completion.
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) uri: http::Uri,
    /// The entry of the request log, if requests are logged.
    pub(crate) log: Option<Box<RequestLog>>,
    /// The request's seat, released on completion or earlier.
    pub(crate) held: Held,
    /// Whether flow control rejected the request: then only the rejection is counted.
    pub(crate) rejected: bool,
    /// Counts a long-running request until it completes.
    pub(crate) _open: Option<LongRunning>,
    /// Keeps shutdown waiting for the request.
    pub(crate) _ordinary: Option<Ordinary>,
    /// Limits how long the client may take to read the answer.
    pub(crate) reading: Option<Reading>,
}

impl Drop for Completion {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        match (self.labels.take(), self.rejected) {
            (None, _) => {}
            (Some(labels), true) => self.metrics.request_rejected(&labels, self.code),
            (Some(labels), false) => self.metrics.request_ends(&labels, self.code, took, self.bytes),
        }
        if let Some(trace) = self.trace.take() {
            spans::finish(&trace, self._ordinary.is_some(), took, self.uri.path());
        }
        if let Some(log) = self.log.take() {
            log.write(self.code, took);
        }
        if let Some(audit) = self.audit.take() {
            audit.stage_later(pintle_audit::Stage::ResponseComplete, pintle_audit::now());
        }
    }
}

impl Completion {
    /// Completes at once if the body is whole, else when its last chunk was produced.
    pub(crate) fn after(mut self, body: Body) -> Body {
        match body {
            Body::Full(bytes) => {
                self.bytes = u64::try_from(bytes.len()).unwrap_or(0);
                Body::Full(bytes)
            }
            Body::Chunks(chunks) => {
                if self._ordinary.is_none() {
                    // Drop the URI and the trace of a watch: a watch stays open for minutes, and both are only used
                    // to log slow ordinary requests. The URI is a slice of the connection's read buffer and would
                    // keep the whole buffer in memory.
                    self.uri = http::Uri::default();
                    self.trace = self.trace.take().filter(|trace| trace.is_sampled());
                }
                Body::Chunks(Box::pin(Observed { chunks, completion: Some(self) }))
            }
        }
    }
}

struct Observed {
    chunks: Pin<Box<dyn Chunks>>,
    completion: Option<Completion>,
}

impl Chunks for Observed {
    fn poll_chunk(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        if let Some(completion) = &mut self.completion
            && completion.held.poll_turn(cx).is_pending()
        {
            return Poll::Pending;
        }
        let polled = self.chunks.as_mut().poll_chunk(cx);
        if let Some(completion) = &mut self.completion {
            completion.held.progressed(polled.is_pending());
            if let Some(reading) = &completion.reading {
                reading.polled(&polled);
            }
        }
        match &polled {
            Poll::Ready(Some(Ok(chunk))) => {
                if let Some(completion) = &mut self.completion {
                    completion.bytes =
                        completion.bytes.saturating_add(u64::try_from(chunk.len()).unwrap_or(0));
                }
            }
            Poll::Ready(_) => self.completion = None,
            Poll::Pending => {}
        }
        polled
    }

    fn remaining(&self) -> Option<u64> {
        self.chunks.remaining()
    }

    fn has_more_than(mut self: Pin<&mut Self>, bytes: u64) -> bool {
        self.chunks.as_mut().has_more_than(bytes)
    }
}
