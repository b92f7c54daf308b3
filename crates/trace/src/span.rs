//! `Trace`: the spans of one request.

use crate::context::Parent;
use crate::export::Exporter;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The maximum number of spans of one request; further ones are not recorded.
const SPANS_MAX: usize = 256;
/// The number of spans of a read.
const USUAL_SPANS: usize = 8;

/// The spans of one request.
pub struct Trace {
    pub(crate) id: [u8; 16],
    pub(crate) parent: Option<[u8; 8]>,
    exporter: Option<Arc<Exporter>>,
    began: Instant,
    pub(crate) started: SystemTime,
    /// The attributes of the first span; the others have none.
    pub(crate) attributes: Vec<(&'static str, String)>,
    inner: Mutex<Inner>,
}

struct Inner {
    spans: Vec<Record>,
    /// The innermost open span. The others are its parent, the parent of that one, and so on.
    open: Option<usize>,
}

/// One span.
pub(crate) struct Record {
    pub(crate) name: Cow<'static, str>,
    pub(crate) id: [u8; 8],
    pub(crate) parent: Option<usize>,
    pub(crate) from: Instant,
    pub(crate) until: Option<Instant>,
}

/// A span that is open until it is dropped.
pub struct Span {
    trace: Arc<Trace>,
    /// None if the trace had too many spans.
    index: Option<usize>,
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            self.trace.end_span(index);
        }
    }
}

impl Span {
    /// Begins a child of this span that may run concurrently with others.
    #[must_use = "the span ends when it is dropped"]
    pub fn child(&self, name: &'static str) -> Span {
        Trace::enter_concurrent(&self.trace, name, self.index)
    }

    /// The header `traceparent` for requests that are made within this span.
    pub fn traceparent(&self) -> String {
        self.trace.header_of(self.index)
    }
}

