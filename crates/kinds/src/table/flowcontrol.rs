//! Rows of priority and fairness.

use super::cell::{condition, int, is_set, number, text, text_at};
use pintle_meta::Timestamp;
use pintle_value::Value;

/// The kind whose rows are in the order in which requests are matched.
pub(super) const ORDERED: &str = "flowcontrol.apiserver.k8s.io/FlowSchema";

/// The sort key of flow schemas.
pub(super) fn order(object: &Value) -> i64 {
    number(object, &["spec", "matchingPrecedence"])
}

pub(super) fn distinguisher(object: &Value) -> Value {
    if is_set(object, &["spec", "distinguisherMethod"]) {
        text_at(object, &["spec", "distinguisherMethod", "type"])
    } else {
        text("<none>")
    }
}

pub(super) fn missing_level(object: &Value) -> Value {
    let dangling = condition(object.items_at(&["status", "conditions"]), "Dangling");
    text(dangling.map_or("?", |condition| condition.str_at(&["status"])))
}

pub(super) fn level_numbers(object: &Value, _: Timestamp) -> Vec<Value> {
    const LIMITED: &[&str] = &["spec", "limited"];
    const QUEUING: &[&str] = &["spec", "limited", "limitResponse", "queuing"];
    let number_in = |outer: &[&str], key: &str| {
        if is_set(object, outer) { int(object, &[outer, &[key]].concat()) } else { text("<none>") }
    };
    vec![
        number_in(LIMITED, "nominalConcurrencyShares"),
        number_in(QUEUING, "queues"),
        number_in(QUEUING, "handSize"),
        number_in(QUEUING, "queueLengthLimit"),
    ]
}
