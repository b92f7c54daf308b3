//! Rows of persistent volumes and their claims.

use super::cell::{is_terminating, quantity, text, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

/// The deprecated annotation for the class.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
/// Access modes and their abbreviations.
const ACCESS_MODES: [(&str, &str); 4] = [
    ("ReadWriteOnce", "RWO"),
    ("ReadOnlyMany", "ROX"),
    ("ReadWriteMany", "RWX"),
    ("ReadWriteOncePod", "RWOP"),
];

pub(super) fn phase(object: &Value) -> Value {
    if is_terminating(object) { text("Terminating") } else { text_at(object, &["status", "phase"]) }
}

pub(super) fn class(object: &Value) -> Value {
    match object.at(&["metadata", "annotations", CLASS_ANNOTATION]) {
        Some(class) => class.clone(),
        None => text_at(object, &["spec", "storageClassName"]),
    }
}

pub(super) fn access_modes(modes: &[Value]) -> Value {
    let has = |mode: &str| modes.iter().any(|m| m.as_str() == Some(mode));
    let short: Vec<&str> =
        ACCESS_MODES.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect();
    text(short.join(","))
}

/// A claim has neither before it is bound.
pub(super) fn capacity_and_modes(object: &Value, _: Timestamp) -> Vec<Value> {
    match object.str_at(&["spec", "volumeName"]) {
        "" => vec![text(""), text("")],
        _ => vec![
            Value::String(quantity(object.at(&["status", "capacity", "storage"]))),
            access_modes(object.items_at(&["status", "accessModes"])),
        ],
    }
}
