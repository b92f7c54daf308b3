//! Pruning: removes fields that the schema does not have, and reports their paths.

use crate::{Arena, Node, NodeId, Shape};
use pintle_value::{Path, Str, Value};

/// Fields of an embedded object that its schema need not declare.
const EMBEDDED_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields and adds their paths to `unknown`. Does not check types: an object in place of a number loses
/// all its fields.
pub fn prune(arena: &Arena, id: NodeId, value: &mut Value, path: &Path<'_>, unknown: &mut Vec<Str>) {
    node(arena, Some(id), arena.node(id).preserve_unknown, value, path, unknown);
}

/// Prunes a value of the schema `id`, or without a schema. If a list preserves unknown fields, so do its items.
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
                let below = schema.and_then(|schema| match schema.fields(arena) {
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
            let below = schema.and_then(Node::items);
            let preserve = preserve || below.is_some_and(|below| arena.node(below).preserve_unknown);
            for (at, member) in items.iter_mut().enumerate() {
                node(arena, below, preserve, member, &path.index(at), unknown);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;
    use crate::structural::compile;
    use pintle_value::json;
    use std::sync::Arc;

    #[test]
    fn types_are_not_asked_for() {
        let tree = |text: &str| json::parse(text.as_bytes()).unwrap().value;
        let definition = tree(
            r#"{"type":"object","properties":{
                "s":{"type":"string"},"l":{"type":"array","items":{"type":"string"}},
                "m":{"type":"object","additionalProperties":{"type":"string"}},
                "o":{"type":"object","properties":{"a":{"type":"string"}}},
                "k":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"o":{"type":"object"}}},
                "kl":{"type":"array","x-kubernetes-preserve-unknown-fields":true,
                      "items":{"type":"object","properties":{"o":{"type":"object"}}}}}}"#,
        );
        let mut arena = Arena::default();
        let metadata = arena.push(Node::of(Shape::Any));
        let root = compile(&definition, metadata, &mut arena);
        arena.seal();
        let schema = Schema::new(Arc::new(arena), root);
        for (before, after, gone) in [
            (r#"{"s":{"a":1}}"#, r#"{"s":{}}"#, "s.a"),
            (r#"{"s":[{"a":1},[{"b":1}],2]}"#, r#"{"s":[{},[{}],2]}"#, "s[0].a s[1][0].b"),
            (r#"{"l":[{"a":1},"x"]}"#, r#"{"l":[{},"x"]}"#, "l[0].a"),
            (r#"{"l":{"a":1},"m":[{"a":1}]}"#, r#"{"l":{},"m":[{}]}"#, "l.a m[0].a"),
            (r#"{"m":{"k":{"a":1}}}"#, r#"{"m":{"k":{}}}"#, "m.k.a"),
            (r#"{"o":{"a":1,"b":2},"z":1}"#, r#"{"o":{"a":1}}"#, "o.b z"),
            (r#"{"k":{"x":{"y":1},"o":{"z":1}}}"#, r#"{"k":{"o":{},"x":{"y":1}}}"#, "k.o.z"),
            (r#"{"k":[{"x":1}]}"#, r#"{"k":[{"x":1}]}"#, ""),
            (r#"{"kl":[{"x":1,"o":{"z":1}}]}"#, r#"{"kl":[{"o":{},"x":1}]}"#, "kl[0].o.z"),
        ] {
            let mut value = tree(before);
            let mut unknown = Vec::new();
            prune(schema.arena(), schema.root(), &mut value, &Path::ROOT, &mut unknown);
            unknown.sort_unstable();
            assert_eq!(value, tree(after), "{before}");
            assert_eq!(unknown.join(" "), gone, "{before}");
        }
    }
}
