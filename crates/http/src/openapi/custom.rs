//! OpenAPI schemas of custom resources, made from their definitions: with the members that every object has, and
//! without what an OpenAPI version cannot express.

use super::model::{Dialect, Gvk, object, texts};
use super::operations::META;
use super::schemas::{custom_name, reference_with};
use pintle_value::{Map, Str, Value};

/// The deepest schema that is processed.
const DEPTH_MAX: usize = 100;

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// The schema of one version of a CustomResourceDefinition.
pub(super) fn schema(definition: &Value, gvk: &Gvk, dialect: Dialect) -> Value {
    let source = version_of(definition, gvk).and_then(|v| v.at(&["schema", "openAPIV3Schema"]));
    let preserves = |s: &Value| {
        is_true(s, PRESERVE)
            || definition.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true)
    };
    let mut out = match source {
        None => object([("type", "object".into())]),
        // If this v2 schema had properties, kubectl would refuse unknown fields.
        Some(source) if dialect == Dialect::V2 && preserves(source) => object([("type", "object".into())]),
        Some(source) => {
            let mut out = published(source, dialect, 0);
            add_type(TYPE_WORDS, &mut out);
            out
        }
    };
    out.set_at(&["x-kubernetes-group-version-kind"], Value::Array(vec![gvk.to_value()]));
    add_selectable_fields(definition, gvk, &mut out);
    out
}

/// Adds the extension that names the selectable fields of a version, if it has any. Its list has it, too.
fn add_selectable_fields(definition: &Value, gvk: &Gvk, out: &mut Value) {
    let fields = version_of(definition, gvk)
        .and_then(|v| v.get("selectableFields"))
        .filter(|f| f.as_array().is_some_and(|a| !a.is_empty()));
    if let Some(fields) = fields.map(selectable_fields) {
        out.set_at(&["x-kubernetes-selectable-fields"], fields);
    }
}

fn version_of<'a>(definition: &'a Value, gvk: &Gvk) -> Option<&'a Value> {
    definition.items_at(&["spec", "versions"]).iter().find(|v| v.str_at(&["name"]) == gvk.version)
}

