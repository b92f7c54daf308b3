//! Pruning: what the schema does not know is dropped, and its paths are reported.

use crate::{Arena, NodeId, Shape};
use pintle_value::{Path, Str, Value};

/// Fields of an embedded object that its schema need not name.
const EMBEDDED_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops what the schema does not know; the paths of what went are added to `unknown`.
pub fn prune(arena: &Arena, id: NodeId, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<Str>) {
    let node = arena.node(id);
    match (&node.shape, value) {
        (Shape::Struct(known), Value::Object(map)) => {
            map.retain(|key, _| {
                let keep = known.field(key).is_some()
                    || node.preserve_unknown
                    || (node.embedded && EMBEDDED_FIELDS.contains(&key));
                if !keep {
                    unknown.push(path.field(key).to_str());
                }
                keep
            });
            for (key, member) in map.iter_mut() {
                if let Some(field) = known.field(key) {
                    prune(arena, field.node, member, &path.field(key), unknown);
                }
            }
        }
        (Shape::Map { value: each, .. }, Value::Object(map)) => {
            for (key, member) in map.iter_mut() {
                prune(arena, *each, member, &path.field(key), unknown);
            }
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            for (at, member) in items.iter_mut().enumerate() {
                prune(arena, *item, member, &path.index(at), unknown);
            }
        }
        (Shape::Any, Value::Object(map)) if !node.preserve_unknown => {
            map.retain(|key, _| {
                unknown.push(path.field(key).to_str());
                false
            });
        }
        (Shape::Any, Value::Array(items)) if !node.preserve_unknown => {
            for (at, member) in items.iter_mut().enumerate() {
                prune(arena, id, member, &path.index(at), unknown);
            }
        }
        _ => {}
    }
}
