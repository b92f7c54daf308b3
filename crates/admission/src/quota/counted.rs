//! The kinds of objects that quotas count, the operations that change their usage, and their scopes.

use super::devices;
use super::usage::{
    self, has_cross_namespace_affinity, is_best_effort, is_counted_request, is_terminating, selects,
};
use crate::resources::ResourceList;
use crate::{Attributes, ClusterState, Operation};
use pintle_meta::Quantity;
use pintle_meta::quantity::Format;
use pintle_value::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The resources that quotas count for a kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted<'a> {
    Pods,
    Services,
    Claims,
    ResourceClaims,
    /// Only the number of objects.
    Number(Numbered<'a>),
    /// Nothing: reviews, events and others.
    Nothing,
}

/// A resource of which quotas count the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Numbered<'a> {
    group: &'a str,
    plural: &'a str,
}

impl Numbered<'_> {
    /// Some resources of the core group are also counted under their plain name, as they were before `count/`.
    fn has_plain_name(self) -> bool {
        let plain = ["configmaps", "resourcequotas", "replicationcontrollers", "secrets"];
        self.group.is_empty() && plain.contains(&self.plural)
    }

    /// The names under which a quota limits the number.
    fn names(self) -> Vec<String> {
        let Numbered { group, plural } = self;
        let count =
            if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") };
        let plain = self.has_plain_name().then(|| plural.to_string());
        std::iter::once(count).chain(plain).collect()
    }
}

impl<'a> Counted<'a> {
    pub(super) fn of(group: &'a str, plural: &'a str) -> Self {
        match (group, plural) {
            ("", "pods") => Counted::Pods,
            ("", "services") => Counted::Services,
            ("", "persistentvolumeclaims") => Counted::Claims,
            ("resource.k8s.io", "resourceclaims") => Counted::ResourceClaims,
            ("" | "events.k8s.io", "events") | ("", "bindings" | "componentstatuses") => Counted::Nothing,
            ("authentication.k8s.io" | "authorization.k8s.io", _) => Counted::Nothing,
            (group, plural) => Counted::Number(Numbered { group, plural }),
        }
    }

    /// Returns whether this write can change the usage.
    pub(super) fn handles(&self, request: &Attributes<'_>, object: &Value) -> bool {
        let create = request.operation == Operation::Create;
        match (self, request.subresource) {
            (Counted::Pods, "resize") => !create,
            (Counted::Pods, "") => {
                create || request.old.is_some_and(|old| is_terminating(old) != is_terminating(object))
            }
            (Counted::Services | Counted::Claims | Counted::ResourceClaims, "") => true,
            // The size that a volume was expanded to counts, even if less is requested now.
            (Counted::Claims, "status") => true,
            (Counted::Number(_), "") => create,
            _ => false,
        }
    }

    /// Returns whether a resource name of a quota concerns this kind.
    pub(super) fn tracks(&self, name: &str, cluster: &dyn ClusterState) -> bool {
        match self {
            Counted::Pods => {
                const NAMES: [&str; 11] = [
                    "count/pods",
                    "cpu",
                    "memory",
                    "ephemeral-storage",
                    "requests.cpu",
                    "requests.memory",
                    "requests.ephemeral-storage",
                    "limits.cpu",
                    "limits.memory",
                    "limits.ephemeral-storage",
                    "pods",
                ];
                NAMES.contains(&name)
                    || name.starts_with("hugepages-")
                    || name.strip_prefix("requests.").is_some_and(is_counted_request)
            }
            Counted::Services => {
                matches!(
                    name,
                    "count/services" | "services" | "services.nodeports" | "services.loadbalancers"
                )
            }
            Counted::Claims => {
                let own = |name: &str| matches!(name, "persistentvolumeclaims" | "requests.storage");
                let of_class =
                    name.split_once(".storageclass.storage.k8s.io/").is_some_and(|(_, rest)| own(rest));
                name == "count/persistentvolumeclaims" || own(name) || of_class
            }
            Counted::ResourceClaims => devices::tracks(name, cluster),
            Counted::Number(numbered) => numbered.names().iter().any(|own| own == name),
            Counted::Nothing => false,
        }
    }

