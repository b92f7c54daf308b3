//! Lists that are sets or maps: nothing comes twice in them.

use crate::{Arena, ListKind, NodeId, Shape};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value, json};
use std::collections::HashMap;

/// All that comes twice in a value.
pub fn validate_lists(arena: &Arena, id: NodeId, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match (&arena.node(id).shape, value) {
        (Shape::Struct(known), Value::Object(map)) => {
            for (key, member) in map.iter() {
                if let Some(field) = known.field(key).filter(|f| Some(f.node) != arena.node(id).metadata) {
                    validate_lists(arena, field.node, member, &path.field(key), errors);
                }
            }
        }
        (Shape::Map { value: each, .. }, Value::Object(map)) => {
            for (key, member) in map.iter() {
                validate_lists(arena, *each, member, &path.key(key), errors);
            }
        }
        (Shape::List { item, kind }, Value::Array(items)) => {
            match kind {
                ListKind::Atomic => {}
                ListKind::Set => repeated(items, Clone::clone, path, errors),
                ListKind::Map(keys) => {
                    if let Some(at) =
                        items.iter().position(|item| !matches!(item, Value::Object(_) | Value::Null))
                    {
                        let item = items.get(at).unwrap_or(&Value::Null);
                        errors.invalid(
                            &path.index(at),
                            item,
                            "must be an object for an array of list-type map",
                        );
                    } else {
                        repeated(items, |item| key_of(item, keys), path, errors);
                    }
                }
            }
            for (at, member) in items.iter().enumerate() {
                validate_lists(arena, *item, member, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

/// The fields that tell an item from others.
fn key_of(item: &Value, keys: &[pintle_value::Str]) -> Value {
    let mut out = Value::object();
    for key in keys {
        if let Some(value) = item.get(key) {
            out.set_at(&[key], value.clone());
        }
    }
    out
}

/// Tells of the second of equal items; of later ones no more.
fn repeated(items: &[Value], key: impl Fn(&Value) -> Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if items.len() < 2 {
        return;
    }
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let key = key(item);
        let mut text = Vec::new();
        json::print(&key, &mut text);
        if let Value::Float(_) = key {
            // 1 and 1.0 are written alike and yet are two values.
            text.push(b'f');
        }
        let count = seen.entry(text).or_default();
        *count += 1;
        if *count == 2 {
            errors.duplicate(&path.index(at), &key);
        }
    }
}
