//! Cross-origin requests (`--cors-allowed-origins`): allowed origins and the response headers.

use http::{HeaderMap, HeaderName, HeaderValue};
use pintle_cel::regexp::{self, Regex};
use std::sync::Arc;

/// The origins that are allowed.
#[derive(Clone, Debug)]
pub struct Cors {
    patterns: Vec<Arc<Regex>>,
}

/// Origins longer than this are not compared with the patterns.
const ORIGIN_BYTES_MAX: usize = 4096;

/// The headers that do not depend on the request.
const HEADERS: [(&str, &str); 4] = [
    ("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE, PATCH"),
    (
        "access-control-allow-headers",
        "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
    ),
    ("access-control-expose-headers", "Date"),
    ("access-control-allow-credentials", "true"),
];

impl Cors {
    /// Compiles regular expressions in Go's syntax, or returns the error of the first invalid one.
    pub fn new(patterns: &[String]) -> Result<Self, String> {
        let patterns: Result<Vec<_>, String> = patterns.iter().map(|text| regexp::compile(text)).collect();
        Ok(Cors { patterns: patterns? })
    }

    /// The origin of a request, if it is allowed.
    pub(crate) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(http::header::ORIGIN)?;
        let text = origin.to_str().ok().filter(|text| !text.is_empty() && text.len() <= ORIGIN_BYTES_MAX)?;
        self.patterns.iter().any(|pattern| pattern.is_match(text)).then(|| origin.clone())
    }
}

/// Adds the headers that let pages of this origin read the answer.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert("access-control-allow-origin", origin);
    for (name, value) in HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_found_by_patterns() {
        let cors = Cors::new(&["//example\\.com(:|$)".into(), "^https://app\\.".into()]).unwrap();
        for (origin, want) in [
            ("https://example.com", true),
            ("http://example.com:8080", true),
            ("https://app.example.org", true),
            ("https://example.com.evil.org", false),
            ("null", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("origin", HeaderValue::from_static(origin));
            assert_eq!(cors.allowed_origin(&headers).is_some(), want, "{origin}");
        }
        assert!(Cors::new(&["(".into()]).unwrap_err().starts_with("error parsing regexp"));
    }
}