    pub(super) fn usage_of(&self, object: &Value, cluster: &dyn ClusterState) -> ResourceList {
        let one = || Quantity::new(1, Format::DecimalSI);
        match self {
            Counted::Pods => usage::of_pod(object, cluster.now()),
            Counted::Services => usage::of_service(object),
            Counted::Claims => usage::of_claim(object),
            Counted::ResourceClaims => devices::of_claim(object, cluster),
            Counted::Number(numbered) => numbered.names().into_iter().map(|name| (name, one())).collect(),
            Counted::Nothing => ResourceList::new(),
        }
    }

    /// The resources that containers must specify because a quota counts them: `cpu for: a,b; memory for: a`.
    pub(super) fn unspecified(&self, tracked: &[String], object: &Value) -> Option<String> {
        const REQUIRED: [&str; 6] =
            ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
        let at_pod_level = usage::has_pod_level_resources(object);
        if *self != Counted::Pods || at_pod_level {
            return None;
        }
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let lists = ["containers", "initContainers"];
        for container in lists.iter().flat_map(|list| object.items_at(&["spec", list])) {
            for name in tracked.iter().map(String::as_str).filter(|name| REQUIRED.contains(name)) {
                let (side, resource) = name.split_once('.').unwrap_or(("requests", name));
                if container.at(&["resources", side, resource]).is_none() {
                    missing.entry(name).or_default().insert(container.str_at(&["name"]));
                }
            }
        }
        if missing.is_empty() {
            return None;
        }
        let parts = missing.iter().map(|(name, containers)| {
            let containers: Vec<&str> = containers.iter().copied().collect();
            format!("{name} for: {}", containers.join(","))
        });
        Some(parts.collect::<Vec<_>>().join("; "))
    }

    /// Returns whether an object is in all scopes of a quota.
    pub(super) fn in_scopes(&self, quota: &Value, object: &Value) -> bool {
        let plain = quota.items_at(&["spec", "scopes"]).iter().filter_map(Value::as_str);
        let selected = quota.items_at(&["spec", "scopeSelector", "matchExpressions"]);
        plain.clone().all(|scope| self.in_scope(scope, None, object))
            && selected.iter().all(|term| self.in_scope(term.str_at(&["scopeName"]), Some(term), object))
    }

    pub(super) fn in_scope(&self, scope: &str, term: Option<&Value>, object: &Value) -> bool {
        let named = |name: &str| {
            let exists = term.is_none_or(|t| t.str_at(&["operator"]) == "Exists");
            if exists { !name.is_empty() } else { term.is_some_and(|t| selects(t, scope, name)) }
        };
        match (self, scope) {
            (Counted::Pods, "Terminating") => is_terminating(object),
            (Counted::Pods, "NotTerminating") => !is_terminating(object),
            (Counted::Pods, "BestEffort") => is_best_effort(object),
            (Counted::Pods, "NotBestEffort") => !is_best_effort(object),
            (Counted::Pods, "PriorityClass") => named(object.str_at(&["spec", "priorityClassName"])),
            (Counted::Pods, "CrossNamespacePodAffinity") => has_cross_namespace_affinity(object),
            (Counted::Claims, "VolumeAttributesClass") => {
                let names = [
                    object.str_at(&["spec", "volumeAttributesClassName"]),
                    object.str_at(&["status", "currentVolumeAttributesClassName"]),
                    object.str_at(&["status", "modifyVolumeStatus", "targetVolumeAttributesClassName"]),
                ];
                let mut set = names.into_iter().filter(|name| !name.is_empty()).peekable();
                if set.peek().is_none() { named("") } else { set.any(named) }
            }
            _ => false,
        }
    }
}
