//! A pool of connections to backends. No task polls an idle connection.

use crate::connection::Connection;
use crate::transport::Address;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The maximum number of idle connections of one backend and of all of them, and how long they are retained.
const IDLE_PER_BACKEND_MAX: usize = 32;
const IDLE_BACKENDS_MAX: usize = 1024;
const IDLE_TIME_MAX: Duration = Duration::from_secs(90);
/// How often idle connections that are too old, or that their backends closed, are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);

/// An idle connection, and the time since which it is idle.
type IdleConnection = (Box<Connection>, Instant);

/// The idle connections of a transport.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    connections: HashMap<Address, Vec<IdleConnection>>,
    /// Whether a task looks for connections that ended.
    is_swept: bool,
}

impl Pool {
    /// Takes a connection to a backend out of the pool.
    pub(crate) fn take(&self, to: &Address) -> Option<Box<Connection>> {
        loop {
            // The lock is not held while the connection is polled.
            let (mut connection, since) = self.idle().connections.get_mut(to)?.pop()?;
            if since.elapsed() < IDLE_TIME_MAX && connection.is_usable() {
                return Some(connection);
            }
        }
    }

    /// Puts a connection into the pool when its response was read, unless the backend closes it or still reads the request.
    pub(crate) fn put(self: &Arc<Self>, to: Address, mut connection: Box<Connection>) {
        if !connection.is_usable() {
            return;
        }
        let mut idle = self.idle();
        if idle.connections.len() >= IDLE_BACKENDS_MAX && !idle.connections.contains_key(&to) {
            return;
        }
        let of_backend = idle.connections.entry(to).or_default();
        if of_backend.len() < IDLE_PER_BACKEND_MAX {
            of_backend.push((connection, Instant::now()));
        }
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
    }

    /// Closes connections that were idle for too long or whose backend closed them. Returns whether any are left.
    fn close_ended(&self) -> bool {
        let mut idle = self.idle();
        idle.connections.retain(|_, of_backend| {
            of_backend
                .retain_mut(|(connection, since)| since.elapsed() < IDLE_TIME_MAX && connection.is_usable());
            !of_backend.is_empty()
        });
        idle.is_swept = !idle.connections.is_empty();
        idle.is_swept
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes connections that ended, until none is left or the transport is gone.
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        if !pool.upgrade().is_some_and(|pool| pool.close_ended()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialer, Transport, empty_body};
    use bytes::Bytes;
    use http::Request;
    use http_body::Frame;
    use http_body_util::BodyExt;
    use std::future::Future;
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    /// A backend that runs `serve` for each connection, and how many connections it has had.
    async fn backend<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> (Address, Arc<AtomicUsize>)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&accepted);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::Relaxed);
                tokio::spawn(serve(stream));
            }
        });
        (Address { tls: false, host: "127.0.0.1".to_string(), port, checked: Vec::new() }, accepted)
    }

    async fn read_head(stream: &mut TcpStream) -> bool {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return false,
            }
        }
        true
    }

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

    async fn get(transport: &Transport, to: &Address) -> Bytes {
        let mut request = Request::new(empty_body());
        request.headers_mut().insert("host", "backend".parse().unwrap());
        let response = transport.send(to, request).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    }

    #[tokio::test]
    async fn a_connection_is_used_again() {
        let serve = |mut stream: TcpStream| async move {
            while read_head(&mut stream).await {
                stream.write_all(ANSWER).await.unwrap();
            }
        };
        let (to, accepted) = backend(serve).await;
        let transport = Transport::new(Dialer::Direct, None);
        for _ in 0..3 {
            assert_eq!(get(&transport, &to).await, "hello");
        }
        assert_eq!(accepted.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_connection_that_the_backend_closed_is_not_used_again() {
        let serve = |mut stream: TcpStream| async move {
            read_head(&mut stream).await;
            stream.write_all(ANSWER).await.unwrap();
        };
        let (to, accepted) = backend(serve).await;
        let transport = Transport::new(Dialer::Direct, None);
        for _ in 0..3 {
            assert_eq!(get(&transport, &to).await, "hello");
        }
        assert_eq!(accepted.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn closed_connections_do_not_stay_in_the_pool() {
        let (close, closed) = tokio::sync::watch::channel(false);
        let serve = move |mut stream: TcpStream| {
            let mut closed = closed.clone();
            async move {
                read_head(&mut stream).await;
                stream.write_all(ANSWER).await.unwrap();
                _ = closed.changed().await;
            }
        };
        let (to, _) = backend(serve).await;
        let transport = Transport::new(Dialer::Direct, None);
        get(&transport, &to).await;
        assert!(transport.pool.close_ended(), "an open connection stays");
        close.send_replace(true);
        for _ in 0..100 {
            if !transport.pool.close_ended() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the closed connection is still there");
    }

    #[tokio::test]
    async fn a_part_of_a_body_arrives_before_the_next_is_sent() {
        let (next, sent) = tokio::sync::watch::channel(0);
        let serve = move |mut stream: TcpStream| {
            let mut sent = sent.clone();
            async move {
                read_head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
                for part in [&b"3\r\none\r\n"[..], b"3\r\ntwo\r\n", b"0\r\n\r\n"] {
                    stream.write_all(part).await.unwrap();
                    _ = sent.changed().await;
                }
            }
        };
        let (to, _) = backend(serve).await;
        let transport = Transport::new(Dialer::Direct, None);
        let mut body = transport.send(&to, Request::new(empty_body())).await.unwrap().into_body();
        for (number, want) in ["one", "two"].into_iter().enumerate() {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), want);
            next.send_replace(number + 1);
        }
        assert!(body.frame().await.is_none());
    }

    /// The body of a client that sends nothing.
    struct Unfinished;

    impl http_body::Body for Unfinished {
        type Data = Bytes;
        type Error = crate::BoxError;

        fn poll_frame(
            self: Pin<&mut Self>,
            _cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn a_connection_whose_request_is_not_read_to_its_end_is_not_used_again() {
        let serve = |mut stream: TcpStream| async move {
            read_head(&mut stream).await;
            stream.write_all(ANSWER).await.unwrap();
            // The rest of the request is not read.
            std::future::pending::<()>().await;
        };
        let (to, accepted) = backend(serve).await;
        let transport = Transport::new(Dialer::Direct, None);
        let mut request = Request::new(Unfinished.boxed_unsync());
        *request.method_mut() = http::Method::POST;
        let response = transport.send(&to, request).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
        assert_eq!(get(&transport, &to).await, "hello");
        assert_eq!(accepted.load(Ordering::Relaxed), 2);
    }
}
