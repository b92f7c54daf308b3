//! The table of published schemas: the facts of the OpenAPI documents about each type, without their prose.

use crate::reference::Reference;
use pintle_value::{Map, Str, Value, json};

const HEADER: &str = "\
# Published schemas of the API's types. Written by `cargo xtask kinds`.
#
# NAME SCHEMA          the schema of OpenAPI v3; references are bare names
";

/// The prefix of references in OpenAPI v3.
const REFERENCE: &str = "#/components/schemas/";

/// The whole table.
pub(crate) fn table(reference: &Reference) -> String {
    let mut out = HEADER.as_bytes().to_vec();
    for (name, schema) in reference.components.iter() {
        out.extend_from_slice(name.as_bytes());
        out.push(b' ');
        json::print(&facts(schema), &mut out);
        out.push(b'\n');
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A schema without descriptions, with bare names for references.
pub(crate) fn facts(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            Value::Object(map.iter().filter_map(|(key, value)| schema_member(key, value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(facts).collect()),
        other => other.clone(),
    }
}

fn schema_member(key: &Str, value: &Value) -> Option<(Str, Value)> {
    match (key.as_str(), value) {
        ("description", Value::String(_)) => None,
        ("$ref", Value::String(target)) => {
            let name = target.strip_prefix(REFERENCE).unwrap_or(target);
            Some((key.clone(), Value::String(Str::from(name))))
        }
        ("properties", Value::Object(fields)) => {
            let fields: Map = fields.iter().map(|(name, schema)| (name.clone(), facts(schema))).collect();
            Some((key.clone(), Value::Object(fields)))
        }
        _ => Some((key.clone(), facts(value))),
    }
}
