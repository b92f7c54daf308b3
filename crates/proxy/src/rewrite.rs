//! Rewrites the links of proxied pages, so that links to the backend's root point below the path of the proxy. Pages are
//! rewritten while they are streamed; only the current tag is in memory.

use crate::entities;
use crate::url::{Url, join};
use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder, GzEncoder, MultiGzDecoder};
use std::io::Write;

/// The longest tag that is parsed; a longer one is passed unchanged.
const TAG_BYTES_MAX: usize = 64 * 1024;

/// How many attributes of a tag are kept.
const ATTRIBUTES_MAX: usize = 1000;

/// How many compressed bytes are unpacked at once; they expand at most about a thousandfold.
const COMPRESSED_BYTES: usize = 1024;

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

/// The position of a proxy, by which links are rewritten.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// Scheme and host that clients use; "" if the links stay on their host.
    pub scheme: String,
    /// See `scheme`.
    pub host: String,
    /// The path prefix of the backend's own paths.
    pub prefix: String,
    /// The address of the backend, as `host:port`.
    pub backend: String,
    /// The host of the request.
    pub request_host: String,
}

impl Links {
    /// The rewritten link; the error says why it is not a URL.
    pub fn rewrite(&self, link: &str) -> Result<String, String> {
        let mut url = Url::parse(link)?;
        let is_elsewhere = !url.host.is_empty() && url.host != self.backend && url.host != self.request_host;
        if is_elsewhere || !url.path.starts_with('/') {
            return Ok(url.text());
        }
        let is_own_host = url.host == self.request_host && self.scheme.is_empty() && self.host.is_empty();
        if !is_own_host {
            url.scheme.clone_from(&self.scheme);
            url.host.clone_from(&self.host);
        }
        if !url.path.starts_with(&self.prefix) {
            let mut path = join(&[&self.prefix, &url.path]);
            if url.path.ends_with('/') && !path.ends_with('/') {
                path.push('/');
            }
            url.set_path(path);
        }
        Ok(url.text())
    }
}

/// How a page is compressed.
enum Coding {
    Plain,
    Gzip(Box<MultiGzDecoder<Vec<u8>>>, Box<GzEncoder<Vec<u8>>>),
    Deflate(Box<DeflateDecoder<Vec<u8>>>, Box<DeflateEncoder<Vec<u8>>>),
}

/// Rewrites a page piece by piece.
pub struct Page {
    links: Links,
    coding: Coding,
    tokens: Tokens,
}

impl Page {
    /// A rewriter for a page with this `Content-Encoding`; `None` for unsupported encodings.
    pub fn new(links: Links, encoding: &str) -> Option<Self> {
        let coding = match encoding {
            "" => Coding::Plain,
            "gzip" => Coding::Gzip(
                Box::new(MultiGzDecoder::new(Vec::new())),
                Box::new(GzEncoder::new(Vec::new(), Compression::default())),
            ),
            "deflate" => Coding::Deflate(
                Box::new(DeflateDecoder::new(Vec::new())),
                Box::new(DeflateEncoder::new(Vec::new(), Compression::best())),
            ),
            _ => return None,
        };
        Some(Page { links, coding, tokens: Tokens::default() })
    }

    /// Rewrites the next chunk. An incomplete tag is returned with a later chunk.
    pub fn push(&mut self, piece: &[u8]) -> std::io::Result<Bytes> {
        self.push_piece(piece).map_err(decoding_error)
    }

    fn push_piece(&mut self, piece: &[u8]) -> std::io::Result<Bytes> {
        let Page { links, coding, tokens } = self;
        match coding {
            Coding::Plain => Ok(tokens.push(piece, links)),
            Coding::Gzip(decoder, encoder) => {
                for part in piece.chunks(COMPRESSED_BYTES) {
                    decoder.write_all(part)?;
                    let plain = std::mem::take(decoder.get_mut());
                    encoder.write_all(&tokens.push(&plain, links))?;
                }
                Ok(std::mem::take(encoder.get_mut()).into())
            }
            Coding::Deflate(decoder, encoder) => {
                for part in piece.chunks(COMPRESSED_BYTES) {
                    decoder.write_all(part)?;
                    let plain = std::mem::take(decoder.get_mut());
                    encoder.write_all(&tokens.push(&plain, links))?;
                }
                Ok(std::mem::take(encoder.get_mut()).into())
            }
        }
    }

    /// Returns the rest at the end.
    pub fn finish(self) -> std::io::Result<Bytes> {
        let Page { links, coding, mut tokens } = self;
        match coding {
            Coding::Plain => Ok(tokens.finish()),
            Coding::Gzip(mut decoder, mut encoder) => {
                decoder.try_finish()?;
                let plain = std::mem::take(decoder.get_mut());
                encoder.write_all(&tokens.push(&plain, &links))?;
                encoder.write_all(&tokens.finish())?;
                Ok((*encoder).finish()?.into())
            }
            Coding::Deflate(mut decoder, mut encoder) => {
                decoder.try_finish()?;
                let plain = std::mem::take(decoder.get_mut());
                encoder.write_all(&tokens.push(&plain, &links))?;
                encoder.write_all(&tokens.finish())?;
                Ok((*encoder).finish()?.into())
            }
        }
    }
}

