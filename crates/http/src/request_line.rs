//! The head of an HTTP/1.1 request as Go's server reads it: which bytes a URL may have, how long it may be, and where
//! the next head begins. hyper alone decides everything else about a head.
//!
//! The `http` crate refuses URLs that are longer than 64 KiB or that have raw `<`, `>` or bytes outside of UTF-8;
//! Go's server accepts them. Such bytes are percent-encoded here, which means the same in a path and in a query. A
//! long URL is replaced by a placeholder, and the request carries the real one as a `LongTarget`.

use crate::more_headers::{self, TABLE_HEADERS_MAX};
use http::{HeaderName, HeaderValue};
use memchr::memchr;
use pintle_value::percent;

/// The size limit in bytes of the head of a request: Go's `DefaultMaxHeaderBytes` and the slop of its reader.
pub(crate) const HEAD_BYTES_MAX: usize = 1024 * 1024 + 4096;
/// Longest URL that the `http` crate takes.
const URI_BYTES_MAX: usize = 65_534;
/// The maximum number of headers of a request, in HTTP/1.1 and in HTTP/2.
pub(crate) const FIELDS_MAX: usize = 1000;
/// The head that hyper reads in place of a refused one. It contains none of the client's bytes.
const REFUSED_HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: -\r\nconnection: close\r\n\r\n";
/// The beginning of an HTTP/2 connection, which is no request.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\n";

/// A URL that `http::Uri` cannot hold, percent-encoded: an extension of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LongTarget(pub(crate) std::sync::Arc<str>);

impl LongTarget {
    /// Percent-encodes the bytes that `http::Uri` does not accept.
    pub(crate) fn encode(target: &[u8]) -> Self {
        LongTarget(percent::encode(target, is_accepted).into())
    }
}

/// The URL of a request, as read before hyper parses the head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HeadTarget {
    /// `http::Uri` holds it.
    Plain,
    /// The URL is too long for `http::Uri`, so the request line has a placeholder.
    Long(LongTarget),
    /// The request is answered with this status code, and the connection is closed.
    Refused(u16),
}

/// The bytes that follow a head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A body of so many bytes follows, and then the next head.
    Body(u64),
    /// Chunks follow, whose end only hyper can determine.
    Chunks,
    /// An upgraded connection follows, or else a request whose head nobody looks at. kube-apiserver does not end the connection
    /// either.
    Upgrade,
    /// Something else follows whose end only hyper can determine: a tunnel, HTTP/2.
    Unknown,
}

/// The parts of a request that are not in the head that hyper reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestExtras {
    pub(crate) target: HeadTarget,
    /// The headers that hyper has no room for.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// Whether the connection ends after the answer, unless it is upgraded: nobody looked at the head of a request after this one,
    /// and hyper would cut its URL at `#`.
    pub(crate) is_last: bool,
}

impl RequestExtras {
    /// The value for most requests, which have no such parts.
    pub(crate) const NOTHING: RequestExtras =
        RequestExtras { target: HeadTarget::Plain, headers: Vec::new(), is_last: false };

    /// A request with this target and no other such parts.
    pub(crate) fn of(target: HeadTarget) -> Self {
        RequestExtras { target, ..RequestExtras::NOTHING }
    }
}

/// A head for hyper.
#[derive(Debug)]
pub(crate) struct Head {
    /// The bytes that hyper reads.
    pub(crate) bytes: Vec<u8>,
    /// `None` if no request has this head.
    pub(crate) beside: Option<RequestExtras>,
    pub(crate) next: Next,
}

/// Where the head at the start of `bytes` ends, behind its empty line. The first `searched` bytes are known to hold no end.
pub(crate) fn head_end(bytes: &[u8], searched: usize) -> Option<usize> {
    let mut from = searched.saturating_sub(2);
    while let Some(at) = memchr(b'\n', bytes.get(from..)?) {
        from = from.saturating_add(at).saturating_add(1);
        match bytes.get(from..)? {
            [b'\n', ..] => return from.checked_add(1),
            [b'\r', b'\n', ..] => return from.checked_add(2),
            _ => {}
        }
    }
    None
}

impl Head {
    /// A request that is refused before its head was read.
    pub(crate) fn refused(code: u16) -> Self {
        let beside = Some(RequestExtras::of(HeadTarget::Refused(code)));
        Head { bytes: REFUSED_HEAD.to_vec(), beside, next: Next::Unknown }
    }

