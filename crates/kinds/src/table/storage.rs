//! Rows of the storage group.

use super::BuiltinPrinter;
use super::cell::{age, bool_or, count, name, text, text_at, text_or, texts};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter { kind: "storage.k8s.io/CSIDriver", needs: &["spec"], cells: csi_driver },
    BuiltinPrinter { kind: "storage.k8s.io/CSINode", needs: &["spec.drivers#"], cells: csi_node },
    BuiltinPrinter { kind: "storage.k8s.io/StorageClass", needs: STORAGE_CLASS, cells: storage_class },
    BuiltinPrinter {
        kind: "storage.k8s.io/VolumeAttachment",
        needs: VOLUME_ATTACHMENT,
        cells: volume_attachment,
    },
    BuiltinPrinter {
        kind: "storage.k8s.io/VolumeAttributesClass",
        needs: &["driverName"],
        cells: attributes_class,
    },
];

const STORAGE_CLASS: &[&str] =
    &["metadata.annotations", "provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion"];
const VOLUME_ATTACHMENT: &[&str] =
    &["spec.attacher", "spec.source.persistentVolumeName", "spec.nodeName", "status.attached"];
const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

fn csi_driver(object: &Value, now: Timestamp) -> Vec<Value> {
    let requests = object.at(&["spec", "tokenRequests"]).and_then(Value::as_array).map(|requests| {
        requests.iter().map(|request| request.str_at(&["audience"])).collect::<Vec<_>>().join(",")
    });
    let modes = texts(object, &["spec", "volumeLifecycleModes"]).join(",");
    vec![
        name(object),
        bool_or(object, &["spec", "attachRequired"], true),
        bool_or(object, &["spec", "podInfoOnMount"], false),
        bool_or(object, &["spec", "storageCapacity"], false),
        text(requests.unwrap_or_else(|| "<unset>".to_string())),
        bool_or(object, &["spec", "requiresRepublish"], false),
        text(if modes.is_empty() { "<none>".to_string() } else { modes }),
        age(object, now),
    ]
}

fn csi_node(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), Value::Int(count(object, &["spec", "drivers"])), age(object, now)]
}

fn storage_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let annotation = |key: &&str| object.str_at(&["metadata", "annotations", key]) == "true";
    let is_default = DEFAULT_CLASS_ANNOTATIONS.iter().any(annotation);
    let error_text =
        format!("{}{}", object.str_at(&["metadata", "name"]), if is_default { " (default)" } else { "" });
    vec![
        text(error_text),
        text_at(object, &["provisioner"]),
        text_or(object, &["reclaimPolicy"], "Delete"),
        text_or(object, &["volumeBindingMode"], "Immediate"),
        bool_or(object, &["allowVolumeExpansion"], false),
        age(object, now),
    ]
}

fn volume_attachment(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text_at(object, &["spec", "attacher"]),
        text_at(object, &["spec", "source", "persistentVolumeName"]),
        text_at(object, &["spec", "nodeName"]),
        bool_or(object, &["status", "attached"], false),
        age(object, now),
    ]
}

fn attributes_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text_at(object, &["driverName"]), age(object, now)]
}
