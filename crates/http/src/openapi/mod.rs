//! OpenAPI: documents of what is served, rendered when they are first asked for and kept as long as what they describe
//! stays the same.

mod custom;
mod model;
mod operations;
mod params;
mod proto;
mod schemas;
pub(crate) mod serve;

use crate::discovery::{DiscoveryState, Group, Resource, Version};
use crate::negotiate::{Media, names};
use bytes::Bytes;
use model::{Dialect, Gvk, object, texts};
use operations::{META, Paths, document, id_part, of_version, tag};
use pintle_kinds::Kind;
use pintle_value::{Map, Str, Value, json};
use schemas::{Schemas, custom_name};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The definition of a custom resource, as an object.
pub(crate) type Definitions<'a> = &'a (dyn Fn(&Kind) -> Option<Value> + 'a);

/// A document and what is made of it.
pub(crate) struct Rendered {
    json: Bytes,
    /// SHA-512 of the JSON, or of what it is made from.
    hash: String,
    dialect: Dialect,
    protobuf: OnceLock<Bytes>,
}

impl Rendered {
    fn new(tree: &Value, dialect: Dialect) -> Self {
        let mut json = Vec::new();
        json::print(tree, &mut json);
        let hash = hash(&json);
        Rendered { json: json.into(), hash, dialect, protobuf: OnceLock::new() }
    }

    fn protobuf(&self) -> &Bytes {
        self.protobuf.get_or_init(|| match json::parse(&self.json) {
            Ok(parsed) => proto::encode(&parsed.value, self.dialect).into(),
            Err(_) => Bytes::new(),
        })
    }
}

fn hash(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, bytes);
    digest.as_ref().iter().map(|b| format!("{b:02X}")).collect()
}

/// Documents by name, each made once.
#[derive(Default)]
pub(crate) struct Documents(Mutex<BTreeMap<String, Arc<Rendered>>>);

impl Documents {
    fn get(&self, name: &str, make: impl FnOnce() -> Rendered) -> Arc<Rendered> {
        let locked = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = locked().get(name) {
            return Arc::clone(known);
        }
        // Made without the lock: two who ask at once may both make it.
        let made = Arc::new(make());
        Arc::clone(locked().entry(name.to_string()).or_insert(made))
    }
}

/// The names of all documents of OpenAPI v3, as in their paths.
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

/// Documents of what is no API: (name, path, id, description, tag, schema, media).
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

/// A document of OpenAPI v3.
fn v3(state: &DiscoveryState, name: &str, definitions: Definitions<'_>, cbor: bool) -> Option<Arc<Rendered>> {
    let parts: Vec<&str> = name.split('/').collect();
    let group = |name: &str| state.group(name);
    match parts.as_slice() {
        ["api", version] => of_group_version(group("")?, version, definitions, cbor),
        ["apis", name] => {
            let group = group(name).filter(|g| g.installed && !g.name.is_empty())?;
            Some(group.openapi.get("", || Rendered::new(&installed(&group_paths(group)), Dialect::V3)))
        }
        ["apis", name, version] if !name.is_empty() => {
            of_group_version(group(name)?, version, definitions, cbor)
        }
        _ => {
            let paths = other_paths(name)?;
            Some(state.openapi.get(name, || Rendered::new(&installed(&paths), Dialect::V3)))
        }
    }
}

fn of_group_version(
    group: &Group,
    version: &str,
    definitions: Definitions<'_>,
    cbor: bool,
) -> Option<Arc<Rendered>> {
    let version = group.version(version)?;
    Some(group.openapi.get(&version.name, || {
        let mut schemas = Schemas::default();
        add_custom(group, version, definitions, Dialect::V3, &mut schemas);
        let paths = of_version(group, version, &schemas, cbor);
        let mut tree = match group.installed {
            true => installed(&paths),
            false => v3_document(&paths, &schemas, ("Kubernetes CRD Swagger", "v0.1.0"), false),
        };
        schemas::narrow(&mut tree, &group.name, &version.name, group.installed);
        let mut rendered = Rendered::new(&tree, Dialect::V3);
        if let Some(hash) = custom_hash(group, version, cbor) {
            rendered.hash = hash;
        }
        rendered
    }))
}

