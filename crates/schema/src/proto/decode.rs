//! Decodes a message into a canonical tree.

use super::wire::{BYTES, FIXED64, ProtoError, Reader, VARINT};
use crate::model::{Arena, Choice, Field, Member, Node, NodeId, Omit, Other, Schema, Shape, Struct};
use crate::typed::{float_value, normalize};
use pintle_meta::duration::GoDuration;
use pintle_meta::{Timestamp, quantity};
use pintle_value::{Map, RawJson, Str, Value, base64, json};

/// The deepest nesting of messages. Only JSON schemas can nest arbitrarily, and real ones are far from this limit.
pub const PROTO_DEPTH_MAX: usize = 200;

/// Reads the message of an object, without an envelope.
pub fn decode_message(schema: &Schema, bytes: &[u8]) -> Result<Value, ProtoError> {
    let Shape::Struct(s) = &schema.node().shape else { return Ok(Value::object()) };
    let mut map = Map::new();
    Decoder { arena: schema.arena(), depth: 0 }.structure(s, bytes, &mut map)?;
    let mut tree = Value::Object(map);
    normalize(schema, &mut tree);
    Ok(tree)
}

#[derive(Clone, Copy)]
struct Decoder<'a> {
    arena: &'a Arena,
    depth: usize,
}

/// The entries of a struct's maps in the order of the message. They are inserted at once: a map is a sorted vector, and
/// millions of single inserts would take quadratic time.
type Entries<'a> = Vec<(&'a Field, Vec<(Str, Value)>)>;

