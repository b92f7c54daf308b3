//! `ClientStream`: a TCP connection with a write time-out, which reads when it is its turn. A client that reads nothing for
//! too long is disconnected, so that unread answers do not stay in memory.

use crate::turns::{ClientTurns, Turn};
use pintle_proxy::WriteTimeout;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long the client of a connection may leave a full buffer unread.
pub(crate) struct UnreadLimit {
    answers: Duration,
    upgraded: Duration,
    is_upgraded: AtomicBool,
}

impl UnreadLimit {
    /// `answers` applies until the connection is upgraded, `upgraded` from then on.
    pub(crate) fn new(answers: Duration, upgraded: Duration) -> Self {
        UnreadLimit { answers, upgraded, is_upgraded: AtomicBool::new(false) }
    }

    /// Switches to the longer limit: a stream that is piped into a pager waits for a person.
    pub(crate) fn set_upgraded(&self) {
        self.is_upgraded.store(true, Ordering::Relaxed);
    }

    fn duration(&self) -> Duration {
        if self.is_upgraded.load(Ordering::Relaxed) { self.upgraded } else { self.answers }
    }
}

/// A connection to a client.
pub(crate) struct ClientStream {
    tcp: TcpStream,
    turns: Arc<ClientTurns>,
    /// The turn that the next read waits for.
    turn: Option<Turn>,
    /// Whether the connection has its turn to read.
    may_read: bool,
    unread_limit: Arc<UnreadLimit>,
    write_timeout: WriteTimeout,
}

impl ClientStream {
    /// Wraps a connection, which is closed when the client leaves a full buffer unread for longer than the limit.
    pub(crate) fn new(tcp: TcpStream, turns: Arc<ClientTurns>, unread_limit: Arc<UnreadLimit>) -> Self {
        let write_timeout = WriteTimeout::default();
        ClientStream { tcp, turns, turn: None, may_read: false, unread_limit, write_timeout }
    }

    fn checked(&mut self, written: Poll<Result<usize>>, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.write_timeout.check(written, self.unread_limit.duration(), cx)
    }
}

impl AsyncRead for ClientStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if !this.may_read {
            // A turn is for those that can use it at once: a connection that waits for its client has none.
            if this.turn.is_none() {
                ready!(this.tcp.poll_read_ready(cx))?;
            }
            ready!(this.turns.poll_read_turn(&mut this.turn, cx));
            this.may_read = true;
        }
        let read = Pin::new(&mut this.tcp).poll_read(cx, buf);
        this.may_read = read.is_pending();
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        let written = Pin::new(&mut self.tcp).poll_write(cx, buf);
        self.checked(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let tcp = Pin::new(&mut self.tcp);
        // Most answers and all events are a single TLS record, and the kernel has a faster path for a single buffer.
        let written = match bufs {
            [one] => tcp.poll_write(cx, one),
            many => tcp.poll_write_vectored(cx, many),
        };
        self.checked(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    async fn connected(limit: UnreadLimit) -> (ClientStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        let turns = ClientTurns::new(Arc::default(), std::net::Ipv4Addr::LOCALHOST.into());
        (ClientStream::new(tcp, Arc::new(turns), Arc::new(limit)), client)
    }

    async fn write_until_error(stream: &mut ClientStream) -> Error {
        let piece = [0; 64 * 1024];
        loop {
            if let Err(error) = stream.write_all(&piece).await {
                return error;
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_cut_off() {
        let limit = UnreadLimit::new(Duration::from_millis(20), Duration::MAX);
        let (mut stream, _client) = connected(limit).await;
        assert_eq!(write_until_error(&mut stream).await.kind(), ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn an_upgraded_connection_has_its_own_limit() {
        let limit = UnreadLimit::new(Duration::from_secs(3600), Duration::from_millis(20));
        limit.set_upgraded();
        let (mut stream, _client) = connected(limit).await;
        assert_eq!(write_until_error(&mut stream).await.kind(), ErrorKind::TimedOut);
    }
}
