//! Rows of the core group, except for pods, services and volumes.

use super::cell::{condition, count, filled_or, int, quantity, since, text, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;
use std::collections::BTreeSet;

/// The prefix of labels that name a role of a node.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// The label whose value is a role of a node.
const ROLE_LABEL: &str = "kubernetes.io/role";

pub(super) fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let healthy = condition(object.items_at(&["conditions"]), "Healthy");
    let status = healthy.map_or("Unknown", |condition| match condition.str_at(&["status"]) {
        "True" => "Healthy",
        _ => "Unhealthy",
    });
    let condition_text = |key: &str| text(healthy.map_or("", |condition| condition.str_at(&[key])));
    vec![text(status), condition_text("message"), condition_text("error")]
}

pub(super) fn event_cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let first = match object.str_at(&["firstTimestamp"]) {
        "" => object.str_at(&["eventTime"]),
        first => first,
    };
    let (last, times) = match object.get("series").filter(|series| !series.is_null()) {
        Some(series) => (series.str_at(&["lastObservedTime"]), int(series, &["count"])),
        None => {
            let last = object.str_at(&["lastTimestamp"]);
            // A single event of the newer API has no count.
            let times = object.get("count").and_then(Value::as_int).filter(|count| *count != 0).unwrap_or(1);
            (if last.is_empty() { first } else { last }, Value::Int(times))
        }
    };
    let kind = object.str_at(&["involvedObject", "kind"]).to_lowercase();
    let target = match object.str_at(&["involvedObject", "name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        since(last, now),
        text_at(object, &["type"]),
        text_at(object, &["reason"]),
        text(target),
        text_at(object, &["involvedObject", "fieldPath"]),
        text(event_source(object)),
        text(object.str_at(&["message"]).trim()),
        since(first, now),
        times,
    ]
}

/// The reporting component of an event and its host.
fn event_source(object: &Value) -> String {
    let first = |old: &[&str], new: &str| match object.str_at(old) {
        "" => object.str_at(&[new]).to_string(),
        old => old.to_string(),
    };
    let component = first(&["source", "component"], "reportingComponent");
    let instance = first(&["source", "host"], "reportingInstance");
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

pub(super) fn node_roles(object: &Value) -> Value {
    let labels = object.at(&["metadata", "labels"]).and_then(Value::as_object);
    let role = |key: &'_ str, value: &'_ Value| match key.strip_prefix(ROLE_PREFIX) {
        Some(role) => role.to_string(),
        None if key == ROLE_LABEL => value.as_str().unwrap_or("").to_string(),
        None => String::new(),
    };
    let roles: BTreeSet<String> =
        labels.map(|map| map.iter().map(|(k, v)| role(k, v)).collect()).unwrap_or_default();
    let roles: Vec<&str> = roles.iter().map(String::as_str).filter(|role| !role.is_empty()).collect();
    text(if roles.is_empty() { "<none>".to_string() } else { roles.join(",") })
}

pub(super) fn node_address(object: &Value, type_: &str) -> Value {
    let address = condition(object.items_at(&["status", "addresses"]), type_);
    text(address.map_or("<none>", |address| address.str_at(&["address"])))
}

pub(super) fn resource_quota(object: &Value, _: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    if let Some(hard) = object.at(&["status", "hard"]).and_then(Value::as_object) {
        for (resource, hard) in hard.iter() {
            let used = quantity(object.at(&["status", "used", resource]));
            let usage = format!("{resource}: {used}/{}", quantity(Some(hard)));
            if resource.starts_with("limits.") { limits.push(usage) } else { requests.push(usage) }
        }
    }
    vec![text(requests.join(", ")), text(limits.join(", "))]
}

pub(super) fn config_map_size(object: &Value) -> Value {
    Value::Int(count(object, &["data"]).saturating_add(count(object, &["binaryData"])))
}

pub(super) fn node_status(object: &Value) -> Value {
    // Of several conditions of one type the last one counts.
    let ready = object.items_at(&["status", "conditions"]).iter().rfind(|c| c.str_at(&["type"]) == "Ready");
    let status = match ready.map(|condition| condition.str_at(&["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let unschedulable = object.at(&["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true);
    text(format!("{status}{}", if unschedulable { ",SchedulingDisabled" } else { "" }))
}

pub(super) fn node_kernel(object: &Value) -> Value {
    let kernel = filled_or(object, &["status", "nodeInfo", "kernelVersion"], "<unknown>");
    match (object.str_at(&["status", "nodeInfo", "architecture"]), kernel.as_str()) {
        ("", _) | (_, None) => kernel,
        (architecture, Some(kernel)) => text(format!("{kernel} ({architecture})")),
    }
}
