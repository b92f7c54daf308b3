//! JSON whose exact text matters: the order of keys, the form of numbers, escapes and white space are part of the value.
//!
//! Go's `RawExtension` holds bytes that the server does not interpret. Most of them equal the output of [`json::print`];
//! only the others need their text beside the tree.

use crate::{Map, Str, Value, json};

/// A value and the text from which it was parsed, which differs from the output of [`json::print`].
#[derive(Clone, Debug)]
pub struct RawJson {
    text: Box<str>,
    value: Value,
}

impl RawJson {
    /// Parses `text`. The result is a plain value if printing it gives the same text. `None` if `text` is not JSON.
    pub fn read(text: &str) -> Option<Value> {
        let value = json::parse(text.as_bytes()).ok()?.value;
        Some(RawJson::with_text(text, value))
    }

    /// Attaches `text`, from which `value` was parsed, if printing `value` would give another text.
    pub fn with_text(text: &str, value: Value) -> Value {
        let mut printed = Vec::with_capacity(text.len());
        json::print(&value, &mut printed);
        if printed == text.as_bytes() {
            value
        } else {
            Value::Raw(Box::new(RawJson { text: text.into(), value }))
        }
    }

    /// The text as it was parsed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of the text.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The value of the text, without the text.
    pub fn into_value(self) -> Value {
        self.value
    }

    /// Appends the text as Go's encoder writes raw JSON: without white space, with escapes safe for HTML.
    pub fn print(&self, out: &mut Vec<u8>) {
        json::compact(self.text.as_bytes(), out);
    }

    /// The same value with the output of [`RawJson::print`] as its text.
    pub fn compacted(self) -> Value {
        let mut text = Vec::with_capacity(self.text.len());
        self.print(&mut text);
        match String::from_utf8(text) {
            Ok(text) => RawJson::with_text(&text, self.value),
            Err(_) => self.value,
        }
    }

    /// The container with its members sorted by key; each member retains its text. Go's JSON patch decodes a document
    /// like this, one level at a time.
    pub fn opened(self) -> Value {
        let is_object = match &self.value {
            Value::Object(_) => true,
            Value::Array(_) => false,
            _ => return self.value,
        };
        let mut parts = json::Parts::of(&self.text);
        let mut entries: Vec<(Str, Value)> = Vec::new();
        while let Some((key, text)) = parts.next_part() {
            let Some(value) = RawJson::read(text) else { return self.value };
            entries.push((key, value));
        }
        if is_object {
            Value::Object(Map::from_entries(entries).0)
        } else {
            Value::Array(entries.into_iter().map(|(_, value)| value).collect())
        }
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Value {
        RawJson::read(text).unwrap()
    }

    #[test]
    fn text_is_kept_only_where_printing_would_change_it() {
        for (text, is_plain) in [
            (r#"{"a":1,"b":[true,null]}"#, true),
            (r#"{"b":1,"a":2}"#, false),
            (r#"{"a": 1}"#, false),
            (r#"{"a":1.0}"#, false),
            (r#"{"a":"<"}"#, false),
            (r#"{"a":"\u003c"}"#, true),
            (r#"{"a":1,"a":2}"#, false),
        ] {
            assert_eq!(!matches!(raw(text), Value::Raw(_)), is_plain, "{text}");
        }
        assert_eq!(RawJson::read("{"), None);
    }

    #[test]
    fn raw_json_equals_by_text_and_reads_by_value() {
        assert_ne!(raw(r#"{"b":1,"a":2}"#), raw(r#"{"a":2,"b":1}"#));
        assert_eq!(raw(r#"{"b":1,"a":2}"#), raw(r#"{"b":1,"a":2}"#));
        assert_eq!(raw(r#"{"b":1,"a":2}"#).get("a"), Some(&Value::Int(2)));
    }

    #[test]
    fn printing_drops_white_space_and_escapes() {
        for (text, printed) in [
            ("{ \"b\" : [ 1 , 2 ] ,\n\"a\":\"x < y \\\" z\" }", r#"{"b":[1,2],"a":"x \u003c y \" z"}"#),
            ("{\"b\":1.0,\"a\":\"\u{2028}\"}", r#"{"b":1.0,"a":"\u2028"}"#),
        ] {
            assert_eq!(json::text(&raw(text)), printed);
        }
    }

    #[test]
    fn a_level_is_opened_and_the_next_keeps_its_text() {
        let Value::Raw(outer) = raw(r#"{"z":{"y":1,"x":2},"a":[{"d":1,"c":2}]}"#) else { panic!("plain") };
        assert_eq!(json::text(&outer.opened()), r#"{"a":[{"d":1,"c":2}],"z":{"y":1,"x":2}}"#);
    }
}
