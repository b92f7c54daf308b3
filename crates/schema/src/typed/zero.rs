//! Go's zero values as trees.

use crate::model::{Arena, Field, NodeId, Shape};
use pintle_value::{Map, Str, Value};

/// The zero value of a node as Go writes it: `""`, `0`, `null`, a struct with the fields it always writes.
pub fn zero(arena: &Arena, id: NodeId) -> Value {
    match &arena.node(id).shape {
        Shape::Bool => Value::Bool(false),
        Shape::Int { .. } | Shape::Float | Shape::IntOrString => Value::Int(0),
        Shape::String => Value::String(Str::default()),
        Shape::Duration => Value::String(Str::const_new("0s")),
        Shape::Quantity => Value::String(Str::const_new("0")),
        Shape::Struct(s) => {
            let mut map = Map::with_capacity(s.always.len());
            for field in s.always.iter().filter_map(|at| s.fields.get(usize::from(*at))) {
                map.insert(field.name.clone(), zero_field(arena, field));
            }
            Value::Object(map)
        }
        Shape::Any
        | Shape::Bytes
        | Shape::Time
        | Shape::MicroTime
        | Shape::List { .. }
        | Shape::Map { .. } => Value::Null,
    }
}

/// The value of an unset field.
pub(super) fn zero_field(arena: &Arena, field: &Field) -> Value {
    if field.pointer { Value::Null } else { zero(arena, field.node) }
}
