//! Drops fields of disabled features, unless the old object has them.

use super::defaults::CONTAINER_LISTS;
use crate::fill::items;
use pintle_value::Value;

/// The container status lists.
const STATUS_LISTS: [&str; 3] = ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"];

/// Drops fields of disabled features from a pod spec.
pub(crate) fn drop_fields(spec: Option<&mut Value>, old: Option<&Value>) {
    let Some(spec) = spec else { return };
    for source in ["clusterTrustBundle", "podCertificate"] {
        if !old.is_some_and(|old| has_projection(old, source)) {
            drop_projection(spec, source);
        }
    }
    if old.is_none_or(|old| old.get("schedulingGroup").is_none()) {
        spec.remove_at(&["schedulingGroup"]);
    }
    if !old.is_some_and(has_stop_signal) {
        drop_stop_signals(spec);
    }
}

/// Drops fields of disabled features from the status of a pod.
pub(crate) fn drop_status_fields(status: Option<&mut Value>, old: Option<&Value>) {
    let Some(status) = status else { return };
    let claims = "nodeAllocatableResourceClaimStatuses";
    if old.is_none_or(|old| old.items_at(&[claims]).is_empty()) {
        status.remove_at(&[claims]);
    }
    if old.is_some_and(has_volume_status) {
        return;
    }
    for list in STATUS_LISTS {
        for container in items(status, list) {
            for mount in items(container, "volumeMounts") {
                mount.remove_at(&["volumeStatus"]);
            }
        }
    }
}

fn has_volume_status(status: &Value) -> bool {
    let statuses = STATUS_LISTS.iter().flat_map(|list| status.items_at(&[list]));
    statuses.flat_map(|s| s.items_at(&["volumeMounts"])).any(|m| m.get("volumeStatus").is_some())
}

fn has_projection(spec: &Value, source: &str) -> bool {
    let of_volume = |v: &Value| v.items_at(&["projected", "sources"]).iter().any(|s| s.get(source).is_some());
    spec.items_at(&["volumes"]).iter().any(of_volume)
}

fn drop_projection(spec: &mut Value, source: &str) {
    for volume in items(spec, "volumes") {
        if let Some(projected) = volume.get_mut("projected") {
            for entry in items(projected, "sources") {
                entry.remove_at(&[source]);
            }
        }
    }
}

fn has_stop_signal(spec: &Value) -> bool {
    let signal = |c: &Value| c.at(&["lifecycle", "stopSignal"]).is_some();
    CONTAINER_LISTS.iter().any(|list| spec.items_at(&[list]).iter().any(signal))
}

fn drop_stop_signals(spec: &mut Value) {
    for list in CONTAINER_LISTS {
        for container in items(spec, list) {
            if container.remove_at(&["lifecycle", "stopSignal"]).is_none() {
                continue;
            }
            if container.get("lifecycle").and_then(Value::as_object).is_some_and(|m| m.is_empty()) {
                container.remove_at(&["lifecycle"]);
            }
        }
    }
}
