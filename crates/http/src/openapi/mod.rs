//! OpenAPI documents, rendered when they are first requested and cached until what they describe changes.

mod clashes;
mod custom;
mod model;
mod operations;
mod params;
mod part;
mod proto;
mod schemas;
pub(crate) mod serve;
mod stitch;
mod text;
mod v2;

use crate::discovery::{self, DiscoveryState, Group, Resource, Version};
use crate::negotiate::{Media, names};
use aws_lc_rs::digest;
use model::{Dialect, Gvk, object};
use operations::{META, Paths, document, id_part, of_resource, of_version, tag};
pub(crate) use part::Part;
use part::{Content, Form, Members};
use pintle_controllers::aggregation::{ConvertedV3, RemoteV3};
use pintle_kinds::Kind;
use pintle_value::{Map, Str, Value, json};
use schemas::custom_name;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use stitch::{Frame, merged};
use text::{Text, Texts};

/// Returns the CustomResourceDefinition of a kind.
pub(crate) type Definitions<'a> = &'a (dyn Fn(&Kind) -> Option<Value> + Sync + 'a);

/// A document in one form.
pub(crate) struct Rendered {
    texts: Texts,
    /// The hash of the document's source; the same in both forms.
    hash: Arc<str>,
    /// When the described API last changed, in seconds since 1970.
    modified: i64,
}

impl Rendered {
    /// A document in one piece.
    fn whole(bytes: Vec<u8>, hash: Arc<str>) -> Self {
        Rendered { texts: Texts([Arc::new(Text::new(bytes))].into()), hash, modified: 0 }
    }
}

fn hash(bytes: &[u8]) -> Arc<str> {
    in_hex(digest::digest(&digest::SHA512, bytes).as_ref())
}

fn in_hex(digest: &[u8]) -> Arc<str> {
    digest.iter().map(|b| format!("{b:02X}")).collect::<String>().into()
}

/// Documents by name and form, each rendered once. They are created anew when what they describe changes.
pub(crate) struct Documents {
    rendered: Mutex<BTreeMap<(String, Form), Arc<Rendered>>>,
    /// When the documents were created, in seconds since 1970.
    modified: i64,
}

impl Default for Documents {
    fn default() -> Self {
        Documents { rendered: Mutex::default(), modified: now() }
    }
}

/// The seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

impl Documents {
    fn get(&self, name: &str, form: Form, make: impl FnOnce() -> Rendered) -> Arc<Rendered> {
        let locked = || self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (name.to_string(), form);
        if let Some(known) = locked().get(&key) {
            return Arc::clone(known);
        }
        // Render without holding the lock: two concurrent requests may both render it.
        let made = Arc::new(Rendered { modified: self.modified, ..make() });
        Arc::clone(locked().entry(key).or_insert(made))
    }

    /// Renders a document of built-in types.
    fn installed(
        &self,
        name: &str,
        form: Form,
        hash: impl FnOnce() -> Arc<str>,
        tree: impl FnOnce() -> Value,
    ) -> Arc<Rendered> {
        self.get(name, form, || match form {
            Form::Json => {
                let mut out = Vec::new();
                json::print(&tree(), &mut out);
                out.shrink_to_fit();
                Rendered::whole(out, hash())
            }
            Form::Protobuf => Rendered::whole(proto::encode(&tree(), Dialect::V3), hash()),
        })
    }
}

/// The names of all OpenAPI v3 documents, as in their paths.
fn document_names(state: &DiscoveryState) -> Vec<String> {
    let mut all: Vec<String> = OTHERS.iter().map(|(name, ..)| (*name).to_string()).collect();
    all.push("api".into());
    all.push("apis".into());
    if let Some(core) = state.group("") {
        all.extend(core.versions.iter().map(|v| format!("api/{}", v.name)));
    }
    for group in state.groups() {
        if group.installed {
            all.push(format!("apis/{}", group.name));
        }
        all.extend(group.versions.iter().map(|v| format!("apis/{}/{}", group.name, v.name)));
    }
    all
}

/// Documents of paths outside the API: (name, path, id, description, tag, schema, media).
type Other =
    (&'static str, &'static str, &'static str, &'static str, &'static str, &'static str, &'static str);
const OTHERS: [Other; 3] = [
    (
        ".well-known/openid-configuration",
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        "WellKnown",
        "",
        "application/json",
    ),
    (
        "openid/v1/jwks",
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset",
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        "openid",
        "",
        "application/jwk-set+json",
    ),
    (
        "version",
        "/version/",
        "getCodeVersion",
        "get the version information for this server",
        "version",
        "io.k8s.apimachinery.pkg.version.Info",
        "application/json",
    ),
];

/// The inputs of documents.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) state: &'a DiscoveryState,
    pub(crate) definitions: Definitions<'a>,
    /// Whether CBOR is served.
    pub(crate) cbor: bool,
    /// The commit that the server was built from.
    pub(crate) commit: &'a str,
}

impl Source<'_> {
    /// The beginning of a text that identifies a document: which server, with which schemas and descriptions, writes it.
    fn identity(&self) -> String {
        static DATA: OnceLock<Arc<str>> = OnceLock::new();
        let data = DATA.get_or_init(|| {
            let mut context = digest::Context::new(&digest::SHA512);
            context.update(pintle_kinds::PUBLISHED_SCHEMAS.as_bytes());
            pintle_kinds::descriptions::texts().for_each(|text| context.update(text.as_bytes()));
            in_hex(context.finish().as_ref())
        });
        format!("{} {} {data} {}", env!("CARGO_PKG_VERSION"), self.commit, self.cbor)
    }
}

