//! Compiles a CustomResourceDefinition into a `Kind`. Everything else treats custom resources like any other kind.

use crate::{Storage, Target, Writer};
use pintle_kinds::custom::{Custom, WITH_STATUS, WITHOUT_STATUS};
use pintle_kinds::definition::Condition;
use pintle_kinds::endpoint::Conversion;
use pintle_kinds::{
    Column, Generation, Kind, KindVersion, Rules, ScalePaths, SelectableField, Strategy, Subresource, Verbs,
};
use pintle_meta::GroupVersionKind;
use pintle_schema::{Arena, Schema, rules, structural};
use pintle_value::{Str, Value, base64, json};
use std::sync::Arc;

/// Verbs of custom resources.
const VERBS: &str = "create,delete,deletecollection,get,list,patch,update,watch";
const UNSUPPORTED_LABEL: &str = "field label not supported: {}";

impl Storage {
    /// Compiles the kind that a definition declares, with its accepted names.
    pub fn compile(&self, definition: &Value) -> Kind {
        let spec = definition.get("spec").unwrap_or(&Value::Null);
        let names = definition.at(&["status", "acceptedNames"]).filter(|n| !n.str_at(&["plural"]).is_empty());
        let names = names.or(spec.get("names")).unwrap_or(&Value::Null);
        let group = Str::from(spec.str_at(&["group"]));
        let kind = Str::from(names.str_at(&["kind"]));
        let namespaced = spec.str_at(&["scope"]) == "Namespaced";
        let mut sources: Vec<&Value> = spec.items_at(&["versions"]).iter().collect();
        sources.sort_by_key(|source| std::cmp::Reverse(version_order(source.str_at(&["name"]))));
        let storage =
            sources.iter().position(|v| v.get("storage").and_then(Value::as_bool) == Some(true)).unwrap_or(0);
        let versions = sources
            .iter()
            .map(|source| self.compile_version(source, &sources, &group, &kind, namespaced))
            .collect();
        let plural = Str::from(names.str_at(&["plural"]));
        let storage_name = sources.get(storage).map_or("", |v| v.str_at(&["name"]));
        Kind {
            storage_version_hash: storage_version_hash(&group, storage_name, &kind),
            list_kind: names.str_at(&["listKind"]).into(),
            singular: names.str_at(&["singular"]).into(),
            short_names: texts(names.items_at(&["shortNames"])),
            categories: texts(names.items_at(&["categories"])),
            store_prefix: Str::from(format!("/registry/{group}/{plural}/")),
            verbs: Verbs::of(VERBS),
            rules: Rules {
                unconditional_update: false,
                generation: Generation::Counted,
                ending: Condition::is_true(definition, "Terminating"),
                ..Rules::default()
            },
            strategy: Strategy::default(),
            hooks: sources.get(storage).map_or(&WITHOUT_STATUS, |source| hooks(source)),
            definition: definition_id(definition),
            conversion: spec.get("conversion").and_then(Conversion::of).map(Arc::new),
            group,
            kind,
            plural,
            namespaced,
            versions,
            storage,
        }
    }

    fn compile_version(
        &self,
        source: &Value,
        all: &[&Value],
        group: &Str,
        kind: &Str,
        namespaced: bool,
    ) -> KindVersion {
        let name = Str::from(source.str_at(&["name"]));
        let gvk = GroupVersionKind { group: group.clone(), version: name.clone(), kind: kind.clone() };
        let schema = source.at(&["schema", "openAPIV3Schema"]).unwrap_or(&Value::Null);
        KindVersion {
            served: source.get("served").and_then(Value::as_bool).unwrap_or(false),
            group: group.clone(),
            schema: self.compile_schema(schema),
            protobuf: false,
            subresources: compile_subresources(source, &gvk),
            selectable: source.items_at(&["selectableFields"]).iter().map(selectable_field).collect(),
            namespace_selectable: namespaced,
            unsupported_label: UNSUPPORTED_LABEL.into(),
            columns: source.items_at(&["additionalPrinterColumns"]).iter().map(compile_column).collect(),
            deprecation: deprecation(source, &gvk, all),
            defaults: None,
            hooks: hooks(source),
            name,
        }
    }

    /// Defers compilation until the first object is handled. Until then only the schema's text is held, which takes a
    /// tenth of the memory.
    fn compile_schema(&self, source: &Value) -> Schema {
        // All custom resources share the schema nodes of their metadata.
        let (base, metadata) = self.custom_metadata.get_or_init(|| {
            let mut base = Arena::default();
            let metadata = base.copy_subtree(self.metadata_schema.arena(), self.metadata_schema.root());
            (Arc::new(base), metadata)
        });
        let (base, metadata) = (base.clone(), *metadata);
        let mut text = Vec::new();
        json::print(source, &mut text);
        text.shrink_to_fit();
        Schema::later(move || {
            // The text was printed by this server, so parsing it cannot fail.
            let source = json::parse(&text).map(|parsed| parsed.value).unwrap_or_default();
            let mut arena = Arena::on(base);
            let root = structural::compile(&source, metadata, &mut arena);
            arena.shrink();
            let rules = rules::Scope::of(&source, true);
            Schema::new(Arc::new(arena), root).with_rules(rules)
        })
    }
}

/// The store prefix of definitions.
const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";

impl Writer {
    /// Waits until a write of the client has taken effect, so that its next request sees it: a definition at this
    /// revision is served, and a role, binding, flow schema or priority level is in force.
    pub(crate) async fn take_effect(&self, target: &Target, key: &str, revision: Option<u64>) {
        let prefix = &target.kind.store_prefix;
        self.refresh_policy(prefix, key);
        if let Some(follower) = self.follower.get().filter(|f| f.prefixes.contains(&prefix.as_str())) {
            (follower.apply)(&self.storage);
        }
        if let Some(revision) = revision.filter(|_| prefix == DEFINITIONS) {
            self.storage.registry.wait_applied(revision).await;
        }
    }
}

