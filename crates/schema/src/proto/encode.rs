//! Writes the message of a canonical tree.

use super::wire::{FIXED64, write_bytes, write_int, write_nested, write_tag};
use crate::model::{Arena, Choice, Field, Member, Node, NodeId, Other, Schema, Shape, Struct};
use pintle_meta::Timestamp;
use pintle_meta::duration::GoDuration;
use pintle_value::{Map, Value, base64, json};

/// Appends the message of `tree`, without an envelope.
pub fn encode_message(schema: &Schema, tree: &Value, out: &mut Vec<u8>) {
    if let (Shape::Struct(s), Value::Object(map)) = (&schema.node().shape, tree) {
        Encoder { arena: schema.arena() }.structure(s, map, out);
    }
}

#[derive(Clone, Copy)]
struct Encoder<'a> {
    arena: &'a Arena,
}

impl Encoder<'_> {
    fn structure(self, s: &Struct, map: &Map, out: &mut Vec<u8>) {
        for wire in &s.wire {
            match wire.member {
                Member::Field(at) => {
                    let Some(field) = s.fields.get(usize::from(at)) else { continue };
                    self.field(wire.number, field, map.get(&field.name), out);
                }
                // JSON shows the fields of an inlined struct among those around it.
                Member::Inlined(at) => {
                    let inner = s.inlined.get(usize::from(at)).map(|i| &self.arena.node(i.node).shape);
                    if let Some(Shape::Struct(inner)) = inner {
                        write_nested(wire.number, out, |out| self.structure(inner, map, out));
                    }
                }
            }
        }
    }

    fn field(self, number: u32, field: &Field, value: Option<&Value>, out: &mut Vec<u8>) {
        let node = self.arena.node(field.node);
        let value = value.unwrap_or(&Value::Null);
        if value.is_null() && field.pointer {
            return;
        }
        match (&node.shape, value) {
            (Shape::List { .. } | Shape::Map { .. } | Shape::Bytes, Value::Null) => {}
            (Shape::List { item, .. }, Value::Array(items)) if node.wrapped => {
                write_nested(number, out, |out| self.items(1, *item, items, out));
            }
            (Shape::List { item, .. }, Value::Array(items)) => self.items(number, *item, items, out),
            (Shape::Map { value, .. }, Value::Object(map)) => self.map(number, *value, map, out),
            _ => self.one(number, node, value, out),
        }
    }

    fn items(self, number: u32, item: NodeId, items: &[Value], out: &mut Vec<u8>) {
        let node = self.arena.node(item);
        for value in items {
            self.one(number, node, value, out);
        }
    }

    fn map(self, number: u32, of: NodeId, map: &Map, out: &mut Vec<u8>) {
        let node = self.arena.node(of);
        for (key, value) in map.iter() {
            write_nested(number, out, |out| {
                write_bytes(1, key.as_bytes(), out);
                match (&node.shape, value) {
                    (Shape::Bytes, Value::Null) => {}
                    _ => self.one(2, node, value, out),
                }
            });
        }
    }

    /// One value, written even when it is zero. `null` is the zero value.
    fn one(self, number: u32, node: &Node, value: &Value, out: &mut Vec<u8>) {
        match &node.shape {
            Shape::Bool => write_int(number, i64::from(value.as_bool().unwrap_or(false)), out),
            Shape::Int { .. } => write_int(number, value.as_int().unwrap_or(0), out),
            Shape::Float => {
                let float = match value {
                    Value::Float(f) => *f,
                    other => other.as_int().unwrap_or(0) as f64,
                };
                write_tag(number, FIXED64, out);
                out.extend_from_slice(&float.to_bits().to_le_bytes());
            }
            Shape::String => write_bytes(number, value.as_str().unwrap_or("").as_bytes(), out),
            Shape::Bytes => {
                let bytes = base64::decode(value.as_str().unwrap_or("")).unwrap_or_default();
                write_bytes(number, &bytes, out);
            }
            Shape::Struct(s) => write_nested(number, out, |out| match value {
                Value::Object(map) => self.structure(s, map, out),
                _ => self.structure(s, &Map::new(), out),
            }),
            // A list that is an item or a map's value is of a named type, which has a message of its own.
            Shape::List { item, .. } => write_nested(number, out, |out| {
                self.items(1, *item, value.as_array().unwrap_or_default(), out);
            }),
            Shape::Map { value: of, .. } => {
                if let Value::Object(map) = value {
                    self.map(number, *of, map, out);
                }
            }
            Shape::Time => write_nested(number, out, |out| time(value, false, out)),
            Shape::MicroTime => write_nested(number, out, |out| time(value, true, out)),
            Shape::Duration => {
                let duration = GoDuration::parse(value.as_str().unwrap_or("0s")).unwrap_or_default();
                write_nested(number, out, |out| write_int(1, duration.0, out));
            }
            Shape::Quantity => {
                write_nested(number, out, |out| {
                    write_bytes(1, value.as_str().unwrap_or("0").as_bytes(), out)
                });
            }
            Shape::IntOrString => write_nested(number, out, |out| {
                write_int(1, i64::from(matches!(value, Value::String(_))), out);
                write_int(2, value.as_int().unwrap_or(0), out);
                write_bytes(3, value.as_str().unwrap_or("").as_bytes(), out);
            }),
            Shape::Any => match node.choice {
                Some(choice) => write_nested(number, out, |out| self.choice(choice, value, out)),
                None => write_nested(number, out, |out| raw(value, out)),
            },
        }
    }

    fn choice(self, choice: Choice, value: &Value, out: &mut Vec<u8>) {
        let props = self.arena.node(choice.props);
        let (schema, rest) = if choice.other == Other::Bool { (2, 1) } else { (1, 2) };
        if choice.other == Other::Bool {
            let allows = matches!(value, Value::Object(_) | Value::Bool(true));
            write_int(rest, i64::from(allows), out);
        }
        match value {
            Value::Object(_) => self.one(schema, props, value, out),
            Value::Array(items) if choice.other == Other::List => self.items(rest, choice.props, items, out),
            Value::Array(items) => {
                for item in items {
                    write_bytes(rest, item.as_str().unwrap_or("").as_bytes(), out);
                }
            }
            _ => {}
        }
    }
}

/// Raw JSON; nothing at all for `null`.
fn raw(value: &Value, out: &mut Vec<u8>) {
    if value.is_null() {
        return;
    }
    if let Value::Raw(raw) = value {
        return write_bytes(1, raw.text().as_bytes(), out);
    }
    let mut bytes = Vec::new();
    json::print(value, &mut bytes);
    write_bytes(1, &bytes, out);
}

/// Seconds and nanoseconds; nothing at all for the zero time.
fn time(value: &Value, micro: bool, out: &mut Vec<u8>) {
    let Some(text) = value.as_str() else { return };
    let parsed = if micro { Timestamp::parse_micro(text) } else { Timestamp::parse(text) };
    let Ok(time) = parsed else { return };
    if time.is_zero() {
        return;
    }
    let nanos = if micro { (i64::from(time.nanos) / 1000).saturating_mul(1000) } else { 0 };
    write_int(1, time.seconds, out);
    write_int(2, nanos, out);
}
