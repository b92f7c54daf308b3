//! Rows of API services.

use super::cell::{condition, text};
use pintle_value::Value;

pub(super) fn display_availability(object: &Value) -> Value {
    let Some(condition) = condition(object.items_at(&["status", "conditions"]), "Available") else {
        return text("Unknown");
    };
    match (condition.str_at(&["status"]), condition.str_at(&["reason"])) {
        (status @ "True", _) | (status, "") => text(status),
        (status, reason) => text(format!("{status} ({reason})")),
    }
}
