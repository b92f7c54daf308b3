//! Write time-outs: a connection whose other side reads nothing for too long is closed, so that unread data does not stay
//! in memory.

use std::future::Future;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a side of a proxied stream may leave a full buffer unread. Streams wait for people (`kubectl exec … | less`),
/// so this is longer than for responses.
const STALL_MAX: Duration = Duration::from_secs(5 * 60);

/// A stream that fails when a write makes no progress for too long.
pub(crate) struct StallGuard<S> {
    stream: S,
    limit: Duration,
    timeout: WriteTimeout,
}

/// The time-out of a stream's writes.
#[derive(Default)]
pub struct WriteTimeout {
    /// Created when the other side first falls behind; most never do.
    timer: Option<Pin<Box<Sleep>>>,
    /// Whether the last write found the buffer full.
    is_full: bool,
}

impl WriteTimeout {
    /// Returns the result of polling a write, or an error if the buffer has been full for longer than `limit`.
    pub fn check<T>(
        &mut self,
        polled: Poll<Result<T>>,
        limit: Duration,
        cx: &mut Context<'_>,
    ) -> Poll<Result<T>> {
        if polled.is_ready() {
            self.is_full = false;
            return polled;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(limit)));
        if !std::mem::replace(&mut self.is_full, true) {
            timer.set(sleep(limit));
        }
        timer.as_mut().poll(cx).map(|()| Err(Error::new(ErrorKind::TimedOut, "the other side does not read")))
    }
}

impl<S> StallGuard<S> {
    /// Closes the connection if the other side leaves a full buffer unread for [`STALL_MAX`].
    pub(crate) fn new(stream: S) -> Self {
        StallGuard { stream, limit: STALL_MAX, timeout: WriteTimeout::default() }
    }

    /// The stream without a limit.
    pub(crate) fn into_inner(self) -> S {
        self.stream
    }

    fn checked<T>(&mut self, polled: Poll<Result<T>>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        self.timeout.check(polled, self.limit, cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.checked(polled, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.checked(polled, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.checked(polled, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn a_reader_that_stalls_is_cut_off() {
        let (near, far) = tokio::io::duplex(64);
        let mut near = StallGuard { limit: Duration::from_millis(20), ..StallGuard::new(near) };
        let error = near.write_all(&[0; 256]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(far);
    }
}
