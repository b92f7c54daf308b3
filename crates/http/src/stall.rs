//! Connections whose other side does not read: a write that makes no progress for too long ends the connection, so
//! that what waits to be sent does not wait for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream that fails when it cannot be written to for as long as `unread_max`.
pub(crate) struct Unstalled<S> {
    stream: S,
    unread_max: Duration,
    /// When a write that waits is given up.
    timer: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl<S> Unstalled<S> {
    pub(crate) fn new(stream: S, unread_max: Duration) -> Self {
        Unstalled { stream, unread_max, timer: None, waits: false }
    }

    /// What a write says, unless it has waited too long.
    fn within<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.waits = false;
            return poll;
        }
        let unread_max = self.unread_max;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(unread_max)));
        if !self.waits {
            self.waits = true;
            timer.as_mut().reset(Instant::now() + unread_max);
        }
        match timer.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client does not read")))
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstalled<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstalled<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.within(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.within(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, poll)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn who_reads_stays_and_who_does_not_is_cut_off() {
        let (mut client, server) = tokio::io::duplex(4);
        let mut server = Unstalled::new(server, Duration::from_millis(50));
        let reader = tokio::spawn(async move {
            client.read_exact(&mut [0; 12]).await.unwrap();
            client
        });
        server.write_all(&[1; 16]).await.unwrap();
        let _unread = reader.await.unwrap();
        let began = Instant::now();
        let error = server.write_all(&[2; 4]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= Duration::from_millis(50));
    }
}
