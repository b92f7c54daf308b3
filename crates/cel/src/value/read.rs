//! Reads a tree through its shape, as kube-apiserver does with unstructured objects and their schemas.

use pintle_value::Value as Tree;

use super::{EvalError, Known, List, Map, Object, Text, Value};
use crate::shape::{ListKind, Shape, ShapeKind, UNBOUNDED};
use crate::time;

/// The shape of values without a schema.
pub(crate) static ANY: Shape =
    Shape { kind: ShapeKind::Dyn, max_elements: UNBOUNDED, min_serialized_size: 0 };

impl<'a> Value<'a> {
    /// A part of a tree as a value, without copying; an error if the part does not match the shape.
    #[inline]
    pub fn read(tree: &'a Tree, shape: &'a Shape) -> Result<Value<'a>, EvalError> {
        let value = match (&shape.kind, tree) {
            (_, Tree::Null) => Value::Null,
            (ShapeKind::Dyn, tree) => return Ok(Value::any(tree)),
            (ShapeKind::Bool, Tree::Bool(value)) => Value::Bool(*value),
            (ShapeKind::Int, Tree::Int(value)) => Value::Int(*value),
            (ShapeKind::Uint, Tree::Int(value)) if *value >= 0 => Value::Uint(*value as u64),
            (ShapeKind::Double, Tree::Int(value)) => Value::Double(*value as f64),
            (ShapeKind::Double, Tree::Float(value)) => Value::Double(*value),
            (ShapeKind::String, Tree::String(text)) => Value::String(Text::Borrowed(text)),
            (ShapeKind::Bytes, Tree::String(text)) => return decode_bytes(text),
            (ShapeKind::Timestamp, Tree::String(text)) => return parse_timestamp(text),
            (ShapeKind::Duration, Tree::String(text)) => return parse_duration(text),
            (ShapeKind::List { list: ListKind::Set, .. }, Tree::Array(elements)) => {
                Value::List(List::Set(elements, shape, Known::default()))
            }
            (ShapeKind::List { .. }, Tree::Array(elements)) => Value::List(List::Tree(elements, shape)),
            (ShapeKind::Map { .. }, Tree::Object(map)) => Value::Map(Map::Tree(map, shape)),
            (ShapeKind::Object(_), Tree::Object(map)) => Value::Object(Object::Tree(map, shape)),
            (kind, tree) => return Err(type_mismatch(kind, tree)),
        };
        Ok(value)
    }

    /// The value of a tree without a shape.
    pub fn any(tree: &'a Tree) -> Value<'a> {
        match tree.without_text() {
            // Raw JSON never holds raw JSON.
            Tree::Null | Tree::Raw(_) => Value::Null,
            Tree::Bool(value) => Value::Bool(*value),
            Tree::Int(value) => Value::Int(*value),
            Tree::Float(value) => Value::Double(*value),
            Tree::String(text) => Value::String(Text::Borrowed(text)),
            Tree::Array(elements) => Value::List(List::Tree(elements, &ANY)),
            Tree::Object(map) => Value::Map(Map::Tree(map, &ANY)),
        }
    }
}

fn decode_bytes<'a>(text: &str) -> Result<Value<'a>, EvalError> {
    match pintle_value::base64::decode(text) {
        Ok(bytes) => Ok(Value::Bytes(bytes.into())),
        Err(_) => {
            Err(EvalError::failed(format!("Invalid byte formatted string {text}: illegal base64 data")))
        }
    }
}

fn parse_timestamp<'a>(text: &str) -> Result<Value<'a>, EvalError> {
    if let Some(moment) = time::parse_open(text) {
        return Ok(Value::Timestamp(moment));
    }
    Err(EvalError::failed(format!("Invalid date-time formatted string {text}: parsing time \"{text}\"")))
}

fn parse_duration<'a>(text: &str) -> Result<Value<'a>, EvalError> {
    match time::parse_duration_open(text) {
        Some(nanos) => Ok(Value::Duration(nanos)),
        None => {
            Err(EvalError::failed(format!("Invalid duration {text}: unable to parse {text} as duration")))
        }
    }
}

fn type_mismatch(kind: &ShapeKind, tree: &Tree) -> EvalError {
    let wanted = match kind {
        ShapeKind::Object(_) | ShapeKind::Map { .. } => "a map for the provided schema with type=object",
        ShapeKind::List { .. } => "an array for the provided schema with type=array",
        ShapeKind::Bool => "bool",
        ShapeKind::Int | ShapeKind::Uint => "int",
        ShapeKind::Double => "float",
        _ => "string",
    };
    if matches!(kind, ShapeKind::Object(_) | ShapeKind::Map { .. } | ShapeKind::List { .. }) {
        return EvalError::failed(format!("invalid data, expected {wanted}"));
    }
    let found = tree.go_type();
    EvalError::failed(format!("invalid data, expected {wanted}, got {found}"))
}
