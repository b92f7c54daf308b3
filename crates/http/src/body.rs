//! `Body`: what an answer consists of, at once or chunk by chunk.

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of an answer.
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// Piece by piece, made when the connection can take it.
    Chunks(Pin<Box<dyn Chunks>>),
}

/// An answer ended before its end; the connection is cut so that the client knows.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut off: {0}")]
pub struct Aborted(pub String);

/// Makes the pieces of a body.
pub trait Chunks: Send {
    /// The next piece; `None` at the end.
    fn poll_chunk(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>>;

    /// How many bytes are to come, where that is known.
    fn remaining(&self) -> Option<u64> {
        None
    }
}

impl Body {
    /// Nothing.
    pub const fn empty() -> Self {
        Body::Full(Bytes::new())
    }

    /// The pieces of an iterator, each made when it is needed. `total` is the sum of their sizes, where known:
    /// it becomes the `Content-Length` and decides whether compression is worth it.
    pub fn lazy(chunks: impl Iterator<Item = Bytes> + Send + Unpin + 'static, total: Option<u64>) -> Self {
        Body::Chunks(Box::pin(Lazy { chunks, remaining: total }))
    }

    /// How many bytes there are, where that is known.
    pub fn size(&self) -> Option<u64> {
        match self {
            Body::Full(bytes) => u64::try_from(bytes.len()).ok(),
            Body::Chunks(chunks) => chunks.remaining(),
        }
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Body::Full(bytes.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Body::Full(text.into())
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Body::Full(Bytes::from_static(text.as_bytes()))
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Body::Full(bytes)
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        match &mut *self {
            Body::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Chunks(chunks) => chunks.as_mut().poll_chunk(cx).map(|c| c.map(|c| c.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Full(bytes) => bytes.is_empty(),
            Body::Chunks(chunks) => chunks.remaining() == Some(0),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.size().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

struct Lazy<I> {
    chunks: I,
    remaining: Option<u64>,
}

impl<I: Iterator<Item = Bytes> + Send + Unpin> Chunks for Lazy<I> {
    fn poll_chunk(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let chunk = self.chunks.next();
        if let (Some(chunk), Some(remaining)) = (&chunk, &mut self.remaining) {
            *remaining = remaining.saturating_sub(u64::try_from(chunk.len()).unwrap_or(0));
        }
        Poll::Ready(chunk.map(Ok))
    }

    fn remaining(&self) -> Option<u64> {
        self.remaining
    }
}
