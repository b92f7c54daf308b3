//! Drops fields of disabled features, unless the old object has them.

use super::defaults::CONTAINER_LISTS;
use crate::features;
use crate::fill::items;
use pintle_value::Value;

/// Drops fields of disabled features from a pod spec.
pub(crate) fn drop_fields(spec: Option<&mut Value>, old: Option<&Value>) {
    let Some(spec) = spec else { return };
    features::drop_disabled_of(("core", "PodSpec"), spec, old);
    if !features::is_enabled("ContainerStopSignals") && !old.is_some_and(has_stop_signal) {
        drop_stop_signals(spec);
    }
}

/// Drops fields of disabled features from the status of a pod.
pub(crate) fn drop_status_fields(status: Option<&mut Value>, old: Option<&Value>) {
    if let Some(status) = status {
        features::drop_disabled_of(("core", "PodStatus"), status, old);
    }
}

fn has_stop_signal(spec: &Value) -> bool {
    let signal = |c: &Value| c.at(&["lifecycle", "stopSignal"]).is_some();
    CONTAINER_LISTS.iter().any(|list| spec.items_at(&[list]).iter().any(signal))
}

/// A lifecycle without other fields is dropped with its stop signal.
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
