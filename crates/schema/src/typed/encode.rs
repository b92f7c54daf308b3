//! Writes a tree as Go's `json.Marshal` does: struct fields in their order, maps by key.

use crate::model::{Arena, Field, NodeId, Omit, Schema, Shape, Struct};
use pintle_value::{Map, Value, compare_text, is_same_text, json};

const RESOURCE_VERSION: &str = "resourceVersion";

/// The position of `resourceVersion` in the bytes of a stored object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Offset in the bytes.
    pub at: usize,
    /// Whether a comma goes before it.
    pub comma_before: bool,
    /// Whether a comma goes after it.
    pub comma_after: bool,
}

impl Slot {
    /// Appends the member with the commas it needs.
    pub fn write(&self, revision: u64, out: &mut Vec<u8>) {
        if self.comma_before {
            out.push(b',');
        }
        out.extend_from_slice(b"\"resourceVersion\":\"");
        json::write_int(i64::try_from(revision).unwrap_or(i64::MAX), out);
        out.push(b'"');
        if self.comma_after {
            out.push(b',');
        }
    }
}

/// Appends `tree` as compact JSON.
pub fn encode_json(schema: &Schema, tree: &Value, out: &mut Vec<u8>) {
    Encoder { arena: schema.arena(), out, slot: None, stored: false }.write_value(schema.root(), tree);
}

/// Appends `tree` as compact JSON without `metadata.resourceVersion`; returns the position of that, as an offset from the
/// start of `out`.
pub fn encode_stored(schema: &Schema, tree: &Value, out: &mut Vec<u8>) -> Slot {
    let mut encoder = Encoder {
        arena: schema.arena(),
        out,
        slot: Some(Slot::default()),
        stored: !is_stored_as_json(schema),
    };
    match (&schema.node().shape, tree) {
        (Shape::Struct(s), Value::Object(map)) => encoder.members(Some(s), map, Level::Root),
        _ => encoder.write_value(schema.root(), tree),
    }
    encoder.slot.unwrap_or_default()
}

/// Whether kube-apiserver stores the objects as JSON, in which an empty list remains one.
fn is_stored_as_json(schema: &Schema) -> bool {
    matches!(&schema.node().shape, Shape::Struct(s) if s.go_name == "CustomResourceDefinition")
}

struct Encoder<'a> {
    arena: &'a Arena,
    out: &'a mut Vec<u8>,
    slot: Option<Slot>,
    /// Whether the output is for the store as protobuf, which does not distinguish an empty list from a missing one.
    stored: bool,
}

/// The level of an object, as far as it matters for the slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Metadata,
    Deeper,
}