/// A document of OpenAPI v3.
fn v3(source: Source<'_>, name: &str, form: Form) -> Option<Arc<Rendered>> {
    let parts: Vec<&str> = name.split('/').collect();
    let group = |name: &str| source.state.group(name);
    match parts.as_slice() {
        ["api", version] => of_group_version(source, group("")?, version, form),
        ["apis", name] => {
            let group = group(name).filter(|g| g.installed && !g.name.is_empty())?;
            let hash = || document_hash(source, &format!("apis/{name}"));
            Some(group.openapi.installed("", form, hash, || {
                let mut tree = installed(&group_paths(group));
                tree.set_at(&["tags"], Value::Array(described_tag(group, "").into_iter().collect()));
                tree
            }))
        }
        ["apis", group_name, version] if !group_name.is_empty() => {
            let group = group(group_name)?;
            match converted(group, version) {
                Some(document) => Some(of_converted(source, name, document, form)),
                None => of_group_version(source, group, version, form),
            }
        }
        _ => {
            let paths = other_paths(name)?;
            let hash = || document_hash(source, name);
            Some(source.state.openapi.installed(name, form, hash, || installed(&paths)))
        }
    }
}

/// The document of an extension server without OpenAPI v3, if it serves this version.
fn converted<'a>(group: &'a Group, version: &str) -> Option<&'a ConvertedV3> {
    let listed = group.listing.iter().find(|listed| listed.name == version)?;
    match &listed.source {
        discovery::Source::Remote(remote) => match &remote.openapi_v3 {
            RemoteV3::Converted(document) => Some(document),
            _ => None,
        },
        discovery::Source::Own(_) => None,
    }
}

fn of_converted(source: Source<'_>, name: &str, document: &ConvertedV3, form: Form) -> Arc<Rendered> {
    source.state.openapi.get(name, form, || {
        let bytes = match form {
            Form::Json => document.json.to_vec(),
            Form::Protobuf => {
                let tree = json::parse(&document.json).map(|parsed| parsed.value).unwrap_or_default();
                proto::encode(&tree, Dialect::V3)
            }
        };
        Rendered::whole(bytes, converted_hash(document))
    })
}

fn converted_hash(document: &ConvertedV3) -> Arc<str> {
    hash(&document.json)
}

