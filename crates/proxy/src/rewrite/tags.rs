//! The tags of a page: finds them in the stream, and rewrites the links in their attributes.

use super::Links;
use crate::entities;
use bytes::{Bytes, BytesMut};

/// The longest tag that is parsed; a longer one is passed unchanged.
const TAG_BYTES_MAX: usize = 64 * 1024;

/// The maximum number of attributes that are parsed in a tag.
const ATTRIBUTES_MAX: usize = 1000;

/// Attributes that contain links, by element.
const LINKS: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text until their end tag.
const RAW_TEXT: &[&str] =
    &["iframe", "noembed", "noframes", "noscript", PLAIN_TEXT, "script", "style", "title", "textarea", "xmp"];

/// The element whose content is text to the end of the page.
const PLAIN_TEXT: &str = "plaintext";

/// The tokens of a page, as far as links need them.
#[derive(Default)]
pub(super) struct Tokens {
    /// The possible beginning of a tag.
    pending: BytesMut,
    /// The current element, if its content is not markup.
    raw: Option<&'static str>,
}

impl Tokens {
    /// Adds a piece of the page; returns the part that can be sent.
    pub(super) fn push(&mut self, piece: &[u8], links: &Links) -> Bytes {
        self.pending.extend_from_slice(piece);
        let mut out = BytesMut::with_capacity(self.pending.len().saturating_add(64));
        while self.step(links, &mut out) {}
        out.freeze()
    }

    /// Returns the remaining bytes at the end of the page. Like Go's tokenizer, it leaves out an incomplete tag.
    pub(super) fn finish(&mut self) -> Bytes {
        let rest = self.pending.split().freeze();
        let is_tag = match &rest[..] {
            [b'<', b'/', letter, ..] | [b'<', letter, ..] => letter.is_ascii_alphabetic(),
            _ => false,
        };
        if self.raw.is_none() && is_tag { Bytes::new() } else { rest }
    }

    /// Moves one token from `pending` to `out`; false if it needs more bytes.
    fn step(&mut self, links: &Links, out: &mut BytesMut) -> bool {
        let Some(start) = self.pending.iter().position(|byte| *byte == b'<') else {
            out.extend_from_slice(&self.pending.split());
            return false;
        };
        out.extend_from_slice(&self.pending.split_to(start));
        match self.token_length() {
            Length::Unknown if self.pending.len() < TAG_BYTES_MAX => false,
            Length::Unknown => {
                out.extend_from_slice(&self.pending.split_to(1));
                true
            }
            Length::Text(size) => {
                out.extend_from_slice(&self.pending.split_to(size));
                true
            }
            Length::Tag(size) => {
                let raw = self.pending.split_to(size);
                let text = String::from_utf8_lossy(&raw);
                match Tag::parse(&text) {
                    Some(mut tag) => {
                        self.raw = RAW_TEXT.iter().copied().find(|name| *name == tag.name);
                        tag.rewrite(links);
                        tag.write(out);
                    }
                    None => out.extend_from_slice(&raw),
                }
                true
            }
        }
    }

    /// The length of the token at the start of `pending`, which is a `<`.
    fn token_length(&mut self) -> Length {
        let bytes = &self.pending[..];
        if let Some(name) = self.raw {
            if name == PLAIN_TEXT {
                return Length::Text(bytes.len());
            }
            let end = format!("</{name}");
            let Some(head) = bytes.get(..end.len()) else {
                let could_be =
                    end.as_bytes().get(..bytes.len()).is_some_and(|e| bytes.eq_ignore_ascii_case(e));
                return if could_be { Length::Unknown } else { Length::Text(1) };
            };
            if head.eq_ignore_ascii_case(end.as_bytes()) {
                self.raw = None;
                return Length::Text(end.len());
            }
            return Length::Text(1);
        }
        match bytes.get(1) {
            None => Length::Unknown,
            Some(b'!') if b"<!--".starts_with(bytes) => Length::Unknown,
            Some(b'!') if bytes.starts_with(b"<!--") => match find(bytes, b"-->", 4) {
                Some(end) => Length::Text(end),
                None => Length::Unknown,
            },
            Some(b'!' | b'?' | b'/') => match bytes.iter().position(|byte| *byte == b'>') {
                Some(end) => Length::Text(end.saturating_add(1)),
                None => Length::Unknown,
            },
            Some(letter) if letter.is_ascii_alphabetic() => {
                let mut quote = None;
                for (at, byte) in bytes.iter().enumerate().skip(1) {
                    match (quote, byte) {
                        (None, b'>') => return Length::Tag(at.saturating_add(1)),
                        (None, b'"' | b'\'') => {
                            let before = bytes.get(..at).unwrap_or_default().trim_ascii_end();
                            if before.last() == Some(&b'=') {
                                quote = Some(*byte);
                            }
                        }
                        (Some(open), byte) if open == *byte => quote = None,
                        _ => {}
                    }
                }
                Length::Unknown
            }
            Some(_) => Length::Text(1),
        }
    }
}

