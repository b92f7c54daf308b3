//! Group flowcontrol.apiserver.k8s.io.

pub(crate) mod flowschema;
pub(crate) mod prioritylevelconfiguration;

use crate::fields;
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_value::{Path, Value};

/// Validates that conditions have unique types.
fn validate_conditions(object: &Value, errors: &mut FieldErrors) {
    let conditions = object.items_at(&["status", "conditions"]);
    let path = Path::of("status.conditions");
    for (at, condition) in conditions.iter().enumerate() {
        let kind = fields::text(condition, "type");
        if conditions.iter().take(at).any(|earlier| fields::text(earlier, "type") == kind) {
            errors.duplicate(&path.index(at).field("type"), Named(kind));
        }
        if kind.is_empty() {
            errors.required(&path.index(at).field("type"), "");
        }
    }
}

/// The embedded spec of a mandatory object.
fn fixed(text: &str) -> Value {
    pintle_value::json::parse(text.as_bytes()).map_or(Value::Null, |parsed| parsed.value)
}