/// The schema of the list of a definition's objects.
pub(super) fn list_schema(definition: &Value, gvk: &Gvk) -> Value {
    let names = |key| definition.str_at(&["spec", "names", key]);
    let list_kind = names("listKind");
    let item = custom_name(&gvk.group, &gvk.version, &gvk.kind);
    let mut items = object([("type", "array".into())]);
    items.set_at(&["items", "$ref"], Value::String(Str::from(item)));
    items.set_at(&["description"], format!("List of {}. More info: {CONVENTIONS}", names("plural")).into());
    let mut out = object([
        ("type", "object".into()),
        ("description", format!("{list_kind} is a list of {}", gvk.kind).into()),
        ("required", texts(["items"])),
    ]);
    out.set_at(&["properties", "items"], items);
    let words = format!("Standard list metadata. More info: {CONVENTIONS}#types-kinds");
    out.set_at(&["properties", "metadata"], reference_with(&format!("{META}ListMeta"), &words));
    add_type_meta(TYPE_WORDS, &mut out);
    let list = Gvk { kind: list_kind.to_string(), ..gvk.clone() };
    out.set_at(&["x-kubernetes-group-version-kind"], Value::Array(vec![list.to_value()]));
    add_selectable_fields(definition, gvk, &mut out);
    out
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

fn is_true(schema: &Value, key: &str) -> bool {
    schema.get(key).and_then(Value::as_bool) == Some(true)
}

fn selectable_fields(fields: &Value) -> Value {
    let path = |field: &Value| {
        let path = field.str_at(&["jsonPath"]);
        object([("fieldPath", path.strip_prefix('.').unwrap_or(path).into())])
    };
    Value::Array(fields.as_array().unwrap_or_default().iter().map(path).collect())
}

/// The descriptions of `apiVersion` and `kind` of objects and lists.
const TYPE_WORDS: [&str; 2] = [
    "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized \
     schemas to the latest internal value, and may reject unrecognized values.",
    "Kind is a string value representing the REST resource this object represents. Servers may infer this from the \
     endpoint the client submits requests to. Cannot be updated. In CamelCase.",
];
/// The descriptions of `apiVersion` and `kind` of embedded objects.
const EMBEDDED_TYPE_WORDS: [&str; 2] = [
    "apiVersion defines the versioned schema of this representation of an object.",
    "kind is a string value representing the type of this object. In CamelCase.",
];

fn add_type_meta([of_version, of_kind]: [&str; 2], out: &mut Value) {
    let version = text_field(&format!("{of_version} More info: {CONVENTIONS}#resources"));
    out.set_at(&["properties", "apiVersion"], version);
    let kind = text_field(&format!("{of_kind} More info: {CONVENTIONS}#types-kinds"));
    out.set_at(&["properties", "kind"], kind);
}

fn text_field(description: &str) -> Value {
    object([("description", description.into()), ("type", "string".into())])
}

/// Adds what every object has.
fn add_type(words: [&str; 2], out: &mut Value) {
    add_type_meta(words, out);
    let words = format!("Standard object's metadata. More info: {CONVENTIONS}#metadata");
    out.set_at(&["properties", "metadata"], reference_with(&format!("{META}ObjectMeta"), &words));
}

/// A schema as it is published.
fn published(source: &Value, dialect: Dialect, depth: usize) -> Value {
    let Value::Object(members) = source else { return source.clone() };
    if depth > DEPTH_MAX {
        return Value::object();
    }
    let mut out = Map::with_capacity(members.len());
    for (key, value) in members.iter() {
        match (key.as_str(), value) {
            ("id" | "$schema", _) => {}
            (
                "nullable" | "uniqueItems" | "exclusiveMinimum" | "exclusiveMaximum" | PRESERVE | EMBEDDED
                | INT_OR_STRING,
                Value::Bool(false),
            ) => {}
            ("properties", Value::Object(fields)) => {
                let fields = fields
                    .iter()
                    .map(|(name, field)| (name.clone(), published(field, dialect, depth.saturating_add(1))));
                out.insert("properties", fields.collect::<Map>().into());
            }
            ("items" | "additionalProperties", Value::Object(_)) => {
                out.insert(key.clone(), published(value, dialect, depth.saturating_add(1)));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    let mut out = Value::Object(out);
    unfold(&mut out);
    if dialect == Dialect::V2 {
        simplify(&mut out, source);
    }
    let bare = dialect == Dialect::V2 && is_true(source, PRESERVE);
    if is_true(source, EMBEDDED) && !bare {
        add_type(EMBEDDED_TYPE_WORDS, &mut out);
        require_field(&mut out, "kind");
        require_field(&mut out, "apiVersion");
    }
    out
}

/// Adds `anyOf` integer or string to an int-or-string.
fn unfold(out: &mut Value) {
    if !is_true(out, INT_OR_STRING) {
        return;
    }
    let either = || {
        let schema_of_type = |type_: &str| object([("type", type_.into())]);
        Value::Array(vec![schema_of_type("integer"), schema_of_type("string")])
    };
    let says_so = |v: Option<&Value>| v == Some(&either());
    if says_so(out.get("anyOf"))
        || says_so(out.items_at(&["allOf"]).first().and_then(|first| first.get("anyOf")))
    {
        return;
    }
    if out.get("anyOf").is_none() {
        out.set_at(&["anyOf"], either());
        return;
    }
    let mut all = vec![object([("anyOf", either())])];
    all.extend_from_slice(out.items_at(&["allOf"]));
    out.set_at(&["allOf"], Value::Array(all));
}

/// Removes what OpenAPI v2, or kubectl's implementation of it, cannot handle.
fn simplify(out: &mut Value, source: &Value) {
    for key in ["allOf", "oneOf", "anyOf", "not", "default", "nullable"] {
        out.remove_at(&[key]);
    }
    let nullable = is_true(source, "nullable");
    let preserves = is_true(source, PRESERVE);
    if nullable || preserves {
        out.remove_at(&["items"]);
        out.remove_at(&["properties"]);
    }
    let type_ = out.str_at(&["type"]);
    let untyped =
        nullable || (type_ == "array" && out.get("items").is_none()) || (type_ == "object" && preserves);
    if untyped {
        out.remove_at(&["type"]);
    }
    let null_value = source.get("additionalProperties").is_some_and(|v| is_true(v, "nullable"));
    let fields = source.get("properties");
    let optional = |name: &Value| {
        let field = name.as_str().and_then(|name| fields.and_then(|f| f.get(name)));
        !null_value && !field.is_some_and(|f| is_true(f, "nullable"))
    };
    let required: Vec<Value> =
        out.items_at(&["required"]).iter().filter(|name| optional(name)).cloned().collect();
    if required.is_empty() {
        out.remove_at(&["required"]);
    } else {
        out.set_at(&["required"], Value::Array(required));
    }
}

fn require_field(out: &mut Value, name: &str) {
    let mut required = out.items_at(&["required"]).to_vec();
    if !required.iter().any(|r| r.as_str() == Some(name)) {
        required.push(name.into());
        out.set_at(&["required"], Value::Array(required));
    }
}
