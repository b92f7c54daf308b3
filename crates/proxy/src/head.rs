//! `Head`: reads the head of a response by the rules of Go's `net/http`, because clients see its errors.

mod framing;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use pintle_value::quote::go_quoted;

/// The size limit in bytes of a head, together with the interim heads (1xx) before it.
const HEAD_BYTES_MAX: usize = 1 << 20;
/// How many fields a head may have. A field takes much more memory than the two bytes that it can be sent in.
const HEAD_FIELDS_MAX: usize = 1000;

/// A head that `net/http` refuses, with its message.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HeadError(pub(crate) String);

fn refused(what: &str, text: &[u8]) -> HeadError {
    HeadError(format!("{what} {}", quoted(text)))
}

/// Bytes in Go's quotes. Bytes that are not UTF-8 are written as numbers.
fn quoted(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in text.utf8_chunks() {
        out.push_str(go_quoted(chunk.valid()).trim_start_matches('"').strip_suffix('"').unwrap_or_default());
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out.push('"');
    out
}

/// A complete head.
#[derive(Debug)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) is_chunked: bool,
    pub(crate) content_length: Option<u64>,
    /// Whether the backend leaves the connection open after the response.
    pub(crate) is_persistent: bool,
}

impl ResponseHead {
    /// Whether another head follows.
    pub(crate) fn is_interim(&self) -> bool {
        self.status.is_informational() && self.status != StatusCode::SWITCHING_PROTOCOLS
    }

    /// The response with this body.
    pub(crate) fn into_response<B>(self, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }

    /// Whether a response with this status can have a body.
    pub(crate) fn has_body(&self) -> bool {
        status_has_body(self.status.as_u16())
    }
}

fn status_has_body(code: u16) -> bool {
    code >= 200 && !matches!(code, 204 | 304)
}

/// The lines of a head as they arrive.
#[derive(Default)]
pub(crate) struct Head {
    /// The current line, if only a part of it has arrived.
    line: Vec<u8>,
    /// The size of what has arrived, interim heads included.
    bytes: usize,
    status: Option<StatusLine>,
    /// The names and values of the header fields.
    fields: Vec<framing::Field>,
    /// The first line of a field that may continue in the next line.
    pending: Option<Bytes>,
    /// The lines of that field joined, if it has several.
    continued: Vec<u8>,
    is_complete: bool,
}

struct StatusLine {
    code: u16,
    major: u8,
    minor: u8,
}

impl Head {
    /// Whether any byte has arrived.
    pub(crate) fn is_started(&self) -> bool {
        self.bytes > 0
    }

