//! Rows of priority classes.

use super::BuiltinPrinter;
use super::cell::{age, bool_or, int, name, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[BuiltinPrinter {
    kind: "scheduling.k8s.io/PriorityClass",
    needs: &["value", "globalDefault", "preemptionPolicy"],
    cells: priority_class,
}];

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        int(object, &["value"]),
        bool_or(object, &["globalDefault"], false),
        age(object, now),
        text_at(object, &["preemptionPolicy"]),
    ]
}
