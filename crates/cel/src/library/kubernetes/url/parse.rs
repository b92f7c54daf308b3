//! Parses URLs as Go's `net/url` (1.26) does, with its messages.

use std::net::IpAddr;

use pintle_value::percent;
use pintle_value::quote::go_quoted;

use super::super::ip::address;

/// The maximum number of parameters of a query; one with more counts as empty.
const QUERY_PARAMETERS_MAX: usize = 10_000;

/// A parsed URL: the parts that expressions can access, and the normalized text by which two URLs are compared.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Url {
    pub(in super::super) scheme: String,
    pub(in super::super) host: String,
    pub(in super::super) escaped_path: String,
    raw_query: String,
    pub(in super::super) text: String,
}

/// A part of a URL, which determines the bytes that need no escape.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// The parts that `parse` collects before the text is assembled again.
#[derive(Default)]
struct Pieces {
    scheme: String,
    opaque: String,
    user: Option<(Vec<u8>, Option<Vec<u8>>)>,
    host: Vec<u8>,
    path: Vec<u8>,
    raw_path: String,
    omits_host: bool,
    forces_query: bool,
    raw_query: String,
}

impl Url {
    /// Parses an absolute URL or path, with its fragment.
    pub(in super::super) fn parse(text: &str) -> Result<Url, String> {
        Url::parse_request(text)?;
        Url::parse_any(text)
    }

    /// Go's `url.Parse`, which also accepts relative URLs.
    pub(super) fn check(text: &str) -> Result<(), String> {
        Url::parse_any(text).map(drop)
    }

    fn parse_any(text: &str) -> Result<Url, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let pieces = Pieces::parse(before, false).map_err(|error| refusal(before, &error))?;
        let decoded = unescape(fragment, Part::Fragment).map_err(|error| refusal(text, &error))?;
        Ok(pieces.into_url(fragment, &decoded))
    }

    /// Go's `ParseRequestURI`: accepts only an absolute URL or path.
    pub(in super::super) fn parse_request(text: &str) -> Result<(), String> {
        Pieces::parse(text, true).map(|_| ()).map_err(|error| refusal(text, &error))
    }

    pub(in super::super) fn hostname(&self) -> &str {
        let host = self.split_port().0;
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    pub(in super::super) fn port(&self) -> &str {
        self.split_port().1
    }

    fn split_port(&self) -> (&str, &str) {
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The parameters of the query, in order; malformed ones are omitted.
    pub(in super::super) fn query(&self) -> Vec<(String, Vec<String>)> {
        let mut query: Vec<(String, Vec<String>)> = Vec::new();
        if self.raw_query.matches('&').count() >= QUERY_PARAMETERS_MAX {
            return query;
        }
        let mut places = std::collections::HashMap::new();
        for parameter in self.raw_query.split('&').filter(|p| !p.is_empty() && !p.contains(';')) {
            let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let (Ok(key), Ok(value)) = (unescape(key, Part::Query), unescape(value, Part::Query)) else {
                continue;
            };
            let (key, value) = (lossy(&key), lossy(&value));
            let place = *places.entry(key.clone()).or_insert(query.len());
            match query.get_mut(place) {
                Some((_, values)) => values.push(value),
                None => query.push((key, vec![value])),
            }
        }
        query
    }
}

fn refusal(text: &str, what: &str) -> String {
    format!("parse {}: {what}", go_quoted(text))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Pieces {
    fn parse(text: &str, via_request: bool) -> Result<Pieces, String> {
        if text.bytes().any(|b| b.is_ascii_control()) {
            return Err("net/url: invalid control character in URL".into());
        }
        if text.is_empty() && via_request {
            return Err("empty url".into());
        }
        let mut pieces = Pieces::default();
        if text == "*" {
            pieces.path = b"*".to_vec();
            return Ok(pieces);
        }
        let (scheme, mut rest) = split_scheme(text)?;
        pieces.scheme = scheme.to_ascii_lowercase();
        match rest.strip_suffix('?') {
            Some(before) if !before.contains('?') => {
                pieces.forces_query = true;
                rest = before;
            }
            _ => {
                let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
                rest = before;
                pieces.raw_query = query.to_owned();
            }
        }
        if !rest.starts_with('/') {
            if !pieces.scheme.is_empty() {
                pieces.opaque = rest.to_owned();
                return Ok(pieces);
            }
            if via_request {
                return Err("invalid URI for request".into());
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".into());
            }
        }
        let has_scheme = !pieces.scheme.is_empty();
        match rest.strip_prefix("//") {
            Some(after) if has_scheme || (!via_request && !rest.starts_with("///")) => {
                let end = after.find('/').unwrap_or(after.len());
                let (authority, path) = after.split_at(end);
                pieces.set_authority(authority)?;
                rest = path;
            }
            _ => pieces.omits_host = has_scheme && rest.starts_with('/'),
        }
        pieces.path = unescape(rest, Part::Path)?;
        pieces.raw_path = rest.to_owned();
        Ok(pieces)
    }

    fn set_authority(&mut self, authority: &str) -> Result<(), String> {
        let (user, host) =
            authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
        self.host = parse_host(&self.scheme, host)?;
        let Some(user) = user else {
            return Ok(());
        };
        if !user.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b)) {
            return Err("net/url: invalid userinfo".into());
        }
        self.user = Some(match user.split_once(':') {
            None => (unescape(user, Part::User)?, None),
            Some((name, password)) => (unescape(name, Part::User)?, Some(unescape(password, Part::User)?)),
        });
        Ok(())
    }

    /// Go's `URL.String`.
    fn into_url(self, fragment: &str, decoded_fragment: &[u8]) -> Url {
        let escaped_path = match self.path.as_slice() {
            b"*" => "*".to_owned(),
            path => original_or_escaped(&self.raw_path, path, Part::Path),
        };
        let mut text = String::new();
        if !self.scheme.is_empty() {
            text.push_str(&self.scheme);
            text.push(':');
        }
        let host = lossy(&self.host);
        if self.opaque.is_empty() {
            self.push_authority(&mut text);
            if !escaped_path.is_empty() && !escaped_path.starts_with('/') && !host.is_empty() {
                text.push('/');
            }
            if text.is_empty() && escaped_path.split('/').next().is_some_and(|segment| segment.contains(':'))
            {
                text.push_str("./");
            }
            text.push_str(&escaped_path);
        } else {
            text.push_str(&self.opaque);
        }
        if self.forces_query || !self.raw_query.is_empty() {
            text.push('?');
            text.push_str(&self.raw_query);
        }
        if !decoded_fragment.is_empty() {
            text.push('#');
            text.push_str(&original_or_escaped(fragment, decoded_fragment, Part::Fragment));
        }
        Url { scheme: self.scheme, host, escaped_path, raw_query: self.raw_query, text }
    }

    fn push_authority(&self, text: &mut String) {
        if (self.scheme.is_empty() && self.host.is_empty() && self.user.is_none())
            || (self.omits_host && self.host.is_empty() && self.user.is_none())
        {
            return;
        }
        if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
            text.push_str("//");
        }
        if let Some((name, password)) = &self.user {
            text.push_str(&escape(name, Part::User));
            if let Some(password) = password {
                text.push(':');
                text.push_str(&escape(password, Part::User));
            }
            text.push('@');
        }
        text.push_str(&escape(&self.host, Part::Host));
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if i > 0 => {}
            b':' if i == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok(text.split_at(i)).map(|(scheme, rest)| (scheme, rest.get(1..).unwrap_or(""))),
            _ => break,
        }
    }
    Ok(("", text))
}

