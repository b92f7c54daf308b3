//! Compiles a definition's `openAPIV3Schema` into nodes. The schema must be valid: it was checked to be structural when
//! the definition was accepted.

use crate::{Arena, Checks, Field, ListKind, MapKind, Node, NodeId, Omit, Patch, Shape, Struct};
use pintle_value::{Map, Str, Value};
use std::collections::HashSet;

/// The deepest nesting of a schema; deeper parts accept any value.
const DEPTH_MAX: usize = 256;

/// Compiles the schema of one version into `arena`. The root gets kind, apiVersion and metadata; `metadata` is the node
/// of the latter.
pub fn compile(schema: &Value, metadata: NodeId, arena: &mut Arena) -> NodeId {
    let root = compile_node(schema, arena, 0);
    complete_object(root, metadata, arena);
    root
}

/// Adds the fields that every object has.
fn complete_object(root: NodeId, metadata: NodeId, arena: &mut Arena) {
    let text = arena.push(Node::of(Shape::String));
    let (known, kind) = match &arena.node(root).shape {
        Shape::Struct(known) => (known.fields.to_vec(), known.kind),
        _ => (Vec::new(), MapKind::Granular),
    };
    let field_named = |name: &str| known.iter().find(|f| f.name == name).map(|f| f.node);
    let rules = field_named("metadata");
    let is_text = |id: &NodeId| matches!(arena.node(*id).shape, Shape::String);
    let word = |name: &str| field_named(name).filter(is_text).unwrap_or(text);
    let words = [new_field("apiVersion", word("apiVersion"), false), new_field("kind", word("kind"), false)];
    let mut fields: Vec<Field> = known
        .into_iter()
        .filter(|f| !matches!(f.name.as_str(), "kind" | "apiVersion" | "metadata"))
        .collect();
    fields.extend(words);
    fields.push(new_field("metadata", metadata, false));
    let node = arena.node_mut(root);
    node.shape = Shape::Struct(structure(fields, kind));
    node.metadata = Some(metadata);
    node.metadata_rules = rules;
}

fn compile_node(schema: &Value, arena: &mut Arena, depth: usize) -> NodeId {
    let Some(map) = schema.as_object().filter(|_| depth < DEPTH_MAX) else {
        return arena.push(Node::of(Shape::Any));
    };
    let shape = compile_shape(map, arena, depth);
    let checks = compile_checks(map, &shape, arena, depth);
    let mut out = Node::of(shape);
    out.default = map.get("default").cloned();
    out.type_name = text(map, "type").into();
    out.nullable = is_true(map, "nullable");
    out.preserve_unknown = is_true(map, "x-kubernetes-preserve-unknown-fields");
    out.embedded = is_true(map, "x-kubernetes-embedded-resource");
    out.checks = checks.map(Box::new);
    arena.push(out)
}

fn compile_shape(map: &Map, arena: &mut Arena, depth: usize) -> Shape {
    if is_true(map, "x-kubernetes-int-or-string") {
        return Shape::IntOrString;
    }
    match text(map, "type") {
        "object" => object_shape(map, arena, depth),
        "array" => list_shape(map, arena, depth),
        "string" => Shape::String,
        "integer" => Shape::Int { bits: 64 },
        "number" => Shape::Float,
        "boolean" => Shape::Bool,
        // Inside `allOf`, `anyOf`, `oneOf` and `not`, fields and items have no type.
        "" if map.contains_key("properties") || map.contains_key("additionalProperties") => {
            object_shape(map, arena, depth)
        }
        "" if matches!(map.get("items"), Some(Value::Object(_))) => list_shape(map, arena, depth),
        _ => Shape::Any,
    }
}

fn list_shape(map: &Map, arena: &mut Arena, depth: usize) -> Shape {
    let item = match map.get("items") {
        Some(items) => compile_node(items, arena, depth.saturating_add(1)),
        None => arena.push(Node::of(Shape::Any)),
    };
    Shape::List { item, kind: list_kind(map) }
}

fn object_shape(map: &Map, arena: &mut Arena, depth: usize) -> Shape {
    let kind = match text(map, "x-kubernetes-map-type") {
        "atomic" => MapKind::Atomic,
        _ => MapKind::Granular,
    };
    match map.get("additionalProperties") {
        Some(Value::Object(values)) => {
            let value = compile_node(&Value::Object(values.clone()), arena, depth.saturating_add(1));
            return Shape::Map { value, kind };
        }
        // Members without a schema keep their nulls. If they are forbidden, they are refused rather than pruned.
        Some(Value::Bool(_)) => {
            let value = arena.push(Node { nullable: true, ..Node::of(Shape::Any) });
            return Shape::Map { value, kind };
        }
        _ => {}
    }
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .unwrap_or(&[])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let properties = map.get("properties").and_then(Value::as_object);
    let fields = properties.map(|properties| {
        properties.iter().map(|(name, schema)| {
            let id = compile_node(schema, arena, depth.saturating_add(1));
            new_field(name, id, required.contains(&name.as_str()))
        })
    });
    let fields: Vec<Field> = fields.map(Iterator::collect).unwrap_or_default();
    Shape::Struct(structure(fields, kind))
}