enum Length {
    Unknown,
    Text(usize),
    Tag(usize),
}

fn find(bytes: &[u8], what: &[u8], from: usize) -> Option<usize> {
    let rest = bytes.get(from..)?;
    rest.windows(what.len())
        .position(|window| window == what)
        .map(|at| from.saturating_add(at).saturating_add(what.len()))
}

/// A start tag.
struct Tag {
    name: String,
    /// Names and decoded values.
    attributes: Vec<(String, String)>,
    closes_itself: bool,
}

impl Tag {
    fn parse(text: &str) -> Option<Tag> {
        let inner = text.strip_prefix('<')?.strip_suffix('>')?;
        let name_end = inner.find(|c: char| c.is_ascii_whitespace() || c == '/').unwrap_or(inner.len());
        let (name, mut rest) = inner.split_at(name_end);
        let mut tag = Tag { name: name.to_ascii_lowercase(), attributes: Vec::new(), closes_itself: false };
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace());
            if rest.is_empty() {
                return Some(tag);
            }
            if let Some(after) = rest.strip_prefix('/') {
                tag.closes_itself = after.is_empty();
                rest = after;
                continue;
            }
            let end = rest
                .char_indices()
                .position(|(at, c)| c.is_ascii_whitespace() || c == '/' || c == '=' && at > 0)
                .and_then(|nth| rest.char_indices().nth(nth))
                .map_or(rest.len(), |(at, _)| at);
            let (key, after) = rest.split_at(end);
            let after = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
            let (value, after) = match after.strip_prefix('=') {
                None => ("", after),
                Some(after) => {
                    let after = after.trim_start_matches(|c: char| c.is_ascii_whitespace());
                    match after.chars().next() {
                        Some(quote @ ('"' | '\'')) => {
                            after.strip_prefix(quote).and_then(|a| a.split_once(quote)).unwrap_or((after, ""))
                        }
                        _ => {
                            let end = after.find(|c: char| c.is_ascii_whitespace()).unwrap_or(after.len());
                            after.split_at(end)
                        }
                    }
                }
            };
            let key = key.to_ascii_lowercase();
            if !tag.attributes.iter().any(|(known, _)| *known == key) && tag.attributes.len() < ATTRIBUTES_MAX
            {
                tag.attributes.push((key, decode_value(value)));
            }
            rest = after;
        }
    }

    fn rewrite(&mut self, links: &Links) {
        let Some((_, keys)) = LINKS.iter().find(|(element, _)| *element == self.name) else { return };
        for (key, value) in &mut self.attributes {
            if keys.contains(&key.as_str())
                && let Ok(link) = links.rewrite(value)
            {
                *value = link;
            }
        }
    }

    /// Writes the tag as Go's tokenizer does: names in lower case, values in double quotes.
    fn write(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"<");
        out.extend_from_slice(self.name.as_bytes());
        for (key, value) in &self.attributes {
            out.extend_from_slice(b" ");
            out.extend_from_slice(key.as_bytes());
            out.extend_from_slice(b"=\"");
            for c in value.chars() {
                let escaped = match c {
                    '&' => "&amp;",
                    '\'' => "&#39;",
                    '<' => "&lt;",
                    '>' => "&gt;",
                    '"' => "&#34;",
                    '\r' => "&#13;",
                    c => {
                        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                        continue;
                    }
                };
                out.extend_from_slice(escaped.as_bytes());
            }
            out.extend_from_slice(b"\"");
        }
        out.extend_from_slice(if self.closes_itself { b"/>" } else { b">" });
    }
}

/// Decodes the value of an attribute: normalizes line ends, replaces NUL and decodes entities.
fn decode_value(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{fffd}");
    entities::decode(&text)
}
