//! Rows of pod groups.

use super::cell::{condition, is_set, text};
use pintle_value::Value;

pub(super) fn group_policy(object: &Value) -> Value {
    text(if is_set(object, &["spec", "schedulingPolicy", "gang"]) { "Gang" } else { "Basic" })
}

pub(super) fn group_state(object: &Value) -> Value {
    let conditions = object.items_at(&["status", "conditions"]);
    if let Some(disruption) = condition(conditions, "DisruptionTarget") {
        return text(disruption.str_at(&["reason"]));
    }
    let scheduled = condition(conditions, "PodGroupScheduled").map(|c| c.str_at(&["status"]));
    text(match scheduled {
        None => "Pending",
        Some("True") => "Scheduled",
        Some(_) => "Unschedulable",
    })
}
