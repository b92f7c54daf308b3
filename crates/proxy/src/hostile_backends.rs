//! Tests with backends that break the rules of HTTP/1.1: no panic, no unlimited memory or waiting, and no byte of one
//! exchange becomes part of another.

use crate::connection::Connection;
use crate::forward::{Forward, ProxyBody};
use crate::outgoing::Outgoing;
use crate::transport::{Address, RequestBody, Transport};
use crate::{BoxError, Dialer, empty_body};
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::TcpListener;

const TIMEOUT: Duration = Duration::from_secs(20);

fn outgoing(method: Method, body: RequestBody) -> Box<Outgoing> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    request.headers_mut().insert("host", "backend".parse().unwrap());
    Box::new(Outgoing::new(request))
}

fn connected(buffer: usize) -> (Box<Connection>, DuplexStream) {
    let (near, far) = tokio::io::duplex(buffer);
    (Connection::new(Box::new(near)), far)
}

/// What a GET gets from a backend that sends `answer` again and again, `times` times, and then closes.
async fn get_repeated(answer: &'static [u8], times: usize) -> Result<u16, String> {
    let (mut connection, mut far) = connected(1 << 16);
    let backend = tokio::spawn(async move {
        for _ in 0..times {
            if far.write_all(answer).await.is_err() {
                return;
            }
        }
    });
    let sent = connection.send(outgoing(Method::GET, empty_body()), true);
    let sent = tokio::time::timeout(TIMEOUT, sent).await.expect("the exchange ends");
    drop(connection);
    backend.await.unwrap();
    sent.map(|head| head.status.as_u16()).map_err(|error| error.why)
}

#[tokio::test]
async fn interim_responses_without_end_are_an_error() {
    for interim in [&b"HTTP/1.1 100 Continue\r\n\r\n"[..], b"HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\n"] {
        let error = get_repeated(interim, 1_000_000).await.unwrap_err();
        assert!(error.contains("server response headers exceeded"), "{error}");
    }
}

#[tokio::test]
async fn a_backend_that_switches_protocols_is_not_used_again() {
    let (mut connection, mut far) = connected(1000);
    far.write_all(b"HTTP/1.1 101 x\r\nconnection: upgrade\r\nupgrade: a\r\n\r\n").await.unwrap();
    assert!(connection.send(outgoing(Method::GET, empty_body()), true).await.is_ok());
    assert!(!connection.is_usable());
}

