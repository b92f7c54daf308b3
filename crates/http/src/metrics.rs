//! Metrics of requests. Labels come from existing routes, never from the text of a path.

use crate::Body;
use crate::requestinfo::RequestInfo;
use crate::route::{Action, Target};
use bytes::Bytes;
use pintle_metrics::{Handle, OTHER, Text, families};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// The limit of label sets of requests; later ones count as `other`.
const SERIES_MAX: usize = pintle_metrics::SERIES_MAX;
/// The longest name of a resource, a DNS label.
const RESOURCE_BYTES_MAX: usize = 63;

/// The labels of a request in metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Labels {
    pub(crate) component: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
    pub(crate) dry_run: &'static str,
}

impl Labels {
    /// A request that no route serves.
    pub(crate) fn other(method: &http::Method) -> Self {
        Labels {
            component: "apiserver",
            verb: clean_method(method.as_str()),
            group: String::new(),
            version: String::new(),
            resource: OTHER.into(),
            subresource: String::new(),
            scope: "",
            dry_run: "",
        }
    }

    /// One of the three health documents.
    pub(crate) fn health(path: &str, method: &http::Method) -> Self {
        Labels {
            component: "",
            resource: String::new(),
            subresource: path.to_string(),
            ..Self::other(method)
        }
    }

    /// A request for a resource that is served.
    pub(crate) fn of(info: &RequestInfo, target: &Target, query: &[(String, String)]) -> Self {
        let kind = target.kind();
        Labels {
            component: "apiserver",
            verb: verb_of(target, info),
            group: kind.group.to_string(),
            version: target.version().name.to_string(),
            resource: kind.plural.to_string(),
            subresource: target.subresource().map(|s| s.name.to_string()).unwrap_or_default(),
            scope: scope_of(info),
            dry_run: dry_run_of(query),
        }
    }

    /// A request for a resource of an extension server. Its path is all that is known, so it must only be counted where
    /// this is rare.
    pub(crate) fn forwarded(info: &RequestInfo) -> Self {
        let verb = match info.verb.as_str() {
            "get" => "GET",
            "list" => "LIST",
            "create" => "POST",
            "update" => "PUT",
            "patch" => "PATCH",
            "delete" | "deletecollection" => "DELETE",
            _ => OTHER,
        };
        Labels {
            component: "apiserver",
            verb,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: resource_label(&info.resource),
            subresource: resource_label(&info.subresource),
            scope: scope_of(info),
            dry_run: "",
        }
    }

    fn values(&self) -> [&str; 8] {
        [
            self.component,
            self.dry_run,
            &self.group,
            &self.resource,
            self.scope,
            &self.subresource,
            self.verb,
            &self.version,
        ]
    }

    /// Without `dry_run`.
    fn plain_values(&self) -> [&str; 7] {
        [self.component, &self.group, &self.resource, self.scope, &self.subresource, self.verb, &self.version]
    }
}

/// The verb labels of kube-apiserver: HTTP methods, except for lists, watches, applies and connects.
fn verb_of(target: &Target, info: &RequestInfo) -> &'static str {
    use crate::route::PatchType::{ApplyCbor, ApplyYaml};
    match target.action {
        Action::Get => "GET",
        Action::List if info.name.is_empty() => "LIST",
        // kube-apiserver counts a list that a field selector restricts to one name as a get of a resource.
        Action::List => "GET",
        Action::Watch | Action::WatchOne => "WATCH",
        Action::Create => "POST",
        Action::Update => "PUT",
        Action::Patch(ApplyYaml | ApplyCbor) => "APPLY",
        Action::Patch(_) => "PATCH",
        Action::Delete | Action::DeleteCollection => "DELETE",
        Action::Connect => "CONNECT",
    }
}

fn clean_method(method: &str) -> &'static str {
    const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER)
}

/// A part of a path as a label, unless it is too long to name a resource.
fn resource_label(part: &str) -> String {
    if part.len() <= RESOURCE_BYTES_MAX { part.to_string() } else { OTHER.to_string() }
}

fn scope_of(info: &RequestInfo) -> &'static str {
    if !info.name.is_empty() || info.verb == "create" {
        "resource"
    } else if info.namespace.is_empty() {
        "cluster"
    } else {
        "namespace"
    }
}

fn dry_run_of(query: &[(String, String)]) -> &'static str {
    let mut values = query.iter().filter(|(key, _)| key == "dryRun").map(|(_, value)| value.as_str());
    match values.next() {
        None => "",
        Some("All") if values.all(|v| v == "All") => "All",
        Some(_) => "invalid",
    }
}

/// The series of one label set, resolved once per request.
struct RequestSeries {
    labels: Labels,
    by_code: RwLock<Vec<(u16, Handle)>>,
    duration: Handle,
    sli: Option<Handle>,
    sizes: Option<Handle>,
}

impl RequestSeries {
    fn new(labels: Labels) -> Self {
        let plain = labels.plain_values();
        RequestSeries {
            by_code: RwLock::default(),
            duration: families::REQUEST_DURATION.with(&labels.values()),
            sli: (!matches!(labels.verb, "WATCH" | "CONNECT")).then(|| families::REQUEST_SLI.with(&plain)),
            sizes: matches!(labels.verb, "GET" | "LIST").then(|| families::RESPONSE_SIZES.with(&plain)),
            labels,
        }
    }

