//! Rows of priority and fairness.

use super::BuiltinPrinter;
use super::cell::{age, condition, int, is_set, name, number, text, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter {
        kind: ORDERED,
        needs: &[
            "spec.priorityLevelConfiguration",
            "spec.matchingPrecedence",
            "spec.distinguisherMethod",
            "status.conditions",
        ],
        cells: flow_schema,
    },
    BuiltinPrinter {
        kind: "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
        needs: &["spec.type", "spec.limited"],
        cells: priority_level,
    },
];

/// The kind whose rows are in the order in which requests are matched.
pub(super) const ORDERED: &str = "flowcontrol.apiserver.k8s.io/FlowSchema";

/// The sort key of flow schemas.
pub(super) fn order(object: &Value) -> i64 {
    number(object, &["spec", "matchingPrecedence"])
}

fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = condition(object.items_at(&["status", "conditions"]), "Dangling");
    let method = match is_set(object, &["spec", "distinguisherMethod"]) {
        true => object.str_at(&["spec", "distinguisherMethod", "type"]),
        false => "<none>",
    };
    vec![
        name(object),
        text_at(object, &["spec", "priorityLevelConfiguration", "name"]),
        int(object, &["spec", "matchingPrecedence"]),
        text(method),
        age(object, now),
        text(dangling.map_or("?", |condition| condition.str_at(&["status"]))),
    ]
}

fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    const LIMITED: &[&str] = &["spec", "limited"];
    const QUEUING: &[&str] = &["spec", "limited", "limitResponse", "queuing"];
    let number_in = |outer: &[&str], key: &str| match is_set(object, outer) {
        true => int(object, &[outer, &[key]].concat()),
        false => text("<none>"),
    };
    vec![
        name(object),
        text_at(object, &["spec", "type"]),
        number_in(LIMITED, "nominalConcurrencyShares"),
        number_in(QUEUING, "queues"),
        number_in(QUEUING, "handSize"),
        number_in(QUEUING, "queueLengthLimit"),
        age(object, now),
    ]
}
