//! The names of a definition.

use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

/// Validates the names of a definition.
pub(super) fn validate(given: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = |key: &str| given.str_at(&[key]);
    for key in ["plural", "singular"] {
        let complaints = names::is_dns1035_label(text(key));
        if !text(key).is_empty() && !complaints.is_empty() {
            errors.invalid(&path.field(key), text(key), &complaints.join(","));
        }
    }
    for key in ["kind", "listKind"] {
        let complaints = names::is_dns1035_label(&text(key).to_lowercase());
        if !text(key).is_empty() && !complaints.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
            errors.invalid(&path.field(key), text(key), &why);
        }
    }
    validate_labels(given.items_at(&["shortNames"]), &path.field("shortNames"), errors);
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        errors.invalid(&path.field("listKind"), text("listKind"), "kind and listKind may not be the same");
    }
    validate_labels(given.items_at(&["categories"]), &path.field("categories"), errors);
}

fn validate_labels(given: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, name) in given.iter().enumerate() {
        let name = name.as_str().unwrap_or("");
        let complaints = names::is_dns1035_label(name);
        if !complaints.is_empty() {
            errors.invalid(&path.index(at), name, &complaints.join(","));
        }
    }
}