    /// Processes bytes up to the end of the head, and returns the head if it is complete.
    pub(crate) fn push(&mut self, bytes: &mut Bytes) -> Result<Option<ResponseHead>, HeadError> {
        // Fields share the buffer of the first read. Later lines are copied: a backend that sends each line on its own would
        // otherwise make the head retain a whole buffer for each of them.
        let is_first_read = !self.is_started();
        while !self.is_complete && !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let size = end.map_or(bytes.len(), |end| end.saturating_add(1));
            self.bytes = self.bytes.saturating_add(size);
            if self.bytes > HEAD_BYTES_MAX {
                return Err(HeadError(format!(
                    "net/http: server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted"
                )));
            }
            let part = bytes.split_to(size);
            let part = if is_first_read { part } else { Bytes::copy_from_slice(&part) };
            if end.is_none() || !self.line.is_empty() {
                self.line.extend_from_slice(&part);
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.finish_line(&if line.is_empty() { part } else { Bytes::from(line) })?;
            }
        }
        if !self.is_complete {
            return Ok(None);
        }
        let next = Head { bytes: self.bytes, ..Head::default() };
        std::mem::replace(self, next).complete().map(Some)
    }

    /// Handles the end of the stream.
    pub(crate) fn end(&mut self) -> Result<(), HeadError> {
        if !self.is_started() {
            return Ok(());
        }
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.finish_line(&Bytes::from(line))?;
        }
        self.finish_field()?;
        Err(HeadError("unexpected EOF".to_string()))
    }

    fn finish_line(&mut self, whole: &Bytes) -> Result<(), HeadError> {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.status.is_none() {
            self.status = Some(StatusLine::parse(line)?);
            return Ok(());
        }
        if line.first().is_some_and(|byte| is_blank(*byte)) {
            let Some(first) = &self.pending else {
                return Err(refused("malformed MIME header initial line:", line));
            };
            if self.continued.is_empty() {
                self.continued.extend_from_slice(first);
            }
            self.continued.push(b' ');
            self.continued.extend_from_slice(trim_blanks(line));
            return Ok(());
        }
        self.finish_field()?;
        if line.is_empty() {
            self.is_complete = true;
        } else if line.contains(&b':') {
            self.pending = Some(whole.slice_ref(trim_blanks(line)));
        } else {
            return Err(refused("malformed MIME header: missing colon:", line));
        }
        Ok(())
    }

    /// Adds the pending field, whose lines are all there. Its value is checked after they were joined, as in Go.
    fn finish_field(&mut self) -> Result<(), HeadError> {
        let Some(first) = self.pending.take() else { return Ok(()) };
        let line = if self.continued.is_empty() { first } else { std::mem::take(&mut self.continued).into() };
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or_default();
        // Names with spaces are accepted, but not passed on.
        let is_name = |byte: &u8| is_token(*byte) || *byte == b' ';
        let is_value = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
        if name.is_empty() || !name.iter().all(is_name) || !value.iter().all(is_value) {
            return Err(refused("malformed MIME header line:", &line));
        }
        if self.fields.len() >= HEAD_FIELDS_MAX {
            return Err(HeadError(format!(
                "net/http: server response headers exceeded {HEAD_FIELDS_MAX} fields; aborted"
            )));
        }
        let start = value.iter().position(|byte| !is_blank(*byte)).unwrap_or(value.len());
        let value = value.get(start..).unwrap_or_default();
        self.fields.push((line.slice_ref(name), line.slice_ref(value)));
        Ok(())
    }

    fn complete(self) -> Result<ResponseHead, HeadError> {
        let Head { status, mut fields, .. } = self;
        let Some(status) = status else { return Err(HeadError("malformed HTTP response".to_string())) };
        let is_chunked = framing::transfer_encoding(&mut fields, &status)?;
        let content_length =
            framing::content_length(&mut fields, is_chunked && status_has_body(status.code))?;
        if is_chunked {
            framing::check_trailer(&fields)?;
        }
        let is_persistent = framing::is_persistent(&mut fields, &status);
        let malformed = || HeadError("malformed HTTP response".to_string());
        let mut headers = HeaderMap::with_capacity(fields.len());
        for (name, value) in fields.into_iter().filter(|(name, _)| name.iter().all(|byte| is_token(*byte))) {
            let name = HeaderName::from_bytes(&name).map_err(|_| malformed())?;
            let value = HeaderValue::from_maybe_shared(value).map_err(|_| malformed())?;
            headers.try_append(name, value).map_err(|_| malformed())?;
        }
        let status = StatusCode::from_u16(status.code).map_err(|_| malformed())?;
        Ok(ResponseHead { status, headers, is_chunked, content_length, is_persistent })
    }
}

impl StatusLine {
    fn parse(line: &[u8]) -> Result<Self, HeadError> {
        let Some(space) = line.iter().position(|byte| *byte == b' ') else {
            return Err(refused("malformed HTTP response", line));
        };
        let (version, rest) = line.split_at(space);
        let first = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
        let text = rest.get(first..).unwrap_or_default();
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let number = std::str::from_utf8(code).ok().filter(|code| code.len() == 3);
        let Some(number) = number.and_then(|code| code.parse().ok()) else {
            return Err(refused("malformed HTTP status code", code));
        };
        let digit = |byte: &u8| byte.is_ascii_digit().then(|| byte.saturating_sub(b'0'));
        let numbers = match version {
            [b'H', b'T', b'T', b'P', b'/', major, b'.', minor] => digit(major).zip(digit(minor)),
            _ => None,
        };
        let Some((major, minor)) = numbers else {
            return Err(refused("malformed HTTP version", version));
        };
        Ok(StatusLine { code: number, major, minor })
    }

