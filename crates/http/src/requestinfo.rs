//! `RequestInfo`: the verb, resource and object that a request's method and path refer to, by the grammar of API
//! paths.

use crate::query;
use pintle_meta::options::{ListOptions, Query};
use pintle_value::Str;

/// The verb, resource and object of a request, from its method and path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether the path is that of a resource, known or unknown.
    pub resource_request: bool,
    /// The percent-decoded path.
    pub path: String,
    /// The API verb (`get`, `list`, …), or the method in lower case for other paths.
    pub verb: Str,
    /// `api` or `apis`, for resources.
    pub prefix: Str,
    /// Group.
    pub group: Str,
    /// Version.
    pub version: Str,
    /// Namespace, or "".
    pub namespace: Str,
    /// Resource.
    pub resource: Str,
    /// Subresource, or "".
    pub subresource: Str,
    /// The name, from the path or from a field selector for one name.
    pub name: Str,
    /// Resource, name, subresource and the rest of the path.
    pub parts: Vec<Str>,
    /// The field selector, for verbs that have one.
    pub field_selector: Str,
    /// The label selector, for verbs that have one.
    pub label_selector: Str,
    /// Whether the resource follows `namespaces/NAME/` in the path.
    pub in_namespace: bool,
    /// Whether the path has the legacy `/watch/` before the resource.
    pub watch_prefix: bool,
}

/// The most parts of a path of a namespaced object and its subresource: room for them is made at once.
const USUAL_SEGMENTS: usize = 8;

/// The path consists of a special verb only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undetermined;

impl RequestInfo {
    /// Parses method, percent-decoded path and query.
    pub fn parse(method: &str, path: String, query: &[(String, String)]) -> Result<Self, Undetermined> {
        let info = Self::read(method, &path, query)?;
        Ok(RequestInfo { path, ..info })
    }

    /// Reads everything but the path itself.
    fn read(method: &str, path: &str, query: &[(String, String)]) -> Result<Self, Undetermined> {
        let mut info = RequestInfo::default();
        let of_no_resource =
            |info: RequestInfo| Ok(RequestInfo { verb: method.to_ascii_lowercase().into(), ..info });
        let trimmed = path.trim_matches('/');
        let mut parts: &[&str] = &segments(trimmed);
        if trimmed.is_empty() || parts.len() < 3 {
            return of_no_resource(info);
        }
        match take(&mut parts) {
            "api" => info.prefix = "api".into(),
            "apis" => {
                info.prefix = "apis".into();
                if parts.len() < 3 {
                    return of_no_resource(info);
                }
                info.group = take(&mut parts).into();
            }
            _ => return of_no_resource(info),
        }
        info.resource_request = true;
        info.version = take(&mut parts).into();
        let first = parts.first().copied().unwrap_or("");
        if matches!(first, "proxy" | "watch") {
            if parts.len() < 2 {
                return Err(Undetermined);
            }
            info.verb = take(&mut parts).into();
            info.watch_prefix = true;
        } else {
            info.verb = verb_of(method).into();
        }
        info.read_resource(parts);
        info.derive_verb(query);
        Ok(info)
    }

    /// Returns whether the request is long-running: a watch or a stream to a pod or node.
    pub fn long_running(&self) -> bool {
        matches!(self.verb.as_str(), "watch" | "proxy")
            || (!self.resource_request && self.path.starts_with("/debug/pprof/"))
            || (self.resource_request
                && matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward"))
    }

    /// Returns whether the request changes objects.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    fn read_resource(&mut self, mut parts: &[&str]) {
        if let ["namespaces", namespace, rest @ ..] = parts {
            self.namespace = (*namespace).into();
            if let [next, ..] = rest
                && !matches!(*next, "status" | "finalize")
            {
                parts = rest;
                self.in_namespace = true;
            }
        }
        self.parts = parts.iter().map(|part| Str::from(*part)).collect();
        let part = |index: usize| Str::from(parts.get(index).copied().unwrap_or(""));
        self.resource = part(0);
        self.name = part(1);
        if self.verb != "proxy" {
            self.subresource = part(2);
        }
    }

