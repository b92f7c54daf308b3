//! The operations of a group-version, derived from the scopes, verbs and subresources of its kinds.

use super::model::{Content, Gvk, Operation};
use super::params::{self, query};
use super::schemas::name_of;
use crate::discovery::{Group, Resource, Version};
use crate::negotiate::{Media, names, stream_names};
use pintle_kinds::{Subresource, Verbs};
use std::collections::BTreeMap;

/// Paths and their operations.
pub(super) type Paths = BTreeMap<String, Vec<Operation>>;

pub(super) const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

const OK: (u16, &str) = (200, "OK");
const CREATED: (u16, &str) = (201, "Created");
const ACCEPTED: (u16, &str) = (202, "Accepted");

/// Builds the operations of one resource.
struct Builder<'a> {
    group: &'a Group,
    version: &'a Version,
    resource: &'a Resource,
    media: &'static [Media],
    paths: &'a mut Paths,
}

/// The operations of a group-version.
pub(super) fn of_version(group: &Group, version: &Version, cbor: bool) -> Paths {
    let media = Media::served(cbor);
    let mut paths = Paths::new();
    if group.installed {
        let path = format!("{}/", version_root(group, version));
        let id = format!("get{}APIResources", id_part(&group.name, &version.name));
        let tag = tag(&group.name, &version.name);
        let operation =
            document(id, "get available resources", tag, &format!("{META}APIResourceList"), names(media));
        paths.insert(path, vec![operation]);
    }
    for resource in &version.resources {
        Builder { group, version, resource, media, paths: &mut paths }.add();
    }
    paths
}

/// The operations of one resource.
pub(super) fn of_resource(group: &Group, version: &Version, resource: &Resource, cbor: bool) -> Paths {
    let mut paths = Paths::new();
    Builder { group, version, resource, media: Media::served(cbor), paths: &mut paths }.add();
    paths
}

/// The operation that reads a document.
pub(super) fn document(
    id: String,
    description: &str,
    tag: String,
    schema: &str,
    media: Vec<&'static str>,
) -> Operation {
    Operation {
        method: "get",
        id,
        description: description.to_string(),
        tag,
        action: None,
        gvk: None,
        params: Vec::new(),
        body: None,
        // kube-apiserver declares no consumed media types for the OpenID documents.
        consumes: if schema.is_empty() { Vec::new() } else { media.clone() },
        produces: media,
        codes: &[OK],
        answer: if schema.is_empty() { Content::Text } else { Content::Schema(schema.to_string()) },
    }
}

fn version_root(group: &Group, version: &Version) -> String {
    match group.name.as_str() {
        "" => format!("/api/{}", version.name),
        name => format!("/apis/{name}/{}", version.name),
    }
}

/// The tag of operations: `core_v1`, `rbacAuthorization_v1`.
pub(super) fn tag(group: &str, version: &str) -> String {
    let camel = camel_case(group);
    let mut letters = camel.chars();
    let lower: String = letters.next().map(|c| c.to_ascii_lowercase()).into_iter().chain(letters).collect();
    if version.is_empty() { lower } else { format!("{lower}_{version}") }
}

/// The part of operation ids that names the version: `CoreV1`, `RbacAuthorizationV1`.
pub(super) fn id_part(group: &str, version: &str) -> String {
    format!("{}{}", camel_case(group), capitalize(version))
}

fn camel_case(group: &str) -> String {
    let group = if group.is_empty() { "core" } else { group };
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    group.split(['.', '-', '/']).map(capitalize).collect()
}

fn capitalize(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// ` a `, ` an ` or, before a plural, a space.
fn article(noun: &str) -> &'static str {
    match noun {
        _ if noun.ends_with('s') && !noun.ends_with("ss") => " ",
        _ if noun.starts_with(['A', 'E', 'I', 'O', 'U', 'a', 'e', 'i', 'o', 'u']) => " an ",
        _ => " a ",
    }
}

