//! Header values as text. No value is dropped because of its bytes: a header that affects authorization must never be
//! ignored because it could not be decoded.

use http::{HeaderMap, HeaderValue};
use std::borrow::Cow;

/// Returns a value as text. Bytes that are not UTF-8 become U+FFFD, as in kube-apiserver's JSON; authorization uses the
/// same text.
pub(crate) fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// The first value of a header, as Go's `Header.Get` returns it; "" if it is absent.
pub(crate) fn first<'a>(headers: &'a HeaderMap, name: &str) -> Cow<'a, str> {
    headers.get(name).map(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_never_dropped() {
        let mut headers = HeaderMap::new();
        for (value, expected) in
            [(&b"plain"[..], "plain"), ("jürgen".as_bytes(), "jürgen"), (&b"a\xffb"[..], "a\u{fffd}b")]
        {
            headers.insert("impersonate-user", HeaderValue::from_bytes(value).unwrap());
            assert_eq!(first(&headers, "impersonate-user"), expected);
        }
        assert_eq!(first(&headers, "impersonate-uid"), "");
    }
}
