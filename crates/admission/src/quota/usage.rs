//! The usage of single objects, and the quota scopes they are in.

use crate::resources::{self, ResourceList, is_pod_level};
use pintle_meta::quantity::Format;
use pintle_meta::selector::{LabelSelector, Operator, Requirement};
use pintle_meta::{Quantity, Timestamp};
use pintle_value::{Map, Str, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Returns whether a term of a scope selector matches a name.
pub(super) fn selects(term: &Value, scope: &str, name: &str) -> bool {
    let operator = match term.str_at(&["operator"]) {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => Operator::Exists,
    };
    let values: Vec<Str> =
        term.items_at(&["values"]).iter().filter_map(Value::as_str).map(Str::from).collect();
    let Ok(requirement) = Requirement::new(scope, operator, values, None) else { return false };
    let mut labels = Map::new();
    if !name.is_empty() {
        labels.insert(scope, name.into());
    }
    LabelSelector::of(vec![requirement]).matches(Some(&labels))
}

pub(super) fn is_terminating(pod: &Value) -> bool {
    pod.at(&["spec", "activeDeadlineSeconds"]).and_then(Value::as_int).is_some_and(|seconds| seconds >= 0)
}

/// Returns whether a pod is of the class BestEffort: by its status, which a client may set, or else by its resources.
pub(crate) fn is_best_effort(pod: &Value) -> bool {
    let class = match pod.str_at(&["status", "qosClass"]) {
        "" => pod.get("spec").map_or("BestEffort", pintle_kinds::qos_class),
        class => class,
    };
    class == "BestEffort"
}

/// Returns whether a pod has resources of its own, beside those of its containers.
pub(super) fn has_pod_level_resources(pod: &Value) -> bool {
    let has =
        |side| resources::list(pod.at(&["spec", "resources", side])).keys().any(|name| is_pod_level(name));
    has("requests") || has("limits")
}

pub(super) fn has_cross_namespace_affinity(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !term.items_at(&["namespaces"]).is_empty()
            || term.get("namespaceSelector").is_some_and(|s| !s.is_null())
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let Some(affinity) = pod.at(&["spec", "affinity", kind]) else { return false };
        let required = affinity.items_at(&["requiredDuringSchedulingIgnoredDuringExecution"]).iter();
        let preferred = affinity.items_at(&["preferredDuringSchedulingIgnoredDuringExecution"]).iter();
        required.chain(preferred.filter_map(|p| p.get("podAffinityTerm"))).any(crosses)
    })
}

/// The prefix of extended resources that represent a device class.
const IMPLICIT_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Returns whether quotas of pods may count `requests.NAME`.
pub(super) fn is_counted_request(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/");
    !is_native || name.starts_with("hugepages-") || name.starts_with(IMPLICIT_CLASS)
}

/// `now` is in seconds since 1970.
pub(super) fn of_pod(pod: &Value, now: i64) -> ResourceList {
    let one = || Quantity::new(1, Format::DecimalSI);
    let mut out = ResourceList::from([("count/pods".to_string(), one())]);
    if matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") || is_overdue(pod, now) {
        return out;
    }
    out.insert("pods".to_string(), one());
    let overhead = resources::list(pod.at(&["spec", "overhead"]));
    let resizes = Resizes::of(pod);
    let of_pod =
        |side| resources::of_pod(pod, side, |container| resizes.effective(container, side), is_pod_level);
    let mut requests = of_pod("requests");
    resources::add(&mut requests, &overhead);
    let mut limits = of_pod("limits");
    for (name, more) in &overhead {
        if let Some(limit) = limits.get_mut(name).filter(|limit| !limit.is_zero()) {
            limit.add(more);
        }
    }
    for (name, amount) in requests {
        let known =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if known {
            out.insert(name.clone(), amount.clone());
        }
        if known || pintle_kinds::is_extended_resource(&name) || name.starts_with(IMPLICIT_CLASS) {
            out.insert(format!("requests.{name}"), amount);
        }
    }
    for (name, amount) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            out.insert(format!("limits.{name}"), amount);
        }
    }
    out
}

/// Returns whether a pod should have been gone for as long as its grace period: its node may be lost.
fn is_overdue(pod: &Value, now: i64) -> bool {
    let deleted = pod.at(&["metadata", "deletionTimestamp"]).and_then(Value::as_str);
    let deleted = deleted.and_then(|text| Timestamp::parse(text).ok());
    let grace = pod.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_int);
    deleted.zip(grace).is_some_and(|(at, grace)| at.seconds.saturating_add(grace) < now)
}

