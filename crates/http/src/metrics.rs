//! Metrics of requests. Labels come from existing routes, never from the text of a path.

use crate::Body;
use crate::requestinfo::RequestInfo;
use crate::route::{Action, Target};
use bytes::Bytes;
use pintle_metrics::{Handle, Messages, Notation, OTHER, Text, families};
use pintle_value::Str;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// The limit of label sets of requests; later ones count as `other`.
const SERIES_MAX: usize = pintle_metrics::SERIES_MAX;
/// The longest name of a resource, a DNS label.
const RESOURCE_BYTES_MAX: usize = 63;

/// The labels of a request in metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels {
    pub(crate) component: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) group: Str,
    pub(crate) version: Str,
    pub(crate) resource: Str,
    pub(crate) subresource: Str,
    pub(crate) scope: &'static str,
    pub(crate) dry_run: &'static str,
    /// Whether the response sizes are observed, as they are for routes that get and list.
    pub(crate) is_sized: bool,
}

impl Hash for Labels {
    /// Only a few label sets have the same group, resource and verb, and the others would take longer to hash than to compare.
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.group.as_bytes());
        state.write(self.resource.as_bytes());
        state.write(self.verb.as_bytes());
    }
}

impl Labels {
    /// A request for a path that is not a resource.
    fn of_method(method: &http::Method) -> Self {
        Labels {
            component: "apiserver",
            verb: clean_method(method.as_str()),
            group: Str::default(),
            version: Str::default(),
            resource: Str::default(),
            subresource: Str::default(),
            scope: "",
            dry_run: "",
            is_sized: true,
        }
    }

    /// A request beyond the limit of label sets.
    fn other() -> Self {
        Labels { resource: OTHER.into(), ..Self::of_method(&http::Method::GET) }
    }

    /// A request that flow control rejects before its route is known.
    pub(crate) fn unrouted(method: &http::Method, info: &RequestInfo) -> Self {
        if info.resource_request {
            Labels { resource: OTHER.into(), ..Self::of_method(method) }
        } else {
            Self::of_method(method)
        }
    }

    /// A request for one of the pages that kube-apiserver counts: health, OpenAPI v3, aggregated discovery, `/flagz` and
    /// `/statusz`. `content_type` is that of the answer.
    pub(crate) fn of_page(path: &str, method: &http::Method, code: u16, content_type: &str) -> Option<Self> {
        let (component, resource, subresource) = match path {
            "/healthz" | "/livez" | "/readyz" => ("", "", path),
            "/openapi/v3" => ("", "", "openapi/v3"),
            "/api" | "/apis" if code == 304 || content_type.contains("as=APIGroupDiscoveryList") => {
                ("apiserver", "", path.trim_start_matches('/'))
            }
            "/flagz" | "/statusz" => ("apiserver", path.trim_start_matches('/'), ""),
            _ if path.starts_with("/openapi/v3/") => ("", "", "openapi/v3/"),
            _ => return None,
        };
        let parameter = |name: &str| {
            let given = content_type.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            Str::from(given.filter(|_| !resource.is_empty()).unwrap_or(""))
        };
        Some(Labels {
            component,
            group: parameter("g"),
            version: parameter("v"),
            resource: resource.into(),
            subresource: subresource.into(),
            ..Self::of_method(method)
        })
    }

    /// A request for a resource that is served.
    pub(crate) fn of(info: &RequestInfo, target: &Target, query: &[(String, String)]) -> Self {
        let kind = target.kind();
        // kube-apiserver labels built-in resources by their routes, and custom resources by what the request selects: a
        // list of the custom resource with one name counts as a get.
        let has_route = kind.definition.is_empty();
        let (verb, scope) = if has_route {
            (verb_of(target, info, query), scope_of_route(target, info))
        } else if target.action == Action::List && !info.name.is_empty() {
            ("GET", scope_of(info))
        } else {
            (verb_of(target, info, query), scope_of(info))
        };
        let watches_by_query = has_route && target.action == Action::Watch && !info.watch_prefix;
        Labels {
            component: "apiserver",
            verb,
            group: kind.group.clone(),
            version: target.version().name.clone(),
            resource: kind.plural.clone(),
            subresource: target.subresource().map(|s| s.name.clone()).unwrap_or_default(),
            scope,
            dry_run: dry_run_of(query),
            is_sized: verb != "CONNECT"
                && (matches!(target.action, Action::Get | Action::List) || watches_by_query),
        }
    }

    /// The labels of the same request where kube-apiserver does not know the route, only the requested resource:
    /// while the request is open, and when it is ended early.
    pub(crate) fn by_request(&self, info: &RequestInfo) -> Self {
        let scope = scope_of(info);
        let verb = if !info.watch_prefix {
            self.verb
        } else if scope == "resource" {
            "GET"
        } else {
            "LIST"
        };
        Labels { verb, scope, ..self.clone() }
    }

    /// The labels of a request that an extension server answers. Only its path is known, so it must only be counted
    /// where this is rare.
    pub(crate) fn forwarded(component: &'static str, method: &http::Method, info: &RequestInfo) -> Self {
        let verb = match info.verb.as_str() {
            "list" => "LIST",
            "watch" => "WATCH",
            _ if is_connect(&info.subresource) => "CONNECT",
            _ => clean_method(method.as_str()),
        };
        if !info.resource_request {
            return Labels { component, subresource: resource_label(&info.path), ..Self::of_method(method) };
        }
        Labels {
            component,
            verb,
            group: info.group.clone(),
            version: info.version.clone(),
            resource: resource_label(&info.resource),
            subresource: resource_label(&info.subresource),
            scope: scope_of(info),
            dry_run: "",
            is_sized: false,
        }
    }

