//! Validates that lists of type set or map have no duplicates.

use crate::{Arena, ListKind, NodeId, Shape};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value, json};
use std::collections::HashMap;

/// Reports all duplicates in a value.
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
                ListKind::Set => report_repeated(items, write_value, Clone::clone, path, errors),
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
                        let write_key = |item: &Value, out: &mut Vec<u8>| write_keys(item, keys, out);
                        report_repeated(items, write_key, |item| key_of(item, keys), path, errors);
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

/// Appends a text that identifies the value.
fn write_value(value: &Value, out: &mut Vec<u8>) {
    json::print(value, out);
    if let Value::Float(_) = value {
        // 1 and 1.0 have the same text but are different values.
        out.push(b'f');
    }
}

/// Appends the texts of the values of an item's keys.
pub(super) fn write_keys(item: &Value, keys: &[pintle_value::Str], out: &mut Vec<u8>) {
    for key in keys {
        if let Some(value) = item.get(key) {
            write_value(value, out);
        }
        out.push(b',');
    }
}

/// The key fields of an item.
fn key_of(item: &Value, keys: &[pintle_value::Str]) -> Value {
    let mut out = Value::object();
    for key in keys {
        if let Some(value) = item.get(key) {
            out.set_at(&[key], value.clone());
        }
    }
    out
}

/// Reports the second of equal items; further ones are not reported.
fn report_repeated(
    items: &[Value],
    write_key: impl Fn(&Value, &mut Vec<u8>),
    key: impl Fn(&Value) -> Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if items.len() < 2 {
        return;
    }
    let mut seen: HashMap<Vec<u8>, usize> = HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let mut text = Vec::new();
        write_key(item, &mut text);
        let count = seen.entry(text).or_default();
        *count = count.saturating_add(1);
        if *count == 2 {
            errors.duplicate(&path.index(at), &key(item));
        }
    }
}