fn parse_host(scheme: &str, host: &str) -> Result<Vec<u8>, String> {
    match host.rfind('[') {
        Some(0) => return parse_literal(host),
        Some(_) => return Err("invalid IP-literal".into()),
        None => {}
    }
    // A host of http has at most one colon; others may be lists of hosts with ports.
    let strict = scheme == "http" || scheme == "https";
    let colon = if strict { host.find(':') } else { host.rfind(':') };
    if let Some(colon) = colon {
        check_port(host.get(colon..).unwrap_or(""))?;
    }
    unescape(host, Part::Host)
}

/// Parses a host in brackets: `[fe80::1%25en0]:80`.
fn parse_literal(host: &str) -> Result<Vec<u8>, String> {
    let (inside, port) = host.get(1..).and_then(|host| host.rsplit_once(']')).ok_or("missing ']' in host")?;
    check_port(port)?;
    let zone = inside.find("%25").unwrap_or(inside.len());
    let (name, zone) = inside.split_at(zone);
    let mut literal = unescape(name, Part::Host)?;
    literal.extend(unescape(zone, Part::Zone)?);
    let (parsed, _) = address::parse(&lossy(&literal)).map_err(|error| format!("invalid host: {error}"))?;
    if matches!(parsed, IpAddr::V4(_)) {
        return Err("invalid IP-literal".into());
    }
    let mut out = b"[".to_vec();
    out.extend(literal);
    out.push(b']');
    out.extend(port.bytes());
    Ok(out)
}

fn check_port(colon_port: &str) -> Result<(), String> {
    let valid = match colon_port.strip_prefix(':') {
        Some(port) => port.bytes().all(|b| b.is_ascii_digit()),
        None => colon_port.is_empty(),
    };
    if valid { Ok(()) } else { Err(format!("invalid port {} after host", go_quoted(colon_port))) }
}

