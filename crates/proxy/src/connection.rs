//! A connection to a backend: HTTP/1.1 exchanges, one after another.
//!
//! A connection has no task of its own: the task that waits for a response or for a part of its body writes the rest
//! of the request and reads. A proxied request therefore stays in the task of its client, without wake-ups between tasks,
//! and the backend's socket is read until it is empty before the client's connection is flushed.

use crate::chunked::Chunked;
use crate::dial::BoxStream;
use crate::head::{Head, HeadError, ResponseHead};
use crate::outgoing::{Outgoing, WriteError};
use crate::stall::StallGuard;
use crate::upgraded::Upgraded;
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::SizeHint;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::task::unconstrained;
use tokio::time::{Sleep, sleep};

/// The number of bytes read at once: at first, and while the backend sends more than that. A TLS record has 16 KiB at most.
const READ_BYTES_MIN: usize = 4 * 1024;
const READ_BYTES_MAX: usize = 16 * 1024;

/// How long a response is waited for after the request could not be written: a backend that refuses to read a request may
/// have said why.
const WAIT_AFTER_FAILED_WRITE: Duration = Duration::from_secs(1);

/// How `net/http` begins its errors about a response that it cannot read.
pub(crate) const BROKEN: &str = "net/http: HTTP/1.x transport connection broken: ";

/// An error while reading the body of a response, with Go's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BodyError(String);

/// Why there is no response.
pub(crate) struct ExchangeError {
    /// Go's text.
    pub(crate) why: String,
    /// The request, if it can be sent again.
    pub(crate) request: Option<Box<Outgoing>>,
}

/// What is left of a response's body.
enum Content {
    Length(u64),
    Chunked(Chunked),
    UntilClosed,
}

/// A connection to a backend.
pub(crate) struct Connection {
    stream: StallGuard<BoxStream>,
    /// Bytes that were read from the stream and not used.
    unread: Bytes,
    /// The size of the next read.
    read_bytes: usize,
    /// `None` once the request was written.
    request: Option<Box<Outgoing>>,
    content: Content,
    /// Whether the connection can be used again after the response.
    is_persistent: bool,
    /// Whether interim responses (1xx) are skipped.
    skips_interim: bool,
}

impl Connection {
    /// Takes over a stream.
    pub(crate) fn new(stream: BoxStream) -> Box<Self> {
        Box::new(Connection {
            stream: StallGuard::new(stream),
            unread: Bytes::new(),
            read_bytes: READ_BYTES_MIN,
            request: None,
            content: Content::Length(0),
            is_persistent: true,
            skips_interim: true,
        })
    }

    /// Takes over a stream for an upgrade. As in kube-apiserver, the first response of the backend counts, even if it is an
    /// interim one.
    pub(crate) fn for_upgrade(stream: BoxStream) -> Box<Self> {
        let mut connection = Connection::new(stream);
        connection.skips_interim = false;
        connection
    }

