//! Normalizes responses of different runs: times, uids, versions, tokens and ages are replaced by names.

use std::collections::HashMap;

use serde_json::{Map, Value};

const UUID_BYTES: usize = 36;

/// Replaces values that differ from run to run by names; the same value has the same name throughout a file.
#[derive(Debug, Default)]
pub struct Normal {
    names: Vec<(String, String)>,
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
}

/// The context of a value, as far as it matters for its name.
#[derive(Clone, Copy, Default)]
struct Place<'a> {
    key: &'a str,
    beside_uid: bool,
}

impl Normal {
    /// `names` are values of this run and their replacements, in the order in which they are applied.
    pub fn new(names: Vec<(String, String)>) -> Normal {
        Normal { names, ..Normal::default() }
    }

    /// Replaces names, uids and times in a text.
    pub fn text(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        for (value, name) in &self.names {
            text = text.replace(value, name);
        }
        let uids = &mut self.uids;
        let text = replace(&text, uuid_at, |uid| {
            let next = uids.len() + 1;
            uids.entry(uid.to_owned()).or_insert_with(|| format!("<uid:{next}>")).clone()
        });
        replace(&text, time_at, |_| "<time>".to_owned())
    }

    /// Replaces the same in a text that is not JSON, and also the versions in YAML.
    pub fn plain_text(&mut self, text: &str) -> String {
        const KEY: &str = "resourceVersion: \"";
        let text = self.text(text);
        let version_at = |s: &str, at: usize| {
            let digits = digits_at(s, at + s.get(at..)?.strip_prefix(KEY).map(|_| KEY.len())?);
            let end = at + KEY.len() + digits;
            (digits > 0 && s[end..].starts_with('"')).then_some(end + 1)
        };
        replace(&text, version_at, |_| "resourceVersion: \"<rv>\"".to_owned())
    }

    /// Replaces everything in a document.
    pub fn tree(&mut self, value: &Value) -> Value {
        self.normalize_value(value, Place::default())
    }

    fn normalize_value(&mut self, value: &Value, place: Place<'_>) -> Value {
        match value {
            Value::Object(map) => {
                let beside_uid = map.contains_key("uid");
                let mut out = Map::new();
                for (key, item) in map {
                    let name = self.text(key);
                    out.insert(name, self.normalize_value(item, Place { key, beside_uid }));
                }
                Value::Object(out)
            }
            Value::Array(items) => {
                let place = Place { beside_uid: false, ..place };
                Value::Array(items.iter().map(|item| self.normalize_value(item, place)).collect())
            }
            Value::String(s) => Value::String(self.normalize_string(s, place)),
            other => other.clone(),
        }
    }

    fn normalize_string(&mut self, s: &str, place: Place<'_>) -> String {
        match place.key {
            "resourceVersion" if is_version(s) && place.beside_uid => {
                let next = self.versions.len() + 1;
                self.versions.entry(s.to_owned()).or_insert_with(|| format!("<rv:{next}>")).clone()
            }
            "resourceVersion" if is_version(s) => "<rv>".to_owned(),
            "continue" if !s.is_empty() => "<continue>".to_owned(),
            "cells" if is_age(s) => "<age>".to_owned(),
            _ => self.text(s),
        }
    }
}

fn is_version(s: &str) -> bool {
    !s.starts_with('0') && !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())
}

fn is_age(s: &str) -> bool {
    if s == "<unknown>" {
        return true;
    }
    let mut at = 0;
    while at < s.len() {
        let digits = digits_at(s, at);
        let unit = s.as_bytes().get(at + digits);
        if digits == 0 || !unit.is_some_and(|b| b"smhd".contains(b)) {
            return false;
        }
        at += digits + 1;
    }
    at > 0
}

/// Replaces the matches of `matcher`, which returns the end of a match that begins at an index.
fn replace(
    text: &str,
    matcher: impl Fn(&str, usize) -> Option<usize>,
    mut with: impl FnMut(&str) -> String,
) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while at < text.len() {
        match text.is_char_boundary(at).then(|| matcher(text, at)).flatten() {
            Some(end) => {
                out.push_str(&text[copied..at]);
                out.push_str(&with(&text[at..end]));
                (at, copied) = (end, end);
            }
            None => at += 1,
        }
    }
    out.push_str(&text[copied..]);
    out
}