impl<'a> Decoder<'a> {
    /// Decodes a message into `map`. Like Go, merges a field that occurs twice.
    fn structure(self, s: &'a Struct, bytes: &[u8], map: &mut Map) -> Result<(), ProtoError> {
        if self.depth > PROTO_DEPTH_MAX {
            return Err(ProtoError::TooDeep);
        }
        let below = Decoder { depth: self.depth.saturating_add(1), ..self };
        let mut entries: Entries<'a> = Vec::new();
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag(&s.go_name)?;
            let Ok(at) = s.wire.binary_search_by_key(&number, |w| w.number) else {
                reader.skip(wire_type)?;
                continue;
            };
            match s.wire.get(at).map(|w| w.member) {
                Some(Member::Field(at)) => {
                    let Some(field) = s.fields.get(usize::from(at)) else { continue };
                    below.decode_field(field, wire_type, &mut reader, map, &mut entries)?;
                }
                Some(Member::Inlined(at)) => {
                    let Some(inlined) = s.inlined.get(usize::from(at)) else { continue };
                    expect(wire_type, BYTES, || inlined.go_name.to_string())?;
                    let bytes = reader.bytes()?;
                    if let Shape::Struct(inner) = &self.arena.node(inlined.node).shape {
                        below.structure(inner, bytes, map)?;
                    }
                }
                None => {}
            }
        }
        for (field, mut new) in entries {
            if let Some(Value::Object(old)) = map.remove(&field.name) {
                let mut all: Vec<(Str, Value)> = old.into_iter().collect();
                all.append(&mut new);
                new = all;
            }
            map.insert(field.name.clone(), Value::Object(Map::from_entries(new).0));
        }
        Ok(())
    }

    fn decode_field(
        self,
        field: &'a Field,
        wire_type: u8,
        reader: &mut Reader<'_>,
        map: &mut Map,
        entries: &mut Entries<'a>,
    ) -> Result<(), ProtoError> {
        let node = self.arena.node(field.node);
        match &node.shape {
            Shape::List { item, .. } if !node.wrapped => {
                let items = list_of(map.entry(&field.name));
                self.item(field, *item, wire_type, reader, items)
            }
            Shape::Map { value: member_type, .. } => {
                expect(wire_type, BYTES, || go_field(field, self.arena))?;
                let entry = self.entry(*member_type, reader.bytes()?)?;
                match entries.iter_mut().find(|(f, _)| f.name == field.name) {
                    Some((_, list)) => list.push(entry),
                    None => entries.push((field, vec![entry])),
                }
                Ok(())
            }
            Shape::Bool | Shape::Int { .. } | Shape::String
                if !field.pointer && field.omit != Omit::Never =>
            {
                expect(wire_type, wire_type_of(node), || go_field(field, self.arena))?;
                let mut value = Value::Null;
                decode_scalar(&node.shape, reader, &mut value)?;
                // Zero values are always in the message and never in the tree.
                match value {
                    Value::Bool(false) | Value::Int(0) => _ = map.remove(&field.name),
                    Value::String(text) if text.is_empty() => _ = map.remove(&field.name),
                    value => _ = map.insert(field.name.clone(), value),
                }
                Ok(())
            }
            _ => {
                expect(wire_type, wire_type_of(node), || go_field(field, self.arena))?;
                self.one(node, reader, map.entry(&field.name))
            }
        }
    }

    /// Decodes one item of a list, or several packed numbers.
    fn item(
        self,
        field: &Field,
        item: NodeId,
        wire_type: u8,
        reader: &mut Reader<'_>,
        items: &mut Vec<Value>,
    ) -> Result<(), ProtoError> {
        let node = self.arena.node(item);
        let wanted = wire_type_of(node);
        if wire_type == BYTES && wanted != BYTES {
            let mut packed = Reader::new(reader.bytes()?);
            while !packed.is_empty() {
                self.push(node, &mut packed, items)?;
            }
            return Ok(());
        }
        expect(wire_type, wanted, || go_field(field, self.arena))?;
        self.push(node, reader, items)
    }

    /// Decodes the entry of a map: key 1, value 2.
    fn entry(self, value_node: NodeId, bytes: &[u8]) -> Result<(Str, Value), ProtoError> {
        let node = self.arena.node(value_node);
        let (mut key, mut value) = (Str::default(), Value::Null);
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            match reader.entry_tag()? {
                (1, _) => key = text(reader.bytes()?),
                (2, _) => self.one(node, &mut reader, &mut value)?,
                (_, wire_type) => reader.skip(wire_type)?,
            }
        }
        Ok((key, value))
    }

    /// Decodes one value, into the previous one. The parts that recurse are separate functions, so that a level takes
    /// little of the stack.
    fn one(self, node: &'a Node, reader: &mut Reader<'_>, value: &mut Value) -> Result<(), ProtoError> {
        match (&node.shape, node.choice) {
            (Shape::Struct(s), _) => {
                if !matches!(value, Value::Object(_)) {
                    *value = Value::object();
                }
                let bytes = reader.bytes()?;
                value.as_object_mut().map_or(Ok(()), |map| self.structure(s, bytes, map))
            }
            (Shape::List { item, .. }, _) => self.wrapped(*item, reader.bytes()?, value),
            (Shape::Any, Some(choice)) => self.choice(choice, reader.bytes()?, value),
            (Shape::Any, None) if node.is_raw_extension() => {
                raw_extension(reader.bytes()?).map(|raw| *value = raw)
            }
            (shape, _) => decode_scalar(shape, reader, value),
        }
    }

    /// Decodes the items of a list that has a message of its own.
    fn wrapped(self, item: NodeId, bytes: &[u8], value: &mut Value) -> Result<(), ProtoError> {
        let node = self.arena.node(item);
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag("Items")?;
            if number != 1 {
                reader.skip(wire_type)?;
                continue;
            }
            expect(wire_type, wire_type_of(node), || "Items".to_string())?;
            self.push(node, &mut reader, list_of(value))?;
        }
        Ok(())
    }

    fn push(self, node: &'a Node, reader: &mut Reader<'_>, items: &mut Vec<Value>) -> Result<(), ProtoError> {
        items.push(Value::Null);
        match items.last_mut() {
            Some(item) => self.one(node, reader, item),
            None => Ok(()),
        }
    }

    /// Decodes a JSON schema or an alternative: a list of schemas, names, a boolean.
    fn choice(self, choice: Choice, bytes: &[u8], value: &mut Value) -> Result<(), ProtoError> {
        let props = self.arena.node(choice.props);
        let schema_number = if choice.other == Other::Bool { 2 } else { 1 };
        let mut items = Vec::new();
        let mut allows = false;
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let (number, wire_type) = reader.tag("JSONSchemaProps")?;
            match (number, choice.other) {
                (1, Other::Bool) => {
                    expect(wire_type, VARINT, || "Allows".to_string())?;
                    allows = reader.varint()? != 0;
                }
                (n, _) if n == schema_number => {
                    expect(wire_type, BYTES, || "Schema".to_string())?;
                    self.one(props, &mut reader, value)?;
                }
                (2, Other::List) => {
                    expect(wire_type, BYTES, || "JSONSchemas".to_string())?;
                    self.push(props, &mut reader, &mut items)?;
                }
                (2, Other::Strings) => {
                    expect(wire_type, BYTES, || "Property".to_string())?;
                    items.push(Value::String(text(reader.bytes()?)));
                }
                _ => reader.skip(wire_type)?,
            }
        }
        if !items.is_empty() {
            *value = Value::Array(items);
        } else if value.is_null() && choice.other == Other::Bool {
            *value = Value::Bool(allows);
        }
        Ok(())
    }
}

