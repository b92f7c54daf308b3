//! Validates the parts of a version other than its schema: deprecation, subresources and columns.

use pintle_meta::{FieldErrors, field};
use pintle_value::{Path, Value};

/// The longest deprecation warning in bytes.
const WARNING_BYTES_MAX: usize = 256;

/// Validates the warning of a deprecated version.
pub(super) fn validate_deprecation(version: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    if version.get("deprecated").and_then(Value::as_bool) != Some(true) {
        return errors.invalid(path, warning, "can only be set for deprecated versions");
    }
    if warning.len() > WARNING_BYTES_MAX {
        errors.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(path, warning, "must not be an empty string");
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| !field::is_print(*c)) {
        let why = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.invalid(path, warning, &why);
    }
}

/// Validates subresources.
pub(super) fn validate_subresources(given: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(scale) = given.and_then(|s| s.get("scale")).filter(|s| !s.is_null()) else { return };
    let rules: [(&str, &str, &[&str], &str, bool); 3] = [
        (
            "specReplicasPath",
            "scale.specReplicasPath",
            &[".spec."],
            "should be a json path under .spec",
            true,
        ),
        (
            "statusReplicasPath",
            "scale.statusReplicasPath",
            &[".status."],
            "should be a json path under .status",
            true,
        ),
        (
            "labelSelectorPath",
            "scale.labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            false,
        ),
    ];
    for (key, name, prefixes, why, required) in rules {
        let given = scale.str_at(&[key]);
        let at = path.field(name);
        if given.is_empty() {
            if required {
                errors.required(&at, "");
            }
        } else if !given.starts_with('.') {
            errors.invalid(&at, given, "must be a simple json path starting with .");
        } else if !prefixes.iter().any(|prefix| given.starts_with(prefix)) {
            errors.invalid(&at, given, why);
        }
    }
}

/// Validates columns.
pub(super) fn validate_columns(given: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    for (at, column) in given.and_then(Value::as_array).unwrap_or(&[]).iter().enumerate() {
        let at = path.index(at);
        let text = |key: &str| column.str_at(&[key]);
        if text("name").is_empty() {
            errors.required(&at.field("name"), "");
        }
        let types = format!("must be one of {}", TYPES.join(","));
        if text("type").is_empty() {
            errors.required(&at.field("type"), &types);
        } else if !TYPES.contains(&text("type")) {
            errors.invalid(&at.field("type"), text("type"), &types);
        }
        if !text("format").is_empty() && !FORMATS.contains(&text("format")) {
            errors.invalid(
                &at.field("format"),
                text("format"),
                &format!("must be one of {}", FORMATS.join(",")),
            );
        }
        if text("jsonPath").is_empty() {
            errors.required(&at.field("JSONPath"), "");
        } else if !text("jsonPath").starts_with('.') {
            errors.invalid(
                &at.field("JSONPath"),
                text("jsonPath"),
                "must be a simple json path starting with .",
            );
        }
    }
}