fn of_group_version(source: Source<'_>, group: &Group, version: &str, form: Form) -> Option<Arc<Rendered>> {
    let version = group.version(version)?;
    if group.installed {
        let hash = || version_hash(source, group, version);
        return Some(group.openapi.installed(&version.name, form, hash, || {
            let mut tree = installed(&of_version(group, version, source.cbor));
            let schemas = tree.at_mut(&["components", "schemas"]).and_then(Value::as_object_mut);
            for (_, schema) in schemas.into_iter().flat_map(|s| s.iter_mut()) {
                schemas::narrow(schema, &group.name, &version.name, true);
            }
            tree.set_at(&["tags"], Value::Array(described_tag(group, &version.name).into_iter().collect()));
            tree
        }));
    }
    Some(group.openapi.get(&version.name, form, || {
        let all: Vec<_> = version.resources.iter().map(|resource| (group, version, resource)).collect();
        let parts = custom_parts(source, &all, Dialect::V3, form);
        let uses = parts.iter().flat_map(|part| part.uses.iter().cloned()).collect();
        let shared = schemas::shared(uses, form);
        // If a definition has the name of a built-in type, the built-in type stays.
        let schemas = merged(parts.iter().flat_map(|part| &part.schemas).chain(&shared));
        let paths = merged(parts.iter().flat_map(|part| &part.paths));
        let info = object([("title", "Kubernetes CRD Swagger".into()), ("version", "v0.1.0".into())]);
        let frame = Frame {
            dialect: Dialect::V3,
            head: object([("openapi", "3.0.0".into()), ("info", info)]),
            tail: Value::object(),
        };
        let hash = version_hash(source, group, version);
        Rendered { texts: frame.around(form, &paths, &schemas), hash, modified: 0 }
    }))
}

/// From this number on, parts are rendered on all processors.
const PARALLEL_MIN: usize = 64;
/// A stack large enough for the deepest definition that the decoders accept.
const STACK_BYTES: usize = 64 << 20;

/// The parts of these custom resources.
fn custom_parts<'a>(
    source: Source<'_>,
    all: &[(&Group, &Version, &'a Resource)],
    dialect: Dialect,
    form: Form,
) -> Vec<&'a Members> {
    let make = |(group, version, resource): &(&Group, &Version, &'a Resource)| {
        resource.openapi.members(dialect, form, || custom_content(source, group, version, resource, dialect))
    };
    let missing: Vec<_> = all.iter().filter(|(.., r)| !r.openapi.is_made(dialect, form)).collect();
    if missing.len() >= PARALLEL_MIN {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for share in missing.chunks(missing.len().div_ceil(threads)) {
                let work = move || share.iter().for_each(|part| _ = make(part));
                // If a thread cannot be spawned, the parts are rendered on this one below.
                _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
            }
        });
    }
    all.iter().map(make).collect()
}

/// The paths and schemas of a version of a custom resource.
fn custom_content(
    source: Source<'_>,
    group: &Group,
    version: &Version,
    resource: &Resource,
    dialect: Dialect,
) -> Content {
    let kind = &resource.kind;
    let mut schemas = Map::new();
    if let Some(definition) = (source.definitions)(kind) {
        let (group, version) = (group.name.clone(), version.name.clone());
        let list_name = custom_name(&group, &version, &kind.list_kind);
        let gvk = Gvk { group, version, kind: kind.kind.to_string() };
        let name = custom_name(&gvk.group, &gvk.version, &gvk.kind);
        let mut add = |name: String, schema: &Value| {
            schemas.insert(Str::from(name), schemas::written(schema, dialect, 0));
        };
        add(name, &custom::schema(&definition, &gvk, dialect));
        add(list_name, &custom::list_schema(&definition, &gvk));
    }
    Content { paths: of_resource(group, version, resource, source.cbor), schemas, installed: false }
}

