//! Resource lists (`cpu: 1`) and the resources of a whole pod.

use pintle_meta::Quantity;
use pintle_value::Value;
use std::collections::BTreeMap;

/// Amounts by name.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

/// Parses a resource list; invalid quantities are dropped.
pub(crate) fn list(value: Option<&Value>) -> ResourceList {
    let map = value.and_then(Value::as_object);
    let entries = map.into_iter().flat_map(|map| map.iter());
    entries.filter_map(|(name, value)| Some((name.to_string(), Quantity::from_value(value).ok()?))).collect()
}

/// Adds each amount of `more`.
pub(crate) fn add(to: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        match to.get_mut(name) {
            Some(sum) => sum.add(amount),
            None => _ = to.insert(name.clone(), amount.clone()),
        }
    }
}

/// Raises each amount to at least that of `least`.
pub(crate) fn raise(to: &mut ResourceList, least: &ResourceList) {
    for (name, amount) in least {
        if to.get(name).is_none_or(|have| amount > have) {
            to.insert(name.clone(), amount.clone());
        }
    }
}

/// The resources of a container; `side` is `requests` or `limits`.
pub(crate) fn of(container: &Value, side: &str) -> ResourceList {
    list(container.at(&["resources", side]))
}

/// The resources of a whole pod; `side` is `requests` or `limits`, and `of_container` returns those of a container. Init containers run
/// one after another, sidecars beside the other containers. The pod's own resources count instead, if `is_pod_level`.
pub(crate) fn of_pod(
    pod: &Value,
    side: &str,
    of_container: impl Fn(&Value) -> ResourceList,
    is_pod_level: impl Fn(&str) -> bool,
) -> ResourceList {
    let mut total = ResourceList::new();
    for container in pod.items_at(&["spec", "containers"]) {
        add(&mut total, &of_container(container));
    }
    let mut running = ResourceList::new();
    let mut peak = ResourceList::new();
    for container in pod.items_at(&["spec", "initContainers"]) {
        let mut own = of_container(container);
        if is_sidecar(container) {
            add(&mut total, &own);
            add(&mut running, &own);
            own = running.clone();
        } else {
            add(&mut own, &running);
        }
        raise(&mut peak, &own);
    }
    raise(&mut total, &peak);
    for (name, amount) in list(pod.at(&["spec", "resources", side])) {
        if is_pod_level(&name) {
            total.insert(name, amount);
        }
    }
    total
}

/// Returns whether the resources of a whole pod may have this one.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// Returns whether an init container keeps running beside the other containers.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

/// Joins several errors into one sentence.
pub(crate) fn join_errors(errors: Vec<String>) -> Option<String> {
    let mut unique: Vec<String> = Vec::new();
    for error in errors {
        if !unique.contains(&error) {
            unique.push(error);
        }
    }
    match unique.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
