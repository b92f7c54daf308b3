//! Selectable fields of a definition: simple paths to strings, numbers and booleans.

use super::props::Props;
use pintle_meta::FieldErrors;
use pintle_schema::rules::field_path;
use pintle_value::{Path, Str, Value};

/// The maximum number of selectable fields of a version.
pub(super) const FIELDS_MAX: usize = 8;

/// Reports fields without a path or with one that is malformed. No other check is possible if the schema cannot be parsed:
/// kube-apiserver closes the connection of a request with a path into such a schema.
pub(super) fn validate_without_schema(fields: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, field) in fields.iter().enumerate() {
        let given = field.str_at(&["jsonPath"]);
        let at = path.index(at);
        let at = at.field("jsonPath");
        if given.is_empty() {
            errors.required(&at, "");
        } else if let Some(why) = field_path::malformed(given, false) {
            errors.invalid(&at, given, &invalid_path(&why));
        }
    }
}

fn invalid_path(why: &str) -> String {
    format!("is an invalid path: {why}")
}

/// Validates selectable fields.
pub(super) fn validate(
    fields: &[Value],
    schema: Props<'_>,
    many_allowed: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mut seen: Vec<Vec<Str>> = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let given = field.str_at(&["jsonPath"]);
        let at = path.index(at);
        let at = at.field("jsonPath");
        if given.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match field_path::resolve(given, schema.0, false) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(&at, given, &invalid_path(&why));
                continue;
            }
        };
        if found.steps.first().is_some_and(|first| first == "metadata") {
            errors.invalid(&at, given, "must not point to fields in metadata");
        }
        if !found.schema.is_some_and(|s| matches!(s.str_at(&["type"]), "string" | "boolean" | "integer")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, given, why);
        }
        if seen.contains(&found.steps) {
            errors.duplicate(&at, given);
        } else {
            seen.push(found.steps);
        }
    }
    if seen.len() > FIELDS_MAX && !many_allowed {
        errors.too_many(path, seen.len(), FIELDS_MAX);
    }
}