/// The original text if it is a valid escape of `decoded`, otherwise a new escape.
fn original_or_escaped(raw: &str, decoded: &[u8], part: Part) -> String {
    let fair = |b: u8| b"!$&'()*+,;=:@[]%".contains(&b) || !needs_escape(b, part);
    if raw.bytes().all(fair) { raw.to_owned() } else { escape(decoded, part) }
}

fn needs_escape(byte: u8, part: Part) -> bool {
    if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
        return false;
    }
    let allowed: &[u8] = match part {
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
        Part::Path => b"$&+,/:;=@",
        Part::User => b"$&+,;=",
        Part::Query => b"",
        Part::Fragment => b"$&+,/:;=?@!()*",
    };
    !allowed.contains(&byte)
}

fn escape(bytes: &[u8], part: Part) -> String {
    percent::encode(bytes, |byte| !needs_escape(byte, part))
}

fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let in_host = matches!(part, Part::Host | Part::Zone);
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'%' => {
                let escape = bytes.get(at..bytes.len().min(at.saturating_add(3))).unwrap_or_default();
                let refuse = || format!("invalid URL escape {}", go_quoted(&lossy(escape)));
                let decoded = percent::decode_byte(escape.get(1..).unwrap_or_default()).ok_or_else(refuse)?;
                // Host names may only escape non-ASCII characters; zones also characters that need no escape, and
                // spaces.
                let misplaced = match part {
                    Part::Host => decoded < 0x80 && decoded != b'%',
                    Part::Zone => decoded != b'%' && decoded != b' ' && needs_escape(decoded, Part::Host),
                    _ => false,
                };
                if misplaced {
                    return Err(refuse());
                }
                out.push(decoded);
                at = at.saturating_add(3);
                continue;
            }
            b'+' if part == Part::Query => out.push(b' '),
            _ if in_host && byte.is_ascii() && needs_escape(*byte, part) => {
                let character = go_quoted(&char::from(*byte).to_string());
                return Err(format!("invalid character {character} in host name"));
            }
            _ => out.push(*byte),
        }
        at = at.saturating_add(1);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_texts_of_go() {
        for (text, expected) in [
            ("", r#"parse "": empty url"#),
            ("../relative-path", r#"parse "../relative-path": invalid URI for request"#),
            (":x", r#"parse ":x": missing protocol scheme"#),
            ("http://a b", r#"parse "http://a b": invalid character " " in host name"#),
            ("http://h|st/", r#"parse "http://h|st/": invalid character "|" in host name"#),
            ("http://host:port/", r#"parse "http://host:port/": invalid port ":port" after host"#),
            (
                "http://localhost:80:80/",
                r#"parse "http://localhost:80:80/": invalid port ":80:80" after host"#,
            ),
            ("http://host/%zz", r#"parse "http://host/%zz": invalid URL escape "%zz""#),
            ("http://%41/", r#"parse "http://%41/": invalid URL escape "%41""#),
            ("http://[::1/", r#"parse "http://[::1/": missing ']' in host"#),
            ("http://x[::1]/", r#"parse "http://x[::1]/": invalid IP-literal"#),
            ("http://[1.2.3.4]/", r#"parse "http://[1.2.3.4]/": invalid IP-literal"#),
            (
                "http://[12345::]/",
                r#"parse "http://[12345::]/": invalid host: ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")"#,
            ),
            ("http://us er@host/", r#"parse "http://us er@host/": net/url: invalid userinfo"#),
            ("http://a/\n", r#"parse "http://a/\n": net/url: invalid control character in URL"#),
        ] {
            assert_eq!(Url::parse(text).err(), Some(expected.to_owned()));
        }
    }

    #[test]
    fn urls_are_split_into_their_parts() {
        let url = Url::parse("https://user:pass@example.com:8080/a%20b/%2f?k1=a&k2=b&k1=c+d#frag").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str()), ("https", "example.com:8080"));
        assert_eq!((url.hostname(), url.port()), ("example.com", "8080"));
        assert_eq!(url.escaped_path, "/a%20b/%2f");
        assert_eq!(
            url.query(),
            [("k1".to_owned(), vec!["a".to_owned(), "c d".into()]), ("k2".into(), vec!["b".into()])]
        );
        assert_eq!(url.text, "https://user:pass@example.com:8080/a%20b/%2f?k1=a&k2=b&k1=c+d#frag");

        let url = Url::parse("https://[::1]:80/path with spaces/").unwrap();
        assert_eq!((url.hostname(), url.port()), ("::1", "80"));
        assert_eq!(url.escaped_path, "/path%20with%20spaces/");
        for (text, escaped) in
            [("/absolute-path", "/absolute-path"), ("mailto:x@y", ""), ("*", "*"), ("/é", "/%C3%A9")]
        {
            assert_eq!(Url::parse(text).map(|url| url.escaped_path), Ok(escaped.to_owned()));
        }
    }
}
