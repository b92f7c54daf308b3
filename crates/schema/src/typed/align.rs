//! Makes `==` on trees the comparison that Go's `apiequality.Semantic.DeepEqual` is: an empty list or map equals an
//! absent one.
//!
//! Stored objects have no empty lists and maps, but an object that a client sent has them until it is stored. A tree alone
//! does not say whether `{}` is an empty map or a struct, which is not the same as none, so this takes the schema once
//! instead of every comparison.

use super::decode::TYPED_DEPTH_MAX;
use crate::model::{Arena, ListKind, NodeId, Schema, Shape};
use pintle_value::Value;

/// Adds the empty lists and maps of `object` to `old`, where it has none at the same place. Both are trees of the same Go
/// type; trees of custom resources are left unchanged, because Go compares those exactly.
pub fn align_empties(schema: &Schema, object: &Value, old: &mut Value) {
    align(schema.arena(), schema.root(), object, old, 0);
}

fn align(arena: &Arena, id: NodeId, object: &Value, old: &mut Value, depth: usize) {
    if depth > TYPED_DEPTH_MAX {
        return;
    }
    let (node, depth) = (arena.node(id), depth.saturating_add(1));
    if old.is_null() && is_empty(&node.shape, object) {
        *old = object.clone();
        return;
    }
    match (&node.shape, object, old) {
        (Shape::Struct(s), Value::Object(object), Value::Object(old)) if !s.go_name.is_empty() => {
            for (key, value) in object.iter() {
                let Some(field) = s.field(key) else { continue };
                match old.get_mut(key) {
                    Some(old) => align(arena, field.node, value, old, depth),
                    None if !field.pointer && is_empty(&arena.node(field.node).shape, value) => {
                        old.insert(key.clone(), value.clone());
                    }
                    None => {}
                }
            }
        }
        (Shape::List { item, kind }, Value::Array(object), Value::Array(old)) => {
            for (at, value) in object.iter().enumerate() {
                if let Some(old) = counterpart(kind, at, value, old) {
                    align(arena, *item, value, old, depth);
                }
            }
        }
        (Shape::Map { value: of, .. }, Value::Object(object), Value::Object(old)) => {
            for (key, value) in object.iter() {
                if let Some(old) = old.get_mut(key) {
                    align(arena, *of, value, old, depth);
                }
            }
        }
        (Shape::Any, Value::Object(_), old @ Value::Object(_)) => {
            if let Some(choice) = node.choice {
                align(arena, choice.props, object, old, depth);
            }
        }
        _ => {}
    }
}

/// The old item that an item is compared with. Items with keys may have moved; all others are compared by position.
fn counterpart<'o>(kind: &ListKind, at: usize, item: &Value, old: &'o mut [Value]) -> Option<&'o mut Value> {
    let ListKind::Map(keys) = kind else { return old.get_mut(at) };
    let is_same = |old: &Value| keys.iter().all(|key| old.get(key) == item.get(key));
    let at = if old.get(at).is_some_and(is_same) { Some(at) } else { old.iter().position(is_same) };
    old.get_mut(at?)
}

/// Returns whether a value of this shape is an empty list, map or byte string, which Go distinguishes from `nil`.
fn is_empty(shape: &Shape, value: &Value) -> bool {
    match (shape, value) {
        (Shape::List { .. }, Value::Array(items)) => items.is_empty(),
        (Shape::Map { .. }, Value::Object(map)) => map.is_empty(),
        (Shape::Bytes, Value::String(text)) => text.is_empty(),
        _ => false,
    }
}
