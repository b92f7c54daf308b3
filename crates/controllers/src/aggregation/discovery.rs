//! The discovery and OpenAPI v2 documents of extension servers, from aggregated or legacy discovery.

use super::{Aggregation, ApiService, Remote, availability, openapi_v3};
use bytes::Bytes;
use http::StatusCode;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use pintle_value::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// The largest document that is read, and the longest time it may take.
const DOCUMENT_BYTES_MAX: usize = 32 << 20;
const TIMEOUT: Duration = Duration::from_secs(5);

/// The maximum number of values in a document. That of kube-apiserver itself has a quarter of a million.
const VALUES_MAX: usize = 2_000_000;
/// How many resources and subresources of a version are taken from a document.
const RESOURCES_MAX: usize = 10_000;
/// How many definitions are taken from one document, and how deep they are processed.
const DEFINITIONS_MAX: usize = 10_000;
const DEPTH_MAX: usize = 128;
const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The resources of an extension server in one version of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteVersion {
    /// Resources in the server's order.
    pub resources: Vec<RemoteResource>,
    /// Whether the last request for it failed.
    pub is_stale: bool,
    /// The group's part of the server's OpenAPI v2 document.
    pub openapi_v2: Option<Arc<RemoteSpec>>,
    /// The version's OpenAPI v3 document.
    pub openapi_v3: RemoteV3,
}

/// Where the OpenAPI v3 document of a version comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RemoteV3 {
    /// The extension server has no such document.
    #[default]
    Absent,
    /// The extension server has it, at this URL with a hash.
    Served(String),
    /// The extension server has only OpenAPI v2, which was converted.
    Converted(Arc<ConvertedV3>),
}

/// A converted document.
#[derive(Debug, PartialEq, Eq)]
pub struct ConvertedV3 {
    /// The document in JSON.
    pub json: Bytes,
}

/// The part of an OpenAPI v2 document that describes one group.
#[derive(Debug, Default)]
pub struct RemoteSpec {
    /// The hash of the whole document.
    pub hash: u64,
    /// Paths of the group.
    pub paths: Vec<(String, Value)>,
    /// The definitions that the paths use.
    pub definitions: Vec<(String, Value)>,
    /// The parameters to which the operations refer.
    pub parameters: Vec<(String, Value)>,
}

impl PartialEq for RemoteSpec {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for RemoteSpec {}

/// Group, version and kind of a response.
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
    pub scope: String,
    pub singular: String,
    /// `None` is `null` in discovery.
    pub verbs: Option<Vec<String>>,
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
    pub verbs: Option<Vec<String>>,
}

/// A group as a server describes it: its versions, preferred first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteGroup {
    /// The group's name.
    pub name: String,
    /// The versions with their names.
    pub versions: Vec<(String, RemoteVersion)>,
}

/// Reads the groups of an aggregated document; `None` if the document is of another kind.
pub(crate) fn remote_groups(document: &[u8]) -> Option<Vec<RemoteGroup>> {
    let tree = parse(document)?;
    if tree.str_at(&["kind"]) != "APIGroupDiscoveryList" {
        return None;
    }
    let group = |group: &Value| RemoteGroup {
        name: group.str_at(&["metadata", "name"]).to_string(),
        versions: group
            .items_at(&["versions"])
            .iter()
            .map(|version| (version.str_at(&["version"]).to_string(), version_of(version)))
            .collect(),
    };
    Some(tree.items_at(&["items"]).iter().map(group).collect())
}

/// The path of a version's discovery document.
pub(super) fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// Fetches the documents. The version is stale if the extension server has no discovery document.
pub(super) async fn fetch(aggregation: &Aggregation, service: &ApiService, remote: &Remote) -> RemoteVersion {
    let stale = RemoteVersion { is_stale: true, ..RemoteVersion::default() };
    let mut version = fetch_resources(aggregation, service, remote).await.unwrap_or(stale);
    let v2 = get(aggregation, remote, "/openapi/v2", JSON).await.filter(Document::is_success);
    if let Some(found) = &v2 {
        version.openapi_v2 = spec(&found.body, &service.group, &service.version).map(Arc::new);
    }
    version.openapi_v3 = match get(aggregation, remote, "/openapi/v3", JSON).await {
        Some(found) if found.is_success() => served_v3(&found.body, service).unwrap_or_default(),
        // Only a server that does not have this path is taken for one without OpenAPI v3.
        Some(found) if found.status == StatusCode::NOT_FOUND => {
            v2.and_then(|v2| converted_v3(&v2.body)).unwrap_or_default()
        }
        _ => RemoteV3::Absent,
    };
    version
}

