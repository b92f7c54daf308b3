//! Validates labels and `LabelSelector` objects.

use crate::field::Named;
use crate::{FieldErrors, names};
use pintle_value::{Map, Path, Value};

/// Errors that are tolerated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leniency {
    /// Invalid label values, if the old object has them.
    pub invalid_values: bool,
    /// Unknown operators, which access reviews allow.
    pub unknown_operators: bool,
}

impl Leniency {
    /// Tolerates invalid values if the stored selector has errors itself.
    pub fn after(stored: Option<&Value>) -> Self {
        let mut errors = FieldErrors::new();
        validate_label_selector(stored, Leniency::default(), &Path::ROOT, &mut errors);
        Leniency { invalid_values: !errors.is_empty(), ..Leniency::default() }
    }
}

/// Checks the key of a label; each message is one error.
pub fn validate_label_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    for complaint in names::is_qualified_name(name) {
        errors.invalid(path, name, &complaint);
    }
}

/// Checks keys and values of labels.
pub fn validate_labels(labels: Option<&Map>, path: &Path<'_>, errors: &mut FieldErrors) {
    for (key, value) in labels.iter().flat_map(|l| l.iter()) {
        validate_label_name(key, path, errors);
        let value = value.as_str().unwrap_or("");
        for complaint in names::is_label_value(value) {
            errors.invalid(path, value, &complaint);
        }
    }
}

/// Checks a `LabelSelector`; it may be missing or `null`.
pub fn validate_label_selector(
    selector: Option<&Value>,
    leniency: Leniency,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    validate_labels(labels, &path.field("matchLabels"), errors);
    for (i, expression) in selector.items_at(&["matchExpressions"]).iter().enumerate() {
        let path = path.field("matchExpressions");
        validate_requirement(expression, leniency, &path.index(i), errors);
    }
}

/// Checks one of the `matchExpressions`.
pub fn validate_requirement(
    expression: &Value,
    leniency: Leniency,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    validate_operator(expression, leniency, path, errors);
    validate_label_name(expression.str_at(&["key"]), &path.field("key"), errors);
    if leniency.invalid_values {
        return;
    }
    for (i, value) in expression.items_at(&["values"]).iter().enumerate() {
        let value = value.as_str().unwrap_or("");
        for complaint in names::is_label_value(value) {
            errors.invalid(&path.field("values").index(i), value, &complaint);
        }
    }
}

/// Checks one of the field selector requirements of an access review.
pub fn validate_field_requirement(
    expression: &Value,
    leniency: Leniency,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if expression.str_at(&["key"]).is_empty() {
        errors.required(&path.field("key"), "must be specified");
    }
    validate_operator(expression, leniency, path, errors);
}

fn validate_operator(expression: &Value, leniency: Leniency, path: &Path<'_>, errors: &mut FieldErrors) {
    let empty = expression.items_at(&["values"]).is_empty();
    match expression.str_at(&["operator"]) {
        "In" | "NotIn" if empty => {
            errors.required(&path.field("values"), "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !empty => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(&path.field("values"), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other if !leniency.unknown_operators => {
            errors.invalid(&path.field("operator"), Named(other), "not a valid selector operator");
        }
        _ => {}
    }
}

/// Whether a selector has label values that are no longer allowed.
pub fn has_invalid_label_value(selector: &Value) -> bool {
    let values = selector.items_at(&["matchExpressions"]).iter().flat_map(|e| e.items_at(&["values"]));
    values.filter_map(Value::as_str).any(|v| !names::is_label_value(v).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_checked_in_order() {
        let expression = |key: &str, operator: &str, values: &[&str]| {
            let mut e = Value::object();
            e.set_at(&["key"], key.into());
            e.set_at(&["operator"], operator.into());
            e.set_at(&["values"], Value::Array(values.iter().map(|v| Value::from(*v)).collect()));
            e
        };
        let mut selector = Value::object();
        selector.set_at(&["matchLabels", "a"], "b".into());
        selector.set_at(
            &["matchExpressions"],
            Value::Array(vec![
                expression("a", "In", &[]),
                expression("a", "Exists", &["x"]),
                expression("a", "Near", &[]),
                expression("a", "In", &["ok", "-"]),
                expression("a/b/c", "Exists", &[]),
            ]),
        );
        let mut errors = FieldErrors::new();
        validate_label_selector(Some(&selector), Leniency::default(), &Path::of("s"), &mut errors);
        let short: Vec<String> =
            errors.0.iter().map(|e| e.to_string().split(" (e.g.").next().unwrap_or("").to_string()).collect();
        assert_eq!(
            short,
            [
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "s.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "s.matchExpressions[2].operator: Invalid value: \"Near\": not a valid selector operator",
                "s.matchExpressions[3].values[1]: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                "s.matchExpressions[4].key: Invalid value: \"a/b/c\": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            ]
        );
        assert!(has_invalid_label_value(&selector));
    }
}
