//! Rows of dynamic resource allocation.

use super::cell::{count, is_set, is_terminating, number, since, text};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) fn claim_state(object: &Value) -> Value {
    let is_reserved = !object.items_at(&["status", "reservedFor"]).is_empty();
    let state = match (is_terminating(object), is_set(object, &["status", "allocation"]), is_reserved) {
        (false, false, _) => "pending",
        (true, false, _) => "deleted",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    };
    text(state)
}

pub(super) fn taint_time(object: &Value, now: Timestamp) -> Value {
    match object.str_at(&["spec", "taint", "timeAdded"]) {
        "" => text(""),
        time => since(time, now),
    }
}

/// The device counts, pool count, state and completion time of a ResourcePoolStatusRequest.
pub(super) fn pool_status(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_end =
        |c: &&Value| matches!(c.str_at(&["type"]), "Complete" | "Failed") && c.str_at(&["status"]) == "True";
    let end = object.items_at(&["status", "conditions"]).iter().find(is_end);
    let state = end.map_or("Pending", |condition| condition.str_at(&["type"]));
    let pools = object.items_at(&["status", "pools"]);
    // kube-apiserver adds 32-bit integers and lets them wrap.
    let sum = |key: &str| pools.iter().map(|pool| number(pool, &[key]) as i32).fold(0, i32::wrapping_add);
    let counts = if is_set(object, &["status"]) && state != "Failed" {
        let keys = ["totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices"];
        let errors = pools.iter().filter(|pool| is_set(pool, &["validationError"])).count();
        keys.map(|key| text(sum(key).to_string())).into_iter().chain([text(errors.to_string())]).collect()
    } else {
        vec![text("-"); 5]
    };
    let (all, listed) = (number(object, &["status", "poolCount"]), count(object, &["status", "pools"]));
    let is_cut = state == "Complete" && all > listed;
    let progress = if is_cut { format!("Complete ({listed}/{all} pools)") } else { state.to_string() };
    let completed = end.filter(|_| state == "Complete");
    let completed = completed.map_or(text("<none>"), |c| since(c.str_at(&["lastTransitionTime"]), now));
    counts.into_iter().chain([Value::Int(all), text(progress), completed]).collect()
}