fn served_v3(index: &[u8], service: &ApiService) -> Option<RemoteV3> {
    let name = format!("apis/{}/{}", service.group, service.version);
    let index = parse(index)?;
    let url = index.str_at(&["paths", &name, "serverRelativeURL"]);
    (!url.is_empty()).then(|| RemoteV3::Served(url.to_string()))
}

fn converted_v3(v2: &[u8]) -> Option<RemoteV3> {
    let out = json::bytes(&openapi_v3::convert(&parse(v2)?)?);
    Some(RemoteV3::Converted(Arc::new(ConvertedV3 { json: out.into() })))
}

async fn fetch_resources(
    aggregation: &Aggregation,
    service: &ApiService,
    remote: &Remote,
) -> Option<RemoteVersion> {
    if let Some(found) = get(aggregation, remote, "/apis", AGGREGATED).await {
        // The legacy document is only requested from a server without aggregated discovery. A server that is
        // unavailable, or whose document cannot be parsed, has no current discovery.
        if found.status == StatusCode::SERVICE_UNAVAILABLE {
            return None;
        }
        if found.is_success() && found.media.replace(' ', "").contains("as=APIGroupDiscoveryList") {
            return Some(aggregated(&parse(&found.body)?, service));
        }
    }
    let legacy = path(&service.group, &service.version);
    let found = get(aggregation, remote, &legacy, JSON).await.filter(Document::is_success)?;
    from_legacy(&parse(&found.body)?)
}

/// Parses a document; `None` if it is not JSON, or if its tree would take too much memory: a list of empty lists has three bytes for
/// each.
fn parse(document: &[u8]) -> Option<Value> {
    if json::values_at_most(document) > VALUES_MAX {
        return None;
    }
    Some(json::parse(document).ok()?.value)
}

/// Extracts a version's paths from an OpenAPI v2 document, with the definitions that they use. Definitions that no
/// path of the document uses are included, as in kube-apiserver.
fn spec(document: &[u8], group: &str, version: &str) -> Option<RemoteSpec> {
    let mut hasher = std::hash::DefaultHasher::new();
    document.hash(&mut hasher);
    let hash = hasher.finish();
    let tree = parse(document)?;
    let prefix = format!("/apis/{group}/{version}/");
    let all = tree.get("paths").and_then(Value::as_object)?;
    let own = all.iter().filter(|(path, _)| path.starts_with(&prefix));
    let paths: Vec<(String, Value)> = own.map(|(path, item)| (path.to_string(), item.clone())).collect();
    let mut wanted: Vec<String> = Vec::new();
    references(&tree, DEFINITIONS, 0, &mut wanted);
    let used_somewhere: BTreeSet<String> = wanted.drain(..).collect();
    let mut parameters: BTreeMap<String, Value> = BTreeMap::new();
    paths.iter().for_each(|(_, item)| references(item, PARAMETERS, 0, &mut wanted));
    for name in wanted.drain(..).take(DEFINITIONS_MAX) {
        if let Some(found) = tree.at(&["parameters", &name]) {
            parameters.insert(name, found.clone());
        }
    }
    let used = paths.iter().map(|(_, item)| item).chain(parameters.values());
    used.for_each(|item| references(item, DEFINITIONS, 0, &mut wanted));
    let defined = tree.get("definitions").and_then(Value::as_object).into_iter().flat_map(|all| all.iter());
    wanted.extend(
        defined.map(|(name, _)| name.to_string()).filter(|name| !used_somewhere.contains(name.as_str())),
    );
    let mut definitions: BTreeMap<String, Value> = BTreeMap::new();
    while let Some(name) = wanted.pop() {
        if definitions.contains_key(&name) || definitions.len() >= DEFINITIONS_MAX {
            continue;
        }
        let Some(found) = tree.at(&["definitions", &name]) else { continue };
        references(found, DEFINITIONS, 0, &mut wanted);
        definitions.insert(name, found.clone());
    }
    let (definitions, parameters) = (definitions.into_iter().collect(), parameters.into_iter().collect());
    Some(RemoteSpec { hash, paths, definitions, parameters })
}