    fn count(&self, code: u16) {
        let find = |all: &[(u16, Handle)]| all.iter().find(|(c, _)| *c == code).map(|(_, h)| Arc::clone(h));
        let known = find(&self.by_code.read().unwrap_or_else(PoisonError::into_inner));
        let series = known.unwrap_or_else(|| {
            let text = code.to_string();
            let [component, dry_run, rest @ ..] = self.labels.values();
            let mut values = vec![text.as_str(), component, dry_run];
            values.extend(rest);
            let series = families::REQUEST_TOTAL.with(&values);
            self.by_code.write().unwrap_or_else(PoisonError::into_inner).push((code, Arc::clone(&series)));
            series
        });
        series.add(1);
    }
}

/// Counts a request that the server ended in self-defence.
pub(crate) fn count_termination(labels: &Labels, code: u16) {
    let text = code.to_string();
    let mut values = vec![text.as_str()];
    values.extend(labels.plain_values());
    families::REQUEST_TERMINATIONS.inc(&values);
}

/// Updates metrics that are counted elsewhere.
type Source = Box<dyn Fn() + Send + Sync>;

/// Metrics of requests, and what updates the others.
#[derive(Default)]
pub struct Metrics {
    requests: RwLock<HashMap<Labels, Arc<RequestSeries>>>,
    sources: Mutex<Vec<Source>>,
}

impl Metrics {
    /// Adds a function that is called before each scrape.
    pub fn add_source(&self, update: impl Fn() + Send + Sync + 'static) {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(update));
    }

    /// Counts a request that was answered.
    pub(crate) fn request_ends(&self, labels: &Labels, code: u16, took: Duration, bytes: u64) {
        let series = self.series(labels);
        let seconds = took.as_secs_f64();
        series.count(code);
        series.duration.observe(families::REQUEST_DURATION.buckets(), seconds);
        if let Some(sli) = &series.sli {
            sli.observe(families::REQUEST_SLI.buckets(), seconds);
        }
        if let Some(sizes) = &series.sizes {
            #[expect(clippy::cast_precision_loss, reason = "a size to be put in a bucket")]
            sizes.observe(families::RESPONSE_SIZES.buckets(), bytes as f64);
        }
    }

    /// Counts a request that was rejected before it ran.
    pub(crate) fn request_rejected(&self, labels: &Labels, code: u16) {
        self.series(labels).count(code);
        count_termination(labels, code);
    }

    fn series(&self, labels: &Labels) -> Arc<RequestSeries> {
        if let Some(series) = self.requests.read().unwrap_or_else(PoisonError::into_inner).get(labels) {
            return Arc::clone(series);
        }
        let mut all = self.requests.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SERIES_MAX && !all.contains_key(labels) {
            drop(all);
            let other = Labels::other(&http::Method::GET);
            return Arc::new(RequestSeries::new(other));
        }
        let series = || Arc::new(RequestSeries::new(labels.clone()));
        Arc::clone(all.entry(labels.clone()).or_insert_with(series))
    }

    /// Sets all counters to zero.
    pub(crate) fn reset(&self) {
        self.requests.write().unwrap_or_else(PoisonError::into_inner).clear();
        pintle_metrics::reset();
    }

    /// The text of `/metrics`, rendered in chunks while it is sent.
    pub(crate) fn text(&self) -> Body {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().for_each(|update| update());
        Body::lazy(Text::default().map(Bytes::from), None)
    }
}

/// Counts a long-running request such as a watch until it is dropped, however the request ends.
pub(crate) struct LongRunning(Handle);

impl LongRunning {
    pub(crate) fn begin(labels: &Labels) -> Self {
        let handle = families::LONG_RUNNING.with(&labels.plain_values());
        handle.shift(1.0);
        LongRunning(handle)
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.0.shift(-1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query;

    async fn text(metrics: &Metrics) -> String {
        use http_body_util::BodyExt;
        String::from_utf8(metrics.text().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn requests_are_counted_by_label_and_code() {
        let metrics = Metrics::default();
        let labels =
            Labels { resource: "pods".into(), scope: "namespace", ..Labels::other(&http::Method::GET) };
        for code in [200, 200, 404] {
            metrics.request_ends(&labels, code, Duration::from_millis(30), 7);
        }
        let text = text(&metrics).await;
        assert!(text.contains("apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",resource=\"pods\",scope=\"namespace\",subresource=\"\",verb=\"GET\",version=\"\"} 2\n"), "{text}");
        assert!(text.contains("le=\"0.025\"} 0\n"));
        assert!(text.contains("le=\"0.05\"} 3\n"));
    }

    #[tokio::test]
    async fn a_long_running_request_is_counted_until_it_is_dropped() {
        let metrics = Metrics::default();
        let labels = Labels { resource: "counted".into(), ..Labels::other(&http::Method::GET) };
        let guards = [LongRunning::begin(&labels), LongRunning::begin(&labels)];
        let series = "apiserver_longrunning_requests{component=\"apiserver\",group=\"\",resource=\"counted\"";
        let count = async || {
            let text = text(&metrics).await;
            let line = text.lines().find(|line| line.starts_with(series)).unwrap_or_default();
            line.rsplit(' ').next().map(str::to_owned)
        };
        assert_eq!(count().await.as_deref(), Some("2"));
        drop(guards);
        assert_eq!(count().await.as_deref(), Some("0"));
    }

    #[test]
    fn methods_and_dry_runs_come_from_closed_sets() {
        let odd = http::Method::from_bytes(b"FOO").unwrap();
        assert_eq!(Labels::other(&odd).verb, "other");
        for (query, want) in
            [("", ""), ("dryRun=All", "All"), ("dryRun=All&dryRun=All", "All"), ("dryRun=x\"y", "invalid")]
        {
            assert_eq!(dry_run_of(&query::parse(query)), want);
        }
    }
}
