//! Decodes JSON bodies. The fast path parses a tree and converts it; if that fails, the bytes are read again in their
//! order, because Go reports the first error it encounters and prints numbers as they were written.

use super::decode::{Decoder, Empties, TYPED_DEPTH_MAX, decode_written, normalize};
use super::errors::{Place, STRICT_ERRORS_MAX, Step, Strict, TypeError};
use crate::model::{NodeId, Schema, Shape};
use pintle_meta::field::quoted;
use pintle_value::{Map, ParseError, Parsed, Str, Value, json};
use std::collections::{HashMap, HashSet};

/// A decoded body.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// The canonical tree.
    pub value: Value,
    /// The strict errors in the order of the document, for which a strict request is rejected and others get warnings:
    /// `unknown field "spec.foo"`, `duplicate field "data"`.
    pub strict: Vec<String>,
}

/// Why a body could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The body is not JSON.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The body does not match its type.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// Decodes a JSON body into the canonical tree of a Go type.
pub fn decode_json(schema: &Schema, bytes: &[u8]) -> Result<Decoded, BodyError> {
    let mut decoded = decode_parsed(schema, json::parse(bytes)?, bytes)?;
    normalize(schema, &mut decoded.value);
    Ok(decoded)
}

/// [`decode_json`] for JSON that has been parsed already; empty lists and maps remain. `parsed` must be the result of parsing
/// `bytes`.
pub fn decode_parsed(schema: &Schema, parsed: Parsed, bytes: &[u8]) -> Result<Decoded, TypeError> {
    let mut strict = Strict::default();
    let mut value = parsed.value;
    let empties = Empties::Preserve;
    let mut decoder = Decoder { strict: Some(&mut strict), empties, ..Decoder::new(schema.arena()) };
    decoder.value(schema.root(), &mut value, &Place::ROOT);
    let wants_literal = decoder.wants_literal;
    match decoder.errors.finish() {
        Ok(()) if strict.unknown.is_empty() && parsed.duplicates.is_empty() && !wants_literal => {
            Ok(Decoded { value, strict: Vec::new() })
        }
        Ok(()) => {
            let (merged, strict) = reread(schema, bytes)?;
            let keeps = parsed.duplicates.is_empty() && !wants_literal;
            let value = if keeps { value } else { decode_written(schema, merged, &mut Strict::default())? };
            Ok(Decoded { value, strict })
        }
        // The second pass finds an error too: the first one in the document.
        Err(error) => Err(reread(schema, bytes).err().unwrap_or(error)),
    }
}

/// Reads well-formed bytes along the schema. Returns the tree in which repeated objects are merged, as Go decodes them
/// into the same struct, and the strict errors.
fn reread(schema: &Schema, bytes: &[u8]) -> Result<(Value, Vec<String>), TypeError> {
    let mut walk = Walk { decoder: Decoder::new(schema.arena()), bytes, at: 0, strict: Vec::new() };
    let value = walk.decode_value(schema.root(), false, &Place::ROOT);
    walk.decoder.errors.finish()?;
    Ok((value, walk.strict))
}

struct Walk<'s, 'b> {
    decoder: Decoder<'s, 'b>,
    bytes: &'b [u8],
    at: usize,
    strict: Vec<String>,
}

