//! Helpers of this crate's tests: trees from text and back, and small schemas.

use pintle_schema::{Arena, Field, ListKind, MapKind, Node, NodeId, Omit, Patch, Schema, Shape, Struct};
use pintle_value::{Map, Str, Value, json};
use std::sync::Arc;

pub(crate) fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap_or_else(|e| panic!("{e}: {text}")).value
}

pub(crate) fn text(value: &Value) -> String {
    json::text(value)
}

/// `depth` nested objects with one member each, around `inner`.
pub(crate) fn nested(key: &str, depth: usize, inner: Value) -> Value {
    (0..depth).fold(inner, |inner, _| Value::Object(Map::from_entries(vec![(key.into(), inner)]).0))
}

/// Nested objects with one member `a` each, around a number.
pub(crate) fn nested_objects(depth: usize) -> Value {
    nested("a", depth, Value::Int(1))
}

/// Runs a test with the stack size of the server's threads.
pub(crate) fn with_deep_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(64 << 20).spawn(test).unwrap().join().unwrap();
}

/// A schema from a short description in JSON:
/// `"string"`, `"int"`, `"bool"`, `"float"`, `"any"`, `"quantity"`, `"intorstring"`;
/// `{"fields":{…},"go":"PodSpec","atomic":true,"unknown":true}`; `{"list":…,"keys":["name"]}`, `{"list":…,"set":true}`
/// (else atomic) with `"patch":"name"` for lists that a strategic merge patch merges; `{"map":…,"atomic":true}`;
/// `{"is":…,"default":…}`. `"pointer":true` for fields that Go holds by pointer.
pub(crate) fn schema(text: &str) -> Schema {
    let mut arena = Arena::default();
    let root = node(&tree(text), &mut arena);
    arena.seal();
    Schema::new(Arc::new(arena), root)
}

fn node(of: &Value, arena: &mut Arena) -> NodeId {
    if let Some(name) = of.as_str() {
        let node = Node::of(scalar(name));
        return arena.push(node);
    }
    if let Some(inner) = of.get("is") {
        let id = node(inner, arena);
        arena.node_mut(id).default = of.get("default").cloned();
        return id;
    }
    let atomic = of.get("atomic").is_some();
    let kind = if atomic { MapKind::Atomic } else { MapKind::Granular };
    let shape = if let Some(item) = of.get("list") {
        let item = node(item, arena);
        let keys = of.items_at(&["keys"]);
        let kind = match keys {
            [] if of.get("set").is_some() => ListKind::Set,
            [] => ListKind::Atomic,
            keys => ListKind::Map(keys.iter().map(|k| Str::from(k.as_str().unwrap())).collect()),
        };
        Shape::List { item, kind }
    } else if let Some(value) = of.get("map") {
        Shape::Map { value: node(value, arena), kind }
    } else {
        let fields = of.get("fields").and_then(Value::as_object).expect("fields");
        let fields: Box<[Field]> = fields.iter().map(|(name, of)| field(name, of, arena)).collect();
        let order = (0..fields.len() as u16).collect();
        let go_name = Str::from(of.str_at(&["go"]));
        let (inlined, wire, always) = Default::default();
        Shape::Struct(Struct { fields, order, inlined, wire, always, kind, go_name })
    };
    let mut node = Node::of(shape);
    node.preserve_unknown = of.get("unknown").is_some();
    arena.push(node)
}

fn field(name: &Str, of: &Value, arena: &mut Arena) -> Field {
    let key = of.get("patch").and_then(Value::as_str);
    Field {
        name: name.clone(),
        node: node(of, arena),
        pointer: of.get("pointer").is_some(),
        omit: Omit::Empty,
        required: false,
        proto: 0,
        inline: 0,
        rank: 0,
        patch: Patch { merge: key.is_some(), key: key.unwrap_or_default().into(), ..Patch::default() },
    }
}

fn scalar(name: &str) -> Shape {
    match name {
        "string" => Shape::String,
        "int" => Shape::Int { bits: 64 },
        "bool" => Shape::Bool,
        "float" => Shape::Float,
        "any" => Shape::Any,
        "quantity" => Shape::Quantity,
        "intorstring" => Shape::IntOrString,
        other => panic!("no such scalar: {other}"),
    }
}
