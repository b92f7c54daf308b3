//! Splits well-formed JSON into its parts without decoding them, and removes white space.

use super::parse;
use crate::{Str, Value};

/// Iterates over the members of an object or the items of an array as texts.
pub struct Parts<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parts<'a> {
    /// The parts of `text`, which is well-formed.
    pub fn of(text: &'a str) -> Self {
        let mut parts = Parts { text, at: 0 };
        if matches!(parts.peek(), Some(b'{' | b'[')) {
            parts.at = parts.at.saturating_add(1);
        }
        parts
    }

    /// The next member with its key, or item with an empty key.
    pub fn next_part(&mut self) -> Option<(Str, &'a str)> {
        if self.peek() == Some(b',') {
            self.at = self.at.saturating_add(1);
        }
        if matches!(self.peek(), Some(b'}' | b']') | None) {
            return None;
        }
        let first = self.value()?;
        if self.peek() != Some(b':') {
            return Some((Str::default(), first));
        }
        self.at = self.at.saturating_add(1);
        match parse(first.as_bytes()).ok()?.value {
            Value::String(key) => Some((key, self.value()?)),
            _ => None,
        }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while matches!(self.text.as_bytes().get(self.at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at = self.at.saturating_add(1);
        }
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes a value.
    fn value(&mut self) -> Option<&'a str> {
        self.peek();
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => self.skip_string(),
                b'{' | b'[' => depth = depth.saturating_add(1),
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => break,
                _ => {}
            }
            self.at = self.at.saturating_add(1);
        }
        self.text.get(start..self.at)
    }

    /// Moves to the closing quote of the string that begins here.
    fn skip_string(&mut self) {
        self.at = self.at.saturating_add(1);
        while let Some(byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b'"' => return,
                b'\\' => self.at = self.at.saturating_add(2),
                _ => self.at = self.at.saturating_add(1),
            }
        }
    }
}

/// Appends `json`, which is well-formed, as Go's encoder writes what a marshaler returns: without white space, and with
/// `<`, `>`, `&` and the two line separators of JavaScript escaped.
pub fn compact(json: &[u8], out: &mut Vec<u8>) {
    out.reserve(json.len());
    let mut in_string = false;
    let mut bytes = json.iter().copied().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' if !in_string => {}
            b'<' => out.extend_from_slice(b"\\u003c"),
            b'>' => out.extend_from_slice(b"\\u003e"),
            b'&' => out.extend_from_slice(b"\\u0026"),
            0xe2 if matches!(
                json.get(at.saturating_add(1)..at.saturating_add(3)),
                Some([0x80, 0xa8 | 0xa9])
            ) =>
            {
                let last = if json.get(at.saturating_add(2)) == Some(&0xa8) { b'8' } else { b'9' };
                out.extend_from_slice(b"\\u202");
                out.push(last);
                bytes.next();
                bytes.next();
            }
            b'\\' if in_string => {
                out.push(byte);
                out.extend(bytes.next().map(|(_, escaped)| escaped));
            }
            _ => {
                in_string ^= byte == b'"';
                out.push(byte);
            }
        }
    }
}

/// An upper bound of the number of values in a text that need not be well-formed, for limits that hold before it is parsed.
pub fn values_at_most(json: &[u8]) -> usize {
    let begin = json.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    begin.saturating_add(1)
}

/// Whether [`compact`] would write the same bytes.
pub fn is_compact(json: &[u8]) -> bool {
    let mut out = Vec::new();
    compact(json, &mut out);
    out == json
}
