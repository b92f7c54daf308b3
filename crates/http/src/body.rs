//! The content of requests ([`ClientBody`]) and of answers ([`Body`]).

use crate::respond;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use http_body_util::LengthLimitError;
use pintle_meta::Status;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The body of a client's request.
pub(crate) trait ClientBody:
    http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

impl<B> ClientBody for B where
    B: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static
{
}

/// Reads the body of a request. One that is longer than `bytes_max` is refused.
pub(crate) async fn read_whole<B: ClientBody>(body: B, bytes_max: usize) -> Result<Bytes, Status> {
    pintle_proxy::read_whole(body, bytes_max).await.map_err(|error| unread_body(error, bytes_max))
}

/// The answer to a request whose body could not be read.
pub(crate) fn unread_body(error: Box<dyn std::error::Error + Send + Sync>, bytes_max: usize) -> Status {
    if error.is::<LengthLimitError>() {
        respond::too_large(bytes_max)
    } else {
        Status::bad_request(error.to_string())
    }
}

/// The body of an answer.
pub enum Body {
    /// The whole content.
    Full(Bytes),
    /// Chunks, each produced when the connection can send it.
    Chunks(Pin<Box<dyn Chunks>>),
}

/// The answer ended prematurely; the connection is closed so that the client notices.
#[derive(Debug, thiserror::Error)]
#[error("the answer was cut off: {0}")]
pub struct Aborted(pub String);

/// Makes the pieces of a body.
pub trait Chunks: Send {
    /// The next chunk; `None` at the end.
    fn poll_chunk(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>>;

    /// How many bytes remain, if that is known.
    fn remaining(&self) -> Option<u64> {
        None
    }

    /// Returns whether more than this many bytes remain.
    fn has_more_than(self: Pin<&mut Self>, bytes: u64) -> bool {
        self.remaining().is_some_and(|remaining| remaining > bytes)
    }

    /// The compressed content, if it is cached. Only called before the first chunk.
    fn compressed(&self) -> Option<Pin<Box<dyn Chunks>>> {
        None
    }
}

impl Body {
    /// Returns a body without content.
    pub const fn empty() -> Self {
        Body::Full(Bytes::new())
    }

    /// A body of the iterator's chunks, each produced when it is needed. `total` is the sum of their sizes, if known:
    /// it becomes the `Content-Length` and decides about compression.
    pub fn lazy(chunks: impl Iterator<Item = Bytes> + Send + Unpin + 'static, total: Option<u64>) -> Self {
        Body::Chunks(Box::pin(Lazy { chunks: chunks.map(Ok), ready: VecDeque::new(), remaining: total }))
    }

    /// Like `lazy`, for chunks that may fail, which ends the answer prematurely.
    pub fn attempt(chunks: impl Iterator<Item = Result<Bytes, Aborted>> + Send + Unpin + 'static) -> Self {
        Body::Chunks(Box::pin(Lazy { chunks, ready: VecDeque::new(), remaining: None }))
    }

    /// Returns whether the body has more than this many bytes.
    pub fn has_more_than(&mut self, bytes: u64) -> bool {
        match self {
            Body::Full(all) => length(all) > bytes,
            Body::Chunks(chunks) => chunks.as_mut().has_more_than(bytes),
        }
    }

    /// The size in bytes, if it is known.
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
    /// Chunks that were produced ahead to find out the size.
    ready: VecDeque<Result<Bytes, Aborted>>,
    remaining: Option<u64>,
}

impl<I: Iterator<Item = Result<Bytes, Aborted>> + Send + Unpin> Chunks for Lazy<I> {
    fn poll_chunk(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let this = &mut *self;
        let chunk = this.ready.pop_front().or_else(|| this.chunks.next());
        if let (Some(Ok(chunk)), Some(remaining)) = (&chunk, &mut this.remaining) {
            *remaining = remaining.saturating_sub(length(chunk));
        }
        Poll::Ready(chunk)
    }

    fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    fn has_more_than(mut self: Pin<&mut Self>, bytes: u64) -> bool {
        if let Some(remaining) = self.remaining {
            return remaining > bytes;
        }
        let mut ready: u64 = self.ready.iter().flatten().map(length).sum();
        while ready <= bytes {
            let Some(chunk) = self.chunks.next() else { return false };
            ready = ready.saturating_add(chunk.as_ref().map_or(0, length));
            self.ready.push_back(chunk);
        }
        true
    }
}

fn length(chunk: &Bytes) -> u64 {
    u64::try_from(chunk.len()).unwrap_or(0)
}