impl Encoder<'_> {
    fn write_value(&mut self, id: NodeId, value: &Value) {
        match (&self.arena.node(id).shape, value) {
            (Shape::Struct(s), Value::Object(map)) => self.members(Some(s), map, Level::Deeper),
            (Shape::List { item, .. }, Value::Array(items)) => {
                self.out.push(b'[');
                for (index, entry) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    self.write_value(*item, entry);
                }
                self.out.push(b']');
            }
            (Shape::Map { value: member_type, .. }, Value::Object(map)) => {
                self.out.push(b'{');
                for (index, (key, entry)) in map.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    json::write_string(key, self.out);
                    self.out.push(b':');
                    self.write_value(*member_type, entry);
                }
                self.out.push(b'}');
            }
            (Shape::Any, Value::Object(_) | Value::Array(_)) => self.any(id, value),
            // The store has the original bytes of the request; clients receive them without white space.
            (Shape::Any, Value::Raw(raw)) if self.stored => self.out.extend_from_slice(raw.text().as_bytes()),
            (_, Value::String(text)) => json::write_string(text, self.out),
            (_, value) => json::print(value, self.out),
        }
    }

    /// Writes raw JSON unchanged; a JSON schema in the order of its fields.
    fn any(&mut self, id: NodeId, value: &Value) {
        match (self.arena.node(id).choice, value) {
            (Some(choice), Value::Object(_)) => self.write_value(choice.props, value),
            (Some(choice), Value::Array(items)) => {
                self.out.push(b'[');
                for (index, entry) in items.iter().enumerate() {
                    if index > 0 {
                        self.out.push(b',');
                    }
                    self.write_value(choice.props, entry);
                }
                self.out.push(b']');
            }
            _ => json::print(value, self.out),
        }
    }

    /// Writes the members of an object: in the order of a Go struct's fields, otherwise by name.
    fn members(&mut self, s: Option<&Struct>, map: &Map, level: Level) {
        self.out.push(b'{');
        let start = self.out.len();
        let mut slot = (level == Level::Metadata).then_some(());
        match s.filter(|s| !s.go_name.is_empty()) {
            Some(s) => {
                let version = s.field(RESOURCE_VERSION).map_or(0, |f| f.rank);
                let present = Present::of(s, map);
                for field in s.in_order() {
                    let Some(value) = present.get(map, field) else { continue };
                    self.note(start, field.rank > version, &mut slot);
                    if level == Level::Metadata && field.rank == version {
                        continue;
                    }
                    self.known_key(start, &field.name);
                    if self.stored && is_empty_list(value) && field.omit == Omit::Never {
                        self.out.extend_from_slice(b"null");
                        continue;
                    }
                    self.write_child(
                        Some(field.node),
                        value,
                        level == Level::Root && field.name == "metadata",
                    );
                }
            }
            None => {
                for (key, value) in map.iter() {
                    self.note(start, key.as_str() > RESOURCE_VERSION, &mut slot);
                    if level == Level::Metadata && key == RESOURCE_VERSION {
                        continue;
                    }
                    self.write_key(start, key);
                    let node = s.and_then(|s| s.field(key)).map(|f| f.node);
                    self.write_child(node, value, level == Level::Root && key == "metadata");
                }
            }
        }
        if slot.is_some() {
            let comma_before = self.out.len() > start;
            self.slot = Some(Slot { at: self.out.len(), comma_before, comma_after: false });
        }
        self.out.push(b'}');
    }

    /// Records the slot before the first member that follows it.
    fn note(&mut self, start: usize, after: bool, slot: &mut Option<()>) {
        if !after || slot.take().is_none() {
            return;
        }
        let first = self.out.len() == start;
        // The comma after the previous member is not written yet; it becomes part of the slot.
        self.slot = Some(Slot { at: self.out.len(), comma_before: !first, comma_after: first });
    }

    /// Writes a field name of a Go type, which needs no escapes.
    fn known_key(&mut self, start: usize, key: &str) {
        self.out.extend_from_slice(if self.out.len() > start { b",\"" } else { b"\"" });
        self.out.extend_from_slice(key.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn write_key(&mut self, start: usize, key: &str) {
        if self.out.len() > start {
            self.out.push(b',');
        }
        json::write_string(key, self.out);
        self.out.push(b':');
    }

    fn write_child(&mut self, node: Option<NodeId>, value: &Value, metadata: bool) {
        let Some(node) = node else { return json::print(value, self.out) };
        match (metadata && self.slot.is_some(), value) {
            (true, Value::Object(map)) => {
                let shape = &self.arena.node(node).shape;
                let s = if let Shape::Struct(s) = shape { Some(s) } else { None };
                self.members(s, map, Level::Metadata);
            }
            _ => self.write_value(node, value),
        }
    }
}

/// The members by the rank of their fields, found in one pass over the sorted members and the sorted fields.
struct Present<'v> {
    by_rank: [Option<&'v Value>; PRESENT_MAX],
}

/// The maximum number of fields of a struct for which ranks are used; larger ones (none of the tables is) are looked up
/// by name.
const PRESENT_MAX: usize = 64;

impl<'v> Present<'v> {
    fn of(s: &Struct, map: &'v Map) -> Self {
        let mut present = Present { by_rank: [None; PRESENT_MAX] };
        let mut fields = s.fields.iter();
        let mut field = fields.next();
        for (key, value) in map.iter() {
            while field.is_some_and(|f| compare_text(&f.name, key).is_lt()) {
                field = fields.next();
            }
            let known = field.filter(|f| is_same_text(&f.name, key));
            if let Some(to) = known.and_then(|f| present.by_rank.get_mut(usize::from(f.rank))) {
                *to = Some(value);
            }
        }
        present
    }

    fn get(&self, map: &'v Map, field: &Field) -> Option<&'v Value> {
        match self.by_rank.get(usize::from(field.rank)) {
            Some(value) => *value,
            None => map.get(&field.name),
        }
    }
}
/// Whether a value is an empty list.
fn is_empty_list(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