impl Builder<'_> {
    fn add(mut self) {
        let kind = &self.resource.kind;
        let (verbs, namespaced) = (kind.verbs, kind.namespaced);
        let root = version_root(self.group, self.version);
        let plural = &kind.plural;
        let base = if namespaced {
            format!("{root}/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{root}/{plural}")
        };
        if namespaced && verbs.list {
            let operation = self.list_operation("ForAllNamespaces");
            self.push(&format!("{root}/{plural}"), operation);
        }
        self.add_collection(&base, verbs);
        self.add_item(&format!("{base}/{{name}}"), verbs, None);
        for subresource in &self.resource.kind_version().subresources {
            let path = format!("{base}/{{name}}/{}", subresource.name);
            if subresource.gvk.kind.ends_with("Options") {
                self.add_connect_operations(&path, subresource);
            } else {
                self.add_item(&path, subresource.verbs, Some(subresource));
            }
        }
        if verbs.watch && self.group.installed {
            self.add_watch_operations(&root, plural, namespaced);
        }
    }

    fn push(&mut self, path: &str, mut operation: Operation) {
        let kind = operation.gvk.as_ref().map_or("", |gvk| gvk.kind.as_str());
        if path.contains("{name}") {
            operation.params.push(params::path("name", format!("name of the {kind}")));
        }
        if path.contains("{namespace}") {
            operation.params.push(params::namespace());
        }
        if path.contains("{path}") {
            operation.params.push(params::path_below());
        }
        if operation.action != Some("connect") {
            operation.params.extend(query("any"));
        }
        self.paths.entry(path.to_string()).or_default().push(operation);
    }

    /// An operation of which only verb and kind are known.
    fn operation(&self, method: &'static str, action: &'static str, verb: &str, suffix: &str) -> Operation {
        let kind = &self.resource.kind;
        let version = self.resource.kind_version();
        let scope = if kind.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let part = id_part(&self.group.name, &self.version.name);
        let media = if self.group.installed { names(self.media) } else { CUSTOM_MEDIA.to_vec() };
        Operation {
            method,
            id: format!("{verb}{part}{scope}{}{suffix}", kind.kind),
            description: String::new(),
            tag: tag(&self.group.name, &self.version.name),
            action: Some(action),
            gvk: Some(Gvk {
                group: version.group.to_string(),
                version: version.name.to_string(),
                kind: kind.kind.to_string(),
            }),
            params: Vec::new(),
            body: None,
            consumes: if self.group.installed { vec!["*/*"] } else { CUSTOM_MEDIA.to_vec() },
            produces: media,
            codes: &[OK],
            answer: Content::Schema(self.schema(&kind.kind)),
        }
    }

    /// The name of the schema of a kind of this group-version.
    fn schema(&self, kind: &str) -> String {
        name_of(&self.group.name, &self.version.name, kind)
    }

    fn list_operation(&self, suffix: &str) -> Operation {
        let kind = &self.resource.kind;
        let mut operation = self.operation("get", "list", "list", suffix);
        let verb = if self.group.installed && kind.verbs.watch { "list or watch" } else { "list" };
        operation.description = format!("{verb} objects of kind {}", kind.kind);
        operation.params = query("list");
        if self.group.installed {
            operation.produces.extend(stream_names(self.media));
        }
        operation.answer = Content::Schema(self.schema(&kind.list_kind));
        operation
    }

    fn add_collection(&mut self, path: &str, verbs: Verbs) {
        let kind = &self.resource.kind;
        if verbs.list {
            let list = self.list_operation("");
            self.push(path, list);
        }
        if verbs.create {
            let mut create = self.operation("post", "post", "create", "");
            create.description = format!("create{}{}", article(&kind.kind), kind.kind);
            create.params = query("write");
            create.body = Some((create.answer.clone(), true));
            create.codes = &[OK, CREATED, ACCEPTED];
            self.push(path, create);
        }
        if verbs.deletecollection {
            let mut delete = self.operation("delete", "deletecollection", "delete", "");
            let part = id_part(&self.group.name, &self.version.name);
            delete.id = delete.id.replacen(&part, &format!("{part}Collection"), 1);
            delete.description = format!("delete collection of {}", kind.kind);
            delete.params = query("list");
            delete.answer = Content::Schema(format!("{META}Status"));
            if self.group.installed {
                delete.params.retain(|p| !matches!(p.name, "allowWatchBookmarks" | "watch"));
                delete.params.extend(query("delete"));
                delete.body = Some((Content::Schema(format!("{META}DeleteOptions")), false));
            }
            self.push(path, delete);
        }
    }

    /// An operation of an object, or of its subresource.
    fn item_operation(
        &self,
        sub: Option<&Subresource>,
        method: &'static str,
        action: &'static str,
        verb: &str,
    ) -> Operation {
        let Some(sub) = sub else { return self.operation(method, action, verb, "") };
        let mut operation = self.operation(method, action, verb, &capitalize(&sub.name));
        let gvk = &sub.gvk;
        operation.answer = Content::Schema(name_of(&gvk.group, &gvk.version, &gvk.kind));
        if self.group.installed {
            operation.gvk = Some(Gvk {
                group: gvk.group.to_string(),
                version: gvk.version.to_string(),
                kind: gvk.kind.to_string(),
            });
        }
        operation
    }

    fn add_item(&mut self, path: &str, verbs: Verbs, sub: Option<&Subresource>) {
        let kind = self.resource.kind.kind.clone();
        let installed = self.group.installed;
        let of = sub.map_or(String::new(), |sub| format!(" {} of", sub.name));
        let base = |method, action, verb| self.item_operation(sub, method, action, verb);
        let mut made = Vec::new();
        if verbs.get {
            let mut read = base("get", "get", "read");
            read.description = format!("read{of} the specified {kind}");
            if !installed {
                read.params = query("read");
            }
            if sub.is_some_and(|sub| sub.name == "log") {
                read.params = query("log");
                read.produces.insert(0, "text/plain");
                read.answer = Content::Text;
            }
            made.push(read);
        }
        if verbs.update {
            let mut replace = base("put", "put", "replace");
            replace.description = format!("replace{of} the specified {kind}");
            replace.params = query("write");
            replace.body = Some((replace.answer.clone(), true));
            replace.codes = &[OK, CREATED];
            made.push(replace);
        }
        if verbs.patch {
            let mut patch = base("patch", "patch", "patch");
            patch.description = format!("partially update{of} the specified {kind}");
            patch.params = query("patch");
            patch.body = Some((Content::Schema(format!("{META}Patch")), true));
            patch.consumes = self.patch_types();
            patch.codes = if installed { &[OK, CREATED] } else { &[OK] };
            made.push(patch);
        }
        if verbs.create && sub.is_some() {
            let mut create = base("post", "post", "create");
            create.description = format!("create{of}{}{kind}", article(&kind));
            create.params = query("write");
            create.body = Some((create.answer.clone(), true));
            create.codes = &[OK, CREATED, ACCEPTED];
            made.push(create);
        }
        if verbs.delete {
            let mut delete = base("delete", "delete", "delete");
            delete.description = format!("delete{}{kind}", article(&kind));
            delete.params = query("delete");
            delete.body = Some((Content::Schema(format!("{META}DeleteOptions")), false));
            delete.codes = &[OK, ACCEPTED];
            // The published document omits that deleting a namespace returns the object.
            if !self.resource.kind.rules.delete_returns_object || kind == "Namespace" {
                delete.answer = Content::Schema(format!("{META}Status"));
            }
            made.push(delete);
        }
        for operation in made {
            self.push(path, operation);
        }
    }

    fn patch_types(&self) -> Vec<&'static str> {
        let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
        if self.group.installed {
            types.push("application/strategic-merge-patch+json");
        }
        types.push("application/apply-patch+yaml");
        if self.group.installed && self.media.contains(&Media::Cbor) {
            types.push("application/apply-patch+cbor");
        }
        types
    }

    /// Adds the operations of a connect subresource: one per method, and for proxies also those of the paths below.
    fn add_connect_operations(&mut self, path: &str, sub: &Subresource) {
        let kind = self.resource.kind.kind.clone();
        let proxy = sub.name == "proxy";
        let methods: &[&'static str] = if proxy {
            &["get", "put", "post", "delete", "options", "head", "patch"]
        } else {
            &["get", "post"]
        };
        let places: &[(&str, &str)] = if proxy { &[("", ""), ("/{path}", "WithPath")] } else { &[("", "")] };
        for (below, with_path) in places {
            for method in methods {
                let suffix = format!("{}{with_path}", capitalize(&sub.name));
                let mut operation = self.operation(method, "connect", "connect", &suffix);
                let part = id_part(&self.group.name, &self.version.name);
                operation.id = operation.id.replacen(&part, &format!("{part}{}", capitalize(method)), 1);
                operation.description =
                    format!("connect {} requests to {} of {kind}", method.to_uppercase(), sub.name);
                operation.gvk = Some(Gvk {
                    group: sub.gvk.group.to_string(),
                    version: sub.gvk.version.to_string(),
                    kind: sub.gvk.kind.to_string(),
                });
                operation.params = query(&sub.gvk.kind);
                operation.produces = vec!["*/*"];
                operation.answer = Content::Text;
                self.push(&format!("{path}{below}"), operation);
            }
        }
    }

    /// Adds the deprecated operations under `/watch/`, from before watches were lists with `watch=true`.
    fn add_watch_operations(&mut self, root: &str, plural: &str, namespaced: bool) {
        let kind = self.resource.kind.kind.clone();
        let list_words = format!(
            "watch individual changes to a list of {kind}. deprecated: use the 'watch' parameter with a list operation instead."
        );
        let item_words = format!(
            "watch changes to an object of kind {kind}. deprecated: use the 'watch' parameter with a list operation instead, filtered to a single item with the 'fieldSelector' parameter."
        );
        let base = if namespaced {
            format!("{root}/watch/namespaces/{{namespace}}/{plural}")
        } else {
            format!("{root}/watch/{plural}")
        };
        let mut places = vec![
            (base.clone(), "watchlist", "List", list_words.clone()),
            (format!("{base}/{{name}}"), "watch", "", item_words),
        ];
        if namespaced {
            places.push((format!("{root}/watch/{plural}"), "watchlist", "ForAllNamespaces", list_words));
        }
        for (path, action, suffix, words) in places {
            let mut watch = self.operation("get", action, "watch", suffix);
            if suffix == "ForAllNamespaces" {
                watch.id = watch.id.replace("ForAllNamespaces", "ListForAllNamespaces");
            }
            watch.description = words;
            watch.params = query("list");
            watch.produces.extend(stream_names(self.media));
            watch.answer = Content::Schema(format!("{META}WatchEvent"));
            self.push(&path, watch);
        }
    }
}

/// The media types that the documents declare for custom resources.
const CUSTOM_MEDIA: [&str; 2] = ["application/json", "application/yaml"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups() {
        for (group, version, tag_, id) in [
            ("", "v1", "core_v1", "CoreV1"),
            ("rbac.authorization.k8s.io", "v1", "rbacAuthorization_v1", "RbacAuthorizationV1"),
            ("openapi-v2-a.example.com", "v1", "openapiV2AExampleCom_v1", "OpenapiV2AExampleComV1"),
        ] {
            assert_eq!((tag(group, version).as_str(), id_part(group, version).as_str()), (tag_, id));
        }
        assert_eq!([article("Pod"), article("Ingress"), article("Endpoints")], [" a ", " an ", " "]);
    }
}
