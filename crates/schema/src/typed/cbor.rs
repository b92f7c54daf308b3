//! Encodes and decodes trees as CBOR. Unlike `value::cbor`, it encodes fields of bytes as byte strings.

use crate::model::{Arena, NodeId, Schema, Shape};
use pintle_value::cbor::{Form, Item};
use pintle_value::{Str, Value, base64, cbor};

/// Appends `tree` as one item, without the tag for self-described CBOR.
pub fn encode_cbor(schema: &Schema, tree: &Value, out: &mut Vec<u8>) {
    if schema.decodes_into_go_struct() {
        write_item(schema.arena(), schema.root(), tree, out)
    } else {
        cbor::encode_item(tree, out)
    }
}

fn write_item(arena: &Arena, id: NodeId, value: &Value, out: &mut Vec<u8>) {
    match (&arena.node(id).shape, value) {
        (Shape::Bytes, Value::String(text)) => match base64::decode(text) {
            Ok(bytes) => cbor::write_bytes(&bytes, out),
            Err(_) => cbor::write_text(text, out),
        },
        (Shape::List { item: item_type, .. }, Value::Array(items)) => {
            cbor::write_array_head(items.len(), out);
            for entry in items {
                write_item(arena, *item_type, entry, out);
            }
        }
        (Shape::Map { value: member_type, .. }, Value::Object(map)) => {
            members(map.as_slice(), out, |_, value, out| write_item(arena, *member_type, value, out));
        }
        (Shape::Struct(s), Value::Object(map)) => {
            members(map.as_slice(), out, |name, value, out| match s.field(name) {
                Some(field) => write_item(arena, field.node, value, out),
                None => cbor::encode_item(value, out),
            });
        }
        (_, value) => cbor::encode_item(value, out),
    }
}

/// Restores the bytes fields of `tree`, which was decoded from `document`: a byte string is base64 text, unless a tag (21
/// to 23) gives the encoding that its bytes have in JSON. The error describes the first invalid field.
pub fn restore_bytes(schema: &Schema, tree: &mut Value, document: &[u8]) -> Result<(), String> {
    restore(schema.arena(), schema.root(), tree, Item::of(document), "")
}

/// Replaces the texts of byte strings by base64, as JSON has them. `field` is the struct field of the value in errors.
fn restore(arena: &Arena, id: NodeId, value: &mut Value, item: Item<'_>, field: &str) -> Result<(), String> {
    if !arena.reaches_bytes(id) {
        return Ok(());
    }
    let node = arena.node(id);
    match (&node.shape, item.form(), &mut *value) {
        (Shape::Bytes, Form::Bytes { encoded: true, content }, _) => {
            *value = Value::String(Str::from(base64::encode(&content)));
        }
        (Shape::Bytes, Form::Bytes { encoded: false, content }, _) => {
            let text = String::from_utf8_lossy(&content);
            let bytes = base64::decode(&text)
                .map_err(|error| format!("cbor: failed to decode base64 from byte string: {error}"))?;
            *value = Value::String(Str::from(base64::encode(&bytes)));
        }
        (Shape::Bytes, Form::Text, _) => {
            return Err(format!(
                "cbor: cannot unmarshal UTF-8 text string into Go struct field {field} of type []uint8"
            ));
        }
        (Shape::Struct(s), Form::Map(members), Value::Object(map)) => {
            for (key, member) in members {
                if let (Some(struct_field), Some(below)) = (s.field(&key), map.get_mut(&key)) {
                    restore(arena, struct_field.node, below, member, &format!("{}.{key}", node.go))?;
                }
            }
        }
        (Shape::Map { value: member_type, .. }, Form::Map(members), Value::Object(map)) => {
            for (key, member) in members {
                if let Some(below) = map.get_mut(&key) {
                    restore(arena, *member_type, below, member, field)?;
                }
            }
        }
        (Shape::List { item: item_type, .. }, Form::Array(items), Value::Array(entries)) => {
            for (entry, item) in entries.iter_mut().zip(items) {
                restore(arena, *item_type, entry, item, field)?;
            }
        }
        _ => {}
    }
    Ok(())
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
    fn byte_strings_are_base64_unless_a_tag_says_otherwise() {
        let mut arena = Arena::default();
        let bytes = arena.push(Node::of(Shape::Bytes));
        let mut s = Struct::by_name(vec![Field::new("b", bytes)], MapKind::Granular);
        s.go_name = Str::from("Thing");
        let root = arena.push(Node { go: "v1.Thing".into(), ..Node::of(Shape::Struct(s)) });
        arena.seal();
        let schema = Schema::new(Arc::new(arena), root);
        let read = |item: &[u8]| {
            let document = [&[0xa1, 0x61, b'b'], item].concat();
            let mut tree = cbor::decode(&document).unwrap();
            restore_bytes(&schema, &mut tree, &document).map(|()| tree.str_at(&["b"]).to_string())
        };
        for tag in [0xd5, 0xd6, 0xd7] {
            assert_eq!(read(&[tag, 0x42, b'h', b'i']).as_deref(), Ok("aGk="));
        }
        assert_eq!(read(b"\x44aGk=").as_deref(), Ok("aGk="));
        assert_eq!(read(b"\xd9\xd9\xf7\x44aGk=").as_deref(), Ok("aGk="));
        let invalid = "cbor: failed to decode base64 from byte string: illegal base64 data at input byte 0";
        assert_eq!(read(b"\x42hi").unwrap_err(), invalid);
        let text = "cbor: cannot unmarshal UTF-8 text string into Go struct field v1.Thing.b of type []uint8";
        assert_eq!(read(b"\x64aGk=").unwrap_err(), text);
    }

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
