//! Converts a tree to its canonical form in place, without copying strings.

use super::errors::{Errors, Place, STRICT_ERRORS_MAX, Severity, Step, Strict, TypeError};
use super::scalar;
use super::zero::{zero, zero_field};
use crate::model::{Arena, Choice, Field, NodeId, Omit, Other, Schema, Shape, Struct};
use pintle_value::{Map, Str, Value, compare_text, is_same_text};

/// The deepest typed tree. Only JSON schemas can nest arbitrarily, and real ones are far from this limit.
pub const TYPED_DEPTH_MAX: usize = 400;

/// How empty lists and maps are handled. Go distinguishes them from missing ones until the object is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empties {
    /// They remain, for defaulting and conversion.
    Preserve,
    /// Only those remain that JSON includes.
    PreserveSerialized,
    /// They are removed.
    Remove,
}

/// Which empty lists, maps and byte strings remain in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remaining {
    /// None.
    #[default]
    Nothing,
    /// Only such that JSON includes.
    Serialized,
    /// Empty values remain, even those that JSON omits.
    Hidden,
}

/// Converts an untyped tree to the canonical tree of a Go type. Unknown fields are dropped and, with `strict`, collected.
/// Trees of custom resources are left unchanged, because their schemas have no Go types.
pub fn decode(schema: &Schema, mut tree: Value, strict: Option<&mut Strict>) -> Result<Value, TypeError> {
    let mut decoder = Decoder { strict, ..Decoder::new(schema.arena()) };
    decoder.value(schema.root(), &mut tree, &Place::ROOT);
    decoder.errors.finish()?;
    Ok(tree)
}

/// [`decode`] for a tree that a client sent: empty lists and maps remain.
pub fn decode_written(schema: &Schema, mut tree: Value, strict: &mut Strict) -> Result<Value, TypeError> {
    let mut decoder =
        Decoder { strict: Some(strict), empties: Empties::Preserve, ..Decoder::new(schema.arena()) };
    decoder.value(schema.root(), &mut tree, &Place::ROOT);
    decoder.errors.finish()?;
    Ok(tree)
}

/// Checks a value of a type with its own decoder (a time, a quantity, …). The error has no position.
pub fn check_value(arena: &Arena, id: NodeId, value: &Value) -> Result<(), TypeError> {
    let mut decoder = Decoder::new(arena);
    decoder.value(id, &mut value.clone(), &Place::ROOT);
    decoder.errors.finish()
}

/// Normalizes a tree that code has changed: removes unknown fields; leaves values of a wrong type unchanged.
pub fn normalize(schema: &Schema, tree: &mut Value) {
    normalize_with(schema, tree, Empties::Remove);
}

/// [`normalize`] with a choice of how to handle empty lists and maps. Returns which of them remain.
pub fn normalize_with(schema: &Schema, tree: &mut Value, empties: Empties) -> Remaining {
    let mut decoder = Decoder { empties, ..Decoder::new(schema.arena()) };
    decoder.value(schema.root(), tree, &Place::ROOT);
    decoder.remaining
}

pub(super) struct Decoder<'s, 'a> {
    pub(super) arena: &'s Arena,
    pub(super) strict: Option<&'a mut Strict>,
    pub(super) errors: Errors,
    pub(super) empties: Empties,
    pub(super) remaining: Remaining,
    /// The original text of the number that is decoded; otherwise errors print its value.
    pub(super) number: Option<&'a str>,
    /// Whether the result depends on the original text of some number.
    pub(super) wants_literal: bool,
}