    /// Returns whether the last exchange is over and the backend has left the connection open.
    pub(crate) fn is_usable(&mut self) -> bool {
        if !self.is_persistent || self.request.is_some() || !self.is_end() || !self.unread.is_empty() {
            return false;
        }
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        let read = poll_fn(|cx| Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut byte)));
        // In a task that has used its budget, Tokio's streams are pending even if bytes have arrived. Such bytes would become
        // the response to the next request.
        pin!(unconstrained(read)).poll(&mut cx).is_pending()
    }

    /// Sends a request and returns the head of the response. `has_body` tells whether the response to a request of this method
    /// can have a body.
    pub(crate) async fn send(
        &mut self,
        request: Box<Outgoing>,
        has_body: bool,
    ) -> Result<ResponseHead, ExchangeError> {
        self.request = Some(request);
        let mut lines = Head::default();
        let mut written = None;
        let mut wait: Option<Pin<Box<Sleep>>> = None;
        let received = poll_fn(|cx| {
            if written.is_none()
                && let Poll::Ready(outcome) = self.poll_request(cx)
            {
                let is_lost = matches!(outcome, Err(WriteError::Body(_)));
                written = Some(outcome);
                if is_lost {
                    return Poll::Ready(Err(String::new()));
                }
            }
            let polled = self.poll_head(&mut lines, cx);
            if polled.is_pending() && matches!(written, Some(Err(_))) {
                let wait = wait.get_or_insert_with(|| Box::pin(sleep(WAIT_AFTER_FAILED_WRITE)));
                return wait.as_mut().poll(cx).map(|()| Err(String::new()));
            }
            polled
        })
        .await;
        let head = received.map_err(|why| ExchangeError {
            // A backend that refuses to read a request may have said why. If not, the failed write is the reason.
            why: match &written {
                Some(Err(WriteError::Io(error))) => io_error(error),
                Some(Err(WriteError::Body(error))) => error.to_string(),
                Some(Ok(())) | None => why,
            },
            // As in Go, a request is sent again only if no byte of a response has arrived. What was read of a body that
            // failed is not a complete request.
            request: match &written {
                Some(Err(WriteError::Body(_))) => None,
                _ if lines.is_started() => None,
                _ => self.request.take().and_then(Outgoing::again),
            },
        })?;
        if let Some(outcome) = written {
            self.request = None;
            self.is_persistent &= outcome.is_ok();
        }
        self.content = match head.content_length {
            _ if !has_body || !head.has_body() => Content::Length(0),
            _ if head.is_chunked => Content::Chunked(Chunked::default()),
            Some(length) => Content::Length(length),
            None => Content::UntilClosed,
        };
        // After 101 the backend speaks another protocol.
        let is_switched = head.status == StatusCode::SWITCHING_PROTOCOLS;
        self.is_persistent &=
            head.is_persistent && !is_switched && !matches!(self.content, Content::UntilClosed);
        Ok(head)
    }

    /// Writes the rest of the request.
    fn poll_request(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        match &mut self.request {
            Some(request) => request.poll_write(&mut self.stream, cx),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_head(&mut self, head: &mut Head, cx: &mut Context<'_>) -> Poll<Result<ResponseHead, String>> {
        let broken = |error: HeadError| format!("{BROKEN}{error}");
        loop {
            match ready!(self.poll_fill(cx)) {
                Ok(true) => {}
                Ok(false) => {
                    let ended = head.end().map_err(broken);
                    return Poll::Ready(Err(ended.err().unwrap_or_else(|| "EOF".to_string())));
                }
                Err(error) => return Poll::Ready(Err(io_error(&error))),
            }
            match head.push(&mut self.unread).map_err(broken) {
                Ok(Some(complete)) if complete.is_interim() && self.skips_interim => {}
                Ok(Some(complete)) => return Poll::Ready(Ok(complete)),
                Ok(None) => {}
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
    }

    /// Reads if no bytes are left. Returns whether there are any: `false` means that the stream has ended.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.unread.is_empty() {
            let mut buffer = BytesMut::with_capacity(self.read_bytes);
            let read = ready!(pin!(self.stream.read_buf(&mut buffer)).poll(cx))?;
            let is_full = read >= self.read_bytes;
            self.read_bytes = if is_full { READ_BYTES_MAX } else { self.read_bytes };
            self.unread = buffer.freeze();
        }
        Poll::Ready(Ok(!self.unread.is_empty()))
    }

    /// Whether the body of the response was read to its end.
    pub(crate) fn is_end(&self) -> bool {
        match &self.content {
            Content::Length(left) => *left == 0,
            Content::Chunked(decoder) => decoder.is_complete(),
            Content::UntilClosed => false,
        }
    }

    /// How many bytes of the body are left.
    pub(crate) fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Length(left) => SizeHint::with_exact(*left),
            _ => SizeHint::default(),
        }
    }

    /// The next part of the response's body.
    pub(crate) fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        if self.request.is_some() {
            match self.poll_request(cx) {
                Poll::Ready(Ok(())) => self.request = None,
                // The response may be complete nevertheless.
                Poll::Ready(Err(_)) => (self.request, self.is_persistent) = (None, false),
                Poll::Pending => {}
            }
        }
        let polled = ready!(self.poll_content(cx));
        if matches!(polled, Some(Err(_))) {
            (self.content, self.is_persistent) = (Content::Length(0), false);
        }
        Poll::Ready(polled)
    }

    fn poll_content(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
        while !self.is_end() {
            let is_open = match ready!(self.poll_fill(cx)) {
                Ok(is_open) => is_open,
                Err(error) => {
                    let why = io_error(&error);
                    let why = if why == "EOF" { "unexpected EOF".to_string() } else { why };
                    return Poll::Ready(Some(Err(BodyError(why))));
                }
            };
            match &mut self.content {
                Content::UntilClosed if is_open => {
                    return Poll::Ready(Some(Ok(std::mem::take(&mut self.unread))));
                }
                Content::UntilClosed => self.content = Content::Length(0),
                _ if !is_open => return Poll::Ready(Some(Err(BodyError("unexpected EOF".to_string())))),
                Content::Length(left) => {
                    let size = self.unread.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left = left.saturating_sub(u64::try_from(size).unwrap_or(u64::MAX));
                    return Poll::Ready(Some(Ok(self.unread.split_to(size))));
                }
                Content::Chunked(decoder) => match decoder.next(&mut self.unread) {
                    Ok(Some(content)) => return Poll::Ready(Some(Ok(content))),
                    Ok(None) => {}
                    Err(why) => return Poll::Ready(Some(Err(BodyError(why.to_string())))),
                },
            }
        }
        Poll::Ready(None)
    }

    /// The stream of a connection that was upgraded.
    pub(crate) fn into_upgraded(self) -> Upgraded {
        Upgraded::new(self.stream.into_inner(), self.unread)
    }
}

