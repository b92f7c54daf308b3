//! Rows of API services.

use super::BuiltinPrinter;
use super::cell::{age, condition, is_set, name, text};
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[BuiltinPrinter {
    kind: "apiregistration.k8s.io/APIService",
    needs: &["spec.service", "status.conditions"],
    cells: api_service,
}];

fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = match is_set(object, &["spec", "service"]) {
        false => "Local".to_string(),
        true => {
            let part = |key: &str| object.str_at(&["spec", "service", key]);
            format!("{}/{}", part("namespace"), part("name"))
        }
    };
    let available =
        condition(object.items_at(&["status", "conditions"]), "Available").map(|condition| {
            match (condition.str_at(&["status"]), condition.str_at(&["reason"])) {
                (status @ "True", _) | (status, "") => status.to_string(),
                (status, reason) => format!("{status} ({reason})"),
            }
        });
    vec![
        name(object),
        text(service),
        text(available.unwrap_or_else(|| "Unknown".to_string())),
        age(object, now),
    ]
}
