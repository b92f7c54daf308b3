//! The built-in kinds, loaded once at start from the embedded tables of `data/`.

use crate::{Kind, builtin_resources, builtin_types};
use pintle_meta::GroupVersion;
use pintle_schema::{Arena, NodeId, Schema};
use pintle_value::Str;
use std::collections::HashMap;
use std::sync::Arc;

/// The table of Go types.
pub(crate) const TYPES: &str = include_str!("../data/types.txt");
const RESOURCES: &str = include_str!("../data/resources.txt");
const RULES: &str = include_str!("../data/rules.txt");

/// The built-in groups, kinds and Go types.
pub struct Builtin {
    /// The kinds, in the order of discovery.
    pub kinds: Vec<Kind>,
    /// The groups, in the order of discovery; the core group is the first.
    pub groups: Vec<Group>,
    /// All Go types, including those that are not resources: options, lists, `Status`, reviews.
    pub types: Types,
}

/// A group in discovery.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// The group's name; "" is the core group.
    pub name: Str,
    /// The group's versions, the preferred one first.
    pub versions: Vec<GroupVersionEntry>,
}

/// A version of a group in discovery.
#[derive(Clone, Debug, Default)]
pub struct GroupVersionEntry {
    /// The version's name.
    pub name: Str,
    /// The version's resources in order, as indexes into `Builtin::kinds`.
    pub kinds: Vec<usize>,
}

/// Schemas of Go types by name.
#[derive(Clone)]
pub struct Types {
    pub(crate) arena: Arc<Arena>,
    /// `core/v1.Pod` → its node.
    pub(crate) nodes: HashMap<&'static str, NodeId>,
    /// Pairs of an `apiVersion` (`rbac.authorization.k8s.io/v1`) and its package in the names of types (`rbac/v1`).
    pub(crate) packages: Vec<(&'static str, &'static str)>,
}

impl Types {
    /// The type with this name: the last parts of the package path and the type's name, such as `meta/v1.Status`.
    pub fn by_go(&self, name: &str) -> Option<Schema> {
        self.nodes.get(name).map(|node| Schema::new(Arc::clone(&self.arena), *node))
    }

    /// The type of a kind in an `apiVersion`. Kinds of `meta/v1` (options, `Status`) belong to every group.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<Schema> {
        self.go_name(api_version, kind).and_then(|name| self.by_go(&name))
    }

    /// The name of the type of a kind in an `apiVersion`.
    pub(crate) fn go_name(&self, api_version: &str, kind: &str) -> Option<String> {
        let packages = self.packages.iter().filter(|(gv, _)| *gv == api_version).map(|(_, tag)| *tag);
        let mut names = packages.chain(["meta/v1"]).map(|tag| format!("{tag}.{kind}"));
        names.find(|name| self.nodes.contains_key(name.as_str()))
    }
}

/// Loads the tables with the versions that are served by default.
pub fn builtin() -> Builtin {
    builtin_selected(&|resource| resource.by_default)
}

/// A resource in one version, which a server may or may not serve.
#[derive(Clone, Copy, Debug)]
pub struct Selectable<'a> {
    /// The resource's group and version.
    pub version: &'a GroupVersion,
    /// The resource's plural name.
    pub plural: &'a str,
    /// Whether the resource is served by default.
    pub by_default: bool,
    /// The feature gate without which it is not served, or "".
    pub gate: &'a str,
}