fn digits_at(s: &str, at: usize) -> usize {
    s.as_bytes().get(at..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count()
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn word_before(s: &str, at: usize) -> bool {
    s[..at].chars().next_back().is_some_and(is_word)
}

fn uuid_at(s: &str, at: usize) -> Option<usize> {
    let end = at + UUID_BYTES;
    let bytes = s.as_bytes().get(at..end)?;
    let fits = bytes.iter().enumerate().all(|(i, b)| match i {
        8 | 13 | 18 | 23 => *b == b'-',
        _ => matches!(b, b'0'..=b'9' | b'a'..=b'f'),
    });
    let word_after = || s[end..].chars().next().is_some_and(is_word);
    (fits && !word_before(s, at) && !word_after()).then_some(end)
}

/// Returns where a time that starts at `at` ends: `2026-01-02T03:04:05[.678](Z|+01:00)`.
fn time_at(s: &str, at: usize) -> Option<usize> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let like = |at: usize, shape: &[u8]| {
        let bytes = s.as_bytes().get(at..at + shape.len())?;
        let fits = bytes.iter().zip(shape).all(|(b, s)| if *s == b'0' { b.is_ascii_digit() } else { b == s });
        fits.then_some(at + shape.len())
    };
    let mut end = like(at, SHAPE)?;
    if word_before(s, at) {
        return None;
    }
    if s[end..].starts_with('.') {
        end += 1 + Some(digits_at(s, end + 1)).filter(|n| *n > 0)?;
    }
    like(end, b"Z").or_else(|| like(end, b"+00:00")).or_else(|| like(end, b"-00:00"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const U1: &str = "01234567-89ab-cdef-0123-456789abcdef";
    const U2: &str = "11234567-89ab-cdef-0123-456789abcdef";

    fn normal() -> Normal {
        let names = [("ns-abcdef", "$NS"), ("gabcdef.example.com", "$G"), ("abcdef", "$ID")];
        Normal::new(names.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec())
    }

    #[test]
    fn texts() {
        let cases = [
            (format!("{U2} {U1} {U2}"), "<uid:1> <uid:2> <uid:1>"),
            (format!("x{U1}"), "x01234567-89ab-cdef-0123-456789$ID"),
            (format!("/{U1}\""), "/<uid:1>\""),
            ("in ns-abcdef: gabcdef.example.com/abcdef".to_owned(), "in $NS: $G/$ID"),
            ("at 2026-01-02T03:04:05Z, 2026-01-02T03:04:05.000123Z".to_owned(), "at <time>, <time>"),
            ("2026-01-02T03:04:05+01:00 2026-01-02T03:04:05-01:00x".to_owned(), "<time> <time>x"),
            ("2026-01-02T03:04:05".to_owned(), "2026-01-02T03:04:05"),
            ("2026-01-02T03:04:05.Z é".to_owned(), "2026-01-02T03:04:05.Z é"),
            ("12026-01-02T03:04:05Z".to_owned(), "12026-01-02T03:04:05Z"),
        ];
        for (text, want) in cases {
            // The uid in these cases ends in the file's own id, which is replaced first.
            let mut normal = if text.starts_with('x') { normal() } else { names_without_id() };
            assert_eq!(normal.text(&text), want, "{text}");
        }
    }

    fn names_without_id() -> Normal {
        let names = [("ns-abcdef", "$NS"), ("gabcdef.example.com", "$G"), ("/abcdef", "/$ID")];
        Normal::new(names.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec())
    }

    #[test]
    fn trees() {
        let cases = [
            (
                json!({"metadata": {"resourceVersion": "7", "uid": "u"}, "o": {"resourceVersion": "8"}}),
                json!({"metadata": {"resourceVersion": "<rv:1>", "uid": "u"}, "o": {"resourceVersion": "<rv>"}}),
            ),
            (
                json!({"resourceVersion": "0", "continue": ""}),
                json!({"resourceVersion": "0", "continue": ""}),
            ),
            (json!({"continue": "abc"}), json!({"continue": "<continue>"})),
            (
                json!({"cells": ["5d3h", "12", "<unknown>", "3s", "s", ""], "b": "3s"}),
                json!({"cells": ["<age>", "12", "<age>", "<age>", "s", ""], "b": "3s"}),
            ),
            (
                json!({"f:abcdef": {}, "uids": [U2, U1], "n": 1.5}),
                json!({"f:$ID": {}, "uids": ["<uid:1>", "<uid:2>"], "n": 1.5}),
            ),
        ];
        for (doc, want) in cases {
            let mut normal = if doc.get("uids").is_some() {
                Normal::new(vec![("f:abcdef".to_owned(), "f:$ID".to_owned())])
            } else {
                normal()
            };
            assert_eq!(normal.tree(&doc), want);
        }
    }

    #[test]
    fn the_same_version_has_the_same_name() {
        let mut normal = normal();
        let mut name =
            |v: &str| normal.tree(&json!({"resourceVersion": v, "uid": ""}))["resourceVersion"].clone();
        assert_eq!([name("5"), name("9"), name("5")], [json!("<rv:1>"), json!("<rv:2>"), json!("<rv:1>")]);
    }

    #[test]
    fn versions_in_yaml() {
        let text = "resourceVersion: \"12\"\nresourceVersion: \"\"\nresourceVersion: 12\n";
        let want = "resourceVersion: \"<rv>\"\nresourceVersion: \"\"\nresourceVersion: 12\n";
        assert_eq!(normal().plain_text(text), want);
    }
}