/// The prefix of names in references.
const DEFINITIONS: &str = "#/definitions/";
const PARAMETERS: &str = "#/parameters/";

/// The names of definitions or parameters that a tree refers to.
fn references(tree: &Value, prefix: &str, depth: usize, out: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match tree {
        Value::Object(members) => {
            for (key, value) in members.iter() {
                match value.as_str().and_then(|text| text.strip_prefix(prefix)) {
                    Some(name) if key.as_str() == "$ref" => out.push(name.to_string()),
                    _ => references(value, prefix, depth.saturating_add(1), out),
                }
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| references(item, prefix, depth.saturating_add(1), out))
        }
        _ => {}
    }
}

/// The answer to a request for a document.
struct Document {
    status: StatusCode,
    media: String,
    body: Bytes,
}

impl Document {
    fn is_success(&self) -> bool {
        self.status == StatusCode::OK
    }
}

/// Requests a document; `None` if there is no answer.
async fn get(
    aggregation: &Aggregation,
    remote: &Remote,
    path: &str,
    accept: &'static str,
) -> Option<Document> {
    let transport = remote.transport.as_ref().ok()?;
    let address = aggregation.resolve(remote).ok()?;
    let mut request = availability::request(&address, path)?;
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
    request.headers_mut().remove(ACCEPT_ENCODING);
    let exchange = async {
        let answer = transport.send(&address, request).await.ok()?;
        let status = answer.status();
        let media =
            answer.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("").to_string();
        let body = pintle_proxy::read_whole(answer.into_body(), DOCUMENT_BYTES_MAX).await.ok()?;
        Some(Document { status, media, body })
    };
    tokio::time::timeout(TIMEOUT, exchange).await.ok().flatten()
}

/// Extracts one version from an aggregated document.
fn aggregated(document: &Value, service: &ApiService) -> RemoteVersion {
    let group = document
        .items_at(&["items"])
        .iter()
        .find(|group| group.str_at(&["metadata", "name"]) == service.group.as_str());
    let version = group.and_then(|group| {
        group.items_at(&["versions"]).iter().find(|v| v.str_at(&["version"]) == service.version.as_str())
    });
    version.map(version_of).unwrap_or_default()
}

/// A version of an aggregated document.
fn version_of(version: &Value) -> RemoteVersion {
    let resource = |tree: &Value| RemoteResource {
        resource: tree.str_at(&["resource"]).to_string(),
        response_kind: read_kind(tree.get("responseKind")),
        scope: tree.str_at(&["scope"]).to_string(),
        singular: tree.str_at(&["singularResource"]).to_string(),
        verbs: verbs(tree),
        short_names: texts(tree, "shortNames"),
        categories: texts(tree, "categories"),
        subresources: tree
            .items_at(&["subresources"])
            .iter()
            .take(RESOURCES_MAX)
            .map(|sub| RemoteSubresource {
                subresource: sub.str_at(&["subresource"]).to_string(),
                response_kind: read_kind(sub.get("responseKind")),
                verbs: verbs(sub),
            })
            .collect(),
    };
    let resources = version.items_at(&["resources"]).iter().take(RESOURCES_MAX).map(resource).collect();
    RemoteVersion { resources, ..RemoteVersion::default() }
}

/// Extracts one version from a legacy document, in which subresources are resources with a slash in their name. A subresource
/// without its resource gets one; `None` if one has another scope than its resource.
fn from_legacy(document: &Value) -> Option<RemoteVersion> {
    let mut resources: Vec<RemoteResource> = Vec::new();
    let scope = |tree: &Value| {
        let is_namespaced = tree.get("namespaced").and_then(Value::as_bool) == Some(true);
        if is_namespaced { "Namespaced" } else { "Cluster" }
    };
    let listed = document.items_at(&["resources"]);
    let listed = listed.get(..RESOURCES_MAX).unwrap_or(listed);
    let mut places: HashMap<&str, usize> = HashMap::new();
    for tree in listed {
        let name = tree.str_at(&["name"]);
        if name.contains('/') {
            continue;
        }
        places.insert(name, resources.len());
        resources.push(RemoteResource {
            resource: name.to_string(),
            response_kind: read_kind(Some(tree)),
            scope: scope(tree).to_string(),
            singular: tree.str_at(&["singularName"]).to_string(),
            verbs: verbs(tree),
            short_names: texts(tree, "shortNames"),
            categories: texts(tree, "categories"),
            subresources: Vec::new(),
        });
    }
    for tree in listed {
        let Some((parent, sub)) = tree.str_at(&["name"]).split_once('/') else { continue };
        let place = *places.entry(parent).or_insert(resources.len());
        if place == resources.len() {
            let scope = scope(tree).to_string();
            resources.push(RemoteResource {
                resource: parent.to_string(),
                scope,
                ..RemoteResource::default()
            });
        }
        let parent = resources.get_mut(place).filter(|parent| parent.scope == scope(tree))?;
        let has_kind = !tree.str_at(&["kind"]).is_empty();
        parent.subresources.push(RemoteSubresource {
            subresource: sub.to_string(),
            response_kind: read_kind(Some(tree).filter(|_| has_kind)),
            verbs: verbs(tree),
        });
    }
    Some(RemoteVersion { resources, ..RemoteVersion::default() })
}

