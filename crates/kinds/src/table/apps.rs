//! Rows of the apps group.

use super::cell::{number, selector_text, text};
use pintle_value::Value;

/// `kind.group/name`, in lower case except for the name.
fn controller_name(owner: &Value) -> String {
    let kind = owner.str_at(&["kind"]).to_lowercase();
    match owner.str_at(&["apiVersion"]).split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{}", group.to_lowercase(), owner.str_at(&["name"])),
        None => format!("{kind}/{}", owner.str_at(&["name"])),
    }
}

pub(super) fn ready_of_desired(object: &Value) -> Value {
    let (ready, desired) =
        (number(object, &["status", "readyReplicas"]), number(object, &["spec", "replicas"]));
    text(format!("{ready}/{desired}"))
}

pub(super) fn deployment_selector(object: &Value) -> Value {
    let selector = selector_text(object.at(&["spec", "selector"]));
    text(selector.unwrap_or_else(|| "<invalid>".to_string()))
}

pub(super) fn controller(object: &Value) -> Value {
    let mut owners = object.items_at(&["metadata", "ownerReferences"]).iter();
    let controller = owners.find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true));
    text(controller.map_or_else(|| "<none>".to_string(), controller_name))
}
