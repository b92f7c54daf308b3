//! A request as it is written to a backend: its head, then its body as the client sends it.

use crate::transport::{BoxError, RequestBody};
use bytes::{Buf, Bytes};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{Method, Request};
use http_body::Body as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// The capacity in bytes for a head, which grows if necessary.
const HEAD_BYTES: usize = 1024;

/// Why a request was not written to its end.
#[derive(Debug)]
pub(crate) enum WriteError {
    /// The connection failed.
    Io(io::Error),
    /// The body ended with an error, or has another length than announced.
    Body(BoxError),
}

/// How the end of a body is marked.
enum Framing {
    /// That many bytes are left.
    Length(u64),
    Chunked,
}

/// A request that is being written.
pub(crate) struct Outgoing {
    /// The head; it is retained, so that the request can be sent again.
    head: Bytes,
    /// What is written next: the head, or what stands between two parts of the body.
    frame: Bytes,
    /// The part of the body after it.
    part: Bytes,
    /// `None` once it was read to its end.
    body: Option<RequestBody>,
    framing: Framing,
    /// Whether a chunk was written, whose line has no end yet.
    is_in_chunk: bool,
    /// Whether anything was written.
    is_started: bool,
    /// Whether the request may be sent twice: it has no body and a safe method.
    is_safe: bool,
}

