//! `Head`: reads the head of a response by the rules of Go's `net/http`, because clients see its errors.

mod framing;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use pintle_value::quote::go_quoted;

/// The size limit in bytes of a head.
const HEAD_BYTES_MAX: usize = 1 << 20;

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
    bytes: usize,
    status: Option<StatusLine>,
    /// The names and values of the header fields.
    fields: Vec<framing::Field>,
    /// The value of the last field, if it has several lines.
    continued: Vec<u8>,
    is_complete: bool,
}

struct StatusLine {
    code: u16,
    major: u8,
    minor: u8,
}

impl Head {
    /// Processes bytes up to the end of the head, and returns the head if it is complete.
    pub(crate) fn push(&mut self, bytes: &mut Bytes) -> Result<Option<ResponseHead>, HeadError> {
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
            if end.is_none() || !self.line.is_empty() {
                self.line.extend_from_slice(&part);
            }
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.finish_line(&if line.is_empty() { part } else { Bytes::from(line) })?;
            }
        }
        if self.is_complete { std::mem::take(self).complete().map(Some) } else { Ok(None) }
    }

    /// Handles the end of the stream.
    pub(crate) fn end(&mut self) -> Result<(), HeadError> {
        if self.bytes == 0 {
            return Ok(());
        }
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.finish_line(&Bytes::from(line))?;
        }
        Err(HeadError("unexpected EOF".to_string()))
    }

    fn finish_line(&mut self, whole: &Bytes) -> Result<(), HeadError> {
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.status.is_none() {
            self.status = Some(StatusLine::parse(line)?);
            return Ok(());
        }
        let continues = line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        match self.fields.last_mut() {
            None if continues => Err(refused("malformed MIME header initial line:", line)),
            Some((_, value)) if continues => {
                if self.continued.is_empty() {
                    self.continued.extend_from_slice(value);
                }
                self.continued.push(b' ');
                self.continued.extend_from_slice(line.trim_ascii());
                Ok(())
            }
            _ if line.is_empty() => {
                self.finish_continued();
                self.is_complete = true;
                Ok(())
            }
            _ => {
                let line = line.trim_ascii_end();
                let Some(colon) = line.iter().position(|byte| *byte == b':') else {
                    return Err(refused("malformed MIME header: missing colon:", line));
                };
                let (name, value) = line.split_at(colon);
                let value = value.strip_prefix(b":").unwrap_or_default();
                // Names with spaces are accepted, but not passed on.
                let is_name = |byte: &u8| is_token(*byte) || *byte == b' ';
                let is_value = |byte: &u8| *byte == b'\t' || *byte >= b' ' && *byte != 0x7f;
                if name.is_empty() || !name.iter().all(is_name) || !value.iter().all(is_value) {
                    return Err(refused("malformed MIME header line:", line));
                }
                self.finish_continued();
                self.fields.push((whole.slice_ref(name), whole.slice_ref(value.trim_ascii_start())));
                Ok(())
            }
        }
    }

    /// Sets the value of the last field, if it has several lines.
    fn finish_continued(&mut self) {
        if let Some((_, value)) = self.fields.last_mut().filter(|_| !self.continued.is_empty()) {
            *value = std::mem::take(&mut self.continued).into();
        }
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
}