/// Decodes a scalar.
#[inline(never)]
fn decode_scalar(shape: &Shape, reader: &mut Reader<'_>, value: &mut Value) -> Result<(), ProtoError> {
    *value = match shape {
        Shape::Bool => Value::Bool(reader.varint()? != 0),
        Shape::Int { bits: 32 } => Value::Int(i64::from(reader.varint()? as i32)),
        Shape::Int { .. } => Value::Int(reader.varint()? as i64),
        Shape::Float => float_value(f64::from_bits(reader.fixed64()?)),
        Shape::String => Value::String(text(reader.bytes()?)),
        Shape::Bytes => Value::String(Str::from(base64::encode(reader.bytes()?))),
        Shape::Time => decode_timestamp(reader.bytes()?, false)?,
        Shape::MicroTime => decode_timestamp(reader.bytes()?, true)?,
        Shape::Duration => {
            let nanos = numbers(reader.bytes()?, "Duration")?.0;
            Value::String(Str::from(GoDuration(nanos).to_string()))
        }
        Shape::Quantity => {
            let given = text(first_bytes(reader.bytes()?, "Quantity")?.unwrap_or_default());
            Value::String(quantity::canonical(&given).map_err(|e| ProtoError::Value(e.to_string()))?)
        }
        Shape::IntOrString => int_or_string(reader.bytes()?)?,
        Shape::Any => raw(reader.bytes()?)?,
        // No type has maps or lists of these.
        Shape::Struct(_) | Shape::List { .. } | Shape::Map { .. } => {
            reader.bytes()?;
            Value::Null
        }
    };
    Ok(())
}

fn expect(got: u8, wanted: u8, name: impl FnOnce() -> String) -> Result<(), ProtoError> {
    if got == wanted { Ok(()) } else { Err(ProtoError::WrongWireType(got, name())) }
}

fn wire_type_of(node: &Node) -> u8 {
    match node.shape {
        Shape::Bool | Shape::Int { .. } => VARINT,
        Shape::Float => FIXED64,
        _ => BYTES,
    }
}

/// The Go name of a field, approximated for error messages.
fn go_field(field: &Field, arena: &Arena) -> String {
    match field.name.as_str() {
        "metadata" => arena.node(field.node).go.rsplit('.').next().unwrap_or("ObjectMeta").to_string(),
        "uid" => "UID".to_string(),
        "apiVersion" => "APIVersion".to_string(),
        name => {
            let mut chars = name.chars();
            chars.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(chars).collect()
        }
    }
}

fn list_of(value: &mut Value) -> &mut Vec<Value> {
    if !matches!(value, Value::Array(_)) {
        *value = Value::Array(Vec::new());
    }
    let Value::Array(items) = value else { unreachable!("made an array above") };
    items
}

