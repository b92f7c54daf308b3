//! From a canonical tree to CBOR: as the tree alone would be written, but for bytes, which are no text there.

use crate::model::{Arena, NodeId, Schema, Shape};
use pintle_value::{Str, Value, base64, cbor};

/// Appends `tree` as one item, without the tag that says what it is.
pub fn encode_cbor(schema: &Schema, tree: &Value, out: &mut Vec<u8>) {
    match schema.is_go() {
        true => item(schema.arena(), schema.root(), tree, out),
        // Custom resources hold what was sent: bytes are text in them.
        false => cbor::encode_item(tree, out),
    }
}

fn item(arena: &Arena, id: NodeId, value: &Value, out: &mut Vec<u8>) {
    match (&arena.node(id).shape, value) {
        (Shape::Bytes, Value::String(text)) => match base64::decode(text) {
            Ok(bytes) => cbor::write_bytes(&bytes, out),
            Err(_) => cbor::write_text(text, out),
        },
        (Shape::List { item: of, .. }, Value::Array(items)) => {
            cbor::write_array_head(items.len(), out);
            for entry in items {
                item(arena, *of, entry, out);
            }
        }
        (Shape::Map { value: of, .. }, Value::Object(map)) => {
            members(map.as_slice(), out, |_, value, out| item(arena, *of, value, out));
        }
        (Shape::Struct(s), Value::Object(map)) => {
            members(map.as_slice(), out, |name, value, out| match s.field(name) {
                Some(field) => item(arena, field.node, value, out),
                None => cbor::encode_item(value, out),
            });
        }
        (_, value) => cbor::encode_item(value, out),
    }
}

/// Keys are ordered by their encoded form, which begins with the length.
fn members(entries: &[(Str, Value)], out: &mut Vec<u8>, write: impl Fn(&str, &Value, &mut Vec<u8>)) {
    cbor::write_map_head(entries.len(), out);
    let mut sorted: Vec<_> = entries.iter().collect();
    sorted.sort_by_key(|(key, _)| key.len());
    for (key, value) in sorted {
        cbor::write_text(key, out);
        write(key, value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Field, MapKind, Node, Struct};
    use std::sync::Arc;

    #[test]
    fn bytes_are_bytes_in_go_types_only() {
        let tree = Value::Object([("b", Value::from("AAE="))].into_iter().collect());
        let encoded = |go_name: &str| {
            let mut arena = Arena::default();
            let bytes = arena.push(Node::of(Shape::Bytes));
            let mut s = Struct::by_name(vec![Field::new("b", bytes)], MapKind::Granular);
            s.go_name = Str::from(go_name);
            let root = arena.push(Node::of(Shape::Struct(s)));
            let mut out = Vec::new();
            encode_cbor(&Schema::new(Arc::new(arena), root), &tree, &mut out);
            out
        };
        assert_eq!(encoded("ConfigMap"), [0xa1, 0x41, b'b', 0xd6, 0x42, 0, 1]);
        assert_eq!(encoded(""), [0xa1, 0x41, b'b', 0x44, b'A', b'A', b'E', b'=']);
    }
}
