//! Rows of the core group, except for pods, services and volumes.

use super::BuiltinPrinter;
use super::cell::{
    age, condition, containers, count, filled_or, int, labels, name, quantity, since, text, text_at,
};
use pintle_meta::Timestamp;
use pintle_value::Value;
use std::collections::BTreeSet;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter { kind: "ComponentStatus", needs: &["conditions"], cells: component_status },
    BuiltinPrinter { kind: "ConfigMap", needs: &["data#", "binaryData#"], cells: config_map },
    BuiltinPrinter { kind: "Event", needs: EVENT, cells: event },
    BuiltinPrinter { kind: "Namespace", needs: &["status.phase"], cells: namespace },
    BuiltinPrinter { kind: "Node", needs: NODE, cells: node },
    BuiltinPrinter { kind: "PodTemplate", needs: POD_TEMPLATE, cells: pod_template },
    BuiltinPrinter {
        kind: "ReplicationController",
        needs: REPLICATION_CONTROLLER,
        cells: replication_controller,
    },
    BuiltinPrinter { kind: "ResourceQuota", needs: &["status.hard", "status.used"], cells: resource_quota },
    BuiltinPrinter { kind: "Secret", needs: &["type", "data#"], cells: secret },
    BuiltinPrinter { kind: "ServiceAccount", needs: &[], cells: service_account },
];

const EVENT: &[&str] = &[
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "series",
    "reportingComponent",
    "reportingInstance",
];
const NODE: &[&str] = &[
    "metadata.labels",
    "spec.unschedulable",
    "status.conditions.type",
    "status.conditions.status",
    "status.addresses",
    "status.nodeInfo",
];
const POD_TEMPLATE: &[&str] =
    &["template.metadata.labels", "template.spec.containers.name", "template.spec.containers.image"];
const REPLICATION_CONTROLLER: &[&str] = &[
    "spec.replicas",
    "spec.selector",
    "spec.template.spec.containers.name",
    "spec.template.spec.containers.image",
    "status.replicas",
    "status.readyReplicas",
];

/// The prefix of labels that name a role of a node.
const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
/// The label whose value is a role of a node.
const ROLE_LABEL: &str = "kubernetes.io/role";

fn component_status(object: &Value, _: Timestamp) -> Vec<Value> {
    let healthy = condition(object.items_at(&["conditions"]), "Healthy");
    let status = healthy.map_or("Unknown", |condition| match condition.str_at(&["status"]) {
        "True" => "Healthy",
        _ => "Unhealthy",
    });
    let said = |key: &str| text(healthy.map_or("", |condition| condition.str_at(&[key])));
    vec![name(object), text(status), said("message"), said("error")]
}

fn config_map(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        Value::Int(count(object, &["data"]) + count(object, &["binaryData"])),
        age(object, now),
    ]
}

fn secret(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text_at(object, &["type"]), Value::Int(count(object, &["data"])), age(object, now)]
}

fn service_account(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn namespace(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text_at(object, &["status", "phase"]), age(object, now)]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
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
        name(object),
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

fn node(object: &Value, now: Timestamp) -> Vec<Value> {
    // Of several conditions of one type the last one counts.
    let ready = object.items_at(&["status", "conditions"]).iter().rfind(|c| c.str_at(&["type"]) == "Ready");
    let mut status = match ready.map(|condition| condition.str_at(&["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_string();
    if object.at(&["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    let info = |key: &str| filled_or(object, &["status", "nodeInfo", key], "<unknown>");
    let mut kernel = info("kernelVersion").as_str().unwrap_or("").to_string();
    let architecture = object.str_at(&["status", "nodeInfo", "architecture"]);
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name(object),
        text(status),
        node_roles(object),
        age(object, now),
        text_at(object, &["status", "nodeInfo", "kubeletVersion"]),
        node_address(object, "InternalIP"),
        node_address(object, "ExternalIP"),
        info("osImage"),
        text(kernel),
        info("containerRuntimeVersion"),
    ]
}

fn node_roles(object: &Value) -> Value {
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

fn node_address(object: &Value, type_: &str) -> Value {
    let address = condition(object.items_at(&["status", "addresses"]), type_);
    text(address.map_or("<none>", |address| address.str_at(&["address"])))
}

fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["template", "spec"]);
    vec![name(object), names, images, labels(object.at(&["template", "metadata", "labels"]))]
}

fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec"]);
    vec![
        name(object),
        int(object, &["spec", "replicas"]),
        int(object, &["status", "replicas"]),
        int(object, &["status", "readyReplicas"]),
        age(object, now),
        names,
        images,
        labels(object.at(&["spec", "selector"])),
    ]
}

fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    if let Some(hard) = object.at(&["status", "hard"]).and_then(Value::as_object) {
        for (resource, hard) in hard.iter() {
            let used = quantity(object.at(&["status", "used", resource]));
            let error_text = format!("{resource}: {used}/{}", quantity(Some(hard)));
            if resource.starts_with("limits.") { limits.push(error_text) } else { requests.push(error_text) }
        }
    }
    vec![name(object), text(requests.join(", ")), text(limits.join(", ")), age(object, now)]
}