impl Outgoing {
    /// Encodes the head of a request whose URI is path and query.
    pub(crate) fn new(request: Request<RequestBody>) -> Self {
        let (parts, body) = request.into_parts();
        let announced = parts.headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        let announced = announced.and_then(|text| text.parse().ok());
        let is_empty = body.is_end_stream();
        let length = announced.or_else(|| if is_empty { Some(0) } else { body.size_hint().exact() });
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend_from_slice(parts.method.as_str().as_bytes());
        head.extend_from_slice(b" ");
        head.extend_from_slice(parts.uri.path_and_query().map_or("/", |target| target.as_str()).as_bytes());
        head.extend_from_slice(b" HTTP/1.1\r\n");
        let mut field = |name: &[u8], value: &[u8]| {
            head.extend_from_slice(name);
            head.extend_from_slice(b": ");
            head.extend_from_slice(value);
            head.extend_from_slice(b"\r\n");
        };
        // The length is written once, from the value that the body is held to: a backend that read another one would take the
        // rest of the body for the next request on this connection, with an identity that the client chose.
        let is_framing = |name: &HeaderName| *name == CONTENT_LENGTH || *name == TRANSFER_ENCODING;
        for (name, value) in parts.headers.iter().filter(|(name, _)| !is_framing(name)) {
            field(name.as_str().as_bytes(), value.as_bytes());
        }
        match length {
            None => field(b"transfer-encoding", b"chunked"),
            Some(_) if announced.is_none() && is_empty => {}
            Some(length) => field(b"content-length", HeaderValue::from(length).as_bytes()),
        }
        head.extend_from_slice(b"\r\n");
        let head = Bytes::from(head);
        Outgoing {
            frame: head.clone(),
            head,
            part: Bytes::new(),
            // A body that is announced and missing is an error.
            body: Some(body).filter(|_| !is_empty || length.is_some_and(|length| length > 0)),
            framing: length.map_or(Framing::Chunked, Framing::Length),
            is_in_chunk: false,
            is_started: false,
            is_safe: is_empty && matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS),
        }
    }

    /// Returns the request for another connection, if it can be sent again: as in Go if nothing of it was written, or if it
    /// changes nothing and has no body.
    pub(crate) fn again(mut self: Box<Self>) -> Option<Box<Self>> {
        if !self.is_started {
            // What was read of the body is still there, and so is the mark of its end.
            return Some(self);
        }
        if !self.is_safe {
            return None;
        }
        self.frame = self.head.clone();
        self.is_started = false;
        Some(self)
    }

    /// Writes the request. Is ready when it was written to its end.
    pub(crate) fn poll_write(
        &mut self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), WriteError>> {
        loop {
            // The beginning of a body goes with the head.
            let is_waiting = self.part.is_empty() && self.poll_part(cx)?.is_pending();
            while !self.frame.is_empty() || !self.part.is_empty() {
                let written = ready!(self.poll_write_some(stream, cx)).map_err(WriteError::Io)?;
                if written == 0 {
                    return Poll::Ready(Err(WriteError::Io(io::ErrorKind::WriteZero.into())));
                }
                self.is_started = true;
                let of_frame = written.min(self.frame.len());
                self.frame.advance(of_frame);
                self.part.advance(written.saturating_sub(of_frame).min(self.part.len()));
            }
            if is_waiting || self.body.is_none() {
                ready!(Pin::new(&mut *stream).poll_flush(cx)).map_err(WriteError::Io)?;
                return if is_waiting { Poll::Pending } else { Poll::Ready(Ok(())) };
            }
        }
    }

    fn poll_write_some(
        &self,
        stream: &mut (impl AsyncWrite + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let stream = Pin::new(stream);
        match (self.frame.is_empty(), self.part.is_empty()) {
            (true, _) => stream.poll_write(cx, &self.part),
            (false, true) => stream.poll_write(cx, &self.frame),
            (false, false) => {
                stream.poll_write_vectored(cx, &[IoSlice::new(&self.frame), IoSlice::new(&self.part)])
            }
        }
    }

    /// Gets the next part of the body.
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, WriteError> {
        while let Some(body) = &mut self.body {
            let data = match Pin::new(body).poll_frame(cx) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(Some(frame)) => match frame.map_err(WriteError::Body)?.into_data() {
                    Ok(data) if !data.is_empty() => data,
                    // Trailers are not passed on.
                    _ => continue,
                },
                Poll::Ready(None) => {
                    self.body = None;
                    return self.end().map(Poll::Ready);
                }
            };
            match &mut self.framing {
                Framing::Length(left) => {
                    let rest = left.checked_sub(u64::try_from(data.len()).unwrap_or(u64::MAX));
                    *left = rest.ok_or_else(|| wrong_length("longer"))?;
                }
                Framing::Chunked => {
                    let end = if std::mem::replace(&mut self.is_in_chunk, true) { "\r\n" } else { "" };
                    self.append_chunk(format!("{end}{:x}\r\n", data.len()).as_bytes());
                }
            }
            self.part = data;
            break;
        }
        Ok(Poll::Ready(()))
    }

    fn end(&mut self) -> Result<(), WriteError> {
        match self.framing {
            Framing::Length(0) => Ok(()),
            Framing::Length(_) => Err(wrong_length("shorter")),
            Framing::Chunked => {
                self.append_chunk(if self.is_in_chunk { b"\r\n0\r\n\r\n" } else { b"0\r\n\r\n" });
                Ok(())
            }
        }
    }

    fn append_chunk(&mut self, bytes: &[u8]) {
        self.frame = if self.frame.is_empty() {
            Bytes::copy_from_slice(bytes)
        } else {
            [&self.frame, bytes].concat().into()
        };
    }
}

fn wrong_length(how: &str) -> WriteError {
    WriteError::Body(format!("http: the body is {how} than its Content-Length").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};

    #[test]
    fn a_request_has_one_length_whatever_its_headers_say() {
        for (headers, want) in [
            (&[][..], "content-length: 5"),
            (&[("content-length", "5"), ("content-length", "50")], "content-length: 5"),
            (&[("content-length", "5"), ("transfer-encoding", "chunked")], "content-length: 5"),
            (&[("content-length", "x"), ("content-length", "50")], "content-length: 5"),
            (&[("content-length", "5, 50")], "content-length: 5"),
        ] {
            let body = Full::new(Bytes::from_static(b"hello")).map_err(Into::into).boxed_unsync();
            let mut request = Request::new(body);
            for (name, value) in headers {
                request.headers_mut().append(*name, HeaderValue::from_static(value));
            }
            let head = Outgoing::new(request).head;
            assert_eq!(String::from_utf8_lossy(&head), format!("GET / HTTP/1.1\r\n{want}\r\n\r\n"));
        }
    }
}
