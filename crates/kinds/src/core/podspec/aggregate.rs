//! The aggregate resources of a pod's containers, and the pod-level resources derived from them.

use pintle_meta::Quantity;
use pintle_value::{Map, Str, Value};
use std::collections::BTreeMap;

/// Amounts by resource name.
pub(crate) type Amounts = BTreeMap<Str, Quantity>;

/// Parses a resource list; invalid quantities are dropped.
pub(crate) fn amounts(list: Option<&Value>) -> Amounts {
    let entries = list.and_then(Value::as_object).into_iter().flat_map(Map::iter);
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::from_value(value).ok()?))).collect()
}

/// Returns whether a pod as a whole can request this resource.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Returns whether a resource is a huge page size.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns whether requests may be lower than limits: not for huge pages and extended resources.
pub(crate) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Returns whether a resource is a native Kubernetes resource.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// The aggregate `which` (`requests` or `limits`) of a pod's containers: the sum of the concurrent ones, or the peak
/// during an init container, whichever is larger.
pub(crate) fn containers(spec: &Value, which: &str) -> Amounts {
    let mut total = Amounts::new();
    for container in spec.items_at(&["containers"]) {
        add(&mut total, &amounts(container.at(&["resources", which])));
    }
    let (mut sidecars, mut peak) = (Amounts::new(), Amounts::new());
    for container in spec.items_at(&["initContainers"]) {
        let mut own = amounts(container.at(&["resources", which]));
        if container.str_at(&["restartPolicy"]) == "Always" {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            own = sidecars.clone();
        } else {
            add(&mut own, &sidecars);
        }
        raise_to(&mut peak, &own);
    }
    raise_to(&mut total, &peak);
    total
}

fn add(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        match list.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => _ = list.insert(name.clone(), amount.clone()),
        }
    }
}

fn raise_to(list: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|known| amount > known) {
            list.insert(name.clone(), amount.clone());
        }
    }
}

/// Derives pod-level limits of huge pages from the containers.
pub(crate) fn default_pod_limits(spec: &mut Value) {
    let has = |which: &str| {
        spec.at(&["resources", which]).and_then(Value::as_object).is_some_and(|m| !m.is_empty())
    };
    if !has("limits") && !has("requests") {
        return;
    }
    for (name, amount) in containers(spec, "limits") {
        let set = |which: &str| spec.at(&["resources", which, &name]).is_some();
        if is_huge_page(&name) && !set("requests") && !set("limits") {
            spec.set_at(&["resources", "limits", &name], amount.to_string().into());
        }
    }
}

/// Derives pod-level requests from the containers' requests, or else from the limits.
pub(crate) fn default_pod_requests(spec: &mut Value) {
    let limits = amounts(spec.at(&["resources", "limits"]));
    if limits.is_empty() {
        return;
    }
    let requested = containers(spec, "requests");
    let of_containers =
        requested.into_iter().filter(|(name, _)| is_pod_level(name) && is_overcommit_allowed(name));
    let of_limits = limits.into_iter().filter(|(name, _)| is_pod_level(name));
    for (name, amount) in of_containers.chain(of_limits) {
        if spec.at(&["resources", "requests", &name]).is_none() {
            spec.set_at(&["resources", "requests", &name], amount.to_string().into());
        }
    }
}
