//! Pruning: removes fields that the schema does not have, and reports their paths.

use crate::{Arena, Node, NodeId, Shape};
use pintle_value::{Path, Str, Value};

/// Fields of an embedded object that its schema need not declare.
const EMBEDDED_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The size of the paths that are collected besides the last one. A path can contain a long key for each of many short fields.
const PATH_BYTES_MAX: usize = 8 << 20;

/// The paths of unknown fields.
#[derive(Debug, Default)]
pub struct UnknownFields {
    paths: Vec<Str>,
    bytes: usize,
}

impl UnknownFields {
    /// A list that takes no paths, for callers that do not report them.
    pub fn ignored() -> Self {
        UnknownFields { paths: Vec::new(), bytes: PATH_BYTES_MAX }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The paths in the order in which they were added, or sorted.
    pub fn into_paths(self) -> Vec<Str> {
        self.paths
    }

    pub(super) fn sort(&mut self) {
        self.paths.sort_unstable();
    }

    pub(super) fn add(&mut self, path: &Path<'_>) {
        if self.bytes < PATH_BYTES_MAX {
            let path = path.to_str();
            self.bytes = self.bytes.saturating_add(path.len());
            self.paths.push(path);
        }
    }
}

/// Removes unknown fields and adds their paths to `unknown`. Does not check types: an object in place of a number loses
/// all its fields.
pub fn prune(arena: &Arena, id: NodeId, value: &mut Value, path: &Path<'_>, unknown: &mut UnknownFields) {
    node(arena, Some(id), arena.node(id).preserve_unknown, value, path, unknown);
}

/// Prunes a value of the schema `id`, or without a schema. If a list preserves unknown fields, so do its items.
fn node(
    arena: &Arena,
    id: Option<NodeId>,
    preserve: bool,
    value: &mut Value,
    path: &Path<'_>,
    unknown: &mut UnknownFields,
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
                    None if !preserve => unknown.add(&at),
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
            let mut unknown = UnknownFields::default();
            prune(schema.arena(), schema.root(), &mut value, &Path::ROOT, &mut unknown);
            unknown.sort();
            assert_eq!(value, tree(after), "{before}");
            assert_eq!(unknown.into_paths().join(" "), gone, "{before}");
        }
    }

    #[test]
    fn paths_do_not_repeat_long_keys_without_limit() {
        let definition = r#"{"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"object"}}}}"#;
        let definition = json::parse(definition.as_bytes()).unwrap().value;
        let mut arena = Arena::default();
        let metadata = arena.push(Node::of(Shape::Any));
        let root = compile(&definition, metadata, &mut arena);
        arena.seal();
        let members: Vec<String> = (0..3_000).map(|n| format!(r#""f{n}":5"#)).collect();
        let text = format!(r#"{{"m":{{"{}":{{{}}}}}}}"#, "k".repeat(300_000), members.join(","));
        for (mut unknown, is_reported) in
            [(UnknownFields::default(), true), (UnknownFields::ignored(), false)]
        {
            let mut value = json::parse(text.as_bytes()).unwrap().value;
            prune(&arena, root, &mut value, &Path::ROOT, &mut unknown);
            let bytes: usize = unknown.into_paths().iter().map(|path| path.len()).sum();
            assert!(bytes < PATH_BYTES_MAX + 400_000 && (bytes > 0) == is_reported, "{bytes}");
        }
    }
}
