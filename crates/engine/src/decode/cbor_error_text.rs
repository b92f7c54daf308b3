//! The error texts of Go's CBOR decoder for values of the wrong type.

use super::Expected;
use pintle_schema::typed;
use pintle_value::{Value, cbor};

/// Builds the CBOR decoder's error for a value of another type than its field. The error names the type of the value,
/// but of its position only the field of the outermost struct.
pub(super) fn mismatch(error: &typed::TypeError, expected: &Expected<'_>, string: &str) -> String {
    let Some(mismatch) = error.mismatch().filter(|_| expected.schema.decodes_into_go_struct()) else {
        return error.to_string();
    };
    let found = match mismatch.found.as_str() {
        "string" => string,
        "array" => "array",
        "object" => "map",
        "number" => "positive integer",
        number if number.starts_with("number -") => "negative integer",
        number if number.starts_with("number ") && !number.contains(['.', 'e']) => "positive integer",
        _ => "primitives",
    };
    let (version, kind, go) = (expected.version, expected.kind, &mismatch.go);
    match mismatch.field.as_str() {
        "" => format!("cbor: cannot unmarshal {found} into Go value of type {go}"),
        field => format!(
            "cbor: cannot unmarshal {found} into Go struct field {version}.{kind}.{field} of type {go}"
        ),
    }
}

pub(super) fn decode_error_text(error: &cbor::DecodeError, expected: &Expected<'_>) -> String {
    match error.field().filter(|field| !field.is_empty() && expected.schema.decodes_into_go_struct()) {
        Some(field) => {
            let place = format!("Go struct field {}.{}.{field}", expected.version, expected.kind);
            error.message().replacen("Go value", &place, 1).replacen(
                "overflows Go's int64",
                "overflows int64",
                1,
            )
        }
        None => error.to_string(),
    }
}

/// Returns whether CBOR errors call the strings of this document byte strings or text strings. A client that writes
/// keys as text writes all strings as text; Kubernetes' own clients write byte strings.
pub(super) fn string_type(body: &[u8]) -> &'static str {
    let body = body.strip_prefix(&cbor::SELF_DESCRIBED).unwrap_or(body);
    let head_bytes = match body.first().map(|head| head & 0x1f) {
        Some(24) => 2,
        Some(25) => 3,
        Some(26) => 5,
        _ => 1,
    };
    const TEXT: u8 = 3;
    match body.get(head_bytes).map(|head| head >> 5) {
        Some(TEXT) => "UTF-8 text string",
        _ => "byte string",
    }
}

/// The name of the type of a value in errors about CBOR.
pub(super) fn type_of<'a>(value: &Value, string: &'a str) -> &'a str {
    match value {
        Value::Null | Value::Bool(_) | Value::Float(_) => "primitives",
        Value::Int(i) if *i < 0 => "negative integer",
        Value::Int(_) => "positive integer",
        Value::String(_) => string,
        Value::Array(_) => "array",
        Value::Object(_) | Value::Raw(_) => "map",
    }
}
