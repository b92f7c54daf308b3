//! Fields of the Go type `RawExtension`: kube-apiserver stores their bytes as a client sent them.

use crate::model::{Arena, NodeId, Schema, Shape};
use pintle_value::{RawJson, Value, json};

/// Attaches the original texts to the raw fields of `tree`, which was parsed from `bytes`.
pub fn restore_raw(schema: &Schema, tree: &mut Value, bytes: &[u8]) {
    if !schema.has_raw() {
        return;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        restore(schema.arena(), schema.root(), tree, text);
    }
}

/// Like Go, which decodes a repeated member again, the last one wins.
fn restore(arena: &Arena, id: NodeId, value: &mut Value, text: &str) {
    if !arena.reaches_raw(id) {
        return;
    }
    let node = arena.node(id);
    match (&node.shape, &mut *value) {
        (Shape::Any, Value::Null) => {}
        (Shape::Any, _) => {
            value.drop_text();
            // Go retains the text even if the tree has merged repeated members.
            *value = RawJson::read(text.trim_matches(JSON_BLANKS)).unwrap_or_default();
        }
        (Shape::Struct(s), Value::Object(map)) => {
            let mut parts = json::Parts::of(text);
            while let Some((key, text)) = parts.next_part() {
                if let (Some(field), Some(member)) = (s.field(&key), map.get_mut(&key)) {
                    restore(arena, field.node, member, text);
                }
            }
        }
        (Shape::Map { value: member_type, .. }, Value::Object(map)) => {
            let mut parts = json::Parts::of(text);
            while let Some((key, text)) = parts.next_part() {
                if let Some(member) = map.get_mut(&key) {
                    restore(arena, *member_type, member, text);
                }
            }
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            let mut parts = json::Parts::of(text);
            for entry in items {
                let Some((_, text)) = parts.next_part() else { return };
                restore(arena, *item, entry, text);
            }
        }
        _ => {}
    }
}

const JSON_BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// Restores a patched tree, in which raw JSON may be anywhere and the values of raw fields may contain raw JSON.
pub fn fold_raw(schema: &Schema, tree: &mut Value) {
    fold_raw_extensions(schema.arena(), Some(schema.root()), tree);
}

fn fold_raw_extensions(arena: &Arena, id: Option<NodeId>, value: &mut Value) {
    let node = id.map(|id| arena.node(id));
    let is_raw = node.is_some_and(|node| node.is_raw_extension());
    if is_raw || node.is_none() {
        // Printing and parsing do not recurse, whatever the depth of an untyped field.
        if let Value::Object(_) | Value::Array(_) | Value::Raw(_) = value {
            let text = json::bytes(value);
            let read = std::str::from_utf8(&text).ok().and_then(RawJson::read);
            *value = read.unwrap_or_default();
        }
        if !is_raw {
            value.drop_text();
        }
        return;
    }
    if let Value::Raw(_) = value
        && let Value::Raw(raw) = std::mem::take(value)
    {
        *value = raw.opened();
    }
    match (value, node.map(|node| &node.shape)) {
        (Value::Object(map), shape) => {
            for (key, member) in map.iter_mut() {
                let below = match shape {
                    Some(Shape::Struct(s)) => s.field(key).map(|field| field.node),
                    Some(Shape::Map { value, .. }) => Some(*value),
                    _ => None,
                };
                fold_raw_extensions(arena, below, member);
            }
        }
        (Value::Array(items), shape) => {
            let below = if let Some(Shape::List { item, .. }) = shape { Some(*item) } else { None };
            items.iter_mut().for_each(|entry| fold_raw_extensions(arena, below, entry));
        }
        _ => {}
    }
}

/// Removes the texts of raw fields: Go's conversion to and from maps writes them anew.
pub fn drop_raw(schema: &Schema, tree: &mut Value) {
    if schema.has_raw() {
        each_raw(schema.arena(), schema.root(), tree, &mut Value::drop_text);
    }
}

/// Gives raw fields the texts that they have in a response: without white space.
pub fn compact_raw(schema: &Schema, tree: &mut Value) {
    if schema.has_raw() {
        each_raw(schema.arena(), schema.root(), tree, &mut |value| {
            if let Value::Raw(raw) = std::mem::take(value) {
                *value = raw.compacted();
            }
        });
    }
}

fn each_raw(arena: &Arena, id: NodeId, value: &mut Value, change: &mut impl FnMut(&mut Value)) {
    if !arena.reaches_raw(id) {
        return;
    }
    match (&arena.node(id).shape, &mut *value) {
        (_, Value::Raw(_)) => change(value),
        (Shape::Struct(s), Value::Object(map)) => {
            for (key, member) in map.iter_mut() {
                if let Some(field) = s.field(key) {
                    each_raw(arena, field.node, member, change);
                }
            }
        }
        (Shape::Map { value: member_type, .. }, Value::Object(map)) => {
            map.iter_mut().for_each(|(_, member)| each_raw(arena, *member_type, member, change));
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            items.iter_mut().for_each(|entry| each_raw(arena, *item, entry, change));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Field, ListKind, MapKind, Node, Struct};
    use pintle_value::Str;
    use std::sync::Arc;

    /// The schema `{"data": RawExtension, "items": [RawExtension], "other": any JSON}`.
    fn schema() -> Schema {
        let mut arena = Arena::default();
        let raw = arena.push(Node { go: "runtime.RawExtension".into(), ..Node::of(Shape::Any) });
        let other = arena.push(Node { go: "v1.FieldsV1".into(), ..Node::of(Shape::Any) });
        let items = arena.push(Node::of(Shape::List { item: raw, kind: ListKind::Atomic }));
        let fields = vec![Field::new("data", raw), Field::new("items", items), Field::new("other", other)];
        let mut s = Struct::by_name(fields, MapKind::Granular);
        s.go_name = Str::from("Thing");
        let root = arena.push(Node::of(Shape::Struct(s)));
        arena.seal();
        Schema::new(Arc::new(arena), root)
    }

    #[test]
    fn texts_are_restored_dropped_and_compacted() {
        let body = r#"{"other":{"b":1,"a":2},"data":{ "b":1,"a":2},"items":[{"d":"<","c":1.0}]}"#;
        let printed = |tree: &Value| json::text(tree);
        let schema = schema();
        let mut tree = json::parse(body.as_bytes()).unwrap().value;
        restore_raw(&schema, &mut tree, body.as_bytes());
        let answer = r#"{"data":{"b":1,"a":2},"items":[{"d":"\u003c","c":1.0}],"other":{"a":2,"b":1}}"#;
        assert_eq!(printed(&tree), answer);
        let mut stored = Vec::new();
        crate::typed::encode_stored(&schema, &tree, &mut stored);
        let expected = r#"{"data":{ "b":1,"a":2},"items":[{"d":"<","c":1.0}],"other":{"a":2,"b":1}}"#;
        assert_eq!(String::from_utf8(stored).unwrap(), expected);
        compact_raw(&schema, &mut tree);
        assert_eq!(printed(&tree), answer);
        drop_raw(&schema, &mut tree);
        assert_eq!(
            printed(&tree),
            r#"{"data":{"a":2,"b":1},"items":[{"c":1,"d":"\u003c"}],"other":{"a":2,"b":1}}"#
        );
    }
}
