//! The URL of a request. All code must read it here and not from `http::Uri`, which cannot hold long URLs: those are
//! passed beside the request.

use crate::request_line::LongTarget;
use http::request::Parts;

/// The path and query as the client sent them.
pub(crate) fn path_and_query(parts: &Parts) -> &str {
    match parts.extensions.get::<LongTarget>() {
        Some(LongTarget(target)) => target,
        None => parts.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str),
    }
}

/// The path as it was sent.
pub(crate) fn path(parts: &Parts) -> &str {
    match parts.extensions.get::<LongTarget>() {
        Some(LongTarget(target)) => target.split_once('?').map_or(target, |(path, _)| path),
        None => parts.uri.path(),
    }
}

/// The query as it was sent, or "".
pub(crate) fn query(parts: &Parts) -> &str {
    match parts.extensions.get::<LongTarget>() {
        Some(LongTarget(target)) => target.split_once('?').map_or("", |(_, query)| query),
        None => parts.uri.query().unwrap_or(""),
    }
}

/// How much of a URL an error repeats that needs no credentials.
const BEGIN_BYTES_MAX: usize = 4096;

/// The beginning of a URL or a part of it, as errors repeat it that need no credentials: a client must not make the server hold a
/// multiple of what it sent.
pub(crate) fn begin(text: &str) -> &str {
    let end = (0..=BEGIN_BYTES_MAX.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.get(..end.unwrap_or(0)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(begin("/a"), "/a");
        assert_eq!(begin(&"é".repeat(3000)), "é".repeat(BEGIN_BYTES_MAX / 2));
        assert_eq!(begin(&format!("a{}", "é".repeat(3000))).len(), BEGIN_BYTES_MAX - 1);
    }

    #[test]
    fn a_long_target_replaces_that_of_the_request() {
        let request = http::Request::builder().uri("/a?b").body(()).unwrap();
        let (mut parts, ()) = request.into_parts();
        assert_eq!((path(&parts), query(&parts), path_and_query(&parts)), ("/a", "b", "/a?b"));
        parts.extensions.insert(LongTarget("/c?d?e".into()));
        assert_eq!((path(&parts), query(&parts), path_and_query(&parts)), ("/c", "d?e", "/c?d?e"));
        parts.extensions.insert(LongTarget("/f".into()));
        assert_eq!((path(&parts), query(&parts)), ("/f", ""));
    }
}
