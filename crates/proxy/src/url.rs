//! URLs as Go parses and writes them, as far as links and redirects need it; cleaned and escaped paths.

use pintle_value::percent;
use pintle_value::quote::go_quoted;

/// A URL in parts. Only the path is decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// The part after the scheme of a URL without `/`, such as `mailto:x@example.com`.
    opaque: String,
    /// User and password with their `@`, undecoded.
    user: String,
    pub(crate) host: String,
    pub(crate) path: String,
    /// The undecoded path, which is written again unless the path was changed.
    raw_path: String,
    /// Query with its `?`, fragment with its `#`.
    query: String,
    fragment: String,
    has_authority: bool,
}

impl Url {
    /// Parses a URL; the error is that of Go's `url.Parse`.
    pub(crate) fn parse(whole: &str) -> Result<Url, String> {
        let (text, fragment) = split_before(whole, '#');
        Self::parse_parts(text, fragment).map_err(|why| {
            let faulty = if unescape(fragment).is_err() { whole } else { text };
            format!("parse {}: {why}", go_quoted(faulty))
        })
    }

    fn parse_parts(text: &str, fragment: &str) -> Result<Url, String> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_string());
        }
        let mut url = Url { fragment: fragment.to_string(), ..Url::default() };
        let (scheme, rest) = split_scheme(text).ok_or("missing protocol scheme")?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = split_before(rest, '?');
        url.query = query.to_string();
        let mut path = rest;
        if !path.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = path.to_string();
                return Ok(url);
            }
            // A colon in the first segment would make it a scheme.
            if path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_string());
            }
        }
        let is_path = url.scheme.is_empty() && path.starts_with("///");
        if let Some(after) = path.strip_prefix("//").filter(|_| !is_path) {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, rest) = after.split_at(end);
            let (user, host) = match authority.rfind('@') {
                Some(at) => authority.split_at(at.saturating_add(1)),
                None => ("", authority),
            };
            check_host(host)?;
            url.has_authority = true;
            url.user = user.to_string();
            url.host = host.to_string();
            path = rest;
        }
        url.path = unescape(path)?;
        url.raw_path = if is_escaped(path) { path.to_string() } else { escape_path(&url.path) };
        unescape(fragment)?;
        Ok(url)
    }

    /// Changes the path.
    pub(crate) fn set_path(&mut self, path: String) {
        self.raw_path = escape_path(&path);
        self.path = path;
    }

    /// The URL as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if !self.opaque.is_empty() {
            out.push_str(&self.opaque);
        } else {
            if !self.host.is_empty()
                || !self.user.is_empty()
                || (self.has_authority && !self.scheme.is_empty())
            {
                out.push_str("//");
                out.push_str(&self.user);
                out.push_str(&self.host);
                if !self.raw_path.is_empty() && !self.raw_path.starts_with('/') && !self.host.is_empty() {
                    out.push('/');
                }
            }
            out.push_str(&self.raw_path);
        }
        out.push_str(&self.query);
        out.push_str(&self.fragment);
        out
    }
}

fn split_before(text: &str, mark: char) -> (&str, &str) {
    text.find(mark).map_or((text, ""), |at| text.split_at(at))
}

/// Scheme and rest; `None` for a scheme that is missing before its colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => {
                let (scheme, rest) = text.split_at(at);
                return Some((scheme, rest.strip_prefix(':').unwrap_or(rest)));
            }
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

/// Checks the host and port of a URL.
fn check_host(host: &str) -> Result<(), String> {
    let port = match (host.starts_with('['), host.rfind(']')) {
        (true, None) => return Err("missing ']' in host".to_string()),
        (true, Some(end)) => host.get(end.saturating_add(1)..).unwrap_or_default(),
        (false, _) => host.find(':').and_then(|at| host.get(at..)).unwrap_or_default(),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return Err(format!("invalid port {} after host", go_quoted(port)));
    }
    let is_bad =
        |c: &char| c.is_ascii() && !c.is_ascii_alphanumeric() && !"-_.~!$&'()*+,;=:[]<>\"%".contains(*c);
    match host.chars().find(is_bad) {
        Some(bad) => Err(format!("invalid character {} in host name", go_quoted(&bad.to_string()))),
        None => unescape(host).map(|_| ()),
    }
}

/// Whether a path can be written as it is.
fn is_escaped(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,/;=:@[]%".contains(&byte))
}

