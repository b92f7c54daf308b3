//! The stored form of CustomResourceDefinitions: always `apiextensions.k8s.io/v1beta1`, whichever version is served.
//!
//! The parts that all versions of a definition have in common (schema, subresources, columns, selectable fields) are
//! stored once for all of them.

use pintle_schema::{Schema, Shape, typed};
use pintle_value::{Map, Value, json};

const V1: &str = "apiextensions.k8s.io/v1";
pub(super) const V1BETA1: &str = "apiextensions.k8s.io/v1beta1";

/// The members that v1beta1 hoists: their names in a version and in the spec.
const SHARED: [(&str, &str); 4] = [
    ("schema", "validation"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];
/// The members of the stored spec and of its versions, in the order of the Go type.
const SPEC: [&str; 11] = [
    "group",
    "version",
    "names",
    "scope",
    "validation",
    "subresources",
    "versions",
    "additionalPrinterColumns",
    "selectableFields",
    "conversion",
    "preserveUnknownFields",
];
const VERSION: [&str; 9] = [
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "schema",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
];
const COLUMN: [&str; 6] = ["name", "type", "format", "description", "priority", "JSONPath"];
const CONVERSION: [&str; 3] = ["strategy", "webhookClientConfig", "conversionReviewVersions"];

/// Encodes a definition, given in `v1` with its schema, for the store.
pub(super) fn encode(schema: &Schema, tree: &Value) -> Vec<u8> {
    let spec_schema = part(schema, "spec");
    let version_schema = item_schema(&part(&spec_schema, "versions"));
    let spec = downgrade(tree.get("spec").cloned().unwrap_or_else(Value::object));
    let mut out = Vec::new();
    out.extend_from_slice(b"{\"kind\":\"CustomResourceDefinition\",\"apiVersion\":\"");
    out.extend_from_slice(V1BETA1.as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    typed::encode_json(&part(schema, "metadata"), tree.get("metadata").unwrap_or(&Value::Null), &mut out);
    out.extend_from_slice(b",\"spec\":");
    members(&spec, &SPEC, &mut out, |name, value, out| match name {
        "versions" => write_items(value, out, |value, out| {
            members(value, &VERSION, out, |name, value, out| shared(&version_schema, name, value, out));
        }),
        "conversion" => write_conversion(&part(&spec_schema, "conversion"), value, out),
        "names" => typed::encode_json(&part(&spec_schema, "names"), value, out),
        "validation" => shared(&version_schema, "schema", value, out),
        name => shared(&version_schema, name, value, out),
    });
    out.extend_from_slice(b",\"status\":");
    status(&part(schema, "status"), tree.get("status"), &mut out);
    out.extend_from_slice(b"}\n");
    out
}

/// Converts a stored definition to `v1`. Other objects are returned unchanged.
pub(super) fn upgrade(mut tree: Value) -> Value {
    if tree.str_at(&["apiVersion"]) != V1BETA1 || tree.str_at(&["kind"]) != "CustomResourceDefinition" {
        return tree;
    }
    tree.set_at(&["apiVersion"], V1.into());
    if let Some(spec) = tree.get_mut("spec").and_then(Value::as_object_mut) {
        upgrade_spec(spec);
    }
    tree
}

fn upgrade_spec(spec: &mut Map) {
    // Definitions that are older than `versions` have a single `version`.
    let single = spec.remove("version");
    let none = spec.get("versions").and_then(Value::as_array).is_none_or(<[Value]>::is_empty);
    if let Some(name) = single.filter(|_| none) {
        let mut version = Value::object();
        version.set_at(&["name"], name);
        version.set_at(&["served"], Value::Bool(true));
        version.set_at(&["storage"], Value::Bool(true));
        spec.insert("versions", Value::Array(vec![version]));
    }
    for (below, above) in SHARED {
        let Some(common) = spec.remove(above) else { continue };
        for version in versions_mut(spec).filter_map(Value::as_object_mut) {
            if version.get(below).is_none_or(Value::is_null) {
                version.insert(below, common.clone());
            }
        }
    }
    for version in versions_mut(spec) {
        for column in
            version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten()
        {
            rename_field(column, "JSONPath", "jsonPath");
        }
    }
    // In v1beta1, an absent value means true.
    if spec.get("preserveUnknownFields").is_none_or(Value::is_null) {
        spec.insert("preserveUnknownFields", Value::Bool(true));
    }
    if let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) {
        let config = conversion.remove("webhookClientConfig").filter(|config| !config.is_null());
        let reviews = conversion.remove("conversionReviewVersions").filter(|list| !list.is_null());
        let mut webhook = Value::object();
        let is_set = config.is_some() || reviews.is_some();
        for (name, value) in [("clientConfig", config), ("conversionReviewVersions", reviews)] {
            if let Some(value) = value {
                webhook.set_at(&[name], value);
            }
        }
        if is_set {
            conversion.insert("webhook", webhook);
        }
    }
}

/// Converts a spec from `v1` to `v1beta1`.
fn downgrade(mut spec: Value) -> Value {
    let Some(map) = spec.as_object_mut() else { return spec };
    for version in versions_mut(map) {
        for column in
            version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut).into_iter().flatten()
        {
            rename_field(column, "jsonPath", "JSONPath");
        }
    }
    let first = map.get("versions").and_then(Value::as_array).and_then(<[Value]>::first).cloned();
    if let Some(first) = first {
        map.insert("version", first.get("name").cloned().unwrap_or_else(|| "".into()));
        for (below, above) in SHARED {
            let common = first.get(below);
            if versions_mut(map).all(|version| version.get(below) == common) {
                versions_mut(map).for_each(|version| _ = version.remove_at(&[below]));
                if let Some(common) = common {
                    map.insert(above, common.clone());
                }
            }
        }
    }
    map.entry("preserveUnknownFields");
    if map.get("preserveUnknownFields").is_none_or(Value::is_null) {
        map.insert("preserveUnknownFields", Value::Bool(false));
    }
    if let Some(conversion) = map.get_mut("conversion").and_then(Value::as_object_mut)
        && let Some(webhook) = conversion.remove("webhook")
    {
        for (from, to) in [
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        ] {
            if let Some(value) = webhook.get(from) {
                conversion.insert(to, value.clone());
            }
        }
    }
    spec
}

