//! Reads only the parts of a stored object that a printer needs, without parsing the rest.
//!
//! Stored objects are compact JSON that this server wrote. Anything else is left to the real parser.

#![cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        reason = "positions and depths within a slice of bytes, and numbers of three digits"
    )
)]

use pintle_value::{Map, Str, Value, json};
use std::ops::Range;

/// The deepest value that is parsed here.
const DEPTH_MAX: usize = 64;

/// The needed part of a value: all of it, or some members. What is needed of a list is needed of each item.
#[derive(Debug, Default)]
pub(super) struct Need {
    members: Vec<(Str, Need)>,
    whole: bool,
    /// Only the number of members or items is needed.
    counted: bool,
}

impl Need {
    /// Adds a path of members, such as `spec.containers.name`; a trailing `#` only needs the number of members.
    pub(super) fn add(&mut self, path: &str) {
        let (path, counted) = path.strip_suffix('#').map_or((path, false), |path| (path, true));
        let need = self.descend(path.split('.'));
        if counted {
            need.counted = true;
        } else {
            need.whole = true;
        }
    }

    /// Adds a path of members whose names may contain dots; an empty path needs everything.
    pub(super) fn add_members<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) {
        self.descend(path).whole = true;
    }

    /// Returns whether a member of a member is needed.
    pub(super) fn has(&self, outer: &str, inner: &str) -> bool {
        self.whole || self.member(outer).is_some_and(|need| need.whole || need.member(inner).is_some())
    }

    /// Returns the need at a path of members; those that are missing are added.
    #[expect(clippy::indexing_slicing, reason = "the position is that of a member that was found or pushed")]
    fn descend<'a>(&mut self, path: impl IntoIterator<Item = &'a str>) -> &mut Need {
        let mut need = self;
        for part in path {
            let at = need.members.iter().position(|(name, _)| name == part).unwrap_or_else(|| {
                need.members.push((part.into(), Need::default()));
                need.members.len() - 1
            });
            need = &mut need.members[at].1;
        }
        need
    }

    fn member(&self, name: &str) -> Option<&Need> {
        self.members.iter().find(|(member, _)| member == name).map(|(_, need)| need)
    }

    /// Extracts the needed part of the JSON; `None` if it is not in the form that this server writes.
    pub(super) fn pick(&self, stored: &[u8]) -> Option<Value> {
        let mut reader = Reader { bytes: stored, at: 0 };
        if self.whole || self.counted {
            return reader.leaf();
        }
        reader.members(self, true)
    }
}

/// The range of a root member's value in the JSON of a stored object.
pub fn member(stored: &[u8], name: &str) -> Option<Range<usize>> {
    let mut reader = Reader { bytes: stored, at: 0 };
    reader.expect(b'{')?;
    loop {
        let key = reader.string()?;
        reader.expect(b':')?;
        let start = reader.at;
        reader.skip()?;
        if key == name.as_bytes() {
            return Some(start..reader.at);
        }
        reader.expect(b',')?;
    }
}