fn unescape(text: &str) -> Result<String, String> {
    percent::decode(text).map_err(|escape| format!("invalid URL escape {}", go_quoted(&escape.0)))
}

/// A decoded path as Go escapes it.
pub fn escape_path(path: &str) -> String {
    let is_plain = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@'
            )
    };
    // Most paths need no escaping.
    if path.bytes().all(is_plain) {
        return path.to_string();
    }
    percent::encode(path.as_bytes(), is_plain)
}

/// Parameters as Go's `url.Values` encodes them: sorted by key, the values of a key in their order.
pub fn encode_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    pairs.sort_by(|a, b| a.0.cmp(b.0));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~ ".contains(&byte);
    let escape = |text: &str| percent::encode(text.as_bytes(), is_plain).replace(' ', "+");
    let mut out = String::new();
    for (key, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        out.push_str(&escape(key));
        out.push('=');
        out.push_str(&escape(value));
    }
    out
}

/// Paths joined and cleaned as by Go's `path.Join`: no empty segments, `.` and `..` resolved.
pub fn join(parts: &[&str]) -> String {
    let joined = parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/");
    if joined.is_empty() {
        return String::new();
    }
    let rooted = joined.starts_with('/');
    // Most paths are clean.
    if rooted && !joined.ends_with('/') && !joined.contains("//") && !joined.contains("/.") {
        return joined;
    }
    let mut steps: Vec<&str> = Vec::new();
    for step in joined.split('/') {
        match step {
            "" | "." => {}
            ".." => match steps.last() {
                Some(&"..") | None if !rooted => steps.push(".."),
                _ => _ = steps.pop(),
            },
            other => steps.push(other),
        }
    }
    let body = steps.join("/");
    match (rooted, body.is_empty()) {
        (true, _) => format!("/{body}"),
        (false, true) => ".".to_string(),
        (false, false) => body,
    }
}

/// [`join`], but a trailing slash remains.
pub fn join_keeping_slash(parts: &[&str]) -> String {
    let mut out = join(parts);
    let ends = parts.iter().rev().find(|part| !part.is_empty()).is_some_and(|part| part.ends_with('/'));
    if ends && !out.ends_with('/') {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        for text in [
            "/a/b?x=1#f",
            "relative/path",
            "../up",
            "http://host:80/same?q",
            "//example.com/x",
            "#anchor",
            "mailto:x@example.com",
            "https://user:secret@example.com/",
            "/a%2Fb/c%20d",
            "",
        ] {
            assert_eq!(Url::parse(text).map(|url| url.text()).as_deref(), Ok(text));
        }
        for (bad, why) in [
            (":x", "missing protocol scheme"),
            ("/%zz", "invalid URL escape \"%zz\""),
            ("/a%2", "invalid URL escape \"%2\""),
            ("1:2/x", "first path segment in URL cannot contain colon"),
            ("http://[::1", "missing ']' in host"),
            ("http://a:b/", "invalid port \":b\" after host"),
            ("http://a b/", "invalid character \" \" in host name"),
        ] {
            assert_eq!(Url::parse(bad), Err(format!("parse \"{bad}\": {why}")));
        }
        assert!(Url::parse("a\nb").is_err());
        assert_eq!(Url::parse(" /a ").map(|url| url.text()).as_deref(), Ok("%20/a%20"));
        assert_eq!(Url::parse("/a%20b").map(|url| url.path).as_deref(), Ok("/a b"));
    }

    #[test]
    fn paths_are_joined_and_cleaned() {
        for (parts, want) in [
            (&["", "/a//b/../c"][..], "/a/c"),
            (&["/x", "y/"], "/x/y"),
            (&["/..", "a"], "/a"),
            (&["", ""], ""),
            (&["", "/"], "/"),
        ] {
            assert_eq!(join(parts), want);
        }
        assert_eq!(join_keeping_slash(&["", "/a/"]), "/a/");
        assert_eq!(join_keeping_slash(&["", "/"]), "/");
    }

    #[test]
    fn queries_are_sorted_and_escaped() {
        let pairs = [("q", "/ x"), ("b", "2"), ("a", "1"), ("a", "3"), ("flag", "")];
        assert_eq!(encode_query(pairs), "a=1&a=3&b=2&flag=&q=%2F+x");
    }
}