fn list_kind(map: &Map) -> ListKind {
    match text(map, "x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => {
            let keys = map.get("x-kubernetes-list-map-keys").and_then(Value::as_array).unwrap_or(&[]);
            ListKind::Map(keys.iter().filter_map(Value::as_str).map(Str::from).collect())
        }
        _ => ListKind::Atomic,
    }
}

fn new_field(name: &str, node: NodeId, required: bool) -> Field {
    Field {
        name: name.into(),
        node,
        rank: 0,
        pointer: true,
        omit: Omit::Empty,
        required,
        proto: 0,
        inline: 0,
        patch: Patch::default(),
    }
}

/// A struct whose fields are written in order of name.
fn structure(mut fields: Vec<Field>, kind: MapKind) -> Struct {
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    for (rank, field) in fields.iter_mut().enumerate() {
        field.rank = u16::try_from(rank).unwrap_or(u16::MAX);
    }
    let order = (0..fields.len()).filter_map(|at| u16::try_from(at).ok()).collect();
    Struct {
        fields: fields.into(),
        order,
        inlined: Box::default(),
        wire: Box::default(),
        always: Box::default(),
        kind,
        go_name: Str::default(),
    }
}

/// The strings of an enumeration that is long enough for a set to be faster.
fn texts_of_long_list(enumeration: &[Value]) -> HashSet<Str> {
    const SHORT: usize = 8;
    match enumeration.len() {
        ..=SHORT => HashSet::new(),
        _ => enumeration.iter().filter_map(Value::as_str).map(Str::from).collect(),
    }
}

fn compile_checks(map: &Map, shape: &Shape, arena: &mut Arena, depth: usize) -> Option<Checks> {
    let mut branches = |key: &str| -> Vec<NodeId> {
        let schemas = map.get(key).and_then(Value::as_array).unwrap_or(&[]);
        schemas.iter().map(|schema| compile_node(schema, arena, depth.saturating_add(1))).collect()
    };
    let (all_of, any_of, one_of) = (branches("allOf"), branches("anyOf"), branches("oneOf"));
    let not = map.get("not").map(|schema| compile_node(schema, arena, depth.saturating_add(1)));
    let is_list = matches!(shape, Shape::List { .. });
    let items = map.get("items").filter(|items| !is_list && items.as_object().is_some());
    let items = items.map(|schema| compile_node(schema, arena, depth.saturating_add(1)));
    let is_object = matches!(shape, Shape::Struct(_) | Shape::Map { .. });
    let has_fields = map.contains_key("properties") || map.contains_key("additionalProperties");
    let fields = (has_fields && !is_object).then(|| {
        let fields = Node::of(object_shape(map, arena, depth));
        arena.push(fields)
    });
    let limit = |key: &str| map.get(key).and_then(Value::as_int);
    let count = |key: &str| limit(key).and_then(|n| usize::try_from(n).ok());
    let enumeration = map.get("enum").and_then(Value::as_array).unwrap_or(&[]);
    let checks = Checks {
        format: text(map, "format").into(),
        pattern: text(map, "pattern").into(),
        enumeration: enumeration.to_vec(),
        enumeration_texts: texts_of_long_list(enumeration),
        minimum: read_number(map, "minimum"),
        exclusive_minimum: is_true(map, "exclusiveMinimum"),
        maximum: read_number(map, "maximum"),
        exclusive_maximum: is_true(map, "exclusiveMaximum"),
        multiple_of: read_number(map, "multipleOf"),
        min_length: count("minLength"),
        max_length: limit("maxLength"),
        min_items: count("minItems"),
        max_items: limit("maxItems"),
        unique_items: is_true(map, "uniqueItems"),
        items,
        fields,
        is_closed: map.get("additionalProperties").and_then(Value::as_bool) == Some(false),
        min_properties: count("minProperties"),
        max_properties: limit("maxProperties"),
        required: map
            .get("required")
            .and_then(Value::as_array)
            .unwrap_or(&[])
            .iter()
            .filter_map(Value::as_str)
            .map(Str::from)
            .collect(),
        all_of,
        any_of,
        one_of,
        not,
    };
    (checks != Checks::default()).then_some(checks)
}

fn read_number(map: &Map, key: &str) -> Option<f64> {
    match map.get(key)? {
        #[expect(clippy::cast_precision_loss, reason = "JSON schema bounds are float64 in Go too")]
        Value::Int(i) => Some(*i as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

fn text<'a>(map: &'a Map, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_true(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}