/// The hash of a document of definitions, which can be told without making the document: the list of documents names
/// them all, and most are never asked for. It says which definitions in which state make up the document.
fn custom_hash(group: &Group, version: &Version, cbor: bool) -> Option<String> {
    if group.installed {
        return None;
    }
    let mut text = format!("{} {cbor} {}/{}", env!("CARGO_PKG_VERSION"), group.name, version.name);
    for Resource { kind, .. } in &version.resources {
        for part in [&kind.definition, &kind.plural, &kind.kind, &kind.list_kind] {
            text.push(' ');
            text.push_str(part);
        }
    }
    Some(hash(text.as_bytes()))
}

/// The hash of a document of OpenAPI v3.
fn v3_hash(state: &DiscoveryState, name: &str, definitions: Definitions<'_>, cbor: bool) -> Option<String> {
    let custom =
        name.strip_prefix("apis/").and_then(|name| name.split_once('/')).and_then(|(group, version)| {
            let group = state.group(group)?;
            custom_hash(group, group.version(version)?, cbor)
        });
    custom.or_else(|| v3(state, name, definitions, cbor).map(|rendered| rendered.hash.clone()))
}

/// The document that reads a group.
fn group_paths(group: &Group) -> Paths {
    let id = format!("get{}APIGroup", id_part(&group.name, ""));
    let schema = format!("{META}APIGroup");
    let media = names(Media::WITHOUT_CBOR);
    let operation = document(id, "get information of a group", tag(&group.name, ""), &schema, media);
    Paths::from([(format!("/apis/{}/", group.name), vec![operation])])
}

/// Documents that belong to no group.
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

/// A document of what is part of the server.
fn installed(paths: &Paths) -> Value {
    v3_document(paths, &Schemas::default(), ("Kubernetes", crate::version::MINOR), true)
}

fn v3_document(paths: &Paths, schemas: &Schemas, (title, version): (&str, &str), secured: bool) -> Value {
    let paths = written(paths, Dialect::V3);
    let used = schemas.used_by(&paths, Dialect::V3);
    let mut out = object([
        ("openapi", "3.0.0".into()),
        ("info", object([("title", title.into()), ("version", version.into())])),
        ("paths", paths),
        ("components", Value::object()),
    ]);
    if !used.is_empty() {
        out.set_at(&["components", "schemas"], used.into());
    }
    if secured {
        out.set_at(&["components", "securitySchemes"], security());
    }
    out
}

