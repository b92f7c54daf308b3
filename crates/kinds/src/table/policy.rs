//! Rows of disruption budgets.

use super::BuiltinPrinter;
use super::cell::{age, int, name, scalar, text};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[BuiltinPrinter {
    kind: "policy/PodDisruptionBudget",
    needs: &["spec.minAvailable", "spec.maxUnavailable", "status.disruptionsAllowed"],
    cells: disruption_budget,
}];

fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |key: &str| text(scalar(object.at(&["spec", key])).unwrap_or_else(|| "N/A".into()));
    vec![
        name(object),
        bound("minAvailable"),
        bound("maxUnavailable"),
        int(object, &["status", "disruptionsAllowed"]),
        age(object, now),
    ]
}
