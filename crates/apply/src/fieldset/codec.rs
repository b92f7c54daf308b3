//! FieldsV1: a set as JSON, in which each path element is a key and the set below it the value; `.` marks a member with
//! members below it.

use super::{Entry, PathElement, Set};
use crate::DEPTH_MAX;
use pintle_value::{Map, Str, Value, json};

/// Why FieldsV1 could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldsError(pub String);

impl Set {
    /// The set as FieldsV1. In a tree the keys are sorted bytewise; `to_json` has structured-merge-diff's order.
    pub fn to_value(&self) -> Value {
        Value::Object(encode_members(self, false))
    }

    /// The set as the bytes that structured-merge-diff writes: elements in their own order, numbers by value.
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write(self, false, &mut out);
        out
    }

    /// Decodes FieldsV1. Elements of unknown types are dropped.
    pub fn from_value(fields: &Value) -> Result<Set, FieldsError> {
        match fields {
            Value::Null => Ok(Set::new()),
            Value::Object(map) => Ok(read(map, 0)?.1),
            other => Err(FieldsError(format!("expected an object, got {}", other.json_type()))),
        }
    }
}

fn encode_members(set: &Set, also_member: bool) -> Map {
    let dot = (also_member && !set.is_empty()).then(|| (Str::from("."), Value::object()));
    let below = set.entries().iter().map(|entry| {
        let below = encode_members(&entry.below, entry.member);
        (step_text(&entry.element), Value::Object(below))
    });
    dot.into_iter().chain(below).collect()
}

fn write(set: &Set, also_member: bool, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut first = true;
    if also_member && !set.is_empty() {
        out.extend_from_slice(b"\".\":{}");
        first = false;
    }
    for entry in set.entries() {
        if !first {
            out.push(b',');
        }
        first = false;
        json::write_string(&step_text(&entry.element), out);
        out.push(b':');
        write(&entry.below, entry.member, out);
    }
    out.push(b'}');
}

/// `f:name`, `k:{"name":"c"}`, `v:"x"` or `i:3`
fn step_text(element: &PathElement) -> Str {
    let mut out: Vec<u8> = Vec::new();
    match element {
        PathElement::Field(name) => {
            let mut text = Str::with_capacity(name.len().saturating_add(2));
            text.push_str("f:");
            text.push_str(name);
            return text;
        }
        PathElement::Index(at) => return format!("i:{at}").into(),
        PathElement::Value(value) => {
            out.extend_from_slice(b"v:");
            json::print(value, &mut out);
        }
        PathElement::Key(fields) => {
            out.extend_from_slice(b"k:{");
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                json::print(&Value::String(name.clone()), &mut out);
                out.push(b':');
                json::print(value, &mut out);
            }
            out.push(b'}');
        }
    }
    String::from_utf8_lossy(&out).into_owned().into()
}

/// Decodes the members of an object: whether the object itself is a member, and the set below.
fn read(map: &Map, depth: usize) -> Result<(bool, Set), FieldsError> {
    if depth > DEPTH_MAX {
        return Err(FieldsError(format!("exceeded max depth of {DEPTH_MAX}")));
    }
    let mut member = false;
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = read_step(key)? else { continue };
        let (member, below) = match value {
            Value::Object(map) => read(map, depth.saturating_add(1))?,
            Value::Null => (true, Set::new()),
            other => {
                return Err(FieldsError(format!("{key}: expected an object, got {}", other.json_type())));
            }
        };
        entries.push(Entry { element, member, below });
    }
    let below = Set::from_entries(entries);
    Ok((member || below.is_empty(), below))
}

/// Parses an object of strings without escapes and integers, which nearly all keys are; `None` for anything else. A
/// list of thousands of items has as many keys, and the JSON parser is slow for each.
fn plain_fields(text: &str) -> Option<Vec<(Str, Value)>> {
    let mut rest = text.strip_prefix('{')?.strip_suffix('}')?;
    if rest.contains('\\') {
        return None;
    }
    let mut fields: Vec<(Str, Value)> = Vec::new();
    loop {
        let (name, after) = rest.strip_prefix('"')?.split_once("\":")?;
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map(|(text, after)| (Value::from(text), after))?,
            None => {
                let (number, after) = after.split_at(after.find(',').unwrap_or(after.len()));
                let digits = number.strip_prefix('-').unwrap_or(number);
                if digits.starts_with(['0', '+']) && number != "0" {
                    return None;
                }
                (Value::Int(number.parse().ok()?), after)
            }
        };
        if name.contains('"') || fields.iter().any(|(known, _)| known == name) {
            return None;
        }
        fields.push((name.into(), value));
        if after.is_empty() {
            return Some(fields);
        }
        rest = after.strip_prefix(',')?;
    }
}

/// The path element of `key`; `None` if its type is unknown.
fn read_step(key: &str) -> Result<Option<PathElement>, FieldsError> {
    let bad = |why: String| FieldsError(format!("parsing key as path element: {why}"));
    if key.len() < 2 {
        return Err(bad("key must be 2 characters long:".into()));
    }
    if key.as_bytes().get(1) != Some(&b':') {
        return Err(bad(format!("missing colon: {key}")));
    }
    let rest = key.get(2..).unwrap_or_default();
    let value = || json::parse(rest.as_bytes()).map(|p| p.value).map_err(|e| bad(e.to_string()));
    Ok(Some(match key.as_bytes().first() {
        Some(b'f') => PathElement::Field(rest.into()),
        Some(b'v') => PathElement::Value(value()?),
        Some(b'k') => match plain_fields(rest) {
            Some(fields) => PathElement::key(fields),
            None => match value()? {
                Value::Object(map) => PathElement::key(map.into_iter().collect()),
                other => return Err(bad(format!("expected an object, got {}", other.json_type()))),
            },
        },
        Some(b'i') => PathElement::Index(rest.parse().map_err(|_| bad(format!("invalid index: {rest}")))?),
        _ => return Ok(None),
    }))
}