fn security() -> Value {
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

/// The document of OpenAPI v2: all of it in one.
fn v2(state: &DiscoveryState, definitions: Definitions<'_>, cbor: bool) -> Arc<Rendered> {
    state.openapi.get("v2", || {
        let mut schemas = Schemas::default();
        let mut paths = Paths::new();
        for name in ["api", "apis"].into_iter().chain(OTHERS.iter().map(|other| other.0)) {
            paths.extend(other_paths(name).unwrap_or_default());
        }
        let core = state.group("");
        for group in core.into_iter().chain(state.groups().map(|g| &**g)) {
            if group.installed && !group.name.is_empty() {
                paths.extend(group_paths(group));
            }
            for version in &group.versions {
                add_custom(group, version, definitions, Dialect::V2, &mut schemas);
                paths.extend(of_version(group, version, &schemas, cbor));
            }
        }
        let tree = object([
            ("swagger", "2.0".into()),
            ("info", object([("title", "Kubernetes".into()), ("version", crate::version::MINOR.into())])),
            ("paths", written(&paths, Dialect::V2)),
            ("definitions", schemas.all(Dialect::V2).into()),
            ("securityDefinitions", security()),
            ("security", Value::Array(vec![object([("BearerToken", texts([]))])])),
        ]);
        Rendered::new(&tree, Dialect::V2)
    })
}

/// Adds the schemas of a version's custom resources and their lists.
fn add_custom(
    group: &Group,
    version: &Version,
    definitions: Definitions<'_>,
    dialect: Dialect,
    schemas: &mut Schemas,
) {
    if group.installed {
        return;
    }
    for resource in &version.resources {
        let kind = &resource.kind;
        let Some(definition) = definitions(kind) else { continue };
        let (group, version) = (group.name.clone(), version.name.clone());
        let list_name = custom_name(&group, &version, &kind.list_kind);
        let gvk = Gvk { group, version, kind: kind.kind.to_string() };
        let name = custom_name(&gvk.group, &gvk.version, &gvk.kind);
        schemas.add(name, custom::schema(&definition, &gvk, dialect));
        schemas.add(list_name, custom::list_schema(&definition, &gvk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> DiscoveryState {
        let kinds: Vec<Arc<Kind>> = pintle_kinds::builtin().kinds.into_iter().map(Arc::new).collect();
        DiscoveryState::new(pintle_engine::Registry::new(kinds).kinds().groups(), None)
    }

    fn parsed(rendered: &Rendered) -> Value {
        json::parse(&rendered.json).unwrap().value
    }

    #[test]
    fn every_document_is_whole() {
        let state = state();
        for name in document_names(&state) {
            let document = parsed(&v3(&state, &name, &|_| None, true).unwrap());
            let known = document.at(&["components", "schemas"]).cloned().unwrap_or(Value::object());
            let mut text = Vec::new();
            json::print(&document, &mut text);
            let text = String::from_utf8(text).unwrap();
            for target in
                text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next())
            {
                assert!(known.get(target).is_some(), "{name}: {target} is not there");
            }
        }
        assert!(v3(&state, "apis/none.example.com/v1", &|_| None, true).is_none());
    }

    #[test]
    fn what_all_operations_take_is_said_once() {
        let document = parsed(&v3(&state(), "api/v1", &|_| None, false).unwrap());
        let item =
            document.at(&["paths", "/api/v1/namespaces/{namespace}/pods/{name}/proxy/{path}"]).unwrap();
        let names: Vec<&str> = item.items_at(&["parameters"]).iter().map(|p| p.str_at(&["name"])).collect();
        assert_eq!(names, ["name", "namespace", "path", "path"]);
        assert_eq!(item.str_at(&["head", "operationId"]), "connectCoreV1HeadNamespacedPodProxyWithPath");
        let list = document.at(&["paths", "/api/v1/pods", "get"]).unwrap();
        assert_eq!(list.str_at(&["operationId"]), "listCoreV1PodForAllNamespaces");
        assert!(list.get("parameters").is_none());
    }

    #[test]
    fn definitions_are_published() {
        let gvk = Gvk { group: "x.example.com".into(), version: "v1".into(), kind: "Box".into() };
        let definition = br#"{"spec":{"names":{"plural":"boxes","listKind":"BoxList"},"versions":[{"name":"v1","schema":
            {"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","required":["note","size"],
            "properties":{"port":{"x-kubernetes-int-or-string":true},"note":{"type":"string","nullable":true},
            "size":{"type":"integer","default":1}}}}}}}]}}"#;
        let definition = json::parse(definition).unwrap().value;
        let in_words = |dialect| {
            let schema = custom::schema(&definition, &gvk, dialect);
            let mut text = Vec::new();
            json::print(schema.at(&["properties", "spec"]).unwrap(), &mut text);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(
            in_words(Dialect::V3),
            r#"{"properties":{"note":{"nullable":true,"type":"string"},"port":{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true},"size":{"default":1,"type":"integer"}},"required":["note","size"],"type":"object"}"#
        );
        assert_eq!(
            in_words(Dialect::V2),
            r#"{"properties":{"note":{},"port":{"x-kubernetes-int-or-string":true},"size":{"type":"integer"}},"required":["size"],"type":"object"}"#
        );
    }

    #[test]
    fn both_documents_are_written_in_protobuf() {
        let state = state();
        // swagger: "2.0" and openapi: "3.0.0" are the first fields.
        assert!(v2(&state, &|_| None, false).protobuf().starts_with(b"\x0a\x032.0\x12"));
        let policy = v3(&state, "apis/policy/v1", &|_| None, false).unwrap();
        assert!(policy.protobuf().starts_with(b"\x0a\x053.0.0\x12"));
    }
}
