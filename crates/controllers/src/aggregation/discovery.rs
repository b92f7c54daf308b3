//! What an extension server says of itself: the resources of a version, from its aggregated discovery document or from
//! the old one, and its OpenAPI v2 document.

use super::{Aggregation, ApiService, Remote, availability};
use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use http_body_util::{BodyExt, Limited};
use pintle_value::{Value, json};
use std::time::Duration;

/// Largest document that is read, and how long it may take.
const DOCUMENT_BYTES_MAX: usize = 32 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What an extension server serves in one version of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteVersion {
    /// Resources in the server's order.
    pub resources: Vec<RemoteResource>,
    /// Whether the server could not be asked lately.
    pub is_stale: bool,
}

/// Group, version and kind of what is answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct RemoteKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// One resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct RemoteResource {
    pub resource: String,
    pub response_kind: RemoteKind,
    pub is_namespaced: bool,
    pub singular: String,
    pub verbs: Vec<String>,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub subresources: Vec<RemoteSubresource>,
}

/// One subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub struct RemoteSubresource {
    pub subresource: String,
    pub response_kind: RemoteKind,
    pub verbs: Vec<String>,
}

/// Where the discovery document of a version is.
pub(super) fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// Asks for the documents; `None` for what could not be had.
pub(super) async fn fetch(
    aggregation: &Aggregation,
    service: &ApiService,
    remote: &Remote,
) -> (Option<RemoteVersion>, Option<Bytes>) {
    let openapi = get(aggregation, remote, "/openapi/v2", "application/json").await.map(|(_, body)| body);
    if let Some((media, body)) = get(aggregation, remote, "/apis", AGGREGATED).await
        && media.replace(' ', "").contains("as=APIGroupDiscoveryList")
        && let Ok(parsed) = json::parse(&body)
    {
        return (Some(aggregated(&parsed.value, service)), openapi);
    }
    let path = path(&service.group, &service.version);
    let legacy = get(aggregation, remote, &path, "application/json").await;
    let parsed = legacy.and_then(|(_, body)| json::parse(&body).ok());
    (parsed.map(|parsed| from_legacy(&parsed.value, service)), openapi)
}

/// Type and content of a document; `None` where the answer is no success.
async fn get(
    aggregation: &Aggregation,
    remote: &Remote,
    path: &str,
    accept: &'static str,
) -> Option<(String, Bytes)> {
    let transport = remote.transport.as_ref().ok()?;
    let address = aggregation.resolve(&remote.service).ok()?;
    let mut request = availability::request(&address, path)?;
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
    request.headers_mut().remove(ACCEPT_ENCODING);
    let exchange = async {
        let answer = transport.send(&address, request).await.ok().filter(|answer| answer.status() == 200)?;
        let media =
            answer.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("").to_string();
        let body = Limited::new(answer.into_body(), DOCUMENT_BYTES_MAX).collect().await.ok()?;
        Some((media, body.to_bytes()))
    };
    tokio::time::timeout(TIMEOUT, exchange).await.ok().flatten()
}

/// One version out of an aggregated document.
fn aggregated(document: &Value, service: &ApiService) -> RemoteVersion {
    let group = document
        .items_at(&["items"])
        .iter()
        .find(|group| group.str_at(&["metadata", "name"]) == service.group.as_str());
    let version = group.and_then(|group| {
        group.items_at(&["versions"]).iter().find(|v| v.str_at(&["version"]) == service.version.as_str())
    });
    let resources = version.map(|version| version.items_at(&["resources"])).unwrap_or_default();
    let resource = |tree: &Value| RemoteResource {
        resource: tree.str_at(&["resource"]).to_string(),
        response_kind: kind(tree.get("responseKind")),
        is_namespaced: tree.str_at(&["scope"]) == "Namespaced",
        singular: tree.str_at(&["singularResource"]).to_string(),
        verbs: texts(tree, "verbs"),
        short_names: texts(tree, "shortNames"),
        categories: texts(tree, "categories"),
        subresources: tree
            .items_at(&["subresources"])
            .iter()
            .map(|sub| RemoteSubresource {
                subresource: sub.str_at(&["subresource"]).to_string(),
                response_kind: kind(sub.get("responseKind")),
                verbs: texts(sub, "verbs"),
            })
            .collect(),
    };
    RemoteVersion { resources: resources.iter().map(resource).collect(), is_stale: false }
}

/// One version out of the old kind of document, where subresources are resources with a slash in their name.
fn from_legacy(document: &Value, service: &ApiService) -> RemoteVersion {
    let mut out = RemoteVersion::default();
    let response_kind = |tree: &Value| {
        let or = |key: &str, own: &str| match tree.str_at(&[key]) {
            "" => own.to_string(),
            given => given.to_string(),
        };
        RemoteKind {
            group: or("group", &service.group),
            version: or("version", &service.version),
            kind: tree.str_at(&["kind"]).to_string(),
        }
    };
    for tree in document.items_at(&["resources"]) {
        let name = tree.str_at(&["name"]);
        if let Some((parent, sub)) = name.split_once('/') {
            let sub = RemoteSubresource {
                subresource: sub.to_string(),
                response_kind: response_kind(tree),
                verbs: texts(tree, "verbs"),
            };
            if let Some(parent) = out.resources.iter_mut().find(|resource| resource.resource == parent) {
                parent.subresources.push(sub);
            }
            continue;
        }
        out.resources.push(RemoteResource {
            resource: name.to_string(),
            response_kind: response_kind(tree),
            is_namespaced: tree.get("namespaced").and_then(Value::as_bool) == Some(true),
            singular: tree.str_at(&["singularName"]).to_string(),
            verbs: texts(tree, "verbs"),
            short_names: texts(tree, "shortNames"),
            categories: texts(tree, "categories"),
            subresources: Vec::new(),
        });
    }
    out
}

fn kind(tree: Option<&Value>) -> RemoteKind {
    let text = |key: &str| tree.map_or("", |tree| tree.str_at(&[key])).to_string();
    RemoteKind { group: text("group"), version: text("version"), kind: text("kind") }
}

fn texts(tree: &Value, key: &str) -> Vec<String> {
    tree.items_at(&[key]).iter().filter_map(Value::as_str).map(str::to_string).collect()
}
