//! The usage of single objects, and the quota scopes they are in.

use crate::resources::{self, ResourceList};
use pintle_meta::Quantity;
use pintle_meta::quantity::Format;
use pintle_meta::selector::{LabelSelector, Operator, Requirement};
use pintle_value::{Map, Str, Value};

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

/// Returns whether no container requests cpu or memory.
pub(crate) fn is_best_effort(pod: &Value) -> bool {
    let asks = |holder: &Value| {
        ["requests", "limits"].iter().any(|side| {
            let list = resources::list(holder.at(&["resources", side]));
            list.iter().any(|(name, amount)| matches!(name.as_str(), "cpu" | "memory") && !amount.is_zero())
        })
    };
    let lists = ["containers", "initContainers"];
    let of_pod = pod.get("spec").is_some_and(asks);
    !of_pod && !lists.iter().flat_map(|list| pod.items_at(&["spec", list])).any(asks)
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

/// Returns whether a resource is an extended resource.
pub(super) fn is_extended(name: &str) -> bool {
    if name.starts_with("hugepages-") || name.starts_with("deviceclass.resource.kubernetes.io/") {
        return true;
    }
    name.split_once('/')
        .is_some_and(|(domain, _)| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

pub(super) fn of_pod(pod: &Value) -> ResourceList {
    let one = || Quantity::new(1, Format::DecimalSI);
    let mut out = ResourceList::from([("count/pods".to_string(), one())]);
    if matches!(pod.str_at(&["status", "phase"]), "Succeeded" | "Failed") {
        return out;
    }
    out.insert("pods".to_string(), one());
    let overhead = resources::list(pod.at(&["spec", "overhead"]));
    let mut requests = resources::of_pod(pod, "requests");
    resources::add(&mut requests, &overhead);
    let mut limits = resources::of_pod(pod, "limits");
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
        if known || is_extended(&name) {
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
    let class = match claim.str_at(&["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"]) {
        "" => claim.str_at(&["spec", "storageClassName"]),
        old => old,
    };
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