/// Go's words for a page that is not compressed as it says.
fn decoding_error(error: std::io::Error) -> std::io::Error {
    match error.to_string().as_str() {
        "invalid gzip header" => std::io::Error::other("errorf making gzip reader: gzip: invalid header"),
        _ => error,
    }
}

/// The tokens of a page, as far as links need them.
#[derive(Default)]
struct Tokens {
    /// The possible beginning of a tag.
    pending: BytesMut,
    /// The current element, if its content is not markup.
    raw: Option<&'static str>,
}

impl Tokens {
    fn push(&mut self, piece: &[u8], links: &Links) -> Bytes {
        self.pending.extend_from_slice(piece);
        let mut out = BytesMut::with_capacity(self.pending.len().saturating_add(64));
        while self.step(links, &mut out) {}
        out.freeze()
    }

    /// The rest at the end. As Go's tokenizer, it leaves out a tag that is not complete.
    fn finish(&mut self) -> Bytes {
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

/// The value of an attribute: one kind of line ends, no NUL, entities decoded.
fn decode_value(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n").replace('\0', "\u{fffd}");
    entities::decode(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn links() -> Links {
        Links {
            prefix: "/api/v1/namespaces/n/pods/p/proxy".into(),
            backend: "10.244.0.9:8080".into(),
            request_host: "server:6443".into(),
            ..Links::default()
        }
    }

    fn rewritten(page: &str, step: usize) -> String {
        let mut rewriter = Page::new(links(), "").unwrap();
        let mut out = Vec::new();
        for piece in page.as_bytes().chunks(step) {
            out.extend_from_slice(&rewriter.push(piece).unwrap());
        }
        out.extend_from_slice(&rewriter.finish().unwrap());
        String::from_utf8(out).unwrap()
    }

    const PAGE: &str = "<!DOCTYPE html><!-- <a href=\"/c\"> --><HTML><a HREF='/x?a=1&amp;b=2'>x</a><a href=rel>r</a>\
        <img src=\"/i.png\"/><script>if (a<b) { '<a href=\"/s\">' }</script><a href=\"http://server:6443/own\">o</a>\
        <a href=\"//10.244.0.9:8080/back\">b</a><p title=\"a>b\">1 < 2</p><a href=\"https://e.com/\">e";

    #[test]
    fn links_of_a_page_lead_through_the_proxy() {
        let whole = rewritten(PAGE, PAGE.len());
        expect![[r#"<!DOCTYPE html><!-- <a href="/c"> --><html><a href="/api/v1/namespaces/n/pods/p/proxy/x?a=1&amp;b=2">x</a><a href="rel">r</a><img src="/api/v1/namespaces/n/pods/p/proxy/i.png"/><script>if (a<b) { '<a href="/s">' }</script><a href="http://server:6443/api/v1/namespaces/n/pods/p/proxy/own">o</a><a href="/api/v1/namespaces/n/pods/p/proxy/back">b</a><p title="a&gt;b">1 < 2</p><a href="https://e.com/">e"#]].assert_eq(&whole);
        for step in [1, 2, 3, 7] {
            assert_eq!(rewritten(PAGE, step), whole, "in pieces of {step}");
        }
    }

    #[test]
    fn tags_are_read_as_by_go() {
        for (page, want) in [
            ("<p a=1 A=2>x <a href=\"/y", r#"<p a="1">x "#),
            (
                "<noscript><a href=/x></noscript><plaintext><a href=/y></plaintext>",
                "<noscript><a href=/x></noscript><plaintext><a href=/y></plaintext>",
            ),
            ("<p a=\"1\r\n2\r\0&eacute;&no;\">\r", "<p a=\"1\n2\n\u{fffd}é&amp;no;\">\r"),
            ("a </ b", "a </ b"),
            ("a </b", "a "),
        ] {
            assert_eq!(rewritten(page, page.len()), want, "{page}");
        }
    }

    #[test]
    fn compressed_pages_stay_compressed() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"<a href=\"/x\">").unwrap();
        let zipped = encoder.finish().unwrap();
        let mut rewriter = Page::new(links(), "gzip").unwrap();
        let mut out = rewriter.push(&zipped).unwrap().to_vec();
        out.extend_from_slice(&rewriter.finish().unwrap());
        let mut decoder = MultiGzDecoder::new(Vec::new());
        decoder.write_all(&out).unwrap();
        let plain = decoder.finish().unwrap();
        assert_eq!(plain, b"<a href=\"/api/v1/namespaces/n/pods/p/proxy/x\">");
        assert!(Page::new(links(), "br").is_none());
    }

    #[test]
    fn redirects_of_the_backend_stay_below_the_proxy() {
        let links = links();
        for (from, to) in [
            ("/there?x=1", Some("/api/v1/namespaces/n/pods/p/proxy/there?x=1")),
            ("there", Some("there")),
            ("https://example.com/x", Some("https://example.com/x")),
            ("http://10.244.0.9:8080/own", Some("/api/v1/namespaces/n/pods/p/proxy/own")),
            (":bad", None),
        ] {
            assert_eq!(links.rewrite(from).ok().as_deref(), to, "{from}");
        }
    }
}
