//! Rows of dynamic resource allocation.

use super::cell::{is_set, is_terminating, text};
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
