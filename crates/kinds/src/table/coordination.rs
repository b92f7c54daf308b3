//! Rows of leases.

use super::BuiltinPrinter;
use super::cell::{age, name, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] =
    &[BuiltinPrinter { kind: "coordination.k8s.io/Lease", needs: &["spec.holderIdentity"], cells: lease }];

fn lease(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text_at(object, &["spec", "holderIdentity"]), age(object, now)]
}
