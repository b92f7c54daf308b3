//! Decodes CBOR into the tree, without recursion.

use super::head::{self, Head, Major, Reader};
use super::{DecodeError, time};
use crate::quote::go_quoted;
use crate::{Map, Str, Value, base64, hex};
use std::collections::HashSet;

/// Reads the whole input as one value.
pub fn decode(bytes: &[u8]) -> Result<Value, DecodeError> {
    head::check_well_formed(bytes)?;
    // Most input is valid. Otherwise a second, slower pass finds out which error kube-apiserver would report.
    match Decoder::new(bytes, false).run() {
        Ok(value) => Ok(value),
        Err(_) => Decoder::new(bytes, true).run(),
    }
}

/// The number of values in the input, keys included; 0 if it is not well-formed. Nothing is decoded, so that an input
/// that would become too large can be refused before it takes any memory.
pub fn value_count(bytes: &[u8]) -> usize {
    head::check_well_formed(bytes).unwrap_or(0)
}

/// Reads the whole input as one object, or as `null`.
pub fn decode_object(bytes: &[u8]) -> Result<Value, DecodeError> {
    head::check_well_formed(bytes)?;
    let mut reader = Reader { bytes, at: 0 };
    let mut head = reader.head()?;
    while head.major == Major::Tag {
        head = reader.head()?;
    }
    let is_null = head.major == Major::Primitive && head.info == 22;
    if head.major == Major::Map || is_null {
        return decode(bytes);
    }
    Err(type_error(head.major, "map[string]interface {}", ""))
}

fn type_error(major: Major, go_type: &str, detail: &str) -> DecodeError {
    let name = major.name();
    let mut error = DecodeError::invalid(format!(
        "cbor: cannot unmarshal {name} into Go value of type {go_type}{detail}"
    ));
    // The outermost object fills in the name of its member.
    error.0.field = Some(Str::default());
    error
}

/// The meaning of the tags 21, 22 and 23: the text encoding of all byte strings inside.
#[derive(Clone, Copy)]
enum LaterEncoding {
    Base64Url,
    Base64,
    Base16,
}

impl LaterEncoding {
    fn of_tag(tag: u64) -> Option<Self> {
        match tag {
            21 => Some(LaterEncoding::Base64Url),
            22 => Some(LaterEncoding::Base64),
            23 => Some(LaterEncoding::Base16),
            _ => None,
        }
    }
}

/// An array or a map whose items have not all been read.
struct Open {
    /// The position of the container's head.
    begin: usize,
    /// The number of items or pairs that follow; `None` if a break ends them.
    left: Option<u64>,
    kind: Kind,
    /// The index of the container's first item or member on the shared stack.
    start: usize,
    encoding: Option<LaterEncoding>,
    /// The first error inside it.
    error: Option<DecodeError>,
}

enum Kind {
    Array,
    /// `index` counts pairs. `seen` is set if repeated keys are detected.
    Map {
        index: usize,
        key: Str,
        seen: Option<HashSet<Str>>,
    },
}

struct Decoder<'a> {
    reader: Reader<'a>,
    open: Vec<Open>,
    items: Vec<Value>,
    entries: Vec<(Str, Value)>,
    /// Whether to continue after an error and to detect repeated keys.
    careful: bool,
}