impl<'b> Walk<'_, 'b> {
    fn decode_value(&mut self, id: NodeId, pointer: bool, place: &Place<'_>) -> Value {
        let shape = &self.decoder.arena.node(id).shape;
        match (self.peek(), shape) {
            _ if place.depth >= TYPED_DEPTH_MAX => self.leaf(id, pointer, place),
            (Some(b'{'), Shape::Struct(s)) if !s.go_name.is_empty() => {
                let mut seen: HashSet<Str> = HashSet::new();
                self.object(|walk, key| {
                    let Some(field) = s.field(&key) else {
                        walk.report("unknown", &key, place);
                        walk.skip();
                        return None;
                    };
                    if !seen.insert(key.clone()) {
                        walk.report("duplicate", &key, place);
                    }
                    let value =
                        walk.decode_value(field.node, field.pointer, &place.down(Step::Field(s, field)));
                    Some((key, value))
                })
            }
            (Some(b'{'), Shape::Map { value: member_type, .. }) => {
                let mut seen: HashSet<Str> = HashSet::new();
                self.object(|walk, key| {
                    if !seen.insert(key.clone()) {
                        walk.report("duplicate", &key, place);
                    }
                    let value = walk.decode_value(*member_type, false, &place.down(Step::Key(&key)));
                    Some((key, value))
                })
            }
            (Some(b'['), Shape::List { item, .. }) => self.decode_array(*item, place),
            _ => self.leaf(id, pointer, place),
        }
    }

    /// Decodes a value that is not split further; errors come from the decoder.
    fn leaf(&mut self, id: NodeId, pointer: bool, place: &Place<'_>) -> Value {
        let text = self.skip();
        let mut value = json::parse_unbounded(text).map(|(p, _)| p.value).unwrap_or_default();
        if value.is_null() && pointer {
            return value;
        }
        self.decoder.number = match value {
            Value::Int(_) | Value::Float(_) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        self.decoder.value(id, &mut value, place);
        value
    }

    /// Reads an object: `member` reads the value that follows a key.
    fn object(&mut self, mut member: impl FnMut(&mut Self, Str) -> Option<(Str, Value)>) -> Value {
        let mut entries: Vec<(Str, Value)> = Vec::new();
        self.at = self.at.saturating_add(1);
        while self.peek() == Some(b'"') {
            let key = self.decode_key();
            if self.peek() == Some(b':') {
                self.at = self.at.saturating_add(1);
            }
            entries.extend(member(self, key));
            if self.peek() == Some(b',') {
                self.at = self.at.saturating_add(1);
            }
        }
        self.at = self.at.saturating_add(1);
        Value::Object(merged(entries))
    }

    fn decode_array(&mut self, item: NodeId, place: &Place<'_>) -> Value {
        let mut items = Vec::new();
        self.at = self.at.saturating_add(1);
        while !matches!(self.peek(), Some(b']') | None) {
            let index = items.len();
            items.push(self.decode_value(item, false, &place.down(Step::Index(index))));
            if self.peek() == Some(b',') {
                self.at = self.at.saturating_add(1);
            }
        }
        self.at = self.at.saturating_add(1);
        Value::Array(items)
    }

    fn report(&mut self, what: &str, key: &str, place: &Place<'_>) {
        let error = format!("{what} field {}", quoted(&place.down(Step::Key(key)).path(false)));
        if self.strict.len() < STRICT_ERRORS_MAX && !self.strict.contains(&error) {
            self.strict.push(error);
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at = self.at.saturating_add(1);
        }
        self.bytes.get(self.at).copied()
    }

    fn decode_key(&mut self) -> Str {
        match json::parse(self.skip()).map(|p| p.value) {
            Ok(Value::String(key)) => key,
            _ => Str::default(),
        }
    }

    /// Skips a value; returns its bytes.
    fn skip(&mut self) -> &'b [u8] {
        self.peek();
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.bytes.get(self.at) {
                None => break,
                Some(b'"') => self.skip_string(),
                Some(b'{' | b'[') => depth = depth.saturating_add(1),
                Some(b'}' | b']') => {
                    if depth == 0 {
                        break;
                    }
                    depth = depth.saturating_sub(1);
                }
                Some(b',' | b' ' | b'\t' | b'\r' | b'\n' | b':') if depth == 0 => break,
                Some(_) => {}
            }
            self.at = self.at.saturating_add(1);
            // A string or a container ends with its last byte; numbers and words end before the next byte.
            let closed = matches!(self.bytes.get(self.at.saturating_sub(1)), Some(b'"' | b'}' | b']'));
            if closed && depth == 0 {
                break;
            }
        }
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// Moves from the first quote of a string to its last.
    fn skip_string(&mut self) {
        self.at = self.at.saturating_add(1);
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' => self.at = self.at.saturating_add(2),
                b'"' => return,
                _ => self.at = self.at.saturating_add(1),
            }
        }
    }
}

/// Of equal keys the last one wins, but objects are merged.
fn merged(entries: Vec<(Str, Value)>) -> Map {
    let mut places: HashMap<Str, usize> = HashMap::with_capacity(entries.len());
    let mut out: Vec<(Str, Vec<Value>)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match places.get(&key).and_then(|at| out.get_mut(*at)) {
            Some((_, values)) => values.push(value),
            None => {
                places.insert(key.clone(), out.len());
                out.push((key, vec![value]));
            }
        }
    }
    Map::from_entries(out.into_iter().map(|(key, values)| (key, merge_repeated(values))).collect()).0
}

/// Combines the values of one key: the last one, or the objects at the end merged. Done at once, because a body can
/// repeat a key very often.
fn merge_repeated(mut values: Vec<Value>) -> Value {
    let objects = values.iter().rev().take_while(|value| value.as_object().is_some()).count();
    if objects < 2 {
        return values.pop().unwrap_or_default();
    }
    let entries =
        values.split_off(values.len().saturating_sub(objects)).into_iter().flat_map(|value| match value {
            Value::Object(map) => map,
            _ => Map::new(),
        });
    Value::Object(merged(entries.collect()))
}
