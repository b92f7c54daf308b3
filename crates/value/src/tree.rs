//! `Value`: one node of the tree.

use crate::{Map, RawJson};

/// Text of the tree. Short strings (most keys and many values) live inside the node.
pub type Str = compact_str::CompactString;

/// A JSON-like value. Integers that fit an `i64` stay integers, as in Go's unstructured objects.
///
/// The tag takes a whole word: with a tag of one byte, moving a value reads bytes that were written just before with
/// another width, which stalls the processor.
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(u64)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction and exponent that fits 64 bits.
    Int(i64),
    /// Any other number.
    Float(f64),
    /// Text.
    String(Str),
    /// A list.
    Array(Vec<Value>),
    /// An object; keys are unique and sorted bytewise.
    Object(Map),
    /// JSON whose text matters. Only fields of the Go type `RawExtension` hold it, and only where the text is not what
    /// the printer would write. The methods below look through it.
    Raw(Box<RawJson>),
}

impl Value {
    /// An empty object.
    pub fn object() -> Self {
        Value::Object(Map::new())
    }

    /// The word Go's `encoding/json` uses for this kind of value in its errors.
    pub fn json_type(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Raw(raw) => raw.value().json_type(),
        }
    }

    /// The name of the Go type that holds this in an untyped tree, as `%T` prints it.
    pub fn go_type(&self) -> &'static str {
        match self {
            Value::Null => "<nil>",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int64",
            Value::Float(_) => "float64",
            Value::String(_) => "string",
            Value::Array(_) => "[]interface {}",
            Value::Object(_) => "map[string]interface {}",
            Value::Raw(raw) => raw.value().go_type(),
        }
    }

    /// The value of raw JSON; any other value itself.
    pub fn without_text(&self) -> &Value {
        match self {
            Value::Raw(raw) => raw.value(),
            other => other,
        }
    }

    /// Replaces raw JSON by its value.
    pub fn drop_text(&mut self) {
        if let Value::Raw(_) = self
            && let Value::Raw(raw) = std::mem::take(self)
        {
            *self = raw.into_value();
        }
    }

    /// Whether this is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self.without_text() {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// The integer, if this is one.
    pub fn as_int(&self) -> Option<i64> {
        match self.without_text() {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The boolean, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self.without_text() {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self.without_text() {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The items, if this is a list.
    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        self.drop_text();
        match self {
            Value::Array(a) => Some(a),
            _ => None,
        }
    }

    /// The entries, if this is an object.
    pub fn as_object(&self) -> Option<&Map> {
        match self.without_text() {
            Value::Object(m) => Some(m),
            _ => None,
        }
    }

    /// The entries, if this is an object.
    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        self.drop_text();
        match self {
            Value::Object(m) => Some(m),
            _ => None,
        }
    }

    /// The member `key`, if this is an object that has it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    /// The member `key`, if this is an object that has it.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Follows `keys` through nested objects.
    pub fn at(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Follows `keys` through nested objects.
    pub fn at_mut(&mut self, keys: &[&str]) -> Option<&mut Value> {
        keys.iter().try_fold(self, |node, key| node.get_mut(key))
    }

    /// The text at `keys`, or "" where there is none: Go's view of an unset string field.
    pub fn str_at(&self, keys: &[&str]) -> &str {
        self.at(keys).and_then(Value::as_str).unwrap_or("")
    }

    /// The items at `keys`, or an empty slice where there are none.
    pub fn items_at(&self, keys: &[&str]) -> &[Value] {
        self.at(keys).and_then(Value::as_array).unwrap_or(&[])
    }

    /// Sets `keys` to `value` and creates missing objects on the path. A value on the path that is not an object is
    /// replaced.
    pub fn set_at(&mut self, keys: &[&str], value: Value) {
        let mut node = self;
        for key in keys {
            if !matches!(node, Value::Object(_)) {
                *node = Value::object();
            }
            let Value::Object(map) = node else { unreachable!("made an object above") };
            node = map.entry(key);
        }
        *node = value;
    }

    /// Removes and returns what is at `keys`.
    pub fn remove_at(&mut self, keys: &[&str]) -> Option<Value> {
        let (last, parents) = keys.split_last()?;
        self.at_mut(parents)?.as_object_mut()?.remove(last)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Value::String(Str::from(s))
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Value::String(Str::from(s))
    }
}

impl From<Str> for Value {
    fn from(s: Str) -> Self {
        Value::String(s)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Value::Object(map)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::Array(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_members_are_set_found_and_removed() {
        let mut v = Value::Null;
        v.set_at(&["metadata", "labels", "a"], "b".into());
        assert_eq!(v.str_at(&["metadata", "labels", "a"]), "b");
        assert_eq!(v.str_at(&["metadata", "name"]), "");
        assert_eq!(v.remove_at(&["metadata", "labels", "a"]), Some("b".into()));
        assert_eq!(v.at(&["metadata", "labels"]), Some(&Value::object()));
    }
}
