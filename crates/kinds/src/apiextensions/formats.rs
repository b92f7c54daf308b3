//! The formats that are validated; others are accepted with a warning.

use super::props::{DEPTH_MAX, Props};
use pintle_schema::structural;
use pintle_value::Value;

/// The unvalidated formats in a definition's schemas; those that all versions share are reported once.
pub(super) fn unrecognized(object: &Value) -> Vec<String> {
    let mut schemas: Vec<&Value> = Vec::new();
    for version in object.items_at(&["spec", "versions"]) {
        schemas.extend(version.at(&["schema", "openAPIV3Schema"]));
    }
    if schemas.windows(2).all(|pair| matches!(pair, [a, b] if a == b)) {
        schemas.truncate(1);
    }
    let mut out = Vec::new();
    for schema in schemas {
        collect_unknown_formats(Props(schema), &mut out, 0);
    }
    out
}

fn collect_unknown_formats(schema: Props<'_>, out: &mut Vec<String>, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let format = schema.text("format");
    if !format.is_empty() && !is_known(schema.kind(), format) {
        out.push(format.to_string());
    }
    for below in schema.all_below() {
        collect_unknown_formats(below, out, depth.saturating_add(1));
    }
}

fn is_known(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => structural::is_for_texts(format),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}