fn versions_mut(spec: &mut Map) -> impl Iterator<Item = &mut Value> {
    spec.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten()
}

fn rename_field(object: &mut Value, from: &str, to: &str) {
    if let Some(map) = object.as_object_mut()
        && let Some(value) = map.remove(from)
    {
        map.insert(to, value);
    }
}

/// Writes a member that may be hoisted from the versions into the spec.
fn shared(version: &Schema, name: &str, value: &Value, out: &mut Vec<u8>) {
    match name {
        "schema" | "subresources" | "selectableFields" => {
            typed::encode_json(&part(version, name), value, out)
        }
        "additionalPrinterColumns" => write_items(value, out, |value, out| {
            members(value, &COLUMN, out, |_, value, out| json::print(value, out));
        }),
        _ => json::print(value, out),
    }
}

fn write_conversion(schema: &Schema, value: &Value, out: &mut Vec<u8>) {
    let config = part(&part(schema, "webhook"), "clientConfig");
    members(value, &CONVERSION, out, |name, value, out| match name {
        "webhookClientConfig" => typed::encode_json(&config, value, out),
        _ => json::print(value, out),
    });
}

/// Writes the status, which always has all of its members.
fn status(schema: &Schema, status: Option<&Value>, out: &mut Vec<u8>) {
    let mut tree = status.cloned().unwrap_or_else(Value::object);
    for name in ["conditions", "storedVersions"] {
        if tree.items_at(&[name]).is_empty() {
            tree.set_at(&[name], Value::Null);
        }
    }
    for name in ["plural", "kind"] {
        if tree.at(&["acceptedNames", name]).is_none() {
            tree.set_at(&["acceptedNames", name], "".into());
        }
    }
    typed::encode_json(schema, &tree, out);
}

/// Writes those members of an object that are present, in this order.
fn members(
    object: &Value,
    order: &[&str],
    out: &mut Vec<u8>,
    mut write: impl FnMut(&str, &Value, &mut Vec<u8>),
) {
    out.push(b'{');
    let start = out.len();
    for name in order {
        let Some(value) = object.get(name) else { continue };
        if out.len() > start {
            out.push(b',');
        }
        json::write_string(name, out);
        out.push(b':');
        write(name, value, out);
    }
    out.push(b'}');
}

fn write_items(list: &Value, out: &mut Vec<u8>, mut write: impl FnMut(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    for (index, value) in list.as_array().unwrap_or_default().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(value, out);
    }
    out.push(b']');
}

/// The schema of a field. Falls back to the whole schema, which cannot happen because the tables have all fields.
fn part(schema: &Schema, name: &str) -> Schema {
    match &schema.node().shape {
        Shape::Struct(s) => s.field(name).map_or_else(|| schema.clone(), |field| schema.at(field.node)),
        _ => schema.clone(),
    }
}

fn item_schema(schema: &Schema) -> Schema {
    match &schema.node().shape {
        Shape::List { item, .. } => schema.at(*item),
        _ => schema.clone(),
    }
}
