//! Schemas without references: of built-in kinds from the published table, of custom resources from their definitions.

use pintle_kinds::PUBLISHED_SCHEMAS;
use pintle_meta::GroupVersionKind;
use pintle_value::{Map, Str, Value, json};
use std::collections::HashMap;

/// The depth to which a schema is examined.
const DEPTH_MAX: usize = 100;
/// The maximum number of schemas that one expanded schema may consist of. A Pod has about 3 000.
const NODES_MAX: usize = 100_000;
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The published schema of a built-in kind; `None` if there is none.
pub fn published_schema(kind: &GroupVersionKind) -> Option<Value> {
    let marker = format!("\"kind\":\"{}\"", kind.kind);
    let is_of_kind = |schema: &Value| {
        schema.items_at(&["x-kubernetes-group-version-kind"]).iter().any(|gvk| {
            gvk.str_at(&["group"]) == kind.group
                && gvk.str_at(&["version"]) == kind.version
                && gvk.str_at(&["kind"]) == kind.kind
        })
    };
    let schemas = lines().filter(|(_, text)| text.contains(&marker));
    let mut parsed =
        schemas.filter_map(|(name, text)| Some((name, json::parse(text.as_bytes()).ok()?.value)));
    let (name, schema) = parsed.find(|(_, schema)| is_of_kind(schema))?;
    Some(Expansion::new().expanded(&schema, &mut vec![name.into()]))
}

/// The schema of a custom resource as OpenAPI v3 publishes it: with the metadata of objects and embedded objects.
pub fn custom_schema(schema: &Value) -> Value {
    let mut schema = schema.clone();
    add_metadata(&mut schema, true, 0);
    Expansion::new().expanded(&schema, &mut Vec::new())
}

fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    PUBLISHED_SCHEMAS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '))
}

/// Adds the members of whole objects to the schema and to those of embedded objects.
fn add_metadata(schema: &mut Value, is_whole: bool, depth: usize) {
    let Some(map) = schema.as_object_mut().filter(|_| depth < DEPTH_MAX) else { return };
    for key in ["items", "additionalProperties"] {
        if let Some(below) = map.get_mut(key) {
            add_metadata(below, is_embedded(below), depth.saturating_add(1));
        }
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        for (_, property) in properties.iter_mut() {
            add_metadata(property, is_embedded(property), depth.saturating_add(1));
        }
    }
    if is_whole {
        let text = || {
            let mut text = Value::object();
            text.set_at(&["type"], "string".into());
            text
        };
        schema.set_at(&["properties", "apiVersion"], text());
        schema.set_at(&["properties", "kind"], text());
        schema.set_at(&["properties", "metadata"], Value::object());
        schema.set_at(&["properties", "metadata", "$ref"], OBJECT_META.into());
    }
}

fn is_embedded(schema: &Value) -> bool {
    schema.get("x-kubernetes-embedded-resource").and_then(Value::as_bool) == Some(true)
}

/// Replaces references by what they refer to.
struct Expansion {
    texts: HashMap<&'static str, &'static str>,
    parsed: HashMap<String, Option<Value>>,
    nodes: usize,
}

impl Expansion {
    fn new() -> Self {
        Expansion { texts: lines().collect(), parsed: HashMap::new(), nodes: 0 }
    }

    /// `open` are the names of the types that contain this schema: a type within itself becomes an object without
    /// known members, as in kube-controller-manager.
    fn expanded(&mut self, schema: &Value, open: &mut Vec<String>) -> Value {
        self.nodes = self.nodes.saturating_add(1);
        if open.len() > DEPTH_MAX || self.nodes > NODES_MAX {
            return placeholder();
        }
        if let Some(name) = reference(schema) {
            if open.iter().any(|known| known == name) {
                return placeholder();
            }
            let Some(referred) = self.schema_named(name) else { return Value::object() };
            open.push(name.to_string());
            let expanded = self.expanded(&referred, open);
            open.pop();
            return expanded;
        }
        let Some(map) = schema.as_object() else { return schema.clone() };
        let mut result = Map::default();
        for (key, value) in map.iter() {
            let value = match &**key {
                "items" | "additionalProperties" => self.convert_subschema(value, open),
                "properties" => {
                    let properties = value.as_object().into_iter().flat_map(Map::iter);
                    Value::Object(
                        properties.map(|(name, v)| (name.clone(), self.convert_subschema(v, open))).collect(),
                    )
                }
                _ => value.clone(),
            };
            result.insert(key.clone(), value);
        }
        if schema.str_at(&["format"]) == "int-or-string" {
            result.insert(Str::from("x-kubernetes-int-or-string"), Value::Bool(true));
        }
        Value::Object(result)
    }

    fn convert_subschema(&mut self, schema: &Value, open: &mut Vec<String>) -> Value {
        // Each level of nesting counts towards the depth, whether it has a name or not.
        open.push(String::new());
        let expanded = self.expanded(schema, open);
        open.pop();
        expanded
    }

    fn schema_named(&mut self, name: &str) -> Option<Value> {
        if let Some(known) = self.parsed.get(name) {
            return known.clone();
        }
        let text = self.texts.get(name).copied();
        let schema = text.and_then(|text| json::parse(text.as_bytes()).ok()).map(|parsed| parsed.value);
        self.parsed.insert(name.to_string(), schema.clone());
        schema
    }
}

fn placeholder() -> Value {
    let mut schema = Value::object();
    schema.set_at(&["type"], "object".into());
    schema
}

/// The type that a schema refers to, directly or in `allOf`, which only holds references.
fn reference(schema: &Value) -> Option<&str> {
    let direct = schema.get("$ref").and_then(Value::as_str);
    direct.or_else(|| schema.items_at(&["allOf"]).iter().find_map(|part| part.get("$ref")?.as_str()))
}
