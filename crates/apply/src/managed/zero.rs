//! The object before it is created: what Go writes for a value that nothing was put into.

use pintle_meta::GroupVersionKind;
use pintle_schema::{Arena, Field, NodeId, Omit, Schema, Shape};
use pintle_value::{Map, Value};

/// How deep structs may nest by value. Go's types cannot be endless this way, tables could be wrong.
const NESTING_MAX: usize = 64;

/// An empty object of a kind. Custom resources have nothing but their kind.
pub fn zero_object(schema: &Schema, kind: &GroupVersionKind) -> Value {
    let mut object = zero(schema.arena(), schema.root(), 0);
    if !matches!(object, Value::Object(_)) {
        object = Value::object();
    }
    object.set_at(&["apiVersion"], kind.group_version().to_string().into());
    object.set_at(&["kind"], kind.kind.clone().into());
    object
}

fn zero(arena: &Arena, id: NodeId, depth: usize) -> Value {
    match &arena.node(id).shape {
        Shape::Struct(fields) if !fields.go_name.is_empty() && depth < NESTING_MAX => {
            let written = fields.fields.iter().filter(|field| is_written(arena, field));
            let members = written.map(|field| (field.name.clone(), field_zero(arena, field, depth)));
            Value::Object(members.collect::<Map>())
        }
        Shape::Struct(_) => Value::object(),
        Shape::Bool => Value::Bool(false),
        Shape::Int { .. } | Shape::Float | Shape::IntOrString => Value::Int(0),
        Shape::String => Value::from(""),
        Shape::Duration => Value::from("0s"),
        Shape::Quantity => Value::from("0"),
        _ => Value::Null,
    }
}

fn field_zero(arena: &Arena, field: &Field, depth: usize) -> Value {
    if field.pointer { Value::Null } else { zero(arena, field.node, depth + 1) }
}

/// Whether a field that holds nothing is written: always without `omitempty`, and with it if it is a Go struct.
fn is_written(arena: &Arena, field: &Field) -> bool {
    let is_struct = || {
        matches!(
            arena.node(field.node).shape,
            Shape::Struct(_)
                | Shape::Time
                | Shape::MicroTime
                | Shape::Duration
                | Shape::Quantity
                | Shape::IntOrString
        )
    };
    match field.omit {
        Omit::Never => true,
        Omit::Empty => !field.pointer && is_struct(),
        Omit::Zero => false,
    }
}
