//! `ReadAhead`: reads more at once than rustls requests. rustls reads 4 KB of a TLS record of up to 16 KB at a time, which is
//! a system call for each.

use std::future::Future;
use std::io::{IoSlice, Result};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The number of bytes read at once while the other side sends without a pause.
const BUFFER_BYTES: usize = 64 * 1024;
/// How many of the first bytes are retained: enough to detect a server without TLS.
const FIRST_BYTES: usize = 5;

/// A stream that has a read buffer only while more arrives than the reader requests.
pub(crate) struct ReadAhead<S> {
    stream: S,
    /// Bytes that were read, and how many of them the reader has received.
    buffer: Vec<u8>,
    taken: usize,
    /// Whether the last read of the stream returned as much as was requested.
    is_busy: bool,
    first: Vec<u8>,
}

impl<S> ReadAhead<S> {
    /// Wraps a stream.
    pub(crate) fn new(stream: S) -> Self {
        ReadAhead { stream, buffer: Vec::new(), taken: 0, is_busy: false, first: Vec::new() }
    }

    /// The first bytes of the other side.
    pub(crate) fn first(&self) -> &[u8] {
        &self.first
    }
}

impl<S: AsyncRead + Unpin> ReadAhead<S> {
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize>> {
        self.taken = 0;
        self.buffer.clear();
        self.buffer.reserve_exact(BUFFER_BYTES);
        let read = pin!(self.stream.read_buf(&mut self.buffer)).poll(cx);
        if read.is_pending() {
            self.buffer = Vec::new();
            self.is_busy = false;
        }
        read
    }

    /// Moves bytes of the buffer to `buf`; returns how many.
    fn give(&mut self, buf: &mut ReadBuf<'_>) -> usize {
        let left = self.buffer.get(self.taken..).unwrap_or_default();
        let count = left.len().min(buf.remaining());
        buf.put_slice(left.get(..count).unwrap_or_default());
        self.taken = self.taken.saturating_add(count);
        count
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadAhead<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        if this.give(buf) > 0 {
            return Poll::Ready(Ok(()));
        }
        if this.is_busy {
            ready!(this.poll_fill(cx))?;
            this.give(buf);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buf))?;
        this.is_busy = buf.remaining() == 0;
        if this.first.len() < FIRST_BYTES {
            let room = FIRST_BYTES.saturating_sub(this.first.len());
            let came = buf.filled().get(before..).unwrap_or_default();
            this.first.extend(came.iter().take(room));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadAhead<S> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    #[tokio::test]
    async fn bytes_arrive_in_order_and_the_buffer_is_given_back() {
        let (mut far, near) = tokio::io::duplex(100_000);
        let mut near = ReadAhead::new(near);
        let sent: Vec<u8> = (0..90_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        far.write_all(&sent).await.unwrap();
        let (mut got, mut piece) = (Vec::new(), [0; 4096]);
        while got.len() < sent.len() {
            let size = near.read(&mut piece).await.unwrap();
            got.extend_from_slice(piece.get(..size).unwrap());
        }
        assert_eq!(got, sent);
        assert_eq!(near.first(), &[0, 1, 2, 3, 4]);
        let mut reading = pin!(near.read(&mut piece));
        std::future::poll_fn(|cx| {
            assert!(reading.as_mut().poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(near.buffer.capacity(), 0);
        far.write_all(b"more").await.unwrap();
        assert_eq!(near.read(&mut piece).await.unwrap(), 4);
        drop(far);
        assert_eq!(near.read(&mut piece).await.unwrap(), 0);
    }
}