    fn label_values(&self) -> [&str; 8] {
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

    /// The label values without `dry_run`.
    fn plain_values(&self) -> [&str; 7] {
        [self.component, &self.group, &self.resource, self.scope, &self.subresource, self.verb, &self.version]
    }
}

/// The verb labels of kube-apiserver: HTTP methods, except for lists, watches, applies and connects.
fn verb_of(target: &Target, info: &RequestInfo, query: &[(String, String)]) -> &'static str {
    use crate::route::PatchType::ApplyYaml;
    match target.action {
        _ if is_connect(&info.subresource) => "CONNECT",
        Action::Get if asks_to_watch(query) => "WATCH",
        Action::Get => "GET",
        Action::List => "LIST",
        Action::Watch | Action::WatchOne => "WATCH",
        Action::Create => "POST",
        Action::Update => "PUT",
        Action::Patch(ApplyYaml) => "APPLY",
        Action::Patch(_) => "PATCH",
        Action::Delete | Action::DeleteCollection => "DELETE",
        Action::Connect => "CONNECT",
    }
}

fn clean_method(method: &str) -> &'static str {
    const METHODS: [&str; 5] = ["DELETE", "GET", "PATCH", "POST", "PUT"];
    METHODS.into_iter().find(|known| *known == method).unwrap_or(OTHER)
}

/// A part of a path as a label, or `OTHER` if it is too long to be the name of a resource.
fn resource_label(part: &str) -> Str {
    if part.len() <= RESOURCE_BYTES_MAX { part.into() } else { OTHER.into() }
}

/// Subresources whose requests count as connections, whatever their method.
fn is_connect(subresource: &str) -> bool {
    matches!(subresource, "attach" | "exec" | "log" | "portforward" | "proxy")
}

/// Whether the first `watch` of the query is anything but false.
fn asks_to_watch(query: &[(String, String)]) -> bool {
    let watch = query.iter().find(|(key, _)| key == "watch");
    watch.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
}

/// The scope of the route that a request took.
fn scope_of_route(target: &Target, info: &RequestInfo) -> &'static str {
    match target.action {
        Action::List | Action::Watch | Action::DeleteCollection if info.namespace.is_empty() => "cluster",
        Action::List | Action::Watch | Action::DeleteCollection => "namespace",
        _ => "resource",
    }
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
            duration: families::REQUEST_DURATION.with(&labels.label_values()),
            sli: (labels.verb != "WATCH" && labels.dry_run.is_empty())
                .then(|| families::REQUEST_SLI.with(&plain)),
            sizes: labels.is_sized.then(|| families::RESPONSE_SIZES.with(&plain)),
            labels,
        }
    }

    fn count_request(&self, code: u16) {
        let find = |all: &[(u16, Handle)]| all.iter().find(|(c, _)| *c == code).map(|(_, h)| Arc::clone(h));
        let known = find(&self.by_code.read().unwrap_or_else(PoisonError::into_inner));
        let series = known.unwrap_or_else(|| {
            let text = code.to_string();
            let [component, dry_run, rest @ ..] = self.labels.label_values();
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

/// Metrics of requests, and the functions that update other metrics before they are rendered.
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
        let series = self.series_of(labels);
        let seconds = took.as_secs_f64();
        series.count_request(code);
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
        self.series_of(labels).count_request(code);
        count_termination(labels, code);
    }

    fn series_of(&self, labels: &Labels) -> Arc<RequestSeries> {
        if let Some(series) = self.requests.read().unwrap_or_else(PoisonError::into_inner).get(labels) {
            return Arc::clone(series);
        }
        let mut all = self.requests.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= SERIES_MAX && !all.contains_key(labels) {
            drop(all);
            return Arc::new(RequestSeries::new(Labels::other()));
        }
        let series = || Arc::new(RequestSeries::new(labels.clone()));
        Arc::clone(all.entry(labels.clone()).or_insert_with(series))
    }

    /// Sets all counters to zero.
    pub(crate) fn reset(&self) {
        self.requests.write().unwrap_or_else(PoisonError::into_inner).clear();
        pintle_metrics::reset();
    }

    /// All metrics as text, or in a notation of protobuf; rendered in chunks while they are sent.
    pub(crate) fn export(&self, notation: Option<Notation>) -> Body {
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        sources.iter().for_each(|update| update());
        match notation {
            None => Body::lazy(Text::default().map(Bytes::from), None),
            Some(notation) => Body::lazy(Messages::new(notation).map(Bytes::from), None),
        }
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
        String::from_utf8(metrics.export(None).collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn requests_are_counted_by_label_and_code() {
        let metrics = Metrics::default();
        let labels = Labels { resource: "pods".into(), scope: "namespace", ..Labels::other() };
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
        let labels = Labels { resource: "counted".into(), ..Labels::other() };
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
        assert_eq!(Labels::of_method(&odd).verb, "other");
        for (query, want) in
            [("", ""), ("dryRun=All", "All"), ("dryRun=All&dryRun=All", "All"), ("dryRun=x\"y", "invalid")]
        {
            assert_eq!(dry_run_of(&query::parse(query)), want);
        }
    }
}