/// Loads the tables with the versions that `selected` accepts. Each served kind also has its other versions, in which
/// objects may be stored.
pub fn builtin_selected(selected: &dyn Fn(Selectable<'_>) -> bool) -> Builtin {
    let types = builtin_types::load(TYPES);
    let (kinds, groups) = builtin_resources::load(RESOURCES, RULES, &types, selected);
    Builtin { kinds, groups, types }
}

/// All group-versions of the tables, each with whether it is served by default.
pub fn builtin_versions() -> Vec<(GroupVersion, bool)> {
    builtin_resources::versions(RESOURCES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_schema::{ListKind, MapKind, Shape};

    #[test]
    fn the_tables_give_all_groups_and_kinds() {
        let builtin = builtin();
        let versions: usize = builtin.groups.iter().map(|g| g.versions.len()).sum();
        let resources: usize = builtin.groups.iter().flat_map(|g| &g.versions).map(|v| v.kinds.len()).sum();
        // Two resources are served twice: events in two groups, autoscalers in two versions.
        assert_eq!((builtin.groups.len(), versions, resources, builtin.kinds.len()), (21, 22, 68, 66));
        let pods = builtin.kinds.iter().find(|k| k.plural == "pods").unwrap();
        assert_eq!(pods.short_names, ["po"]);
        assert_eq!(pods.list_kind, "PodList");
        assert_eq!(pods.store_prefix, "/registry/pods/");
        assert!(pods.verbs.watch && pods.rules.delete_returns_object && pods.rules.unconditional_update);
        assert_eq!(
            pods.versions[0].subresource("eviction").unwrap().gvk.to_string(),
            "policy/v1, Kind=Eviction"
        );
        let events = builtin.kinds.iter().find(|k| k.plural == "events").unwrap();
        assert_eq!(
            events.versions.iter().map(|v| v.group.as_str()).collect::<Vec<_>>(),
            ["", "events.k8s.io"]
        );
        let hpa = builtin.kinds.iter().find(|k| k.plural == "horizontalpodautoscalers").unwrap();
        assert_eq!(hpa.versions.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), ["v2", "v1"]);
    }

    #[test]
    fn versions_are_served_as_selected() {
        let all = builtin_selected(&|_| true);
        let served = |builtin: &Builtin, plural: &str| -> Vec<String> {
            let kind = builtin.kinds.iter().find(|k| k.plural == plural);
            let versions = kind.into_iter().flat_map(|k| &k.versions).filter(|v| v.served);
            versions.map(|v| v.name.to_string()).collect()
        };
        assert_eq!(served(&all, "deviceclasses"), ["v1", "v1beta2", "v1beta1"]);
        assert_eq!(served(&all, "leasecandidates"), ["v1beta1", "v1alpha2"]);
        assert_eq!(served(&builtin(), "deviceclasses"), ["v1"]);
        assert!(builtin().kinds.iter().all(|k| k.plural != "leasecandidates"));
        let classes = builtin().kinds.into_iter().find(|k| k.plural == "deviceclasses").unwrap();
        assert_eq!(classes.versions.len(), 3, "objects may be stored in versions that are not served");
        let one = builtin_selected(&|r| r.by_default || r.version.version == "v1alpha2");
        assert_eq!(served(&one, "leasecandidates"), ["v1alpha2"]);
    }

    #[test]
    fn every_rule_names_a_resource_and_every_stored_resource_has_a_rule() {
        let builtin = builtin_selected(&|_| true);
        let ruled: Vec<&str> = RULES.lines().filter(|l| !l.starts_with(['#', ' '])).collect();
        for kind in builtin.kinds.iter().filter(|k| k.verbs.watch) {
            let name = kind.group_resource().to_string();
            assert!(ruled.iter().any(|r| r.split(' ').next() == Some(&name)), "{name}");
        }
        for rule in ruled {
            let name = rule.split(' ').next().unwrap();
            let known = builtin.kinds.iter().any(|k| {
                k.versions.iter().any(|v| {
                    let group = if v.group.is_empty() { String::new() } else { format!(".{}", v.group) };
                    format!("{}{group}", k.plural) == name
                })
            });
            assert!(known, "{name}");
        }
    }

    #[test]
    fn structs_know_their_fields() {
        let types = builtin().types;
        let volume = types.by_go("core/v1.Volume").unwrap();
        let Shape::Struct(volume) = &volume.node().shape else { panic!() };
        assert_eq!(volume.in_order().next().unwrap().name, "name");
        assert_eq!(
            volume.inlined[usize::from(volume.field("emptyDir").unwrap().inline) - 1].go_name,
            "VolumeSource"
        );
        let container = types.by_go("core/v1.Container").unwrap();
        let Shape::Struct(fields) = &container.node().shape else { panic!() };
        let ports = container.arena().node(fields.field("ports").unwrap().node);
        assert_eq!(ports.go, "[]v1.ContainerPort");
        let Shape::List { kind, .. } = &ports.shape else { panic!() };
        assert_eq!(*kind, ListKind::Map(["containerPort".into(), "protocol".into()].into()));
        let spec = types.by_kind("v1", "PersistentVolume").unwrap();
        let Shape::Struct(root) = &spec.node().shape else { panic!() };
        let Shape::Struct(pv) = &spec.arena().node(root.field("spec").unwrap().node).shape else { panic!() };
        let Shape::Struct(claim) = &spec.arena().node(pv.field("claimRef").unwrap().node).shape else {
            panic!()
        };
        assert_eq!(claim.kind, MapKind::Granular);
    }
}
