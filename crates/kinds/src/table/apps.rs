//! Rows of the apps group.

use super::BuiltinPrinter;
use super::cell::{age, containers, int, labels, name, number, selector, selector_text, text};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter {
        kind: "apps/ControllerRevision",
        needs: &["metadata.ownerReferences", "revision"],
        cells: controller_revision,
    },
    BuiltinPrinter { kind: "apps/DaemonSet", needs: DAEMON_SET, cells: daemon_set },
    BuiltinPrinter { kind: "apps/Deployment", needs: REPLICATED, cells: deployment },
    BuiltinPrinter { kind: "apps/ReplicaSet", needs: REPLICATED, cells: replica_set },
    BuiltinPrinter { kind: "apps/StatefulSet", needs: REPLICATED, cells: stateful_set },
];

const REPLICATED: &[&str] = &[
    "spec.replicas",
    "spec.selector",
    "spec.template.spec.containers.name",
    "spec.template.spec.containers.image",
    "status.replicas",
    "status.readyReplicas",
    "status.updatedReplicas",
    "status.availableReplicas",
];
const DAEMON_SET: &[&str] = &[
    "spec.selector",
    "spec.template.spec.nodeSelector",
    "spec.template.spec.containers.name",
    "spec.template.spec.containers.image",
    "status.desiredNumberScheduled",
    "status.currentNumberScheduled",
    "status.numberReady",
    "status.updatedNumberScheduled",
    "status.numberAvailable",
];

fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = object.items_at(&["metadata", "ownerReferences"]).iter();
    let controller =
        owners.clone().find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    let error_text = controller.map_or_else(|| "<none>".to_string(), controller_name);
    vec![name(object), text(error_text), int(object, &["revision"]), age(object, now)]
}

/// `kind.group/name`, in lower case except for the name.
fn controller_name(owner: &Value) -> String {
    let kind = owner.str_at(&["kind"]).to_lowercase();
    match owner.str_at(&["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{}", group.to_lowercase(), owner.str_at(&["name"])),
        None => format!("{kind}/{}", owner.str_at(&["name"])),
    }
}

fn ready_of_desired(object: &Value) -> Value {
    let (ready, desired) =
        (number(object, &["status", "readyReplicas"]), number(object, &["spec", "replicas"]));
    text(format!("{ready}/{desired}"))
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec"]);
    vec![
        name(object),
        int(object, &["status", "desiredNumberScheduled"]),
        int(object, &["status", "currentNumberScheduled"]),
        int(object, &["status", "numberReady"]),
        int(object, &["status", "updatedNumberScheduled"]),
        int(object, &["status", "numberAvailable"]),
        labels(object.at(&["spec", "template", "spec", "nodeSelector"])),
        age(object, now),
        names,
        images,
        selector(object.at(&["spec", "selector"])),
    ]
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec"]);
    let selector = selector_text(object.at(&["spec", "selector"]));
    vec![
        name(object),
        ready_of_desired(object),
        int(object, &["status", "updatedReplicas"]),
        int(object, &["status", "availableReplicas"]),
        age(object, now),
        names,
        images,
        text(selector.unwrap_or_else(|| "<invalid>".to_string())),
    ]
}

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec"]);
    vec![
        name(object),
        int(object, &["spec", "replicas"]),
        int(object, &["status", "replicas"]),
        int(object, &["status", "readyReplicas"]),
        age(object, now),
        names,
        images,
        selector(object.at(&["spec", "selector"])),
    ]
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec"]);
    vec![name(object), ready_of_desired(object), age(object, now), names, images]
}
