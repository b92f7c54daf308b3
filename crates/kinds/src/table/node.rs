//! Rows of runtime classes.

use super::BuiltinPrinter;
use super::cell::{age, name, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] =
    &[BuiltinPrinter { kind: "node.k8s.io/RuntimeClass", needs: &["handler"], cells: runtime_class }];

fn runtime_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text_at(object, &["handler"]), age(object, now)]
}