    /// A get without a name becomes a list or a watch, a delete without a name a deletecollection.
    fn derive_verb(&mut self, query: &[(String, String)]) {
        if self.name.is_empty() && self.verb == "get" {
            self.verb = if asks_to_watch(query) { "watch" } else { "list" }.into();
            // As in kube-apiserver, a request whose options cannot be decoded is authorized as one for all names.
            let options = query::first(query, "fieldSelector").map(|_| ListOptions::decode(Query(query)));
            if let Some(Ok(options)) = options
                && let Some(name) = options.field_selector.required_value("metadata.name")
                && is_path_segment(name)
            {
                self.name = name.into();
            }
        }
        if self.name.is_empty() && self.verb == "delete" {
            self.verb = "deletecollection".into();
        }
        if !self.watch_prefix && matches!(self.verb.as_str(), "list" | "watch" | "deletecollection") {
            let text = |key| Str::from(query::first(query, key).unwrap_or(""));
            self.field_selector = text("fieldSelector");
            self.label_selector = text("labelSelector");
        }
    }
}

/// The parts of a path between its slashes.
fn segments(path: &str) -> Vec<&str> {
    let mut segments = Vec::with_capacity(USUAL_SEGMENTS);
    let mut start = 0;
    let ends = path.bytes().enumerate().filter(|(_, byte)| *byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        segments.push(path.get(start..end).unwrap_or(""));
        start = end.saturating_add(1);
    }
    segments
}

fn take<'a>(parts: &mut &[&'a str]) -> &'a str {
    match *parts {
        [first, rest @ ..] => {
            *parts = rest;
            first
        }
        [] => "",
    }
}

fn verb_of(method: &str) -> &'static str {
    match method {
        "POST" => "create",
        "GET" | "HEAD" => "get",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "",
    }
}

/// The parameter is true for any text except `false` and `0`, also for an empty one.
fn asks_to_watch(query: &[(String, String)]) -> bool {
    query::first(query, "watch").is_some_and(|text| !matches!(text.to_lowercase().as_str(), "false" | "0"))
}

/// Returns whether a name can be a path segment.
pub fn is_path_segment(name: &str) -> bool {
    name != "." && name != ".." && !name.contains(['/', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, uri: &str) -> String {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        match RequestInfo::parse(method, path.to_string(), &query::parse(query)) {
            Err(Undetermined) => "undetermined".into(),
            Ok(i) if !i.resource_request => format!("{} {}", i.verb, i.path),
            Ok(i) => format!(
                "{} {}/{} ns={} {} {} {}",
                i.verb, i.group, i.version, i.namespace, i.resource, i.name, i.subresource
            )
            .trim_end()
            .to_string(),
        }
    }

    #[test]
    fn the_grammar_of_paths() {
        for (method, uri, want) in [
            ("GET", "/", "get /"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("GET", "/healthz/a/b/c", "get /healthz/a/b/c"),
            ("GET", "/api/v1/namespaces", "list /v1 ns= namespaces"),
            ("GET", "/api/v1/namespaces/x", "get /v1 ns=x namespaces x"),
            ("GET", "/api/v1/namespaces/x/status", "get /v1 ns=x namespaces x status"),
            ("PUT", "/api/v1/namespaces/x/finalize", "update /v1 ns=x namespaces x finalize"),
            ("GET", "/api/v1/namespaces/x/pods/p/log", "get /v1 ns=x pods p log"),
            ("GET", "/api/v1/namespaces//pods", "list /v1 ns= pods"),
            ("GET", "/api/v1/pods?watch=1", "watch /v1 ns= pods"),
            ("GET", "/api/v1/pods?watch=", "watch /v1 ns= pods"),
            ("GET", "/api/v1/pods?watch=0", "list /v1 ns= pods"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da", "list /v1 ns= pods a"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da&limit=x", "list /v1 ns= pods"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da&labelSelector=!!", "list /v1 ns= pods"),
            (
                "GET",
                "/api/v1/pods?watch=1&fieldSelector=metadata.name%3Da&timeoutSeconds=x",
                "watch /v1 ns= pods",
            ),
            ("DELETE", "/apis/apps/v1/namespaces/x/deployments", "deletecollection apps/v1 ns=x deployments"),
            ("GET", "/api/v1/watch/namespaces/x/pods/p", "watch /v1 ns=x pods p"),
            ("GET", "/api/v1/watch", "undetermined"),
            ("OPTIONS", "/api/v1/pods", " /v1 ns= pods"),
        ] {
            assert_eq!(read(method, uri), want, "{method} {uri}");
        }
    }
}