    fn is_at_least(&self, major: u8, minor: u8) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The text without blanks at its ends. Other white space, such as a bare CR, stays and is refused.
fn trim_blanks(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(*byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(*byte)).map_or(start, |last| last.saturating_add(1));
    text.get(start..end).unwrap_or_default()
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a response that arrives in pieces of `piece` bytes, and the bytes after it.
    fn read(sent: &[u8], piece: usize) -> Result<String, String> {
        let mut head = Head::default();
        let mut out = String::new();
        let mut sent = Bytes::copy_from_slice(sent);
        while !sent.is_empty() {
            let mut part = sent.split_to(piece.min(sent.len()));
            let Some(complete) = head.push(&mut part).map_err(|error| error.to_string())? else { continue };
            out += complete.status.as_str();
            for (name, value) in &complete.headers {
                out += &format!(" {name}={}", String::from_utf8_lossy(value.as_bytes()));
            }
            match (complete.is_chunked, complete.content_length) {
                (true, _) => out += " chunked",
                (false, Some(length)) => out += &format!(" {length} bytes"),
                (false, None) => {}
            }
            out += if complete.is_persistent { "; " } else { " closes; " };
            if !complete.is_interim() {
                return Ok(out + &String::from_utf8_lossy(&[part, sent].concat()));
            }
            sent = Bytes::from([part, sent].concat());
        }
        head.end().map(|()| out).map_err(|error| error.to_string())
    }

    #[test]
    fn heads_are_read_as_by_net_http() {
        for (sent, want) in [
            ("", Ok("")),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\n", Ok("200 a=b; body\n")),
            ("HTTP/2.0 200\nA : b\nC:\td\n e\n\nx", Ok("200 c=d e; x")),
            ("HTTP/0.9 200 OK\n\n", Ok("200 closes; ")),
            ("HTTP/1.0 200 OK\nConnection: Keep-Alive\n\n", Ok("200 connection=Keep-Alive; ")),
            (
                "HTTP/1.1 102 P\n\nHTTP/1.1 200 OK\nContent-Length: 2\nContent-Length:  2 \n\nab",
                Ok("102; 200 content-length=2 2 bytes; ab"),
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\nContent-Length: 5\n\n0\r\n\r\n",
                Ok("200 chunked; 0\r\n\r\n"),
            ),
            (
                "HTTP/1.1 200 OK\nConnection: X-A, close\nX-A: 1\n\n",
                Ok("200 x-a=1 connection=close closes; "),
            ),
            ("hello", Err("malformed HTTP response \"hello\"")),
            ("HTTP/1.1 200 OK\r\nA: b", Err("unexpected EOF")),
            ("HTTP/1.1 20 OK\n", Err("malformed HTTP status code \"20\"")),
            ("HTTP/1.1 099 OK\n\n", Err("malformed HTTP response")),
            ("HTTP/1 200 OK\n", Err("malformed HTTP version \"HTTP/1\"")),
            ("HTTP/1.1 200 OK\n A: b\n", Err("malformed MIME header initial line: \" A: b\"")),
            ("HTTP/1.1 200 OK\nA\n", Err("malformed MIME header: missing colon: \"A\"")),
            ("HTTP/1.1 200 OK\nA: \u{1}\n", Err("malformed MIME header line: \"A: \\x01\"")),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\n", Err("unsupported transfer encoding: \"gzip\"")),
            ("HTTP/1.1 200 OK\nContent-Length: +1\n\n", Err("bad Content-Length \"+1\"")),
        ] {
            for piece in [1, 7, 10_000] {
                let read = read(sent.as_bytes(), piece);
                assert_eq!(read.as_deref().map_err(String::as_str), want, "{sent:?} in pieces of {piece}");
            }
        }
        assert_eq!(read(b"\xff<\n", 5), Err("malformed HTTP response \"\\xff<\"".to_string()));
    }

    #[test]
    fn a_head_has_a_limited_number_of_fields() {
        for (field, count) in [("a: b\n", 1_001), ("a: b\n", 100_000), ("a:\n", 300_000)] {
            let sent = format!("HTTP/1.1 200 OK\n{}\n", field.repeat(count));
            assert_eq!(
                read(sent.as_bytes(), 10_000),
                Err("net/http: server response headers exceeded 1000 fields; aborted".to_string())
            );
        }
        let sent = format!("HTTP/1.1 200 OK\n{}\n", "a: b\n".repeat(1_000));
        assert!(read(sent.as_bytes(), 10_000).is_ok());
    }

    #[test]
    fn only_the_first_read_buffer_is_retained() {
        let mut head = Head::default();
        let mut reads =
            ["HTTP/1.1 200 OK\n", "a: b\n", "c: d\n"].map(|text| Bytes::from(text.as_bytes().to_vec()));
        let buffers = reads.each_ref().map(Bytes::clone);
        for read in &mut reads {
            assert!(head.push(read).unwrap().is_none());
        }
        drop(reads);
        assert_eq!(head.fields.len(), 1, "the last line may continue");
        let [_, second, third] = buffers;
        assert!(second.is_unique() && third.is_unique());
    }

    #[test]
    fn a_value_of_several_lines_is_checked_as_one() {
        for (sent, want) in [
            ("HTTP/1.1 200 OK\nA:\n b\n\tc \n\n", Ok("200 a=b c; ")),
            ("HTTP/1.1 200 OK\nTransfer-Encoding:\n chunked\n\n", Ok("200 chunked; ")),
            ("HTTP/1.1 200 OK\nContent-Length: 1\n 2\n\n", Err("bad Content-Length \"1 2\"")),
            ("HTTP/1.1 200 OK\nA: b\n c\0d\n\n", Err("malformed MIME header line: \"A: b c\\x00d\"")),
            ("HTTP/1.1 200 OK\nA: b\r\r\n\n", Err("malformed MIME header line: \"A: b\\r\"")),
            ("HTTP/1.1 200 OK\nA: b\rC: d\n\n", Err("malformed MIME header line: \"A: b\\rC: d\"")),
        ] {
            for piece in [1, 7, 10_000] {
                let read = read(sent.as_bytes(), piece);
                assert_eq!(read.as_deref().map_err(String::as_str), want, "{sent:?} in pieces of {piece}");
            }
        }
    }
}
