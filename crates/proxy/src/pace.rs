//! Streams that carry no more than so many bytes a second in each direction (`--max-connection-bytes-per-sec`).

use crate::dial::BoxStream;
use std::future::Future;
use std::io::{IoSlice, Result};
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many steps a second has: as many bytes as one step allows are carried at once.
const STEPS_PER_SECOND: u64 = 10;

/// A stream with a limited rate.
pub(crate) struct Paced {
    stream: BoxStream,
    reads: Pace,
    writes: Pace,
}

impl Paced {
    pub(crate) fn new(stream: BoxStream, bytes_per_second: NonZeroU64) -> Self {
        Paced { stream, reads: Pace::new(bytes_per_second), writes: Pace::new(bytes_per_second) }
    }
}

/// The rate limit of one direction.
struct Pace {
    bytes_per_second: NonZeroU64,
    /// The time from which further bytes may be carried.
    free_at: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new(bytes_per_second: NonZeroU64) -> Self {
        Pace { bytes_per_second, free_at: Instant::now(), pause: None }
    }

    /// How many bytes may be carried at once, as soon as any may.
    fn poll_allowed(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if Instant::now() < self.free_at {
            let free_at = self.free_at;
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep_until(free_at)));
            if pause.deadline() != free_at {
                pause.as_mut().reset(free_at);
            }
            ready!(pause.as_mut().poll(cx));
        }
        let step = self.bytes_per_second.get().div_ceil(STEPS_PER_SECOND);
        Poll::Ready(usize::try_from(step).unwrap_or(usize::MAX))
    }

    fn record_bytes(&mut self, bytes: usize) {
        let nanos = u128::try_from(bytes).unwrap_or(u128::MAX).saturating_mul(1_000_000_000);
        let nanos = nanos.checked_div(u128::from(self.bytes_per_second.get())).unwrap_or(0);
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let from = self.free_at.max(Instant::now());
        self.free_at = from.checked_add(cost).unwrap_or(from);
    }
}

impl AsyncRead for Paced {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let allowed = ready!(self.reads.poll_allowed(cx)).min(buffer.remaining());
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(allowed));
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut part))?;
        let size = part.filled().len();
        buffer.advance(size);
        self.reads.record_bytes(size);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Paced {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let allowed = ready!(self.writes.poll_allowed(cx));
        let part = bytes.get(..allowed).unwrap_or(bytes);
        let size = ready!(Pin::new(&mut self.stream).poll_write(cx, part))?;
        self.writes.record_bytes(size);
        Poll::Ready(Ok(size))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let first = slices.iter().find(|slice| !slice.is_empty());
        self.poll_write(cx, first.map_or(&[], |slice| slice))
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn both_directions_take_the_time_that_the_rate_demands() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let mut paced = Paced::new(Box::new(near), NonZeroU64::new(10_000).unwrap());
        let began = Instant::now();
        paced.write_all(&[1; 3000]).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(190));
        far.read_exact(&mut [0; 3000]).await.unwrap();
        far.write_all(&[2; 3000]).await.unwrap();
        let (began, mut seen) = (Instant::now(), [0; 3000]);
        paced.read_exact(&mut seen).await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(190));
        assert_eq!(seen, [2; 3000]);
    }
}
