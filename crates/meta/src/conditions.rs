//! Validates the `metav1.Condition`s of a status.

use crate::field::Named;
use crate::selector::label_validation::validate_label_name;
use crate::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const REASON_BYTES_MAX: usize = 1024;
const MESSAGE_BYTES_MAX: usize = 32 * 1024;
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

/// Checks conditions: each type once, and each complete.
pub fn validate_conditions(conditions: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut types = HashSet::new();
    for (i, condition) in conditions.iter().enumerate() {
        let kind = condition.str_at(&["type"]);
        if !types.insert(kind) {
            errors.duplicate(&path.index(i).field("type"), kind);
        }
        validate_condition(condition, &path.index(i), errors);
    }
}

/// Checks one condition.
pub fn validate_condition(condition: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_label_name(condition.str_at(&["type"]), &path.field("type"), errors);
    let status = condition.str_at(&["status"]);
    if !matches!(status, "True" | "False" | "Unknown") {
        errors.not_supported(&path.field("status"), Named(status), &["False", "True", "Unknown"]);
    }
    let generation = condition.get("observedGeneration").and_then(Value::as_int).unwrap_or(0);
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.invalid(&path.field("observedGeneration"), generation, detail);
    }
    if condition.str_at(&["lastTransitionTime"]).is_empty() {
        errors.required(&path.field("lastTransitionTime"), "");
    }
    validate_reason(condition.str_at(&["reason"]), &path.field("reason"), errors);
    if condition.str_at(&["message"]).len() > MESSAGE_BYTES_MAX {
        errors.too_long(&path.field("message"), MESSAGE_BYTES_MAX);
    }
}

fn validate_reason(reason: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if reason.is_empty() {
        return errors.required(path, "");
    }
    let last = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let fine = match reason.as_bytes() {
        [first, middle @ .., tail] => {
            let inner = |b: &u8| last(b) || matches!(b, b',' | b':');
            first.is_ascii_alphabetic() && middle.iter().all(inner) && last(tail)
        }
        [one] => one.is_ascii_alphabetic(),
        [] => false,
    };
    if !fine {
        let examples = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
        errors.invalid(path, reason, &names::regex_error(REASON_MESSAGE, REASON, &examples));
    }
    if reason.len() > REASON_BYTES_MAX {
        errors.too_long(path, REASON_BYTES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_checked_in_order() {
        let tree = pintle_value::json::parse(
            br#"[{"type":"Ready","status":"True","lastTransitionTime":"2020-01-01T00:00:00Z","reason":"A"},
                 {"type":"Ready","status":"Maybe","observedGeneration":-1,"reason":"1"}]"#,
        );
        let tree = tree.unwrap().value;
        let mut errors = FieldErrors::new();
        validate_conditions(tree.as_array().unwrap(), &Path::of("c"), &mut errors);
        let short: Vec<String> =
            errors.0.iter().map(|e| e.to_string().split(" (e.g.").next().unwrap_or("").to_string()).collect();
        assert_eq!(
            short,
            [
                "c[1].type: Duplicate value: \"Ready\"".to_string(),
                "c[1].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\""
                    .to_string(),
                "c[1].observedGeneration: Invalid value: -1: must be greater than or equal to zero".to_string(),
                "c[1].lastTransitionTime: Required value".to_string(),
                format!("c[1].reason: Invalid value: \"1\": {REASON_MESSAGE}"),
            ]
        );
    }
}