impl Trace {
    /// Begins a trace. `parent` is the client's span, if the client may continue its trace; `name` is the name of the
    /// first span.
    pub fn begin(
        exporter: Option<&Arc<Exporter>>,
        parent: Option<Parent>,
        name: String,
        attributes: Vec<(&'static str, String)>,
        began: Instant,
    ) -> Arc<Self> {
        let mut id = parent.map_or([0; 16], |parent| parent.trace);
        if parent.is_none() && exporter.is_some() {
            fill_random(&mut id);
        }
        // A client that samples decides for us, as in kube-apiserver; otherwise the ratio does.
        let is_sampled = |exporter: &&Arc<Exporter>| match parent {
            Some(parent) => parent.sampled,
            None => exporter.samples(&id),
        };
        let exporter = exporter.filter(is_sampled).cloned();
        // Only exported spans have times of the day.
        let started = exporter.as_ref().and_then(|_| SystemTime::now().checked_sub(began.elapsed()));
        let mut first = [0; 8];
        if exporter.is_some() {
            fill_random(&mut first);
        }
        // Room for the spans of a read is made at once.
        let mut spans = Vec::with_capacity(USUAL_SPANS);
        spans.push(Record { name: name.into(), id: first, parent: None, from: began, until: None });
        Arc::new(Trace {
            id,
            parent: parent.map(|parent| parent.span),
            exporter,
            began,
            started: started.unwrap_or(SystemTime::UNIX_EPOCH),
            attributes,
            inner: Mutex::new(Inner { spans, open: Some(0) }),
        })
    }

    /// Opens a child of the last span at `now`; it stays open until the trace is finished.
    pub fn open(&self, name: &'static str, now: Instant) {
        self.push_open(name, now);
    }

    pub(crate) fn enter(trace: &Arc<Self>, name: &'static str) -> Span {
        let index = trace.push_open(name, Instant::now());
        Span { trace: Arc::clone(trace), index }
    }

    pub(crate) fn enter_concurrent(trace: &Arc<Self>, name: &'static str, parent: Option<usize>) -> Span {
        let mut inner = trace.lock();
        let parent = parent.or(inner.open);
        let index = trace.push(&mut inner, name, parent, Instant::now());
        drop(inner);
        Span { trace: Arc::clone(trace), index }
    }

    pub(crate) fn traceparent(&self) -> String {
        let open = self.lock().open;
        self.header_of(open)
    }

    fn header_of(&self, index: Option<usize>) -> String {
        let span = index.and_then(|index| self.lock().spans.get(index).map(|span| span.id));
        Parent { trace: self.id, span: span.unwrap_or_default(), sampled: self.exporter.is_some() }.header()
    }

    /// Whether the trace is exported.
    pub fn is_sampled(&self) -> bool {
        self.exporter.is_some()
    }

    /// Ends the open spans, `took` after the trace began, and passes the trace to the exporter.
    pub fn finish(self: &Arc<Self>, took: Duration) {
        let now = self.began.checked_add(took).unwrap_or(self.began);
        for span in &mut self.lock().spans {
            span.until.get_or_insert(now);
        }
        if let Some(exporter) = &self.exporter {
            exporter.take(Arc::clone(self));
        }
    }

    /// The slow parts of a request with their milliseconds: `"Create" 812ms, "Call validating webhook" 800ms`.
    pub fn slow_parts(&self, threshold: Duration) -> String {
        let inner = self.lock();
        let parts = inner.spans.iter().filter_map(|span| {
            let took = span.until?.saturating_duration_since(span.from);
            (took >= threshold).then(|| format!("---{:?} {}ms", span.name, took.as_millis()))
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    /// Adds a span. Returns its index, unless there are too many.
    fn push(
        &self,
        inner: &mut Inner,
        name: &'static str,
        parent: Option<usize>,
        from: Instant,
    ) -> Option<usize> {
        let mut id = [0; 8];
        if self.exporter.is_some() {
            fill_random(&mut id);
        }
        let index = inner.spans.len();
        if index >= SPANS_MAX {
            return None;
        }
        inner.spans.push(Record { name: name.into(), id, parent, from, until: None });
        Some(index)
    }

    /// Adds a child of the innermost open span, which is open, too.
    fn push_open(&self, name: &'static str, now: Instant) -> Option<usize> {
        let mut inner = self.lock();
        let parent = inner.open;
        let index = self.push(&mut inner, name, parent, now);
        inner.open = index.or(parent);
        index
    }

    fn end_span(&self, index: usize) {
        let now = Instant::now();
        let mut inner = self.lock();
        let Inner { spans, open } = &mut *inner;
        let Some(ended) = spans.get_mut(index) else { return };
        ended.until = Some(now);
        let parent = ended.parent;
        // Also closes open descendants of the span.
        let mut opened = *open;
        while let Some(at) = opened {
            if at == index {
                *open = parent;
                return;
            }
            opened = spans.get(at).and_then(|span| span.parent);
        }
    }

    /// When something happened, counted from the start of the trace.
    pub(crate) fn since_start(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.began)
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&[Record]) -> T) -> T {
        read(&self.lock().spans)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fill_random(bytes: &mut [u8]) {
    // Without random numbers the ids are not unique; the spans are still usable.
    _ = aws_lc_rs::rand::fill(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_within_those_that_are_open() {
        let trace = Trace::begin(None, None, "GET /".into(), Vec::new(), Instant::now());
        trace.open("audit", Instant::now());
        let get = Trace::enter(&trace, "Get");
        let first = Trace::enter_concurrent(&trace, "Call validating webhook", None);
        let second = Trace::enter_concurrent(&trace, "Call validating webhook", None);
        drop(first.child("HTTP POST"));
        drop((first, second, get));
        drop(Trace::enter(&trace, "SerializeObject"));
        trace.finish(Duration::from_millis(1));
        let parents: Vec<(String, Option<usize>)> =
            trace.read(|spans| spans.iter().map(|span| (span.name.to_string(), span.parent)).collect());
        let want = [
            ("GET /", None),
            ("audit", Some(0)),
            ("Get", Some(1)),
            ("Call validating webhook", Some(2)),
            ("Call validating webhook", Some(2)),
            ("HTTP POST", Some(3)),
            ("SerializeObject", Some(1)),
        ];
        assert_eq!(parents, want.map(|(name, parent)| (name.to_string(), parent)));
        assert!(trace.slow_parts(Duration::ZERO).starts_with("---\"GET /\" "));
    }
}
