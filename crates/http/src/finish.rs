//! Turns an answer into hyper's response.

use crate::api::ApiResponse;
use crate::{Body, compress};
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use std::collections::HashSet;

/// The longest text of one warning, and of all warnings of an answer together, in characters.
const WARNING_CHARS_MAX: usize = 256;
const WARNINGS_CHARS_MAX: usize = 4 * 1024;

/// Adds the warnings and caching headers to an answer, and compresses it if the client accepts `gzip`.
pub(crate) fn finish(answer: ApiResponse, mut warnings: Vec<String>, gzip: bool) -> Response<Body> {
    let ApiResponse { code, mut headers, warnings: more, mut body, .. } = answer;
    warnings.extend(more);
    add_warnings(&mut headers, &warnings);
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    let is_api = headers.get(CONTENT_TYPE).is_some_and(|t| t.as_bytes().starts_with(b"application/"));
    let is_encoded = headers.contains_key(CONTENT_ENCODING);
    // A range counts the bytes of the content as it is, so a part is not compressed.
    let is_part = code == StatusCode::PARTIAL_CONTENT.as_u16();
    let body = if gzip && is_api && !is_encoded && !is_part && compress::worth_it(&mut body) {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let by_encoding = HeaderValue::from_static("Accept-Encoding");
        if !headers.get_all(VARY).iter().any(|value| *value == by_encoding) {
            headers.append(VARY, by_encoding);
        }
        compress::gzip(body)
    } else {
        body
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// Adds `Warning` headers: each text once, without control characters. If they are too long together, all are
/// truncated, and those beyond the limit are dropped.
fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let mut seen = HashSet::new();
    let is_fit = |text: &&str| !text.is_empty() && !text.chars().any(char::is_control);
    let texts: Vec<&str> =
        warnings.iter().map(String::as_str).filter(is_fit).filter(|text| seen.insert(*text)).collect();
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    let cut = chars > WARNINGS_CHARS_MAX;
    let mut written = 0;
    for text in texts {
        if cut && written >= WARNINGS_CHARS_MAX {
            return;
        }
        let end = text.char_indices().nth(WARNING_CHARS_MAX).map_or(text.len(), |(at, _)| at);
        let text = if cut { text.get(..end).unwrap_or(text) } else { text };
        written = written.saturating_add(text.chars().count());
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append("warning", value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_warnings_take_linear_time() {
        let warnings: Vec<String> = (0..200_000).map(|n| format!("unknown field \"spec.u{n}\"")).collect();
        let began = std::time::Instant::now();
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, &warnings);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
        assert!(headers.get_all("warning").iter().count() < 500);
    }

    #[test]
    fn warnings_are_quoted_and_written_once() {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, &["a \"b\"".into(), "a \"b\"".into(), "c".into()]);
        let all: Vec<_> = headers.get_all("warning").iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(all, ["299 - \"a \\\"b\\\"\"", "299 - \"c\""]);
    }
}