/// The hash of the document of a version. It is computed without rendering the document: the list of documents has the
/// hashes of all, and most are never requested. It covers which resources, in which state of their definitions, make up
/// the document.
fn version_hash(source: Source<'_>, group: &Group, version: &Version) -> Arc<str> {
    let mut text = source.identity();
    identify(group, version, &mut text);
    hash(text.as_bytes())
}

/// The hash of a document that has the same content in every server of this build.
fn document_hash(source: Source<'_>, name: &str) -> Arc<str> {
    hash(format!("{} {name}", source.identity()).as_bytes())
}

/// Appends what identifies the content of a version's documents.
fn identify(group: &Group, version: &Version, text: &mut String) {
    for part in [" ", &group.name, "/", &version.name] {
        text.push_str(part);
    }
    for Resource { kind, .. } in &version.resources {
        for part in [&kind.definition, &kind.plural, &kind.kind, &kind.list_kind] {
            text.push(' ');
            text.push_str(part);
        }
    }
}

/// The hash of a document of OpenAPI v3, by one of `document_names`.
fn v3_hash(source: Source<'_>, name: &str) -> Option<Arc<str>> {
    let (group, version) = match name.split_once('/') {
        Some(("api", version)) => ("", version),
        Some(("apis", rest)) if rest.contains('/') => rest.split_once('/')?,
        _ => return Some(document_hash(source, name)),
    };
    let group = source.state.group(group)?;
    Some(version_hash(source, group, group.version(version)?))
}

/// The operations that read a group's discovery document.
fn group_paths(group: &Group) -> Paths {
    let id = format!("get{}APIGroup", id_part(&group.name, ""));
    let schema = format!("{META}APIGroup");
    let media = names(Media::WITHOUT_CBOR);
    let operation = document(id, "get information of a group", tag(&group.name, ""), &schema, media);
    Paths::from([(format!("/apis/{}/", group.name), vec![operation])])
}

/// The operations of documents that belong to no group.
fn other_paths(name: &str) -> Option<Paths> {
    let media = names(Media::WITHOUT_CBOR);
    let words = "get available API versions";
    let (path, operation) = match name {
        "api" => {
            let schema = format!("{META}APIVersions");
            ("/api/", document("getCoreAPIVersions".into(), words, "core".into(), &schema, media))
        }
        "apis" => {
            let schema = format!("{META}APIGroupList");
            ("/apis/", document("getAPIVersions".into(), words, "apis".into(), &schema, media))
        }
        _ => {
            let (_, path, id, words, tag, schema, media) = OTHERS.iter().find(|other| other.0 == name)?;
            (*path, document((*id).into(), words, (*tag).into(), schema, vec![media]))
        }
    };
    Some(Paths::from([(path.to_string(), vec![operation])]))
}

/// Renders a document of built-in types.
fn installed(paths: &Paths) -> Value {
    let paths = written(paths, Dialect::V3);
    let used = schemas::used_by(&paths, Dialect::V3);
    let mut out = object([("openapi", "3.0.0".into()), ("info", info()), ("paths", paths)]);
    if !used.is_empty() {
        out.set_at(&["components", "schemas"], used.into());
    }
    out.set_at(&["components", "securitySchemes"], security_definitions());
    out
}

/// The tag of a group's operations, or of those of one version, with the description of the group.
fn described_tag(group: &Group, version: &str) -> Option<Value> {
    let text = pintle_kinds::descriptions::of_group(&group.name)?;
    Some(object([("name", tag(&group.name, version).into()), ("description", text.into())]))
}

fn info() -> Value {
    object([("title", "Kubernetes".into()), ("version", crate::version::emulated().into())])
}

fn security_definitions() -> Value {
    let token = object([
        ("description", "Bearer Token authentication".into()),
        ("in", "header".into()),
        ("name", "authorization".into()),
        ("type", "apiKey".into()),
    ]);
    object([("BearerToken", token)])
}

fn written(paths: &Paths, dialect: Dialect) -> Value {
    paths.iter().map(|(path, ops)| (Str::from(path.as_str()), dialect.path_item(ops))).collect::<Map>().into()
}

#[cfg(test)]
mod tests;