impl Storage {
    /// The CustomResourceDefinition that a kind was compiled from, in its current state; `None` for built-in kinds.
    pub fn definition_of(&self, kind: &Kind) -> Option<Value> {
        let kinds = self.registry.kinds();
        let definitions = kinds.by_plural("apiextensions.k8s.io", "customresourcedefinitions")?;
        let object = self.cached(definitions, &format!("{}.{}", kind.plural, kind.group))?;
        crate::object::tree(definitions, &object).ok()
    }
}

/// A hash that identifies one state of a definition's spec.
fn definition_id(definition: &Value) -> Str {
    let generation = definition.at(&["metadata", "generation"]).and_then(Value::as_int).unwrap_or(0);
    Str::from(format!("{}/{generation}", definition.str_at(&["metadata", "uid"])))
}

/// The storage version hash that discovery publishes.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> Str {
    let digest =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, format!("{group}/{version}/{kind}").as_bytes());
    Str::from(base64::encode(digest.as_ref().get(..8).unwrap_or_default()))
}

fn texts(items: &[Value]) -> Vec<Str> {
    items.iter().filter_map(Value::as_str).map(Str::from).collect()
}

/// The sort key of a version: stable before beta before alpha before other names, higher numbers first.
pub(crate) fn version_order(name: &str) -> (u8, u64, u64, std::cmp::Reverse<Str>) {
    let reversed = std::cmp::Reverse(Str::from(name));
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let other = (0, 0, 0, reversed.clone());
    let Some(rest) = name.strip_prefix('v') else { return other };
    let (major, rest) = rest.split_at(digits(rest));
    let Ok(major) = major.parse() else { return other };
    if rest.is_empty() {
        return (3, major, 0, reversed);
    }
    let (rank, minor) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(minor), _) => (2, minor),
        (_, Some(minor)) => (1, minor),
        _ => return other,
    };
    minor.parse().map_or(other, |minor| (rank, major, minor, reversed))
}

fn compile_subresources(source: &Value, gvk: &GroupVersionKind) -> Vec<Subresource> {
    let mut out = Vec::new();
    if source.at(&["subresources", "status"]).is_some() {
        out.push(Subresource {
            name: "status".into(),
            gvk: gvk.clone(),
            verbs: Verbs::of("get,patch,update"),
            scale: None,
        });
    }
    if let Some(scale) = source.at(&["subresources", "scale"]) {
        let path = |key: &str| field_path(scale.str_at(&[key]));
        let paths = ScalePaths {
            spec_replicas: path("specReplicasPath"),
            status_replicas: path("statusReplicasPath"),
            label_selector: path("labelSelectorPath"),
        };
        let gvk = GroupVersionKind::new("autoscaling", "v1", "Scale");
        out.push(Subresource {
            name: "scale".into(),
            gvk,
            verbs: Verbs::of("get,patch,update"),
            scale: Some(paths),
        });
    }
    out
}

fn hooks(source: &Value) -> &'static Custom {
    if source.at(&["subresources", "status"]).is_some() { &WITH_STATUS } else { &WITHOUT_STATUS }
}

/// `.spec.replicas` as field names.
fn field_path(path: &str) -> Vec<Str> {
    path.split('.').filter(|part| !part.is_empty()).map(Str::from).collect()
}

fn selectable_field(field: &Value) -> SelectableField {
    let path = field.str_at(&["jsonPath"]);
    SelectableField {
        label: path.trim_start_matches('.').into(),
        path: field_path(path),
        unset: Str::default(),
    }
}

fn compile_column(source: &Value) -> Column {
    Column {
        name: source.str_at(&["name"]).into(),
        type_: source.str_at(&["type"]).into(),
        format: source.str_at(&["format"]).into(),
        description: source.str_at(&["description"]).into(),
        priority: source.get("priority").and_then(Value::as_int).unwrap_or(0),
        path: source.str_at(&["jsonPath"]).into(),
    }
}

/// The warning for a deprecated version: its own `deprecationWarning`, or a text that names the best newer version.
fn deprecation(source: &Value, gvk: &GroupVersionKind, all: &[&Value]) -> Option<Str> {
    let flag = |version: &Value, key: &str| version.get(key).and_then(Value::as_bool) == Some(true);
    if !flag(source, "deprecated") {
        return None;
    }
    if let Some(given) = source.get("deprecationWarning").and_then(Value::as_str) {
        return Some(given.into());
    }
    let this = version_order(&gvk.version);
    let newer = |version: &&&Value| {
        flag(version, "served")
            && !flag(version, "deprecated")
            && version_order(version.str_at(&["name"])) > this
    };
    let text = |version: &str| format!("{}/{version} {}", gvk.group, gvk.kind);
    // Versions are sorted, the preferred one first.
    let instead =
        all.iter().find(newer).map(|v| format!("; use {}", text(v.str_at(&["name"])))).unwrap_or_default();
    Some(format!("{} is deprecated{instead}", text(&gvk.version)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_as_kubernetes_orders_them() {
        let mut names = vec![
            "foo1",
            "v1",
            "v11alpha2",
            "v10",
            "v3beta1",
            "v12alpha1",
            "v2",
            "foo10",
            "v11beta2",
            "v10beta3",
        ];
        names.sort_by_key(|name| std::cmp::Reverse(version_order(name)));
        let expected =
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];
        assert_eq!(names, expected);
    }
}