/// A chunked body without content, as of a client that announces one and sends none.
fn empty_chunked_body() -> RequestBody {
    struct Nothing;
    impl http_body::Body for Nothing {
        type Data = Bytes;
        type Error = BoxError;
        fn poll_frame(
            self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
            Poll::Ready(None)
        }
    }
    Nothing.boxed_unsync()
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_complete() {
    let full = || Full::new(Bytes::from_static(b"hello")).map_err(Into::into).boxed_unsync();
    for (body, want) in [
        (
            empty_chunked_body(),
            "POST / HTTP/1.1\r\nhost: backend\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (full(), "POST / HTTP/1.1\r\nhost: backend\r\ncontent-length: 5\r\n\r\nhello"),
    ] {
        let (mut closed, far) = connected(1000);
        drop(far);
        let error = closed.send(outgoing(Method::POST, body), true).await.err().unwrap();
        let again = error.request.expect("nothing of it was written");
        let (mut connection, mut far) = connected(1000);
        far.write_all(b"HTTP/1.1 204 x\r\n\r\n").await.unwrap();
        assert!(connection.send(again, true).await.is_ok());
        drop(connection);
        let mut seen = String::new();
        far.read_to_string(&mut seen).await.unwrap();
        assert_eq!(seen, want);
    }
}

#[tokio::test]
async fn a_request_without_its_announced_body_is_not_sent_again() {
    let (mut connection, _far) = connected(1000);
    let mut request = Request::new(empty_body());
    request.headers_mut().insert("content-length", "5".parse().unwrap());
    let error = connection.send(Box::new(Outgoing::new(request)), true).await.err().unwrap();
    assert!(error.request.is_none(), "the next request would become its body");
}

#[tokio::test]
async fn a_request_that_got_an_answer_is_not_sent_again() {
    let (mut connection, mut far) = connected(1000);
    far.write_all(b"HTTP/1.1 200 OK\r\nbad\r\n\r\n").await.unwrap();
    let error = connection.send(outgoing(Method::GET, empty_body()), true).await.err().unwrap();
    assert!(error.request.is_none());
}

#[tokio::test]
async fn left_over_bytes_are_seen_by_a_task_that_used_its_budget() {
    let (mut connection, mut far) = connected(1000);
    far.write_all(b"HTTP/1.1 204 x\r\n\r\n").await.unwrap();
    assert!(connection.send(outgoing(Method::GET, empty_body()), true).await.is_ok());
    far.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad").await.unwrap();
    let is_usable = poll_fn(|cx| {
        // Tokio makes resources pending once a task has used its budget.
        while tokio::task::coop::has_budget_remaining() {
            let Poll::Ready(progress) = tokio::task::coop::poll_proceed(cx) else { break };
            progress.made_progress();
        }
        Poll::Ready(connection.is_usable())
    })
    .await;
    assert!(!is_usable);
}

/// A stream whose writes fail and that has nothing to read.
struct Unwritable(ErrorKind);

impl AsyncRead for Unwritable {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Unwritable {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(self.0.into()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_backend_that_neither_reads_nor_answers_is_given_up() {
    for kind in [ErrorKind::TimedOut, ErrorKind::BrokenPipe] {
        let mut connection = Connection::new(Box::new(Unwritable(kind)));
        let sent = connection.send(outgoing(Method::GET, empty_body()), true);
        let sent = tokio::time::timeout(TIMEOUT, sent).await.expect("the exchange ends");
        assert!(sent.is_err());
    }
}

/// A request to a backend that reads it, sends `answer` and closes the connection.
async fn request_to(answer: &'static str) -> Forward {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        _ = stream.read(&mut [0; 4096]).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
    });
    Forward {
        method: Method::GET,
        headers: HeaderMap::new(),
        to: Address { tls: false, host: "127.0.0.1".to_string(), port, checked: Vec::new() },
        path: "/".to_string(),
        query: String::new(),
        host: "backend".to_string(),
        client: None,
        links: None,
        rejects_redirects: false,
    }
}

/// The body of the response to such a request.
async fn forward(answer: &'static str) -> Result<Vec<u8>, String> {
    let transport = Transport::new(Dialer::Direct, None);
    let response = request_to(answer).await.send(&transport, empty_body()).await;
    let mut body: ProxyBody = response.map_err(|error| error.to_string())?.into_body();
    let mut all = Vec::new();
    while let Some(chunk) = poll_fn(|cx| Pin::new(&mut body).poll_chunk(cx)).await {
        all.extend_from_slice(&chunk.map_err(|error| error.to_string())?);
    }
    Ok(all)
}

#[tokio::test]
async fn a_body_that_breaks_off_at_its_beginning_is_not_an_empty_body() {
    for head in ["content-length: 5\r\n", "transfer-encoding: chunked\r\n"] {
        for media_type in ["", "content-type: text/plain\r\n"] {
            let answer = format!("HTTP/1.1 200 OK\r\n{head}{media_type}\r\n");
            assert_eq!(
                forward(answer.leak()).await,
                Err("unexpected EOF".to_string()),
                "{head:?} {media_type:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_upgrade_ends_with_the_first_response() {
    let answer = "HTTP/1.1 100 x\r\n\r\nHTTP/1.1 101 x\r\nupgrade: a\r\n\r\n";
    let upgraded = request_to(answer).await.upgrade(&Transport::new(Dialer::Direct, None)).await;
    let want = "invalid upgrade response: status code 100";
    assert_eq!(upgraded.err().map(|error| error.to_string()).as_deref(), Some(want));
}
