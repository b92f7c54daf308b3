//! Defaulting: what is left out and has a default gets it; nulls that may not be give way.

use crate::{Arena, NodeId, Shape};
use pintle_value::Value;

/// Fills in defaults, from the outside in.
pub fn default(arena: &Arena, id: NodeId, value: &mut Value) {
    match (&arena.node(id).shape, value) {
        (Shape::Struct(known), Value::Object(map)) => {
            for field in &known.fields {
                let node = arena.node(field.node);
                let gives_way = match map.get(&field.name) {
                    None => true,
                    Some(Value::Null) => !node.nullable,
                    Some(_) => false,
                };
                if let Some(default) = node.default.as_ref().filter(|_| gives_way) {
                    map.insert(field.name.clone(), default.clone());
                }
                if let Some(member) = map.get_mut(&field.name) {
                    self::default(arena, field.node, member);
                }
            }
        }
        (Shape::Map { value: each, .. }, Value::Object(map)) => {
            for (_, member) in map.iter_mut() {
                default_element(arena, *each, member);
            }
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            for member in items {
                default_element(arena, *item, member);
            }
        }
        _ => {}
    }
}

/// An element of a list or map: a null that may not be becomes the default.
fn default_element(arena: &Arena, id: NodeId, value: &mut Value) {
    let node = arena.node(id);
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
    default(arena, id, value);
}

/// Drops nulls of fields that may not be null. Goes after defaulting, which puts something in the place of others.
pub fn prune_nulls(arena: &Arena, id: NodeId, value: &mut Value) {
    match (&arena.node(id).shape, value) {
        (Shape::Struct(known), Value::Object(map)) => {
            map.retain(|key, member| {
                let Some(field) = known.field(key) else { return true };
                let node = arena.node(field.node);
                let drop = member.is_null() && !node.nullable;
                if !drop {
                    prune_nulls(arena, field.node, member);
                }
                !drop
            });
        }
        (Shape::Map { value: each, .. }, Value::Object(map)) => {
            map.retain(|_, member| {
                let node = arena.node(*each);
                let drop = member.is_null() && !node.nullable;
                if !drop {
                    prune_nulls(arena, *each, member);
                }
                !drop
            });
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            for member in items {
                prune_nulls(arena, *item, member);
            }
        }
        _ => {}
    }
}