fn read_kind(tree: Option<&Value>) -> RemoteKind {
    let text = |key: &str| tree.map_or("", |tree| tree.str_at(&[key])).to_string();
    RemoteKind { group: text("group"), version: text("version"), kind: text("kind") }
}

fn verbs(tree: &Value) -> Option<Vec<String>> {
    tree.get("verbs").and_then(Value::as_array).map(|_| texts(tree, "verbs"))
}

fn texts(tree: &Value, key: &str) -> Vec<String> {
    tree.items_at(&[key]).iter().filter_map(Value::as_str).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without limits, the second half would be compared with the first: hours for a document of 32 MiB.
    #[test]
    fn a_hostile_document_takes_little_time_and_memory() {
        let half = VALUES_MAX / 5;
        let parents = r#"{"name":"a"},"#.repeat(half);
        let subs = r#"{"name":"b/c"},"#.repeat(half);
        let document = format!(r#"{{"resources":[{parents}{subs}{{"name":"d"}}]}}"#);
        let found = from_legacy(&parse(document.as_bytes()).unwrap()).unwrap();
        assert_eq!(found.resources.len(), RESOURCES_MAX);
        let lists = "[],".repeat(VALUES_MAX);
        assert_eq!(parse(format!("[{lists}0]").as_bytes()), None);
    }

    #[test]
    fn subresources_of_legacy_documents_belong_to_their_resource() {
        let document = br#"{"resources":[{"name":"a"},{"name":"a/status"},{"name":"b/scale"},{"name":"b"},{"name":"a/x"},{"name":"c/y"}]}"#;
        let found = from_legacy(&parse(document).unwrap()).unwrap();
        let names: Vec<_> = found
            .resources
            .iter()
            .map(|resource| {
                (&*resource.resource, resource.subresources.iter().map(|sub| &*sub.subresource).collect())
            })
            .collect::<Vec<(&str, Vec<&str>)>>();
        let mismatch = br#"{"resources":[{"name":"a"},{"name":"a/status","namespaced":true}]}"#;
        assert_eq!(from_legacy(&parse(mismatch).unwrap()), None);
        assert_eq!(names, [("a", vec!["status", "x"]), ("b", vec!["scale"]), ("c", vec!["y"])]);
    }

    #[test]
    fn a_spec_has_what_the_paths_of_its_group_refer_to() {
        let document = br##"{
            "paths": {
                "/apis/a.example.com/v1/boxes": {"get": {"parameters": [{"$ref": "#/parameters/limit-1"}]}},
                "/apis/b.example.com/v1/jars": {"get": {"parameters": [{"$ref": "#/parameters/watch-1"}]}}
            },
            "parameters": {
                "limit-1": {"in": "body", "name": "limit", "schema": {"$ref": "#/definitions/Limit"}},
                "watch-1": {"in": "body", "name": "watch", "schema": {"$ref": "#/definitions/Watch"}}
            },
            "definitions": {"Limit": {"type": "object"}, "Unused": {"type": "object"}, "Watch": {"type": "object"}}
        }"##;
        let spec = spec(document, "a.example.com", "v1").unwrap();
        let names =
            |entries: &[(String, Value)]| entries.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&spec.paths), ["/apis/a.example.com/v1/boxes"]);
        assert_eq!(names(&spec.parameters), ["limit-1"]);
        assert_eq!(names(&spec.definitions), ["Limit", "Unused"]);
    }
}