    /// Reads one complete head. If the first line is not a request line, no byte of the head is passed on.
    pub(crate) fn read(mut bytes: Vec<u8>) -> Self {
        if bytes == HTTP2_PREFACE {
            return Head { bytes, beside: None, next: Next::Unknown };
        }
        let (next, lines) = headers(&bytes);
        let headers = if lines > TABLE_HEADERS_MAX {
            match more_headers::take_out(&mut bytes) {
                Ok(headers) => headers,
                Err(code) => return Head::refused(code),
            }
        } else {
            Vec::new()
        };
        let Some((bytes, target)) = read_target(bytes) else { return Head::refused(400) };
        let is_last = next == Next::Unknown;
        Head { bytes, beside: Some(RequestExtras { target, headers, is_last }), next }
    }
}

/// Reads the target of a head, and rewrites the request line where hyper would not accept it. `None` if it is no request line.
fn read_target(mut bytes: Vec<u8>) -> Option<(Vec<u8>, HeadTarget)> {
    let mut range = target_range(&bytes)?;
    if bytes.starts_with(b"CONNECT ") {
        let target = connect_target(bytes.get(range.clone()).unwrap_or_default())?.to_vec();
        let end = range.start.saturating_add(target.len());
        bytes.splice(range.clone(), target);
        range.end = end;
    }
    let target = bytes.get(range.clone()).unwrap_or_default();
    match target_form(target) {
        TargetForm::Plain => return Some((bytes, HeadTarget::Plain)),
        TargetForm::Refused => return None,
        TargetForm::Encoded => {}
    }
    let encoded = percent::encode(target, is_accepted);
    let (line, target) = if encoded.len() > URI_BYTES_MAX {
        ("/".to_string(), HeadTarget::Long(LongTarget(encoded.into())))
    } else {
        (encoded, HeadTarget::Plain)
    };
    bytes.splice(range, line.into_bytes());
    Some((bytes, target))
}

/// How a URL gets into `http::Uri`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TargetForm {
    /// The line fits as it is, or cannot be made to fit.
    Plain,
    /// Percent-encoded, and in place of it a placeholder if it is still too long.
    Encoded,
    /// Not at all: Go refuses it.
    Refused,
}

/// Decides how a URL gets into `http::Uri`.
pub(crate) fn target_form(target: &[u8]) -> TargetForm {
    let is_short = target.len() <= URI_BYTES_MAX;
    if is_short && target.iter().all(|byte| is_plain(*byte)) {
        return TargetForm::Plain;
    }
    // Go refuses control bytes in URLs, and invalid percent-encodings in their paths.
    if target.iter().any(u8::is_ascii_control) || !is_path_encoded(target) {
        return TargetForm::Refused;
    }
    if is_short && target.iter().all(|byte| is_accepted(*byte)) {
        return TargetForm::Plain;
    }
    // The authority of an absolute URL is not percent-encoded.
    if !target.starts_with(b"/") && !is_encodable_absolute(target) {
        return TargetForm::Plain;
    }
    TargetForm::Encoded
}

/// The target of a CONNECT request, without the authority if it has a path. Go puts `http://` before a target that is no path,
/// so that the text before the first `/` is the authority, even in an absolute URL: `https://h/x` has the path `//h/x`.
/// `None` if Go refuses the host or port.
fn connect_target(target: &[u8]) -> Option<&[u8]> {
    if target.starts_with(b"/") {
        return Some(target);
    }
    let before_query = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let authority = before_query.split(|byte| *byte == b'/').next().unwrap_or_default();
    let after_brackets = authority.rsplit(|byte| *byte == b']').next().unwrap_or_default();
    let mut parts = after_brackets.rsplitn(2, |byte| *byte == b':');
    let (last, has_port) = (parts.next().unwrap_or_default(), parts.next().is_some());
    if has_port && !last.iter().all(u8::is_ascii_digit) || !is_host_encoded(authority) {
        return None;
    }
    if authority.len() < before_query.len() {
        target.get(authority.len()..)
    } else if authority == b"*" || authority.contains(&b'%') {
        // hyper takes `*` for a path, and refuses percent-encodings.
        Some(b"-")
    } else {
        // Without a path there is nothing that the query could belong to.
        Some(authority)
    }
}