fn text(bytes: &[u8]) -> Str {
    Str::from(String::from_utf8_lossy(bytes))
}

/// Reads the fields 1 and 2 of a message of integers.
fn numbers(bytes: &[u8], name: &str) -> Result<(i64, i64), ProtoError> {
    let (mut first, mut second) = (0, 0);
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag(name)?;
        let to = match number {
            1 => &mut first,
            2 => &mut second,
            _ => {
                reader.skip(wire_type)?;
                continue;
            }
        };
        expect(wire_type, VARINT, || name.to_string())?;
        *to = reader.varint()? as i64;
    }
    Ok((first, second))
}

/// Reads the field 1 of a message as bytes.
fn first_bytes<'b>(bytes: &'b [u8], name: &str) -> Result<Option<&'b [u8]>, ProtoError> {
    let mut found = None;
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        match reader.tag(name)? {
            (1, wire_type) => {
                expect(wire_type, BYTES, || name.to_string())?;
                found = Some(reader.bytes()?);
            }
            (_, wire_type) => reader.skip(wire_type)?,
        }
    }
    Ok(found)
}

const NANOS_PER_SECOND: i64 = 1_000_000_000;

fn decode_timestamp(bytes: &[u8], micro: bool) -> Result<Value, ProtoError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (seconds, nanos) = numbers(bytes, "Timestamp")?;
    // Nanoseconds beyond a second carry over to the seconds, as in Go's `time.Unix`.
    let seconds = seconds.saturating_add(nanos.div_euclid(NANOS_PER_SECOND));
    let within = u32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).unwrap_or(0);
    let time = Timestamp { seconds, nanos: if micro { (within / 1000).saturating_mul(1000) } else { 0 } };
    Ok(if micro { time.to_value_micro() } else { time.to_value() })
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtoError> {
    let (mut is_text, mut int, mut string) = (false, 0, Str::default());
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag("IntOrString")?;
        match number {
            1 => {
                expect(wire_type, VARINT, || "Type".to_string())?;
                is_text = reader.varint()? != 0;
            }
            2 => {
                expect(wire_type, VARINT, || "IntVal".to_string())?;
                int = i64::from(reader.varint()? as i32);
            }
            3 => {
                expect(wire_type, BYTES, || "StrVal".to_string())?;
                string = text(reader.bytes()?);
            }
            _ => reader.skip(wire_type)?,
        }
    }
    Ok(if is_text { Value::String(string) } else { Value::Int(int) })
}

/// Raw JSON.
fn raw(bytes: &[u8]) -> Result<Value, ProtoError> {
    match first_bytes(bytes, "RawExtension")? {
        None | Some([]) => Ok(Value::Null),
        Some(raw) => json::parse(raw).map(|p| p.value).map_err(|e| ProtoError::Value(e.to_string())),
    }
}

/// Raw JSON with its text.
#[inline(never)]
fn raw_extension(bytes: &[u8]) -> Result<Value, ProtoError> {
    let plain = raw(bytes)?;
    let text = first_bytes(bytes, "RawExtension")?.and_then(|text| std::str::from_utf8(text).ok());
    Ok(text.filter(|_| !plain.is_null()).map_or(Value::Null, |text| RawJson::with_text(text, plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_beyond_a_second_are_seconds() {
        // Fields 1 and 2 of google.protobuf.Timestamp: 5 seconds and 1,000,261,000 nanoseconds.
        let mut bytes = vec![0x08, 5, 0x10];
        let mut nanos: u64 = 1_000_261_000;
        while nanos > 0x7f {
            bytes.push((nanos & 0x7f) as u8 | 0x80);
            nanos >>= 7;
        }
        bytes.push(nanos as u8);
        for (micro, expected) in [(true, "1970-01-01T00:00:06.000261Z"), (false, "1970-01-01T00:00:06Z")] {
            assert_eq!(decode_timestamp(&bytes, micro).unwrap(), Value::from(expected));
        }
    }
}
