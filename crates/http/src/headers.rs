//! Header values as text. No value is ever dropped because of its bytes: a header that decides about access must not
//! vanish because somebody could not read it.

use http::{HeaderMap, HeaderValue};
use std::borrow::Cow;

/// The text of a value. Bytes that are not UTF-8 become U+FFFD, as they do wherever kube-apiserver writes them in JSON;
/// access is decided about that same text.
pub(crate) fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// The first value of a header, as Go's `Header.Get` reads it; "" where there is none.
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