type Decoded<T> = Result<T, DecodeError>;

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8], careful: bool) -> Self {
        let reader = Reader { bytes, at: 0 };
        // The vectors start with a dummy entry: `split_off(0)` would take the whole vector with its capacity.
        let (items, entries) = (vec![Value::Null], vec![(Str::default(), Value::Null)]);
        Decoder { reader, open: Vec::new(), items, entries, careful }
    }

    fn run(mut self) -> Decoded<Value> {
        loop {
            let encoding = self.open.last().and_then(|container| container.encoding);
            let Some(mut result) = self.value(encoding).transpose() else {
                if let Some(result) = self.close_ended() {
                    return result;
                }
                continue;
            };
            if !self.careful {
                result = Ok(result?);
            }
            if self.open.is_empty() {
                return result;
            }
            self.attach(result);
            if let Some(result) = self.close_ended() {
                return result;
            }
        }
    }

    /// Takes a value, or opens a container.
    fn value(&mut self, mut encoding: Option<LaterEncoding>) -> Decoded<Option<Value>> {
        let begin = self.reader.at;
        let mut head = self.reader.head()?;
        while head.major == Major::Tag {
            check_tag_content(head.argument, &mut self.reader)?;
            if let 0 | 1 = head.argument {
                return time::decode(&mut self.reader).map(Some);
            }
            encoding = LaterEncoding::of_tag(head.argument).or(encoding);
            head = self.reader.head()?;
        }
        let value = match head.major {
            Major::PositiveInt => positive_int(head.argument)?,
            Major::NegativeInt => negative_int(head.argument)?,
            Major::Bytes | Major::Text => Value::String(string(&mut self.reader, head, encoding)?),
            Major::Primitive | Major::Tag => decode_primitive(head)?,
            Major::Array | Major::Map => {
                let (kind, start) = if head.major == Major::Array {
                    (Kind::Array, self.items.len())
                } else {
                    let seen = self.careful.then(HashSet::new);
                    (Kind::Map { index: 0, key: Str::default(), seen }, self.entries.len())
                };
                self.open.push(Open { begin, left: head.length(), kind, start, encoding, error: None });
                return Ok(None);
            }
        };
        Ok(Some(value))
    }

    /// Puts a value, or its error, into the innermost container.
    fn attach(&mut self, result: Decoded<Value>) {
        let is_root = self.open.len() == 1;
        let Some(container) = self.open.last_mut() else { return };
        match (&mut container.kind, result) {
            (Kind::Array, Ok(value)) => self.items.push(value),
            (Kind::Map { index, key, seen }, Ok(value)) => {
                if seen.as_mut().is_some_and(|seen| !seen.insert(key.clone())) {
                    let key = go_quoted(key);
                    let message = format!(
                        "cbor: found duplicate map key {key} at map element index {}",
                        index.saturating_sub(1)
                    );
                    // This error replaces an earlier one; the rest of the map is skipped.
                    container.error = Some(DecodeError::invalid(message));
                    container.left = Some(0);
                    self.reader.at = end_of(self.reader.bytes, container.begin);
                }
                self.entries.push((std::mem::take(key), value));
            }
            (kind, Err(mut error)) => {
                if let (Kind::Map { key, .. }, true, Some(field)) = (kind, is_root, &mut error.0.field) {
                    *field = key.clone();
                }
                container.error.get_or_insert(error);
            }
        }
    }

    /// Closes the containers that end here and prepares the next key. Returns the root once it is closed.
    fn close_ended(&mut self) -> Option<Decoded<Value>> {
        while let Some(container) = self.open.last_mut() {
            let ends = match &mut container.left {
                Some(0) => true,
                Some(left) => {
                    *left = left.saturating_sub(1);
                    false
                }
                None => self.reader.take_break(),
            };
            if !ends {
                let Kind::Map { index, key, .. } = &mut container.kind else { return None };
                *index = index.saturating_add(1);
                match read_key(&mut self.reader, container.encoding) {
                    Ok(text) => {
                        *key = text;
                        return None;
                    }
                    Err(error) if self.careful => {
                        container.error.get_or_insert(error);
                        self.reader.at = end_of(self.reader.bytes, self.reader.at);
                        continue;
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            let Some(closed) = self.open.pop() else { break };
            let result = self.close(closed);
            if self.open.is_empty() || (!self.careful && result.is_err()) {
                return Some(result);
            }
            self.attach(result);
        }
        None
    }

    fn close(&mut self, closed: Open) -> Decoded<Value> {
        let value = match closed.kind {
            Kind::Array => Value::Array(self.items.split_off(closed.start)),
            Kind::Map { .. } => {
                let (map, repeated) = Map::from_entries(self.entries.split_off(closed.start));
                if let Some(key) = repeated.first().filter(|_| !self.careful) {
                    return Err(DecodeError::invalid(format!(
                        "cbor: found duplicate map key {}",
                        go_quoted(key)
                    )));
                }
                Value::Object(map)
            }
        };
        closed.error.map_or(Ok(value), Err)
    }
}

/// The position where the item at `at` ends. The item must be well-formed.
pub(super) fn end_of(bytes: &[u8], at: usize) -> usize {
    let mut reader = Reader { bytes, at };
    match reader.item() {
        Ok(_) => reader.at,
        Err(_) => bytes.len(),
    }
}

fn positive_int(argument: u64) -> Decoded<Value> {
    i64::try_from(argument)
        .map(Value::Int)
        .map_err(|_| type_error(Major::PositiveInt, "int64", &format!(" ({argument} overflows Go's int64)")))
}

fn negative_int(argument: u64) -> Decoded<Value> {
    i64::try_from(argument).map(|magnitude| Value::Int(!magnitude)).map_err(|_| {
        let number = !i128::from(argument);
        type_error(Major::NegativeInt, "int64", &format!(" ({number} overflows Go's int64)"))
    })
}

fn decode_primitive(head: Head) -> Decoded<Value> {
    match head.info {
        20 => Ok(Value::Bool(false)),
        21 => Ok(Value::Bool(true)),
        22 => Ok(Value::Null),
        _ => head::float(head).map(Value::Float).ok_or_else(|| {
            let problem = format!("simple value {} is not recognized", head.argument);
            DecodeError::invalid(DecodeError::unacceptable("primitives", &problem))
        }),
    }
}

/// Checks that a tag for a time is followed by the right type.
fn check_tag_content(tag: u64, reader: &mut Reader<'_>) -> Decoded<()> {
    let begin = reader.at;
    let (Some(first), Some(major)) = (reader.peek(), reader.peek_major()) else { return Ok(()) };
    let expected = match tag {
        0 if major != Major::Text => "text string",
        1 if !matches!(major, Major::PositiveInt | Major::NegativeInt) && !(0xf9..=0xfb).contains(&first) => {
            "integer or floating-point number"
        }
        _ => return Ok(()),
    };
    reader.at = end_of(reader.bytes, begin);
    let name = major.name();
    Err(DecodeError::invalid(format!("cbor: tag number {tag} must be followed by {expected}, got {name}")))
}

/// Takes the content of a string whose head was taken.
fn string(reader: &mut Reader<'_>, head: Head, encoding: Option<LaterEncoding>) -> Decoded<Str> {
    let chunks;
    let content = match head.length() {
        Some(length) => reader.take(length)?,
        None => {
            let mut joined = Vec::new();
            let mut valid = true;
            while !reader.take_break() {
                let length = reader.head()?.argument;
                let chunk = reader.take(length)?;
                valid &= std::str::from_utf8(chunk).is_ok();
                joined.extend_from_slice(chunk);
            }
            // Each chunk of a text must be UTF-8 by itself.
            if head.major == Major::Text && !valid {
                return Err(DecodeError::invalid("cbor: invalid UTF-8 string"));
            }
            chunks = joined;
            &chunks
        }
    };
    match (head.major, encoding) {
        (Major::Text, _) => match std::str::from_utf8(content) {
            Ok(text) => Ok(Str::from(text)),
            Err(_) => Err(DecodeError::invalid("cbor: invalid UTF-8 string")),
        },
        (_, Some(LaterEncoding::Base64Url)) => Ok(base64::encode_url(content).into()),
        (_, Some(LaterEncoding::Base64)) => Ok(base64::encode(content).into()),
        (_, Some(LaterEncoding::Base16)) => Ok(hex::encode(content).into()),
        (_, None) => Ok(lossy(content)),
    }
}

/// Bytes as text. As when Go writes them as JSON, each wrong byte becomes one replacement character.
fn lossy(content: &[u8]) -> Str {
    match std::str::from_utf8(content) {
        Ok(text) => Str::from(text),
        Err(_) => content
            .utf8_chunks()
            .flat_map(|chunk| {
                let wrong = chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER);
                chunk.valid().chars().chain(wrong)
            })
            .collect(),
    }
}

/// Takes a key; `None` if it cannot be the key of an object.
pub(super) fn read_key_text(reader: &mut Reader<'_>) -> Option<Str> {
    read_key(reader, None).ok()
}

/// Takes a key, even if it returns an error.
fn read_key(reader: &mut Reader<'_>, mut encoding: Option<LaterEncoding>) -> Decoded<Str> {
    let begin = reader.at;
    let mut head = reader.head()?;
    while head.major == Major::Tag {
        if let Err(error) = check_tag_content(head.argument, reader) {
            reader.at = end_of(reader.bytes, begin);
            return Err(error);
        }
        encoding = LaterEncoding::of_tag(head.argument).or(encoding);
        head = reader.head()?;
    }
    match head.major {
        Major::Bytes | Major::Text => string(reader, head, encoding),
        Major::Primitive if head.info == 22 => Ok(Str::default()),
        Major::Primitive if !(20..22).contains(&head.info) && head::float(head).is_none() => {
            decode_primitive(head).map(|_| Str::default())
        }
        major => {
            reader.at = end_of(reader.bytes, begin);
            Err(type_error(major, "string", ""))
        }
    }
}
