//! The trace of a request: its name, who may continue an incoming trace, and the log of slow requests.

use crate::context::Context;
use crate::flow::Classified;
use crate::requestinfo::RequestInfo;
use crate::{headers, target};
use http::request::Parts;
use pintle_auth::UserInfo;
use pintle_trace::{Parent, Trace};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Slower requests are logged with those steps that took at least a tenth of the time.
const SLOW: Duration = Duration::from_millis(500);
const SLOW_PART: Duration = Duration::from_millis(50);
/// Groups whose requests may continue their client's trace: others could otherwise choose what is sampled.
const TRUSTED: [&str; 2] = [UserInfo::MASTERS, "system:monitoring"];

/// Starts the trace of an authenticated request.
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
    let attributes = vec![
        ("http.method", parts.method.to_string()),
        ("http.target", target::path_and_query(parts).to_string()),
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

/// Returns whether requests are logged.
pub(crate) fn are_requests_logged() -> bool {
    pintle_log::is_enabled(3)
}

/// What is logged when a request completes, if requests are logged.
pub(crate) struct RequestLog {
    pub(crate) verb: String,
    pub(crate) uri: String,
    pub(crate) user_agent: String,
    pub(crate) id: String,
    pub(crate) client: String,
    /// How priority and fairness classified it.
    pub(crate) classified: Option<Classified>,
}

impl RequestLog {
    /// Logs a request in kube-apiserver's format.
    pub(crate) fn write(&self, code: u16, took: Duration) {
        let latency = duration_text(took);
        if let Some(Classified { flow, work, seated }) = &self.classified {
            let executed = seated.map(|seated| duration_text(seated.elapsed()));
            tracing::info!(
                v = 3,
                verb = self.verb,
                URI = self.uri,
                latency,
                userAgent = self.user_agent,
                "audit-ID" = self.id,
                srcIP = self.client,
                apf_pl = &*flow.level,
                apf_fs = &*flow.schema,
                apf_iseats = work.initial_seats,
                apf_fseats = work.final_seats,
                apf_additionalLatency = duration_text(work.additional_latency),
                apf_execution_time = executed,
                resp = u64::from(code),
                "HTTP"
            );
            return;
        }
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

fn duration_text(time: Duration) -> String {
    pintle_meta::duration::GoDuration(i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)).to_string()
}

/// Ends a trace and logs the request with its steps if it was slow.
pub(crate) fn finish(trace: &Arc<Trace>, is_ordinary: bool, took: Duration, uri: &str) {
    trace.finish(took);
    if is_ordinary && took >= SLOW {
        let parts = trace.slow_parts(SLOW_PART);
        tracing::info!(v = 0, "Trace: url:{uri} (total time: {}ms): {parts}", took.as_millis());
    }
}