impl<'s> Decoder<'s, '_> {
    pub(super) fn new(arena: &'s Arena) -> Self {
        let (errors, empties, remaining) = (Errors::default(), Empties::Remove, Remaining::Nothing);
        Decoder { arena, strict: None, errors, empties, remaining, number: None, wants_literal: false }
    }

    /// Decodes a value in place. `null` becomes the zero value of the type.
    pub(super) fn value(&mut self, id: NodeId, value: &mut Value, place: &Place<'_>) {
        if place.depth > TYPED_DEPTH_MAX {
            self.errors.add(place, Severity::Fatal, "exceeded max depth".to_string());
            return;
        }
        let arena = self.arena;
        let node = arena.node(id);
        match &node.shape {
            Shape::Struct(s) if !s.go_name.is_empty() => match value {
                Value::Object(map) => self.structure(s, map, place),
                Value::Null => *value = zero(arena, id),
                other => self.errors.mismatch(arena, place, Severity::Ordinary, other.json_type(), &node.go),
            },
            Shape::List { item, .. } => match value {
                Value::Array(items) => {
                    for (index, entry) in items.iter_mut().enumerate() {
                        self.value(*item, entry, &place.down(Step::Index(index)));
                    }
                }
                Value::Null => {}
                other => self.errors.mismatch(arena, place, Severity::Ordinary, other.json_type(), &node.go),
            },
            Shape::Map { value: member_type, .. } => match value {
                Value::Object(map) => {
                    for (key, entry) in map.iter_mut() {
                        self.value(*member_type, entry, &place.down(Step::Key(key)));
                        if entry.is_null() && matches!(arena.node(*member_type).shape, Shape::Bytes) {
                            *entry = Value::String(Str::default());
                        }
                    }
                }
                Value::Null => {}
                other => self.errors.mismatch(arena, place, Severity::Ordinary, other.json_type(), &node.go),
            },
            Shape::Any => {
                if let Some(choice) = node.choice {
                    self.choice(choice, value, place);
                }
            }
            Shape::Struct(_) => {}
            shape => scalar::decode(self, shape, &node.go, value, place),
        }
    }

    /// Both the members and the fields are sorted by name, so one pass over both finds the known fields.
    fn structure(&mut self, s: &'s Struct, map: &mut Map, place: &Place<'_>) {
        let mut at = 0;
        let mut missing = s.always.len();
        map.retain(|key, value| {
            while s.fields.get(at).is_some_and(|f| compare_text(&f.name, key).is_lt()) {
                at = at.saturating_add(1);
            }
            let Some(field) = s.fields.get(at).filter(|f| is_same_text(&f.name, key)) else {
                self.report_unknown(key, place);
                return false;
            };
            let keep = self.field(s, field, value, place);
            if keep && missing > 0 && s.always.binary_search(&(at as u16)).is_ok() {
                missing = missing.saturating_sub(1);
            }
            keep
        });
        if missing == 0 {
            return;
        }
        for field in s.always.iter().filter_map(|at| s.fields.get(usize::from(*at))) {
            if !map.contains_key(&field.name) {
                map.insert(field.name.clone(), zero_field(self.arena, field));
            }
        }
    }

    /// Decodes the value of a field; returns whether Go would write it.
    fn field(&mut self, s: &'s Struct, field: &'s Field, value: &mut Value, place: &Place<'_>) -> bool {
        if value.is_null() {
            let shape = &self.arena.node(field.node).shape;
            if matches!(shape, Shape::Duration) && !field.pointer {
                self.value(field.node, value, &place.down(Step::Field(s, field)));
            }
            if !field.pointer {
                *value = zero(self.arena, field.node);
            }
        } else {
            self.value(field.node, value, &place.down(Step::Field(s, field)));
        }
        if field.pointer {
            return field.omit == Omit::Never || !value.is_null();
        }
        let empty = match value {
            Value::Null => true,
            Value::Bool(b) => !*b,
            Value::Int(i) => *i == 0,
            Value::Float(f) => *f == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Raw(_) => false,
        };
        let shape = &self.arena.node(field.node).shape;
        match field.omit {
            Omit::Empty
                if self.empties == Empties::Preserve
                    && matches!(value, Value::Array(_) | Value::Object(_)) =>
            {
                if empty && !shape.is_go_struct() {
                    self.remaining = Remaining::Hidden;
                }
                true
            }
            Omit::Empty => !empty || shape.is_go_struct(),
            Omit::Zero => *value != zero(self.arena, field.node),
            Omit::Never => {
                let stays =
                    self.empties != Empties::Remove && matches!(value, Value::Array(_) | Value::String(_));
                if empty && matches!(shape, Shape::List { .. } | Shape::Map { .. } | Shape::Bytes) {
                    if stays {
                        self.remaining = self.remaining.max(Remaining::Serialized);
                    } else {
                        self.unset_empty(s, value);
                    }
                }
                true
            }
        }
    }

    /// Stored objects pass through protobuf, which does not distinguish empty from unset. Lists of objects are not
    /// stored: theirs is `[]`.
    fn unset_empty(&self, s: &Struct, value: &mut Value) {
        let metadata = s.field("metadata").map(|f| self.arena.node(f.node).go.as_str());
        if metadata != Some("v1.ListMeta") {
            *value = Value::Null;
        }
    }

    /// Decodes a JSON schema or an alternative. These types have their own decoders, which are never strict.
    fn choice(&mut self, choice: Choice, value: &mut Value, place: &Place<'_>) {
        let nested = place.down(Step::Nested);
        let strict = self.strict.take();
        match (choice.other, &mut *value) {
            (_, Value::Object(_)) => self.value(choice.props, value, &nested),
            (Other::Bool, Value::Bool(_)) => {}
            (Other::Bool, _) => {
                self.errors.add(place, Severity::Fatal, "boolean or JSON schema expected".to_string())
            }
            (Other::List, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.value(choice.props, item, &nested.down(Step::Index(index)));
                }
            }
            (Other::Strings, Value::Array(items)) => {
                for (index, item) in items.iter_mut().enumerate() {
                    scalar::decode(self, &Shape::String, "string", item, &nested.down(Step::Index(index)));
                }
            }
            _ => *value = Value::Null,
        }
        // An empty list of schemas is printed as `null`, but validation sees it.
        let is_validated = self.empties == Empties::Preserve && matches!(choice.other, Other::List);
        if matches!(value, Value::Array(items) if items.is_empty()) {
            if is_validated {
                self.remaining = Remaining::Hidden;
            } else {
                *value = Value::Null;
            }
        }
        self.strict = strict;
    }

    fn report_unknown(&mut self, key: &str, place: &Place<'_>) {
        if let Some(strict) = self.strict.as_deref_mut().filter(|s| s.unknown.len() < STRICT_ERRORS_MAX) {
            let mut path = place.path(strict.omits_keys);
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key);
            strict.unknown.push(path);
        }
    }
}
