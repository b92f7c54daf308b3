//! How much memory a tree takes, for limits on inputs that become large.

use crate::{Str, Value};

/// Texts up to this length are stored inside their node.
const INLINE_TEXT_BYTES: usize = size_of::<Str>();

impl Value {
    /// Estimates the bytes that this tree takes in memory, with `per_object` more for each object in it. Linear in the
    /// number of values.
    pub fn memory_bytes(&self, per_object: usize) -> usize {
        let below = match self {
            Value::String(text) => text_bytes(text),
            Value::Array(items) => {
                items.iter().fold(0, |sum: usize, item| sum.saturating_add(item.memory_bytes(per_object)))
            }
            Value::Object(map) => map.iter().fold(per_object, |sum, (key, member)| {
                sum.saturating_add(size_of::<Str>())
                    .saturating_add(text_bytes(key))
                    .saturating_add(member.memory_bytes(per_object))
            }),
            Value::Raw(raw) => raw.text().len().saturating_add(raw.value().memory_bytes(per_object)),
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        };
        below.saturating_add(size_of::<Value>())
    }
}

fn text_bytes(text: &str) -> usize {
    if text.len() <= INLINE_TEXT_BYTES { 0 } else { text.len() }
}

#[cfg(test)]
mod tests {
    use crate::{Value, json};

    #[test]
    fn counts_nodes_long_texts_and_objects() {
        let node = size_of::<Value>();
        for (text, per_object, expected) in [
            ("null", 7, node),
            (r#""short""#, 7, node),
            ("[1,true]", 7, 3 * node),
            ("{}", 7, node + 7),
            (r#"{"a":{}}"#, 7, 2 * (node + 7) + size_of::<crate::Str>()),
        ] {
            let value = json::parse(text.as_bytes()).unwrap().value;
            assert_eq!(value.memory_bytes(per_object), expected, "{text}");
        }
        let long = Value::from("x".repeat(1000).as_str());
        assert_eq!(long.memory_bytes(0), node + 1000);
    }
}
