//! Converts YAML values to JSON: rejects or rewrites what JSON cannot express (keys that are not strings, big integers,
//! infinities).

use super::ParseError;
use crate::quote::{format_g, go_general, go_quoted};
use crate::{Map, Str, Value, json};

/// A value as go-yaml decodes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(Str),
    Sequence(Vec<Tree>),
    Mapping(Vec<(Key, Tree)>),
}

/// A key as go-yaml decodes it. Floats are held as bits, so that they can be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(u64),
    Text(Str),
}

impl Tree {
    /// Converts to a key; returns the tree if it cannot be one.
    pub(super) fn into_key(self) -> Result<Key, Tree> {
        Ok(match self {
            Tree::Null => Key::Null,
            Tree::Bool(bool) => Key::Bool(bool),
            Tree::Int(int) => Key::Int(int),
            Tree::Uint(uint) => Key::Uint(uint),
            Tree::Float(float) => Key::Float(float.to_bits()),
            Tree::Text(text) => Key::Text(text),
            Tree::Sequence(_) | Tree::Mapping(_) => return Err(self),
        })
    }

    /// The value as Go's `%#v` prints it.
    pub(super) fn go_syntax(&self) -> String {
        match self {
            Tree::Null => "interface {}(nil)".into(),
            Tree::Bool(bool) => bool.to_string(),
            Tree::Int(int) => int.to_string(),
            Tree::Uint(uint) => format!("{uint:#x}"),
            Tree::Float(float) => go_general(*float),
            Tree::Text(text) => go_quoted(text),
            Tree::Sequence(items) => {
                let items: Vec<String> = items.iter().map(Tree::go_syntax).collect();
                format!("[]interface {{}}{{{}}}", items.join(", "))
            }
            Tree::Mapping(entries) => {
                let mut members: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| match key {
                        Key::Null => format!("interface {{}}(nil):{}", value.go_syntax()),
                        key => format!("{}:{}", key.go_syntax(), value.go_syntax()),
                    })
                    .collect();
                members.sort();
                format!("map[interface {{}}]interface {{}}{{{}}}", members.join(", "))
            }
        }
    }
}

impl Key {
    /// The key as Go's `%#v` prints it.
    pub(super) fn go_syntax(&self) -> String {
        match self {
            Key::Null => "<nil>".into(),
            Key::Bool(bool) => bool.to_string(),
            Key::Int(int) => int.to_string(),
            Key::Uint(uint) => format!("{uint:#x}"),
            Key::Float(bits) => go_general(f64::from_bits(*bits)),
            Key::Text(text) => go_quoted(text),
        }
    }
}

/// Returns the tree after a round trip through JSON, which kube-apiserver makes.
pub(super) fn to_value(tree: Tree) -> Result<Value, ParseError> {
    Ok(match tree {
        Tree::Null => Value::Null,
        Tree::Bool(bool) => Value::Bool(bool),
        Tree::Int(int) => Value::Int(int),
        Tree::Uint(uint) => Value::Float(uint as f64),
        Tree::Float(float) => number(float)?,
        Tree::Text(text) => Value::String(text),
        Tree::Sequence(items) => Value::Array(items.into_iter().map(to_value).collect::<Result<_, _>>()?),
        Tree::Mapping(entries) => {
            let entries: Result<_, ParseError> = entries
                .into_iter()
                .map(|(key, value)| match key_text(&key) {
                    Some(text) => Ok((text, to_value(value)?)),
                    None => Err(unsupported_key(&key, &value)),
                })
                .collect();
            Value::Object(Map::from_entries(entries?).0)
        }
    })
}

/// A float whose JSON form has neither point nor exponent becomes an integer.
fn number(float: f64) -> Result<Value, ParseError> {
    if !float.is_finite() {
        return Err(ParseError::new(format!("json: unsupported value: {}", go_general(float)), 0));
    }
    let mut text = Vec::new();
    json::write_float(float, &mut text);
    Ok(json::parse(&text)?.value)
}

/// The key of a JSON object, if `key` can be one.
fn key_text(key: &Key) -> Option<Str> {
    Some(match key {
        Key::Text(text) => text.clone(),
        Key::Bool(bool) => bool.to_string().into(),
        Key::Int(int) => int.to_string().into(),
        Key::Float(bits) => match f64::from_bits(*bits) {
            float if float.is_nan() => ".nan".into(),
            f64::INFINITY => ".inf".into(),
            f64::NEG_INFINITY => "-.inf".into(),
            // Go formats it with 32-bit precision.
            float => match float as f32 {
                f32::INFINITY => ".inf".into(),
                f32::NEG_INFINITY => "-.inf".into(),
                single => format_g(&format!("{single:e}")).into(),
            },
        },
        Key::Null | Key::Uint(_) => return None,
    })
}

fn unsupported_key(key: &Key, value: &Tree) -> ParseError {
    let key_type = if matches!(key, Key::Null) { "%!s(<nil>)" } else { "uint64" };
    let value = if *value == Tree::Null { "<nil>".into() } else { value.go_syntax() };
    let message =
        format!("unsupported map key of type: {key_type}, key: {}, value: {value}", key.go_syntax());
    ParseError::new(message, 0)
}
