//! Header values as text. No value is dropped because of its bytes: a header that affects authorization must never be
//! ignored because it could not be decoded.

use http::header::{AsHeaderName, Entry};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::borrow::Cow;

/// Returns a value as text. Bytes that are not UTF-8 become U+FFFD, as in kube-apiserver's JSON; authorization uses the
/// same text.
pub(crate) fn text(value: &HeaderValue) -> Cow<'_, str> {
    // Nearly all values are valid, and checking that is cheaper than looking for what has to be replaced.
    match str::from_utf8(value.as_bytes()) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(value.as_bytes()),
    }
}

/// The first value of a header, as Go's `Header.Get` returns it; "" if it is absent. What every request passes names the header by
/// a constant: text would be parsed and normalized first.
pub(crate) fn first(headers: &HeaderMap, name: impl AsHeaderName) -> Cow<'_, str> {
    headers.get(name).map(text).unwrap_or_default()
}

/// Sets a header of this server. Values that a backend sent remain after it, as in kube-apiserver, which adds them to its own.
pub(crate) fn prepend(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    match headers.entry(name) {
        Entry::Vacant(entry) => _ = entry.insert(value),
        Entry::Occupied(mut entry) => {
            let theirs: Vec<HeaderValue> = entry.insert_mult(value).collect();
            theirs.into_iter().for_each(|value| entry.append(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_backends_follow_our_own() {
        let name = HeaderName::from_static("audit-id");
        let mut headers = HeaderMap::new();
        for text in ["theirs", "ours"] {
            prepend(&mut headers, name.clone(), HeaderValue::from_static(text));
        }
        assert_eq!(headers.get_all(&name).iter().collect::<Vec<_>>(), ["ours", "theirs"]);
    }

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
