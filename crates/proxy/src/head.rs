//! `HeadReader`: reads the heads of responses by the rules of Go's `net/http`, because clients see its errors and
//! because it accepts heads that hyper refuses. hyper receives each head in a form that it accepts, and bodies
//! unchanged.

mod framing;

use pintle_value::quote::go_quoted;
use std::io::{Error, IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The size limit in bytes of the heads before one body.
pub(crate) const HEAD_BYTES_MAX: usize = 1 << 20;
/// The number of bytes read at once.
const READ_BYTES: usize = 8 * 1024;

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

/// A stream that reads heads of responses.
pub(crate) struct HeadReader<S> {
    stream: S,
    /// Set when a request is sent: the next bytes are a head.
    expects_head: Arc<AtomicBool>,
    /// Bytes of a head that is not complete.
    head: Head,
    /// Bytes for hyper, and how many of them it has received.
    ready: Vec<u8>,
    given: usize,
}

impl<S> HeadReader<S> {
    /// Wraps a stream. The flag must be set with each request.
    pub(crate) fn new(stream: S, expects_head: Arc<AtomicBool>) -> Self {
        HeadReader { stream, expects_head, head: Head::default(), ready: Vec::new(), given: 0 }
    }

    /// Passes the ready bytes to hyper. Returns whether there were any.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let rest = self.ready.get(self.given..).unwrap_or_default();
        let part = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(part);
        self.given = self.given.saturating_add(part.len());
        let any = !part.is_empty();
        if self.given == self.ready.len() {
            (self.ready, self.given) = (Vec::new(), 0);
        }
        any
    }

    /// Processes bytes of the stream; an empty slice means that the stream has ended.
    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), HeadError> {
        if bytes.is_empty() {
            return self.head.end();
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if !self.expects_head.load(Ordering::Relaxed) {
                self.ready.extend_from_slice(rest);
                break;
            }
            rest = self.head.push(rest)?;
            if let Some(complete) = self.head.take_complete()? {
                self.ready.extend_from_slice(&complete.text);
                self.expects_head.store(complete.is_interim, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let this = &mut *self;
        loop {
            if this.give(buffer) {
                return Poll::Ready(Ok(()));
            }
            if !this.expects_head.load(Ordering::Relaxed) {
                return Pin::new(&mut this.stream).poll_read(cx, buffer);
            }
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            this.take(read.filled()).map_err(Error::other)?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for HeadReader<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A complete head, as hyper reads it.
struct Complete {
    text: Vec<u8>,
    /// Whether another head follows: that of a response with status 1xx.
    is_interim: bool,
}

/// The lines of a head as they arrive.
#[derive(Default)]
struct Head {
    /// The current line.
    line: Vec<u8>,
    bytes: usize,
    status: Option<StatusLine>,
    /// The names and values of the header fields.
    fields: Vec<framing::Field>,
    is_complete: bool,
}

struct StatusLine {
    code: u16,
    /// The code and the reason.
    text: Vec<u8>,
    major: u8,
    minor: u8,
}

impl Head {
    /// Processes bytes up to the end of the head and returns the remaining ones.
    fn push<'b>(&mut self, mut bytes: &'b [u8]) -> std::result::Result<&'b [u8], HeadError> {
        while !self.is_complete && !bytes.is_empty() {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end.saturating_add(1)));
            self.bytes = self.bytes.saturating_add(part.len());
            if self.bytes > HEAD_BYTES_MAX {
                return Err(HeadError(format!(
                    "net/http: server response headers exceeded {HEAD_BYTES_MAX} bytes; aborted"
                )));
            }
            self.line.extend_from_slice(part);
            bytes = rest;
            if end.is_some() {
                self.finish_line()?;
            }
        }
        Ok(bytes)
    }

    /// Handles the end of the stream. If it ended before a head began, hyper reports it.
    fn end(&mut self) -> std::result::Result<(), HeadError> {
        if self.bytes == 0 {
            return Ok(());
        }
        if !self.line.is_empty() {
            self.finish_line()?;
        }
        Err(HeadError("unexpected EOF".to_string()))
    }

    fn finish_line(&mut self) -> std::result::Result<(), HeadError> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.status.is_none() {
            self.status = Some(StatusLine::parse(line)?);
            return Ok(());
        }
        let continues = line.first().is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        match self.fields.last_mut() {
            None if continues => Err(refused("malformed MIME header initial line:", line)),
            Some((_, value)) if continues => {
                value.push(b' ');
                value.extend_from_slice(line.trim_ascii());
                Ok(())
            }
            _ if line.is_empty() => {
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
                self.fields.push((name.to_vec(), value.trim_ascii_start().to_vec()));
                Ok(())
            }
        }
    }

    /// Returns the head if it is complete.
    fn take_complete(&mut self) -> std::result::Result<Option<Complete>, HeadError> {
        if !self.is_complete {
            return Ok(None);
        }
        let Head { status, mut fields, .. } = std::mem::take(self);
        let Some(status) = status else { return Ok(None) };
        let is_chunked = framing::transfer_encoding(&mut fields, &status)?;
        framing::content_length(&mut fields, is_chunked && status.has_body())?;
        if is_chunked {
            framing::check_trailer(&fields)?;
            fields.push((b"transfer-encoding".to_vec(), b"chunked".to_vec()));
        }
        framing::close(&mut fields, &status);
        let version: &[u8] = if status.is_at_least(1, 1) { b"HTTP/1.1 " } else { b"HTTP/1.0 " };
        let mut text = version.to_vec();
        text.extend_from_slice(&status.text);
        text.extend_from_slice(b"\r\n");
        for (name, value) in fields.iter().filter(|(name, _)| name.iter().all(|byte| is_token(*byte))) {
            text.extend_from_slice(name);
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        Ok(Some(Complete { text, is_interim: status.code < 200 && status.code != 101 }))
    }
}

impl StatusLine {
    fn parse(line: &[u8]) -> std::result::Result<Self, HeadError> {
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
        Ok(StatusLine { code: number, text: text.to_vec(), major, minor })
    }

    fn is_at_least(&self, major: u8, minor: u8) -> bool {
        (self.major, self.minor) >= (major, minor)
    }

    fn has_body(&self) -> bool {
        self.code >= 200 && !matches!(self.code, 204 | 304)
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    /// Returns what hyper reads if a backend sends `sent` in pieces of `piece` bytes.
    async fn read(sent: &[u8], piece: usize) -> std::result::Result<String, String> {
        let (mut far, near) = tokio::io::duplex(1 << 16);
        let mut reader = HeadReader::new(near, Arc::new(AtomicBool::new(true)));
        let sent = sent.to_vec();
        tokio::spawn(async move {
            for part in sent.chunks(piece) {
                _ = tokio::io::AsyncWriteExt::write_all(&mut far, part).await;
                tokio::task::yield_now().await;
            }
        });
        let mut out = Vec::new();
        match reader.read_to_end(&mut out).await {
            Ok(_) => Ok(String::from_utf8_lossy(&out).into_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[tokio::test]
    async fn heads_are_read_as_by_net_http() {
        for (sent, want) in [
            ("", Ok("")),
            ("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\n", Ok("HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody\n")),
            ("HTTP/2.0 200\nA : b\nC:\td\n e\n\nx", Ok("HTTP/1.1 200\r\nC: d e\r\n\r\nx")),
            ("HTTP/0.9 200 OK\n\n", Ok("HTTP/1.0 200 OK\r\n\r\n")),
            (
                "HTTP/1.1 102 P\n\nHTTP/1.1 200 OK\nContent-Length: 2\nContent-Length:  2 \n\nab",
                Ok("HTTP/1.1 102 P\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab"),
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding: Chunked\nContent-Length: 5\n\n0\r\n\r\n",
                Ok("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"),
            ),
            (
                "HTTP/1.1 200 OK\nConnection: X-A, close\nX-A: 1\n\n",
                Ok("HTTP/1.1 200 OK\r\nX-A: 1\r\nconnection: close\r\n\r\n"),
            ),
            ("hello", Err("malformed HTTP response \"hello\"")),
            ("HTTP/1.1 200 OK\r\nA: b", Err("unexpected EOF")),
            ("HTTP/1.1 20 OK\n", Err("malformed HTTP status code \"20\"")),
            ("HTTP/1 200 OK\n", Err("malformed HTTP version \"HTTP/1\"")),
            ("HTTP/1.1 200 OK\n A: b\n", Err("malformed MIME header initial line: \" A: b\"")),
            ("HTTP/1.1 200 OK\nA\n", Err("malformed MIME header: missing colon: \"A\"")),
            ("HTTP/1.1 200 OK\nA: \u{1}\n", Err("malformed MIME header line: \"A: \\x01\"")),
            ("HTTP/1.1 200 OK\nTransfer-Encoding: gzip\n\n", Err("unsupported transfer encoding: \"gzip\"")),
            ("HTTP/1.1 200 OK\nContent-Length: +1\n\n", Err("bad Content-Length \"+1\"")),
        ] {
            for piece in [1, 7, 10_000] {
                let read = read(sent.as_bytes(), piece).await;
                assert_eq!(read.as_deref().map_err(String::as_str), want, "{sent:?} in pieces of {piece}");
            }
        }
        assert_eq!(read(b"\xff<\n", 5).await, Err("malformed HTTP response \"\\xff<\"".to_string()));
    }
}
