//! Group flowcontrol.apiserver.k8s.io.

pub(crate) mod flowschema;
pub(crate) mod prioritylevelconfiguration;

use crate::{check, fields};
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_value::{Path, Value};

/// Validates that conditions have unique types.
fn validate_conditions(object: &Value, errors: &mut FieldErrors) {
    let conditions = object.items_at(&["status", "conditions"]);
    let path = Path::of("status.conditions");
    let mut types = check::Unique::default();
    for (at, condition) in conditions.iter().enumerate() {
        let kind = fields::text(condition, "type");
        types.check(kind, &path.index(at).field("type"), Named(kind), errors);
        if kind.is_empty() {
            errors.required(&path.index(at).field("type"), "");
        }
    }
}

/// The embedded spec of a mandatory object.
fn fixed(text: &str) -> Value {
    pintle_value::json::parse(text.as_bytes()).map_or(Value::Null, |parsed| parsed.value)
}
