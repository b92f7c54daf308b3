//! Pruning: what the schema does not know is dropped, and its paths are reported.

use crate::{Arena, NodeId, Shape};
use pintle_value::{Path, Str, Value};

/// Fields of an embedded object that its schema need not name.
const EMBEDDED_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops what the schema does not know; the paths of what went are added to `unknown`.
pub fn prune(arena: &Arena, id: NodeId, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<Str>) {
    node(arena, Some(id), arena.node(id).preserve_unknown, value, path, unknown);
}

/// A value of the schema `id`, or of none. The items of a list that keeps what is unknown keep it too.
fn node(
    arena: &Arena,
    id: Option<NodeId>,
    preserve: bool,
    value: &mut Value,
    path: &Path<'_>,
    unknown: &mut Vec<Str>,
) {
    let schema = id.map(|id| arena.node(id));
    match value {
        Value::Object(map) => {
            let embedded = schema.is_some_and(|schema| schema.embedded);
            map.retain(|key, member| {
                if embedded && EMBEDDED_FIELDS.contains(&key) {
                    return true;
                }
                let below = schema.and_then(|schema| match &schema.shape {
                    Shape::Struct(known) => known.field(key).map(|field| field.node),
                    Shape::Map { value, .. } => Some(*value),
                    _ => None,
                });
                let at = path.field(key);
                match below {
                    Some(below) => prune(arena, below, member, &at, unknown),
                    None if !preserve => unknown.push(at.to_str()),
                    None => {}
                }
                below.is_some() || preserve
            });
        }
        Value::Array(items) => {
            let below = match schema.map(|schema| &schema.shape) {
                Some(Shape::List { item, .. }) => Some(*item),
                _ => None,
            };
            let preserve = preserve || below.is_some_and(|below| arena.node(below).preserve_unknown);
            for (at, member) in items.iter_mut().enumerate() {
                node(arena, below, preserve, member, &path.index(at), unknown);
            }
        }
        _ => {}
    }
}