/// The states of the containers that can be resized, by name, and whether the resize that is pending is infeasible.
struct Resizes<'a> {
    statuses: BTreeMap<&'a str, &'a Value>,
    is_infeasible: bool,
}

impl<'a> Resizes<'a> {
    fn of(pod: &'a Value) -> Self {
        let name = |value: &'a Value| value.str_at(&["name"]);
        let sidecars =
            pod.items_at(&["spec", "initContainers"]).iter().filter(|one| resources::is_sidecar(one));
        let names: BTreeSet<&str> =
            pod.items_at(&["spec", "containers"]).iter().chain(sidecars).map(name).collect();
        let lists = ["containerStatuses", "initContainerStatuses"];
        let statuses = lists.iter().flat_map(|list| pod.items_at(&["status", list]));
        let mut conditions = pod.items_at(&["status", "conditions"]).iter();
        let pending = conditions.find(|condition| condition.str_at(&["type"]) == "PodResizePending");
        Resizes {
            statuses: statuses
                .map(|status| (name(status), status))
                .filter(|(n, _)| names.contains(n))
                .collect(),
            is_infeasible: pending.is_some_and(|condition| condition.str_at(&["reason"]) == "Infeasible"),
        }
    }

    /// The resources that count for a container. While it is resized, these are the maximum of the amounts in its
    /// spec and in its status, or those in its status if the resize is infeasible.
    fn effective(&self, container: &Value, side: &str) -> ResourceList {
        let specified = resources::of(container, side);
        let status = self.statuses.get(container.str_at(&["name"]));
        let Some(status) = status.filter(|status| status.get("resources").is_some()) else {
            return specified;
        };
        let mut found = if self.is_infeasible { ResourceList::new() } else { specified };
        resources::raise(&mut found, &resources::of(status, side));
        if side == "requests" {
            resources::raise(&mut found, &resources::list(status.get("allocatedResources")));
        }
        found
    }
}

pub(super) fn of_service(service: &Value) -> ResourceList {
    let number = |count: usize| Quantity::new(i64::try_from(count).unwrap_or(i64::MAX), Format::DecimalSI);
    let ports = service.items_at(&["spec", "ports"]);
    let explicit =
        ports.iter().filter(|p| p.get("nodePort").and_then(Value::as_int).unwrap_or(0) != 0).count();
    let given = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool);
    let (balancers, node_ports) = match service.str_at(&["spec", "type"]) {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if given == Some(false) => (1, explicit),
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    ResourceList::from([
        ("count/services".to_string(), number(1)),
        ("services".to_string(), number(1)),
        ("services.loadbalancers".to_string(), number(balancers)),
        ("services.nodeports".to_string(), number(node_ports)),
    ])
}

pub(super) fn of_claim(claim: &Value) -> ResourceList {
    let one = || Quantity::new(1, Format::DecimalSI);
    let class = crate::storage::class(claim);
    let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
    let mut out = ResourceList::from([
        ("persistentvolumeclaims".to_string(), one()),
        ("count/persistentvolumeclaims".to_string(), one()),
    ]);
    let asked =
        claim.at(&["spec", "resources", "requests", "storage"]).and_then(|v| Quantity::from_value(v).ok());
    let given =
        claim.at(&["status", "allocatedResources", "storage"]).and_then(|v| Quantity::from_value(v).ok());
    let storage = asked.map(|asked| given.filter(|given| *given > asked).unwrap_or(asked));
    if !class.is_empty() {
        out.insert(of_class("persistentvolumeclaims"), one());
    }
    if let Some(mut storage) = storage {
        storage.round_up(0);
        if !class.is_empty() {
            out.insert(of_class("requests.storage"), storage.clone());
        }
        out.insert("requests.storage".to_string(), storage);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{text, tree};

    #[test]
    fn pods_count_until_they_are_long_overdue() {
        let pod =
            |metadata: &str| tree(&format!(r#"{{"metadata":{metadata},"spec":{{"containers":[{{}}]}}}}"#));
        let (all, object_only) = (r#"{"count/pods":"1","pods":"1"}"#, r#"{"count/pods":"1"}"#);
        let deleted = r#"{"deletionTimestamp":"1970-01-01T00:01:00Z","deletionGracePeriodSeconds":30}"#;
        for (metadata, now, want) in [
            ("{}", 1000, all),
            (deleted, 60, all),
            (deleted, 90, all),
            (deleted, 91, object_only),
            (r#"{"deletionTimestamp":"1970-01-01T00:01:00Z"}"#, 1000, all),
        ] {
            let usage = super::super::to_value(&of_pod(&pod(metadata), now));
            assert_eq!(text(&usage), want, "{metadata} at {now}");
        }
    }
}