/// Go's error for a connection that failed.
fn io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "EOF".to_string(),
        io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_string(),
        io::ErrorKind::BrokenPipe => "write: broken pipe".to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BoxError, empty_body};
    use http::{Method, Request};
    use http_body::Frame;
    use http_body_util::{BodyExt, Full};
    use tokio::io::{AsyncWriteExt, DuplexStream};

    /// A body whose length is not known, with its last part first.
    struct Parts(Vec<&'static str>);

    impl http_body::Body for Parts {
        type Data = Bytes;
        type Error = BoxError;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(self.0.pop().map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))))
        }
    }

    fn request(method: Method, body: crate::RequestBody) -> Box<Outgoing> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = "/path?query".parse().unwrap();
        request.headers_mut().insert("host", "backend".parse().unwrap());
        Box::new(Outgoing::new(request))
    }

    /// A connection, and its other side, which has sent `answer`.
    async fn answered(answer: &str) -> (Box<Connection>, DuplexStream) {
        let (near, mut far) = tokio::io::duplex(100_000);
        far.write_all(answer.as_bytes()).await.unwrap();
        (Connection::new(Box::new(near)), far)
    }

    async fn read_body(connection: &mut Connection) -> Result<String, String> {
        let mut all = Vec::new();
        while let Some(part) = poll_fn(|cx| connection.poll_body(cx)).await {
            all.extend_from_slice(&part.map_err(|error| error.to_string())?);
        }
        Ok(String::from_utf8(all).unwrap())
    }

    #[tokio::test]
    async fn bodies_end_where_their_heads_say() {
        for (method, answer, is_closed, want, is_usable) in [
            (Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", false, Ok("hello"), true),
            (Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", false, Ok(""), true),
            (Method::GET, "HTTP/1.1 304 x\r\ncontent-length: 5\r\n\r\n", false, Ok(""), true),
            (Method::GET, "HTTP/1.1 103 x\r\n\r\nHTTP/1.1 204 x\r\n\r\n", false, Ok(""), true),
            (Method::GET, "HTTP/1.1 204 x\r\n\r\nmore", false, Ok(""), false),
            (
                Method::GET,
                "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
                false,
                Ok(""),
                false,
            ),
            (
                Method::GET,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
                false,
                Ok("ab"),
                true,
            ),
            (Method::GET, "HTTP/1.1 200 OK\r\n\r\nhello", true, Ok("hello"), false),
            (
                Method::GET,
                "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhel",
                true,
                Err("unexpected EOF"),
                false,
            ),
            (
                Method::GET,
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nx\r\n",
                false,
                Err("invalid byte in chunk length"),
                false,
            ),
        ] {
            let (mut connection, far) = answered(answer).await;
            let far = Some(far).filter(|_| !is_closed);
            let has_body = method != Method::HEAD;
            let sent = connection.send(request(method, empty_body()), has_body).await;
            assert!(sent.is_ok(), "{answer:?}");
            let body = read_body(&mut connection).await;
            assert_eq!(body.as_deref().map_err(String::as_str), want, "{answer:?}");
            assert_eq!(connection.is_usable(), is_usable, "{answer:?}");
            drop(far);
        }
    }

    #[tokio::test]
    async fn requests_are_written_with_their_bodies() {
        let full = |text: &'static str| Full::new(Bytes::from_static(text.as_bytes())).map_err(Into::into);
        let parted = Parts(["three", "", "one"].to_vec());
        for (method, body, want) in [
            (Method::GET, empty_body(), "GET /path?query HTTP/1.1\r\nhost: backend\r\n\r\n"),
            (
                Method::POST,
                full("hello").boxed_unsync(),
                "POST /path?query HTTP/1.1\r\nhost: backend\r\ncontent-length: 5\r\n\r\nhello",
            ),
            (
                Method::PUT,
                parted.boxed_unsync(),
                "PUT /path?query HTTP/1.1\r\nhost: backend\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n5\r\nthree\r\n0\r\n\r\n",
            ),
        ] {
            let (mut connection, mut far) = answered("HTTP/1.1 204 x\r\n\r\n").await;
            assert!(connection.send(request(method, body), true).await.is_ok());
            drop(connection);
            let mut seen = String::new();
            far.read_to_string(&mut seen).await.unwrap();
            assert_eq!(seen, want);
        }
    }

    #[tokio::test]
    async fn only_requests_that_changed_nothing_are_sent_again() {
        for (method, body, is_closed, is_repeated) in [
            (Method::GET, empty_body(), false, true),
            (Method::POST, empty_body(), false, false),
            // Nothing of it can be written.
            (Method::POST, empty_body(), true, true),
        ] {
            let (mut connection, mut far) = answered("").await;
            let served = tokio::spawn(async move {
                if !is_closed {
                    _ = far.read_u8().await;
                }
            });
            if is_closed {
                served.await.unwrap();
            }
            let error = connection.send(request(method.clone(), body), true).await.err().unwrap();
            assert_eq!(error.request.is_some(), is_repeated, "{method} {is_closed}");
        }
    }

    #[tokio::test]
    async fn a_backend_may_answer_before_it_has_read_the_request() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut connection = Connection::new(Box::new(near));
        let body = Full::new(Bytes::from(vec![0; 100_000])).map_err(Into::into).boxed_unsync();
        let backend = tokio::spawn(async move {
            far.read_u8().await.unwrap();
            far.write_all(b"HTTP/1.1 413 x\r\ncontent-length: 4\r\n\r\n").await.unwrap();
            far.write_all(b"long").await.unwrap();
        });
        let head = connection.send(request(Method::POST, body), true).await.ok().unwrap();
        assert_eq!(head.status.as_u16(), 413);
        assert_eq!(read_body(&mut connection).await.unwrap(), "long");
        assert!(!connection.is_usable());
        backend.await.unwrap();
    }
}