/// Returns whether the percent-encodings of a host stand for `%` or for bytes outside of ASCII.
fn is_host_encoded(authority: &[u8]) -> bool {
    let host = authority.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    host.split(|byte| *byte == b'%').skip(1).all(|part| match part {
        [b'2', b'5', ..] => true,
        [high, low, ..] => {
            low.is_ascii_hexdigit() && high.is_ascii_hexdigit() && !matches!(high, b'0'..=b'7')
        }
        _ => false,
    })
}

/// Returns whether a byte is accepted everywhere in a URL, so that no check has to consider it.
#[expect(clippy::indexing_slicing, reason = "the table has a place for each byte")]
fn is_plain(byte: u8) -> bool {
    const PLAIN: [bool; 256] = {
        let (mut table, mut byte) = ([false; 256], 0_u8);
        while byte < 128 {
            table[byte as usize] = is_accepted(byte) && byte != b'%';
            byte += 1;
        }
        table
    };
    PLAIN.get(usize::from(byte)).is_some_and(|plain| *plain)
}

/// Returns whether `http::Uri` accepts a byte in every part of a URL and gives it the same meaning as Go. It would
/// cut the URL at `#`.
const fn is_accepted(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'`')
}

/// Returns whether two hexadecimal digits follow each `%` of the path. Go is more lenient about queries.
fn is_path_encoded(target: &[u8]) -> bool {
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    let mut parts = path.split(|byte| *byte == b'%').skip(1);
    parts.all(|part| part.get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)))
}

/// Whether only the path or the query of an absolute URL has bytes that must be encoded.
fn is_encodable_absolute(target: &[u8]) -> bool {
    let authority = scheme_end(target).and_then(|end| target.get(end..)).unwrap_or_default();
    let authority = authority.split(|byte| matches!(byte, b'/' | b'?')).next().unwrap_or_default();
    authority.iter().all(|byte| is_accepted(*byte)) && target.len() <= URI_BYTES_MAX
}

/// The index at which the authority of an absolute URL begins.
fn scheme_end(target: &[u8]) -> Option<usize> {
    target.windows(3).take(16).position(|three| three == b"://")?.checked_add(3)
}

/// The range of the target in `METHOD TARGET HTTP/1.x`; `None` if the first line has another form.
fn target_range(head: &[u8]) -> Option<std::ops::Range<usize>> {
    let line = head.get(..memchr(b'\n', head).unwrap_or(head.len()))?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let first = memchr(b' ', line)?;
    let start = first.checked_add(1)?;
    let second = start.checked_add(memchr(b' ', line.get(start..)?)?)?;
    let protocol = line.get(second.checked_add(1)?..)?;
    let is_url = match line.get(start..second)? {
        b"*" => true,
        target => target.starts_with(b"/") || line.starts_with(b"CONNECT ") || scheme_end(target).is_some(),
    };
    let is_request = first > 0 && is_url && matches!(protocol, b"HTTP/1.1" | b"HTTP/1.0");
    is_request.then_some(start..second)
}

/// Returns where the next head begins, and how many lines follow the request line. A head that hyper accepts has one
/// header per line, so that both agree on the length of the body. If anything but one plain `Content-Length`
/// determines the length, only hyper can tell.
fn headers(head: &[u8]) -> (Next, usize) {
    let (mut next, mut count) = (Next::Body(0), 0_usize);
    let (mut has_length, mut has_upgrade, mut is_connect) = (false, false, false);
    let mut rest = head;
    while let Some(end) = memchr(b'\n', rest) {
        let (line, behind) = rest.split_at(end);
        rest = behind.get(1..).unwrap_or_default();
        if count == 0 && line.starts_with(b"CONNECT ") {
            (next, is_connect) = (Next::Unknown, true);
        }
        count = count.saturating_add(1);
        // Of most lines the first letter is enough.
        if !matches!(line.first(), Some(b'T' | b't' | b'U' | b'u' | b'C' | b'c')) {
            continue;
        }
        let Some((name, value)) = memchr(b':', line).and_then(|colon| line.split_at_checked(colon)) else {
            continue;
        };
        if name.eq_ignore_ascii_case(b"upgrade") {
            has_upgrade = true;
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            next = if next == Next::Body(0) && !has_length { Next::Chunks } else { Next::Unknown };
        } else if name.eq_ignore_ascii_case(b"content-length") {
            next = match (plain_number(value.get(1..).unwrap_or_default()), has_length, next) {
                (Some(number), false, Next::Body(_)) => Next::Body(number),
                _ => Next::Unknown,
            };
            has_length = true;
        }
    }
    if has_upgrade && !is_connect {
        next = Next::Upgrade;
    }
    // Of the lines, the first is the request line and the last is empty.
    (next, count.saturating_sub(2))
}

