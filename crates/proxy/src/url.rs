//! URLs as Go parses and writes them, as far as links and redirects need it; cleaned and escaped paths.

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
    /// Parses a URL; `None` if Go's `url.Parse` fails.
    pub(crate) fn parse(text: &str) -> Option<Url> {
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return None;
        }
        let mut url = Url::default();
        let (text, fragment) = split_before(text, '#');
        url.fragment = fragment.to_string();
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = split_before(rest, '?');
        url.query = query.to_string();
        let mut path = rest;
        if !path.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = path.to_string();
                return Some(url);
            }
            // A colon in the first segment would make it a scheme.
            if path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return None;
            }
        }
        if let Some(after) = path.strip_prefix("//") {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, rest) = after.split_at(end);
            let (user, host) = match authority.rfind('@') {
                Some(at) => authority.split_at(at.saturating_add(1)),
                None => ("", authority),
            };
            url.has_authority = true;
            url.user = user.to_string();
            url.host = host.to_string();
            path = rest;
        }
        url.path = unescape(path)?;
        url.raw_path = path.to_string();
        Some(url)
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

fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push(u8::try_from(high.saturating_mul(16).saturating_add(low)).ok()?);
    }
    Some(
        String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
    )
}

/// A decoded path as Go escapes it.
pub fn escape_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Parameters as Go's `url.Values` encodes them: sorted by key, the values of a key in their order.
pub fn encode_query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut pairs: Vec<(&str, &str)> = pairs.into_iter().collect();
    pairs.sort_by(|a, b| a.0.cmp(b.0));
    let escape = |text: &str, out: &mut String| {
        for byte in text.bytes() {
            match byte {
                b' ' => out.push('+'),
                _ if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) => out.push(char::from(byte)),
                _ => out.push_str(&format!("%{byte:02X}")),
            }
        }
    };
    let mut out = String::new();
    for (key, value) in pairs {
        if !out.is_empty() {
            out.push('&');
        }
        escape(key, &mut out);
        out.push('=');
        escape(value, &mut out);
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

/// The same, but a trailing slash remains.
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
            assert_eq!(Url::parse(text).map(|url| url.text()).as_deref(), Some(text));
        }
        for bad in [":x", "a:b%zz/", "/%zz", "1:2/x", "a\nb"] {
            let parsed = Url::parse(bad);
            assert!(parsed.is_none() || bad == "a:b%zz/", "{bad}: {parsed:?}");
        }
        assert_eq!(Url::parse("/a%20b").map(|url| url.path), Some("/a b".to_string()));
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