/// The JSON with a reading position.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Takes a byte that must be there.
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Takes a byte if it is next.
    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn pick_value(&mut self, need: &Need) -> Option<Value> {
        if need.whole {
            return self.leaf();
        }
        match self.peek()? {
            b'{' => self.members(need, false),
            b'[' => self.pick_items(need),
            _ => self.leaf(),
        }
    }

    /// Parses an object's needed members. At the root, parsing stops once all are found.
    fn members(&mut self, need: &Need, is_root: bool) -> Option<Value> {
        self.expect(b'{')?;
        let mut found = Vec::with_capacity(need.members.len());
        if self.take(b'}') {
            return Some(Value::object());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            match need.members.iter().find(|(name, _)| name.as_bytes() == key) {
                Some((name, inner)) => {
                    let value = self.pick_value(inner)?;
                    found.push((name.clone(), value));
                    if is_root && found.len() == need.members.len() {
                        break;
                    }
                }
                None => {
                    self.skip()?;
                    if need.counted {
                        found.push((Str::new(std::str::from_utf8(key).ok()?), Value::Null));
                    }
                }
            }
            if !self.take(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        Some(Value::Object(Map::from_entries(found).0))
    }

    fn pick_items(&mut self, need: &Need) -> Option<Value> {
        self.expect(b'[')?;
        let mut items = Vec::new();
        if self.take(b']') {
            return Some(Value::Array(items));
        }
        loop {
            if need.counted && need.members.is_empty() {
                self.skip()?;
                items.push(Value::Null);
            } else {
                items.push(self.pick_value(need)?);
            }
            if !self.take(b',') {
                self.expect(b']')?;
                return Some(Value::Array(items));
            }
        }
    }

    /// Parses a whole value; the JSON parser handles everything that is not trivial.
    fn leaf(&mut self) -> Option<Value> {
        self.pick_whole(0)
    }

    fn pick_whole(&mut self, depth: usize) -> Option<Value> {
        if depth > DEPTH_MAX {
            return None;
        }
        let start = self.at;
        match self.peek()? {
            b'"' => match std::str::from_utf8(self.string()?).ok()? {
                escaped if escaped.contains('\\') => self.parsed(start),
                plain => Some(Value::String(Str::new(plain))),
            },
            b'{' => {
                self.at += 1;
                let mut found = Vec::new();
                while !self.take(b'}') {
                    if !found.is_empty() {
                        self.expect(b',')?;
                    }
                    let key = std::str::from_utf8(self.string()?).ok()?;
                    if key.contains('\\') {
                        return None;
                    }
                    self.expect(b':')?;
                    found.push((Str::new(key), self.pick_whole(depth + 1)?));
                }
                Some(Value::Object(Map::from_entries(found).0))
            }
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                while !self.take(b']') {
                    if !items.is_empty() {
                        self.expect(b',')?;
                    }
                    items.push(self.pick_whole(depth + 1)?);
                }
                Some(Value::Array(items))
            }
            _ => {
                self.skip_word();
                self.parsed(start)
            }
        }
    }

    /// Parses the text from `start` to the current position.
    fn parsed(&self, start: usize) -> Option<Value> {
        match self.bytes.get(start..self.at)? {
            b"true" => Some(Value::Bool(true)),
            b"false" => Some(Value::Bool(false)),
            small @ ([_] | [_, _] | [_, _, _]) if small.iter().all(u8::is_ascii_digit) => {
                Some(Value::Int(small.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'))))
            }
            bytes => json::parse(bytes).ok().map(|parsed| parsed.value),
        }
    }

    /// Consumes a string; returns the text between its quotes with escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        self.skip_to_quote()?;
        self.bytes.get(start..self.at - 1)
    }

    /// Moves behind the closing quote of a string.
    fn skip_to_quote(&mut self) -> Option<()> {
        loop {
            let rest = self.bytes.get(self.at..)?;
            let stop = rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            self.at += stop + 1;
            if rest.get(stop) == Some(&b'"') {
                return Some(());
            }
            self.at += 1;
        }
    }

    /// Moves behind a value.
    fn skip(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.skip_to_quote()
            }
            b'{' | b'[' => self.skip_container(),
            b',' | b':' | b'}' | b']' => None,
            _ => {
                self.skip_word();
                Some(())
            }
        }
    }

    /// Skips an object or list: only strings and brackets matter.
    fn skip_container(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            let rest = self.bytes.get(self.at..)?;
            let stop = rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']'))?;
            self.at += stop + 1;
            match rest.get(stop)? {
                b'"' => self.skip_to_quote()?,
                b'{' | b'[' => depth += 1,
                _ => {
                    depth -= 1;
                    if depth == 0 {
                        return Some(());
                    }
                }
            }
        }
    }

    /// Skips a number or keyword.
    fn skip_word(&mut self) {
        while let Some(byte) = self.peek()
            && !matches!(byte, b',' | b':' | b'}' | b']' | b'"' | b'{' | b'[')
        {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(paths: &[&str], stored: &str, expected: &str) {
        let mut need = Need::default();
        paths.iter().for_each(|path| need.add(path));
        let mut out = Vec::new();
        match need.pick(stored.as_bytes()) {
            Some(value) => json::print(&value, &mut out),
            None => out.extend_from_slice(b"none"),
        }
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{paths:?} {stored}");
    }

    #[test]
    fn only_what_is_needed_is_read() {
        let pod = r#"{"kind":"Pod","metadata":{"name":"a\"b","labels":{"x":"}]"},"n":-1.5e3},"spec":{"containers":[{"name":"c","args":["{",2]},{"image":"i","name":"d"}],"empty":{},"none":[]},"s":true}"#;
        check(&["metadata.name"], pod, r#"{"metadata":{"name":"a\"b"}}"#);
        check(&["spec.containers.name"], pod, r#"{"spec":{"containers":[{"name":"c"},{"name":"d"}]}}"#);
        check(&["metadata.labels", "s"], pod, r#"{"metadata":{"labels":{"x":"}]"}},"s":true}"#);
        check(
            &["metadata.n", "spec.empty.x", "spec.none.y"],
            pod,
            r#"{"metadata":{"n":-1500},"spec":{"empty":{},"none":[]}}"#,
        );
        check(
            &["spec.containers#", "metadata#"],
            pod,
            r#"{"metadata":{"labels":null,"n":null,"name":null},"spec":{"containers":[null,null]}}"#,
        );
        check(&["kind.x.y"], pod, r#"{"kind":"Pod"}"#);
        check(&["other"], pod, "{}");
    }

    #[test]
    fn members_have_their_places() {
        let stored = r#"{"a":"}","b":{"c":[1,"]"]},"d":2}"#;
        let at = |name: &str| member(stored.as_bytes(), name).map(|range| &stored[range]);
        assert_eq!(
            [at("a"), at("b"), at("d"), at("c")],
            [Some(r#""}""#), Some(r#"{"c":[1,"]"]}"#), Some("2"), None]
        );
    }

    #[test]
    fn json_that_is_not_compact_is_left_to_the_parser() {
        for stored in [
            "",
            "{",
            "[]",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":}",
            "{ \"a\":1}",
            "{\"b\":[1}",
            "{\"b\":\"x",
            "{\"b\":\"x\\",
        ] {
            check(&["a"], stored, "none");
        }
    }
}
