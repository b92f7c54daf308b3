//! Tests of the client against the server of another implementation, and against invalid bytes.

use super::frame::{self, Frame, flag, kind};
use super::{Connection, begin, request_headers};
use crate::grpc::{CallError, prefix};
use bytes::{BufMut, Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A connection, its driver's task, and the other end.
async fn connect() -> (Arc<Connection>, JoinHandle<String>, DuplexStream) {
    let (near, far) = duplex(64 << 10);
    let (sender, receiver) = oneshot::channel();
    let driver = tokio::spawn(async move {
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let (reader, writer) = split(near);
        let (connection, driver) = begin(Box::new(reader), Box::new(writer), waker);
        sender.send(connection).ok().unwrap();
        driver.run().await
    });
    (receiver.await.unwrap(), driver, far)
}

fn headers() -> Bytes {
    request_headers(false, "etcd:2379", "/etcdserverpb.KV/Range", true)
}

fn framed(message: &[u8]) -> Bytes {
    [&prefix(message.len())[..], message].concat().into()
}

async fn body(request: Request<RecvStream>) -> Vec<u8> {
    let mut stream = request.into_body();
    let mut all = Vec::new();
    while let Some(Ok(chunk)) = stream.data().await {
        stream.flow_control().release_capacity(chunk.len()).unwrap();
        all.extend_from_slice(&chunk);
    }
    all
}

/// Answers with the request's message, or `message`.
async fn answer(request: Request<RecvStream>, mut response: SendResponse<Bytes>, message: Option<Bytes>) {
    assert_eq!(request.uri().path(), "/etcdserverpb.KV/Range");
    assert_eq!(request.headers()["hasleader"], "true");
    let received = body(request).await;
    let mut send = response.send_response(Response::new(()), false).unwrap();
    let mut rest = message.map_or(Bytes::from(received), |message| framed(&message));
    while !rest.is_empty() {
        send.reserve_capacity(rest.len());
        let Some(Ok(allowed)) = poll_fn(|context| send.poll_capacity(context)).await else { return };
        send.send_data(rest.split_to(allowed.min(rest.len())), false).unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    send.send_trailers(trailers).unwrap();
}

/// Echoes all requests.
fn echo(far: DuplexStream, builder: h2::server::Builder, most: Arc<AtomicUsize>) {
    tokio::spawn(async move {
        let running = Arc::new(AtomicUsize::new(0));
        let mut server = builder.handshake::<_, Bytes>(far).await.unwrap();
        while let Some(Ok((request, response))) = server.accept().await {
            let (running, most) = (running.clone(), most.clone());
            tokio::spawn(async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                answer(request, response, None).await;
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
}

#[tokio::test]
async fn requests_of_any_size_are_answered() {
    let (connection, _driver, far) = connect().await;
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(1_000);
    echo(far, builder, Arc::default());
    for size in [0, 1, 995, 996, 16 << 10, 70_000, 2 << 20] {
        let message = vec![7; size];
        assert_eq!(connection.unary(&headers(), &message, false).await.unwrap(), message);
    }
}

#[tokio::test]
async fn answers_larger_than_the_windows_arrive() {
    let (connection, _driver, far) = connect().await;
    let large = Bytes::from(vec![3; 40 << 20]);
    let sent = large.clone();
    tokio::spawn(async move {
        let mut server = h2::server::handshake(far).await.unwrap();
        while let Some(Ok((request, response))) = server.accept().await {
            tokio::spawn(answer(request, response, Some(sent.clone())));
        }
    });
    assert!(connection.unary(&headers(), b"", false).await.unwrap() == large);
    assert!(connection.unary(&headers(), b"", false).await.unwrap() == large);
}

#[tokio::test]
async fn no_more_calls_are_made_than_the_server_allows() {
    let (connection, _driver, far) = connect().await;
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(2);
    let most = Arc::new(AtomicUsize::new(0));
    echo(far, builder, most.clone());
    // The settings of the server arrive before the answer.
    connection.unary(&headers(), b"first", false).await.unwrap();
    let call = |n: u8| {
        let connection = connection.clone();
        tokio::spawn(async move { connection.unary(&headers(), &[n], false).await.unwrap() == [n][..] })
    };
    let calls: Vec<_> = (0..50).map(call).collect();
    for call in calls {
        assert!(call.await.unwrap());
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_call_that_is_given_up_is_reset() {
    let (connection, _driver, far) = connect().await;
    let call = tokio::spawn(async move { connection.unary(&headers(), b"", false).await });
    let mut server = h2::server::handshake::<_>(far).await.unwrap();
    let (_request, mut response): (_, SendResponse<Bytes>) = server.accept().await.unwrap().unwrap();
    tokio::spawn(async move { server.accept().await.is_none() });
    call.abort();
    assert_eq!(poll_fn(|context| response.poll_reset(context)).await.unwrap(), Reason::CANCEL);
}

#[tokio::test]
async fn a_status_without_a_message_is_an_error() {
    let (connection, _driver, far) = connect().await;
    tokio::spawn(async move {
        let mut server = h2::server::handshake::<_>(far).await.unwrap();
        while let Some(Ok((_, mut response))) = server.accept().await {
            let mut head = Response::new(());
            head.headers_mut().insert("grpc-status", "14".parse().unwrap());
            head.headers_mut().insert("grpc-message", "etcdserver:%20no leader".parse().unwrap());
            let _: h2::SendStream<Bytes> = response.send_response(head, true).unwrap();
        }
    });
    let error = connection.unary(&headers(), b"", false).await.unwrap_err();
    assert!(matches!(error, CallError::Status { code: 14, message } if message == "etcdserver: no leader"));
}

#[tokio::test]
async fn the_messages_of_a_stream_are_handled_until_the_handler_breaks() {
    let (connection, _driver, far) = connect().await;
    let (send, mut receive) = mpsc::unbounded_channel();
    let handler = move |message: &[u8]| {
        send.send(message.to_vec()).unwrap();
        if message == b"last" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let call = tokio::spawn(async move { connection.stream(&headers(), b"", Box::new(handler)).await });
    let mut server = h2::server::handshake(far).await.unwrap();
    let (_request, mut response) = server.accept().await.unwrap().unwrap();
    tokio::spawn(async move { server.accept().await.is_none() });
    let mut send = response.send_response(Response::new(()), false).unwrap();
    let both = [framed(b"first"), framed(b"second")].concat();
    send.send_data(Bytes::copy_from_slice(&both[..13]), false).unwrap();
    assert_eq!(receive.recv().await.unwrap(), b"first"[..]);
    send.send_data(Bytes::copy_from_slice(&both[13..]), false).unwrap();
    assert_eq!(receive.recv().await.unwrap(), b"second"[..]);
    send.send_data([framed(b"last"), framed(b"unwanted")].concat().into(), false).unwrap();
    call.await.unwrap().unwrap();
    assert_eq!(receive.recv().await.unwrap(), b"last"[..]);
    assert!(receive.recv().await.is_none(), "the handler was dropped");
    assert_eq!(poll_fn(|context| send.poll_reset(context)).await.unwrap(), Reason::CANCEL);
}

/// A server that is a sequence of bytes.
struct Raw(DuplexStream);

impl Raw {
    /// Reads the preface.
    async fn start(mut far: DuplexStream) -> Raw {
        let mut preface = vec![0; frame::PREFACE.len()];
        far.read_exact(&mut preface).await.unwrap();
        assert_eq!(preface, frame::PREFACE);
        Raw(far)
    }

    async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut out = BytesMut::new();
        frame::head(&mut out, kind, flags, stream, payload.len());
        out.put_slice(payload);
        self.0.write_all(&out).await.unwrap();
    }

    async fn receive(&mut self) -> (Frame, Vec<u8>) {
        let mut head = [0; frame::HEADER_BYTES];
        self.0.read_exact(&mut head).await.unwrap();
        let frame = Frame::read(&head).unwrap();
        let mut payload = vec![0; frame.length];
        self.0.read_exact(&mut payload).await.unwrap();
        (frame, payload)
    }

    /// Answers a call with a message and the status 0.
    async fn answer(&mut self, stream: u32, message: &[u8]) {
        self.send(kind::HEADERS, flag::END_HEADERS, stream, &[0x88]).await;
        self.send(kind::DATA, 0, stream, &framed(message)).await;
        let trailers = [&[0, 11][..], b"grpc-status", &[1, b'0']].concat();
        self.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &trailers).await;
    }

    /// Reads until a frame of a kind.
    async fn until(&mut self, kind: u8) -> (Frame, Vec<u8>) {
        loop {
            let received = self.receive().await;
            if received.0.kind == kind {
                return received;
            }
        }
    }
}

#[tokio::test]
async fn pings_that_measure_the_bandwidth_are_answered_after_the_next_request() {
    let (connection, _driver, far) = connect().await;
    let mut raw = Raw::start(far).await;
    raw.send(kind::SETTINGS, 0, 0, &[]).await;
    raw.send(kind::PING, 0, 0, &[2, 4, 16, 16, 9, 14, 7, 7]).await;
    raw.send(kind::PING, 0, 0, b"keepaliv").await;
    let (frame, payload) = raw.until(kind::PING).await;
    assert!(frame.has(flag::ACK) && payload == b"keepaliv", "other pings are answered at once");
    tokio::spawn(async move { connection.unary(&headers(), b"", false).await });
    assert_eq!(raw.receive().await.0.kind, kind::HEADERS);
    assert_eq!(raw.receive().await.0.kind, kind::DATA);
    let (frame, payload) = raw.receive().await;
    assert!(frame.kind == kind::PING && frame.has(flag::ACK) && payload == [2, 4, 16, 16, 9, 14, 7, 7]);
}

#[tokio::test]
async fn a_server_that_goes_away_answers_what_it_began() {
    let (connection, driver, far) = connect().await;
    let mut raw = Raw::start(far).await;
    raw.send(kind::SETTINGS, 0, 0, &[]).await;
    let call = || {
        let connection = connection.clone();
        tokio::spawn(async move { connection.unary(&headers(), b"", false).await })
    };
    let begun = call();
    raw.until(kind::DATA).await;
    let watch = {
        let connection = connection.clone();
        tokio::spawn(async move {
            connection.stream(&headers(), b"", Box::new(|_| ControlFlow::Continue(()))).await
        })
    };
    raw.until(kind::DATA).await;
    let refused = call();
    raw.until(kind::DATA).await;
    raw.send(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]).await;
    assert!(matches!(refused.await.unwrap(), Err(CallError::NotSent(_))), "the fifth stream");
    assert!(matches!(watch.await.unwrap(), Err(CallError::Lost(_))), "a watch must not stay");
    assert!(matches!(call().await.unwrap(), Err(CallError::NotSent(_))), "new calls need another connection");
    raw.answer(1, b"yes").await;
    assert_eq!(begun.await.unwrap().unwrap(), "yes");
    assert_eq!(driver.await.unwrap(), "etcd ends the connection");
}

#[tokio::test]
async fn a_connection_that_is_replaced_answers_its_writes() {
    let (connection, driver, far) = connect().await;
    let mut raw = Raw::start(far).await;
    raw.send(kind::SETTINGS, 0, 0, &[]).await;
    let call = |is_repeatable| {
        let connection = connection.clone();
        tokio::spawn(async move { connection.unary(&headers(), b"", is_repeatable).await })
    };
    let write = call(false);
    raw.until(kind::DATA).await;
    let read = call(true);
    raw.until(kind::DATA).await;
    connection.retire_for_another();
    assert!(matches!(read.await.unwrap(), Err(CallError::Lost(_))), "the read can be made elsewhere");
    assert!(matches!(call(false).await.unwrap(), Err(CallError::NotSent(_))), "so can new writes");
    raw.answer(1, b"yes").await;
    assert_eq!(write.await.unwrap().unwrap(), "yes");
    assert_eq!(driver.await.unwrap(), "etcd ends the connection");
}

#[tokio::test]
async fn refused_calls_were_not_sent_and_reset_ones_are_lost() {
    for (code, is_sent) in [(7, false), (2, true)] {
        let (connection, _driver, far) = connect().await;
        let mut raw = Raw::start(far).await;
        let call = tokio::spawn(async move { connection.unary(&headers(), b"", false).await });
        raw.until(kind::DATA).await;
        raw.send(kind::RST_STREAM, 0, 1, &[0, 0, 0, code]).await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(matches!(error, CallError::Lost(_)), is_sent, "{error:?}");
    }
}

#[tokio::test]
async fn invalid_frames_end_the_connection() {
    let cases: [(&str, u8, u8, u32, &[u8]); 10] = [
        ("an answer to no call", kind::DATA, 0, 3, b"x"),
        ("headers of no call", kind::HEADERS, flag::END_HEADERS, 2, &[0x88]),
        ("an entry of the dynamic table", kind::HEADERS, flag::END_HEADERS, 1, &[0xbe]),
        ("a continuation of nothing", kind::CONTINUATION, 0, 1, b""),
        ("a push", kind::PUSH_PROMISE, 0, 1, &[0, 0, 0, 2]),
        ("too much padding", kind::DATA, flag::PADDED, 1, &[9, 0]),
        ("a short ping", kind::PING, 0, 0, b"short"),
        ("a window beyond all windows", kind::WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]),
        ("a frame size below the least", kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1]),
        ("a window size beyond all windows", kind::SETTINGS, 0, 0, &[0, 4, 0xff, 0xff, 0xff, 0xff]),
    ];
    for (what, kind, flags, stream, payload) in cases {
        let (connection, driver, far) = connect().await;
        let mut raw = Raw::start(far).await;
        let call = tokio::spawn(async move { connection.unary(&headers(), b"", false).await });
        raw.until(super::frame::kind::DATA).await;
        raw.send(kind, flags, stream, payload).await;
        assert!(matches!(call.await.unwrap(), Err(CallError::Lost(_))), "{what}");
        driver.await.unwrap();
    }
}

#[tokio::test]
async fn large_frames_and_endless_headers_end_the_connection() {
    let (_connection, driver, far) = connect().await;
    let mut raw = Raw::start(far).await;
    raw.0.write_all(&[0, 0x40, 1, kind::DATA, 0, 0, 0, 0, 1]).await.unwrap();
    assert_eq!(driver.await.unwrap(), "a frame from etcd is too large");

    let (connection, driver, far) = connect().await;
    let mut raw = Raw::start(far).await;
    let call = tokio::spawn(async move { connection.unary(&headers(), b"", false).await });
    raw.until(kind::DATA).await;
    raw.send(kind::HEADERS, 0, 1, &[0x88]).await;
    for _ in 0..4 {
        raw.send(kind::CONTINUATION, 0, 1, &[0x88; 16 << 10]).await;
    }
    assert!(matches!(call.await.unwrap(), Err(CallError::Lost(_))));
    driver.await.unwrap();
}

#[tokio::test]
async fn a_call_that_is_answered_early_is_reset() {
    let (connection, _driver, far) = connect().await;
    let mut raw = Raw::start(far).await;
    let call = tokio::spawn(async move { connection.unary(&headers(), &[0; 100_000], false).await });
    raw.until(kind::DATA).await;
    let refusal = [&[0x88, 0, 11][..], b"grpc-status", &[1, b'8']].concat();
    raw.send(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 1, &refusal).await;
    assert!(matches!(call.await.unwrap(), Err(CallError::Status { code: 8, .. })));
    assert_eq!(raw.until(kind::RST_STREAM).await.0.stream, 1);
}

/// Whatever etcd sends, nothing panics and every call ends with the connection.
#[tokio::test]
async fn random_frames_are_survived() {
    // xorshift: the same frames in each run.
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    for _ in 0..2_000 {
        let (connection, driver, far) = connect().await;
        let mut raw = Raw::start(far).await;
        let call = {
            let connection = connection.clone();
            tokio::spawn(async move { connection.unary(&headers(), b"message", false).await })
        };
        let watch = tokio::spawn(async move {
            connection.stream(&headers(), b"", Box::new(|_| ControlFlow::Continue(()))).await
        });
        for _ in 0..random() % 12 {
            let payload: Vec<u8> =
                (0..random() % 24).map(|_| [0, 0x88, 1, random() as u8][(random() % 4) as usize]).collect();
            let mut out = BytesMut::new();
            frame::head(
                &mut out,
                (random() % 11) as u8,
                random() as u8,
                (random() % 5) as u32,
                payload.len(),
            );
            out.put_slice(&payload);
            // The connection may have ended.
            let _ = raw.0.write_all(&out).await;
        }
        drop(raw);
        driver.await.unwrap();
        let _ = call.await.unwrap();
        let _ = watch.await.unwrap();
    }
}
