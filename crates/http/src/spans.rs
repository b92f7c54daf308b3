//! The trace of a request: its name, who may continue a trace of its own, and what is logged of slow requests.

use crate::chain::Context;
use crate::headers;
use crate::requestinfo::RequestInfo;
use http::request::Parts;
use pintle_auth::UserInfo;
use pintle_trace::{Parent, Trace};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests that take longer are logged with their parts, of which those are named that take a tenth of it.
const SLOW: Duration = Duration::from_millis(500);
const SLOW_PART: Duration = Duration::from_millis(50);
/// Groups whose requests may continue a trace that their clients began: others could choose what is sampled.
const TRUSTED: [&str; 2] = [UserInfo::MASTERS, "system:monitoring"];

/// Begins the trace of an authenticated request.
pub(crate) fn begin(
    context: &Context,
    parts: &Parts,
    info: &RequestInfo,
    user: &UserInfo,
    id: &str,
    began: Instant,
) -> Arc<Trace> {
    let Some(exporter) = &context.tracer else {
        return Trace::begin(None, None, String::new(), Vec::new(), began);
    };
    let header = headers::first(&parts.headers, "traceparent");
    let is_trusted = TRUSTED.iter().any(|group| user.in_group(group));
    let parent = Parent::parse(&header).filter(|_| is_trusted);
    let target = parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str);
    let attributes = vec![
        ("http.method", parts.method.to_string()),
        ("http.target", target.to_string()),
        ("http.user_agent", headers::first(&parts.headers, "user-agent").into_owned()),
        ("audit-id", id.to_string()),
    ];
    Trace::begin(Some(exporter), parent, name_of(parts, info), attributes, began)
}

/// The method and, for resources, the path with placeholders.
fn name_of(parts: &Parts, info: &RequestInfo) -> String {
    if !info.resource_request {
        return parts.method.to_string();
    }
    let mut path = format!("/{}", info.prefix);
    for part in [&info.group, &info.version] {
        if !part.is_empty() {
            path.push('/');
            path.push_str(part);
        }
    }
    if !info.namespace.is_empty() {
        path.push_str("/namespaces/{:namespace}");
    }
    path.push('/');
    path.push_str(&info.resource);
    if !info.name.is_empty() {
        path.push_str("/{:name}");
    }
    if !info.subresource.is_empty() {
        path.push('/');
        path.push_str(&info.subresource);
    }
    format!("{} {path}", parts.method)
}

/// What is logged of a request when it is over, if anything is.
pub(crate) struct RequestLog {
    pub(crate) verb: String,
    pub(crate) uri: String,
    pub(crate) user_agent: String,
    pub(crate) id: String,
    pub(crate) client: String,
}

impl RequestLog {
    /// The line of a request, as kube-apiserver's.
    pub(crate) fn write(&self, code: u16, took: Duration) {
        let latency =
            pintle_meta::duration::GoDuration(i64::try_from(took.as_nanos()).unwrap_or(i64::MAX)).to_string();
        tracing::info!(
            v = 3,
            verb = self.verb,
            URI = self.uri,
            latency,
            userAgent = self.user_agent,
            "audit-ID" = self.id,
            srcIP = self.client,
            resp = u64::from(code),
            "HTTP"
        );
    }
}

/// Ends a trace; a request that was slow is logged with its parts.
pub(crate) fn finish(trace: &Arc<Trace>, is_ordinary: bool, took: Duration, uri: &str) {
    trace.finish();
    if is_ordinary && took >= SLOW {
        let parts = trace.slow_parts(SLOW_PART);
        tracing::info!(v = 0, "Trace: url:{uri} (total time: {}ms): {parts}", took.as_millis());
    }
}
