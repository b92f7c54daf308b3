//! Writes the message of a canonical tree.

use crate::model::{Arena, Choice, Field, Member, Node, NodeId, Other, Schema, Shape, Struct};
use pintle_meta::Timestamp;
use pintle_meta::duration::GoDuration;
use pintle_protobuf::Writer;
use pintle_value::{Map, Value, base64, json};

/// Appends the message of `tree`, without an envelope.
pub fn encode_message(schema: &Schema, tree: &Value, out: &mut Vec<u8>) {
    if let (Shape::Struct(s), Value::Object(map)) = (&schema.node().shape, tree) {
        let mut writer = Writer(std::mem::take(out));
        Encoder { arena: schema.arena() }.encode_struct(s, map, &mut writer);
        *out = writer.0;
    }
}

#[derive(Clone, Copy)]
struct Encoder<'a> {
    arena: &'a Arena,
}

impl Encoder<'_> {
    fn encode_struct(self, s: &Struct, map: &Map, out: &mut Writer) {
        for wire in &s.wire {
            match wire.member {
                Member::Field(at) => {
                    let Some(field) = s.fields.get(usize::from(at)) else { continue };
                    self.encode_field(wire.number.into(), field, map.get(&field.name), out);
                }
                // JSON shows the fields of an inlined struct among those around it.
                Member::Inlined(at) => {
                    let inner = s.inlined.get(usize::from(at)).map(|i| &self.arena.node(i.node).shape);
                    if let Some(Shape::Struct(inner)) = inner {
                        out.message(wire.number.into(), |out| self.encode_struct(inner, map, out));
                    }
                }
            }
        }
    }

    fn encode_field(self, number: u64, field: &Field, value: Option<&Value>, out: &mut Writer) {
        let node = self.arena.node(field.node);
        let value = value.unwrap_or(&Value::Null);
        if value.is_null() && field.pointer {
            return;
        }
        match (&node.shape, value) {
            (Shape::List { .. } | Shape::Map { .. } | Shape::Bytes, Value::Null) => {}
            (Shape::List { item, .. }, Value::Array(items)) if node.wrapped => {
                out.message(number, |out| self.encode_items(1, *item, items, out));
            }
            (Shape::List { item, .. }, Value::Array(items)) => self.encode_items(number, *item, items, out),
            (Shape::Map { value, .. }, Value::Object(map)) => self.encode_map(number, *value, map, out),
            _ => self.one(number, node, value, out),
        }
    }

    fn encode_items(self, number: u64, item: NodeId, items: &[Value], out: &mut Writer) {
        let node = self.arena.node(item);
        for value in items {
            self.one(number, node, value, out);
        }
    }

    fn encode_map(self, number: u64, value_node: NodeId, map: &Map, out: &mut Writer) {
        let node = self.arena.node(value_node);
        for (key, value) in map.iter() {
            out.message(number, |out| {
                out.string(1, key);
                match (&node.shape, value) {
                    (Shape::Bytes, Value::Null) => {}
                    _ => self.one(2, node, value, out),
                }
            });
        }
    }

    /// One value, written even when it is zero. `null` is the zero value.
    fn one(self, number: u64, node: &Node, value: &Value, out: &mut Writer) {
        match &node.shape {
            Shape::Bool => out.int(number, i64::from(value.as_bool().unwrap_or(false))),
            Shape::Int { .. } => out.int(number, value.as_int().unwrap_or(0)),
            Shape::Float => {
                let float = match value {
                    Value::Float(f) => *f,
                    other => other.as_int().unwrap_or(0) as f64,
                };
                out.fixed64(number, float.to_bits());
            }
            Shape::String => out.string(number, value.as_str().unwrap_or("")),
            Shape::Bytes => {
                let bytes = base64::decode(value.as_str().unwrap_or("")).unwrap_or_default();
                out.bytes(number, &bytes);
            }
            Shape::Struct(s) => out.message(number, |out| match value {
                Value::Object(map) => self.encode_struct(s, map, out),
                _ => self.encode_struct(s, &Map::new(), out),
            }),
            // A list that is an item or a map's value is of a named type, which has a message of its own.
            Shape::List { item, .. } => out.message(number, |out| {
                self.encode_items(1, *item, value.as_array().unwrap_or_default(), out);
            }),
            Shape::Map { value: member_type, .. } => {
                if let Value::Object(map) = value {
                    self.encode_map(number, *member_type, map, out);
                }
            }
            Shape::Time => out.message(number, |out| encode_time(value, false, out)),
            Shape::MicroTime => out.message(number, |out| encode_time(value, true, out)),
            Shape::Duration => {
                let duration = GoDuration::parse(value.as_str().unwrap_or("0s")).unwrap_or_default();
                out.message(number, |out| out.int(1, duration.0));
            }
            Shape::Quantity => {
                out.message(number, |out| out.string(1, value.as_str().unwrap_or("0")));
            }
            Shape::IntOrString => out.message(number, |out| {
                out.int(1, i64::from(matches!(value, Value::String(_))));
                out.int(2, value.as_int().unwrap_or(0));
                out.string(3, value.as_str().unwrap_or(""));
            }),
            Shape::Any => match node.choice {
                Some(choice) => out.message(number, |out| self.encode_choice(choice, value, out)),
                None => out.message(number, |out| raw(value, out)),
            },
        }
    }

    fn encode_choice(self, choice: Choice, value: &Value, out: &mut Writer) {
        let props = self.arena.node(choice.props);
        let (schema, rest) = if choice.other == Other::Bool { (2, 1) } else { (1, 2) };
        if choice.other == Other::Bool {
            let allows = matches!(value, Value::Object(_) | Value::Bool(true));
            out.int(rest, i64::from(allows));
        }
        match value {
            Value::Object(_) => self.one(schema, props, value, out),
            Value::Array(items) if choice.other == Other::List => {
                self.encode_items(rest, choice.props, items, out)
            }
            Value::Array(items) => {
                for item in items {
                    out.string(rest, item.as_str().unwrap_or(""));
                }
            }
            _ => {}
        }
    }
}

/// Raw JSON; nothing at all for `null`.
fn raw(value: &Value, out: &mut Writer) {
    if value.is_null() {
        return;
    }
    if let Value::Raw(raw) = value {
        return out.string(1, raw.text());
    }
    let bytes = json::bytes(value);
    out.bytes(1, &bytes);
}

/// Seconds and nanoseconds; nothing at all for the zero time.
fn encode_time(value: &Value, micro: bool, out: &mut Writer) {
    let Some(text) = value.as_str() else { return };
    let parsed = if micro { Timestamp::parse_micro(text) } else { Timestamp::parse(text) };
    let Ok(time) = parsed else { return };
    if time.is_zero() {
        return;
    }
    let nanos = if micro { (i64::from(time.nanos) / 1000).saturating_mul(1000) } else { 0 };
    out.int(1, time.seconds);
    out.int(2, nanos);
}
