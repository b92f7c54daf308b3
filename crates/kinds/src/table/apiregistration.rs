//! Rows of API services.

use super::cell::{condition, is_set, text};
use pintle_value::Value;

pub(super) fn service(object: &Value) -> Value {
    if !is_set(object, &["spec", "service"]) {
        return text("Local");
    }
    let part = |key: &str| object.str_at(&["spec", "service", key]);
    text(format!("{}/{}", part("namespace"), part("name")))
}

pub(super) fn display_availability(object: &Value) -> Value {
    let Some(condition) = condition(object.items_at(&["status", "conditions"]), "Available") else {
        return text("Unknown");
    };
    match (condition.str_at(&["status"]), condition.str_at(&["reason"])) {
        (status @ "True", _) | (status, "") => text(status),
        (status, reason) => text(format!("{status} ({reason})")),
    }
}
