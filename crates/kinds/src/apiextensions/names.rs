//! The names of a definition.

use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

/// Validates the names of a definition.
pub(super) fn validate(given: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = |key: &str| given.str_at(&[key]);
    for key in ["plural", "singular"] {
        let wrong = names::is_dns1035_label(text(key));
        if !text(key).is_empty() && !wrong.is_empty() {
            errors.invalid(&path.field(key), text(key), &wrong.join(","));
        }
    }
    for key in ["kind", "listKind"] {
        let wrong = names::is_dns1035_label(&text(key).to_lowercase());
        if !text(key).is_empty() && !wrong.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.invalid(&path.field(key), text(key), &why);
        }
    }
    labels(given.items_at(&["shortNames"]), &path.field("shortNames"), errors);
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        errors.invalid(&path.field("listKind"), text("listKind"), "kind and listKind may not be the same");
    }
    labels(given.items_at(&["categories"]), &path.field("categories"), errors);
}

fn labels(given: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, name) in given.iter().enumerate() {
        let name = name.as_str().unwrap_or("");
        let wrong = names::is_dns1035_label(name);
        if !wrong.is_empty() {
            errors.invalid(&path.index(at), name, &wrong.join(","));
        }
    }
}
