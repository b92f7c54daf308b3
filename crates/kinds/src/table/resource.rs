//! Rows of dynamic resource allocation.

use super::BuiltinPrinter;
use super::cell::{age, is_set, is_terminating, name, text, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter { kind: "resource.k8s.io/DeviceClass", needs: &[], cells: name_and_age },
    BuiltinPrinter {
        kind: "resource.k8s.io/ResourceClaim",
        needs: &["metadata.deletionTimestamp", "status.allocation#", "status.reservedFor#"],
        cells: claim,
    },
    BuiltinPrinter { kind: "resource.k8s.io/ResourceClaimTemplate", needs: &[], cells: name_and_age },
    BuiltinPrinter {
        kind: "resource.k8s.io/ResourceSlice",
        needs: &["spec.nodeName", "spec.driver", "spec.pool.name"],
        cells: slice,
    },
];

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_reserved = !object.items_at(&["status", "reservedFor"]).is_empty();
    let state = match (is_terminating(object), is_set(object, &["status", "allocation"]), is_reserved) {
        (false, false, _) => "pending",
        (true, false, _) => "deleted",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    };
    vec![name(object), text(state), age(object, now)]
}

fn slice(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text_at(object, &["spec", "nodeName"]),
        text_at(object, &["spec", "driver"]),
        text_at(object, &["spec", "pool", "name"]),
        age(object, now),
    ]
}
