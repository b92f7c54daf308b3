//! Moves header lines out of a head if it has more than hyper's table has room for.
//!
//! For each request hyper fills a table with room for the maximum number of headers: a limit of 1,000 makes it write
//! 64 KB before it reads a head of ten lines. So hyper has its default limit, and further lines are passed beside the
//! request. They are parsed by the same library, httparse, and only lines that do not affect the connection are
//! moved.

use crate::request_line::FIELDS_MAX;
use http::{HeaderName, HeaderValue};

/// The maximum number of headers that hyper reads: its default.
pub(crate) const TABLE_HEADERS_MAX: usize = 100;
/// The headers that hyper uses to determine the body and the end of the connection. They are never moved.
const CONNECTION_HEADERS: [&[u8]; 5] =
    [b"connection", b"content-length", b"expect", b"transfer-encoding", b"upgrade"];

/// Moves lines out of a head until hyper has room for the remaining ones. `Err` is the status code with which the
/// request is refused.
pub(crate) fn take_out(head: &mut Vec<u8>) -> Result<Vec<(HeaderName, HeaderValue)>, u16> {
    let mut retained = Vec::with_capacity(head.len());
    let mut moved = Vec::new();
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    retained.extend_from_slice(lines.next().unwrap_or_default());
    let mut count = 0_usize;
    for line in lines {
        let is_end = matches!(line, b"\n" | b"\r\n");
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        let stays = count < TABLE_HEADERS_MAX.saturating_sub(CONNECTION_HEADERS.len())
            || CONNECTION_HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header));
        if is_end || stays {
            retained.extend_from_slice(line)
        } else {
            moved.extend_from_slice(line)
        }
        count = count.saturating_add(usize::from(!is_end));
    }
    if count > FIELDS_MAX {
        return Err(431);
    }
    moved.extend_from_slice(b"\r\n");
    *head = retained;
    parsed(&moved).ok_or(400)
}

/// The headers in `lines`, which end with an empty line; `None` if hyper would not accept one of them.
fn parsed(lines: &[u8]) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let mut table = vec![httparse::EMPTY_HEADER; FIELDS_MAX];
    let httparse::Status::Complete((_, headers)) = httparse::parse_headers(lines, &mut table).ok()? else {
        return None;
    };
    let header = |header: &httparse::Header<'_>| {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_bytes(header.value).ok()?))
    };
    headers.iter().map(header).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &str) -> Vec<u8> {
        format!("GET / HTTP/1.1\r\n{lines}\r\n").into_bytes()
    }

    #[test]
    fn headers_beyond_hypers_limit_are_moved_in_order() {
        let groups: String = (0..300).map(|n| format!("X-Remote-Group: {n}\r\n")).collect();
        let mut bytes = head(&format!("{groups}Content-Length: 3\r\nUPGRADE: x\r\nA: \u{e9} \r\n"));
        let moved = take_out(&mut bytes).unwrap();
        let retained = String::from_utf8(bytes).unwrap();
        assert!(
            retained.ends_with("X-Remote-Group: 94\r\nContent-Length: 3\r\nUPGRADE: x\r\n\r\n"),
            "{retained}"
        );
        assert_eq!(moved.len(), 300 - 95 + 1);
        let groups = moved.iter().filter(|(name, _)| name == "x-remote-group");
        let values: Vec<String> = groups.map(|(_, value)| value.to_str().unwrap().into()).collect();
        assert_eq!(values, (95..300).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(moved.last().map(|(_, value)| value.as_bytes()), Some("\u{e9}".as_bytes()));
    }

    #[test]
    fn headers_that_hyper_refuses_are_refused() {
        for (last, want) in [
            ("a: b\r\n", None),
            ("a: b\n", None),
            ("no colon\r\n", Some(400)),
            (" folded: a\r\n", Some(400)),
            ("a b: c\r\n", Some(400)),
            ("a : c\r\n", Some(400)),
            ("a: \u{1}\r\n", Some(400)),
            ("a: b\rc\r\n", Some(400)),
            (": b\r\n", Some(400)),
        ] {
            let mut bytes = head(&format!("{}{last}", "a: b\r\n".repeat(150)));
            assert_eq!(take_out(&mut bytes).err(), want, "{last:?}");
        }
        assert!(take_out(&mut head(&"a: b\r\n".repeat(FIELDS_MAX))).is_ok());
        assert_eq!(take_out(&mut head(&"a: b\r\n".repeat(FIELDS_MAX + 1))).err(), Some(431));
    }
}