/// The number that consists of digits only.
fn plain_number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &[u8], headers: &str) -> Head {
        let head = [line, b"\r\n", headers.as_bytes(), b"\r\n"].concat();
        assert_eq!(head_end(&head, 0), Some(head.len()));
        Head::read(head)
    }

    fn request_line(line: &[u8]) -> String {
        let head = read(line, "host: x\r\n");
        let text = String::from_utf8_lossy(&head.bytes).into_owned();
        format!("{} {:?}", text.lines().next().unwrap(), head.beside.unwrap().target)
    }

    #[test]
    fn bytes_that_go_reads_in_urls_are_percent_encoded() {
        for (line, want) in [
            (&b"GET /a<b>c?d=<e> HTTP/1.1"[..], "GET /a%3Cb%3Ec?d=%3Ce%3E HTTP/1.1 Plain"),
            (b"GET /a#b?c#d HTTP/1.1", "GET /a%23b?c%23d HTTP/1.1 Plain"),
            (b"GET /\xc3\xa9\xff?\x80 HTTP/1.0", "GET /%C3%A9%FF?%80 HTTP/1.0 Plain"),
            (b"GET /a\"`{}|\\^[] HTTP/1.1", "GET /a%22%60{}|\\^[] HTTP/1.1 Plain"),
            (b"GET /%3c<?%zz< HTTP/1.1", "GET /%3c%3C?%zz%3C HTTP/1.1 Plain"),
            (b"GET http://foo/a<b HTTP/1.1", "GET http://foo/a%3Cb HTTP/1.1 Plain"),
            // These are passed unchanged: they have nothing to encode, or cannot be encoded.
            (b"GET /plain?a=b HTTP/1.1", "GET /plain?a=b HTTP/1.1 Plain"),
            (b"GET http://foo<bar/ HTTP/1.1", "GET http://foo<bar/ HTTP/1.1 Plain"),
            (b"OPTIONS * HTTP/1.1", "OPTIONS * HTTP/1.1 Plain"),
            (b"CONNECT a:1 HTTP/1.1", "CONNECT a:1 HTTP/1.1 Plain"),
            // In a CONNECT request, Go reads everything before the first slash as the authority.
            (b"CONNECT /api HTTP/1.1", "CONNECT /api HTTP/1.1 Plain"),
            (b"CONNECT a:1/api?b=c/d HTTP/1.1", "CONNECT /api?b=c/d HTTP/1.1 Plain"),
            (b"CONNECT https://a:1/api HTTP/1.1", "CONNECT //a:1/api HTTP/1.1 Plain"),
            (b"CONNECT https:///api HTTP/1.1", "CONNECT ///api HTTP/1.1 Plain"),
            (b"CONNECT [::1]:5/a<b HTTP/1.1", "CONNECT /a%3Cb HTTP/1.1 Plain"),
            (b"CONNECT a?b=/c HTTP/1.1", "CONNECT a HTTP/1.1 Plain"),
            (b"CONNECT * HTTP/1.1", "CONNECT - HTTP/1.1 Plain"),
            (b"CONNECT a:b/api HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"CONNECT %2fapi/v1 HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"CONNECT a%zz/v1 HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"CONNECT a%c3%A9%25/v1 HTTP/1.1", "CONNECT /v1 HTTP/1.1 Plain"),
            (b"CONNECT a%c3 HTTP/1.1", "CONNECT - HTTP/1.1 Plain"),
            // Go answers these 400.
            (b"GET < HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET api HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a< b HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a< HTTP/1.1 ", "GET / HTTP/1.1 Refused(400)"),
            (b"GET  /a HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a< HTTP/2.0", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a<", "GET / HTTP/1.1 Refused(400)"),
            (b" /a< HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /%zz HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /%4 HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a\x00 HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a\tb HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a\rb HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
            (b"GET /a\x7f HTTP/1.1", "GET / HTTP/1.1 Refused(400)"),
        ] {
            assert_eq!(request_line(line), want);
        }
    }

    #[test]
    fn long_urls_travel_beside_the_request() {
        let long = format!("/api?x={}", "<".repeat(30_000));
        let head = read(format!("GET {long} HTTP/1.1").as_bytes(), "host: x\r\n");
        assert_eq!(head.bytes, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        let target = HeadTarget::Long(LongTarget(long.replace('<', "%3C").into()));
        assert_eq!(head.beside, Some(RequestExtras::of(target)));
        let at_limit = format!("/{}", "a".repeat(URI_BYTES_MAX - 1));
        let head = read(format!("GET {at_limit} HTTP/1.1").as_bytes(), "");
        assert_eq!(head.beside, Some(RequestExtras::NOTHING));
    }

    #[test]
    fn headers_beyond_the_room_of_hyper_travel_beside_the_request() {
        for (count, beside) in [(0, 0), (100, 0), (101, 6), (1000, 905)] {
            let head = read(b"GET /a< HTTP/1.1", &"a: b\r\n".repeat(count));
            assert_eq!(head.beside.unwrap().headers.len(), beside, "{count} headers");
            assert!(head.bytes.starts_with(b"GET /a%3C HTTP/1.1\r\n") && head.bytes.ends_with(b"\n\r\n"));
        }
        let head = read(b"GET / HTTP/1.1", &"a: b\r\n".repeat(1001));
        assert_eq!(head.beside, Some(RequestExtras::of(HeadTarget::Refused(431))));
    }

    #[test]
    fn the_next_head_is_found_only_where_the_length_is_plain() {
        for (headers, want) in [
            ("host: x\r\n", Next::Body(0)),
            ("Content-Length: 12\r\n", Next::Body(12)),
            ("content-length:\t12 \r\n", Next::Body(12)),
            ("content-length: +12\r\n", Next::Unknown),
            ("content-length: 1 2\r\n", Next::Unknown),
            ("content-length:\r\n", Next::Unknown),
            ("content-length: 99999999999999999999999\r\n", Next::Unknown),
            ("content-length: 1\r\ncontent-length: 1\r\n", Next::Unknown),
            ("Transfer-Encoding: chunked\r\n", Next::Chunks),
            ("Transfer-Encoding: identity\r\n", Next::Chunks),
            ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", Next::Unknown),
            ("transfer-encoding: chunked\r\nupgrade: websocket\r\n", Next::Upgrade),
            ("upgrade: websocket\r\ntransfer-encoding: chunked\r\n", Next::Upgrade),
            ("upgrade: websocket\r\ncontent-length: 1\r\n", Next::Upgrade),
            ("content-length: 1\r\ntransfer-encoding: chunked\r\n", Next::Unknown),
            ("transfer-encoding: chunked\r\ncontent-length: 1\r\n", Next::Unknown),
            ("upgrade: websocket\r\n", Next::Upgrade),
        ] {
            assert_eq!(read(b"POST / HTTP/1.1", headers).next, want, "{headers:?}");
        }
        for headers in ["", "upgrade: websocket\r\n"] {
            assert_eq!(read(b"CONNECT a:1 HTTP/1.1", headers).next, Next::Unknown);
        }
        assert!(Head::read(HTTP2_PREFACE.to_vec()).beside.is_none());
    }

    #[test]
    fn the_end_of_a_head_is_an_empty_line() {
        for (text, want) in [
            ("a\r\nb\r\n\r\nc", Some(8)),
            ("a\nb\n\nc", Some(5)),
            ("a\n\r\nc", Some(4)),
            ("a\r\n\r", None),
            ("a\r\n", None),
            ("", None),
        ] {
            assert_eq!(head_end(text.as_bytes(), 0), want, "{text:?}");
            // The same end is found, however the bytes are split.
            let found = (0..=text.len()).find_map(|n| head_end(&text.as_bytes()[..n], n.saturating_sub(1)));
            assert_eq!(found, want, "{text:?} byte by byte");
        }
    }
}
