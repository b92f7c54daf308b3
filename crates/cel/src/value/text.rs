//! Strings of values, borrowed or shared, and the text of values in messages.

use std::fmt;
use std::sync::Arc;

use super::{Map, Object, Value};
use crate::number;
use crate::time;

/// Text that is borrowed from the tree or shared.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    /// Part of the tree or the expression.
    Borrowed(&'a str),
    /// Computed.
    Shared(Arc<str>),
}

impl Text<'_> {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// How many code points there are.
    pub fn size(&self) -> u64 {
        let text = self.as_str();
        if text.is_ascii() { text.len() as u64 } else { text.chars().count() as u64 }
    }
}

/// Go's `%v` of cel-go's values, which messages such as `no such key: a` contain.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("NULL_VALUE"),
            Value::Bool(value) => value.fmt(f),
            Value::Int(value) => value.fmt(f),
            Value::Uint(value) => value.fmt(f),
            Value::Double(value) => f.write_str(&number::go_general(*value)),
            Value::String(text) => f.write_str(text.as_str()),
            Value::Bytes(bytes) => bytes_in_brackets(bytes, f),
            Value::Timestamp(moment) => f.write_str(&time::format_go(*moment)),
            Value::Duration(nanos) => f.write_str(&time::duration_text(*nanos)),
            Value::List(list) => {
                let elements =
                    list.iter().map(|element| element.map_or_else(|err| err.to_string(), |e| e.to_string()));
                write!(f, "[{}]", elements.collect::<Vec<_>>().join(", "))
            }
            Value::Map(map) => map_in_braces(map, f),
            Value::Object(Object::Tree(map, shape)) => map_in_braces(&Map::Tree(map, shape), f),
            Value::Object(Object::Shared(name, _) | Object::Input(_, name)) => f.write_str(name),
            Value::Object(Object::Lazy(_, name)) => f.write_str(name),
            Value::Type(ty) => f.write_str(&ty.runtime_name()),
            Value::Optional(None) => f.write_str("optional.none()"),
            Value::Optional(Some(value)) => write!(f, "optional({value})"),
            Value::Opaque(opaque) => f.write_str(&opaque.text()),
        }
    }
}

fn bytes_in_brackets(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
    write!(f, "[{}]", bytes.join(" "))
}

fn map_in_braces(map: &Map<'_>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let entries = map.entries().map(|(key, value)| match value {
        Ok(value) => format!("{key}: {value}"),
        Err(err) => format!("{key}: {err}"),
    });
    write!(f, "{{{}}}", entries.collect::<Vec<_>>().join(", "))
}
