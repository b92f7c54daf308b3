//! Adapts trees so that `==` is the comparison of Go's `apiequality.Semantic.DeepEqual`: an empty list or map equals
//! an absent one.
//!
//! Stored objects have no empty lists and maps, but an object from a client has them until it is stored. A tree alone
//! does not show whether `{}` is an empty map or a struct, which is not the same as an absent one. So this function
//! uses the schema once, instead of every comparison.

use super::decode::TYPED_DEPTH_MAX;
use crate::model::{Arena, ListKind, NodeId, Schema, Shape};
use pintle_value::{Value, json};
use std::collections::HashMap;

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
            let moved = moved_items(kind, object, old);
            for (at, value) in object.iter().enumerate() {
                let at = moved.as_ref().map_or(Some(at), |moved| moved.get(at).copied().flatten());
                if let Some(old) = at.and_then(|at| old.get_mut(at)) {
                    align(arena, *item, value, old, depth);
                }
            }
        }
        (Shape::Map { value: member_type, .. }, Value::Object(object), Value::Object(old)) => {
            for (key, value) in object.iter() {
                if let Some(old) = old.get_mut(key) {
                    align(arena, *member_type, value, old, depth);
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

/// The index of the old item that each item is compared with; `None` if all are at their own index. Only items with
/// keys can move. They are found through an index, because a list can have tens of thousands of them in another
/// order.
fn moved_items(kind: &ListKind, object: &[Value], old: &[Value]) -> Option<Vec<Option<usize>>> {
    let ListKind::Map(keys) = kind else { return None };
    let is_same = |(new, old): (&Value, &Value)| keys.iter().all(|key| old.get(key) == new.get(key));
    if object.len() <= old.len() && object.iter().zip(old).all(is_same) {
        return None;
    }
    let identity = |item: &Value| {
        let mut text = Vec::new();
        for key in keys.iter() {
            item.get(key).into_iter().for_each(|value| json::print(value, &mut text));
            text.push(b',');
        }
        text
    };
    // Of old items with the same keys the first counts.
    let places: HashMap<Vec<u8>, usize> =
        old.iter().enumerate().rev().map(|(at, item)| (identity(item), at)).collect();
    let place = |(at, item)| match old.get(at) {
        Some(old) if is_same((item, old)) => Some(at),
        _ => places.get(&identity(item)).copied(),
    };
    Some(object.iter().enumerate().map(place).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_with_keys_are_found_where_they_moved() {
        let list = |text: &str| match json::parse(text.as_bytes()).unwrap().value {
            Value::Array(items) => items,
            other => panic!("{other:?}"),
        };
        let kind = ListKind::Map(["a", "b"].map(Into::into).to_vec().into());
        for (object, old, want) in [
            (r#"[{"a":1,"b":2}]"#, r#"[{"a":1,"b":2},{"a":3}]"#, None),
            (r#"[{"a":3},{"a":1,"b":2}]"#, r#"[{"a":1,"b":2},{"a":3}]"#, Some(vec![Some(1), Some(0)])),
            (r#"[{"a":1,"b":2}]"#, r#"[{"a":12}]"#, Some(vec![None])),
            (r#"[{"a":9},{"a":1}]"#, r#"[{"a":1},{"a":1}]"#, Some(vec![None, Some(1)])),
            (r#"[{"a":1}]"#, "[]", Some(vec![None])),
        ] {
            assert_eq!(moved_items(&kind, &list(object), &list(old)), want, "{object} {old}");
        }
        assert_eq!(moved_items(&ListKind::Atomic, &list("[1]"), &list("[2]")), None);
    }

    #[test]
    fn large_lists_in_another_order_take_linear_time() {
        let items: Vec<Value> = (0..100_000_i64)
            .map(|n| json::parse(format!(r#"{{"name":"v{n}"}}"#).as_bytes()).unwrap().value)
            .collect();
        let reversed: Vec<Value> = items.iter().rev().cloned().collect();
        let kind = ListKind::Map(["name"].map(Into::into).to_vec().into());
        // Comparing each item with each other one would take minutes.
        let moved = moved_items(&kind, &reversed, &items).unwrap();
        assert_eq!((moved.first(), moved.last()), (Some(&Some(99_999)), Some(&Some(0))));
    }
}
