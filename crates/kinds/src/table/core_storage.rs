//! Rows of persistent volumes and their claims.

use super::BuiltinPrinter;
use super::cell::{age, is_terminating, name, quantity, text, text_at, text_or};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter { kind: "PersistentVolume", needs: VOLUME, cells: volume },
    BuiltinPrinter { kind: "PersistentVolumeClaim", needs: CLAIM, cells: claim },
];

const VOLUME: &[&str] = &[
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "spec.capacity",
    "spec.accessModes",
    "spec.persistentVolumeReclaimPolicy",
    "spec.claimRef",
    "spec.storageClassName",
    "spec.volumeAttributesClassName",
    "spec.volumeMode",
    "status",
];
const CLAIM: &[&str] = &[
    "metadata.annotations",
    "metadata.deletionTimestamp",
    "spec.volumeName",
    "spec.storageClassName",
    "spec.volumeAttributesClassName",
    "spec.volumeMode",
    "status.phase",
    "status.accessModes",
    "status.capacity",
];

/// The deprecated annotation for the class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// Access modes and their abbreviations.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

fn volume(object: &Value, now: Timestamp) -> Vec<Value> {
    let claim = object.at(&["spec", "claimRef"]).filter(|claim| !claim.is_null());
    let claim = claim.map(|claim| format!("{}/{}", claim.str_at(&["namespace"]), claim.str_at(&["name"])));
    vec![
        name(object),
        Value::String(quantity(object.at(&["spec", "capacity", "storage"]))),
        access_modes(object.items_at(&["spec", "accessModes"])),
        text_at(object, &["spec", "persistentVolumeReclaimPolicy"]),
        phase(object),
        text(claim.unwrap_or_default()),
        class(object),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        text_at(object, &["status", "reason"]),
        age(object, now),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let volume = object.str_at(&["spec", "volumeName"]);
    let (capacity, modes) = match volume {
        "" => (text(""), text("")),
        _ => (
            Value::String(quantity(object.at(&["status", "capacity", "storage"]))),
            access_modes(object.items_at(&["status", "accessModes"])),
        ),
    };
    vec![
        name(object),
        phase(object),
        text(volume),
        capacity,
        modes,
        class(object),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        age(object, now),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn phase(object: &Value) -> Value {
    if is_terminating(object) { text("Terminating") } else { text_at(object, &["status", "phase"]) }
}

fn class(object: &Value) -> Value {
    match object.at(&["metadata", "annotations", CLASS_ANNOTATION]) {
        Some(class) => class.clone(),
        None => text_at(object, &["spec", "storageClassName"]),
    }
}

fn access_modes(modes: &[Value]) -> Value {
    let has = |mode: &str| modes.iter().any(|m| m.as_str() == Some(mode));
    let short: Vec<&str> =
        ACCESS_MODES.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect();
    text(short.join(","))
}
