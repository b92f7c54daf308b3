//! Reads a body into one piece of memory. A body may arrive in chunks of a byte each. A list of them would take thirty times
//! as much memory as the body, and keep the buffers that they were read into.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use std::pin::pin;

use crate::BoxError;

/// Reads a body of at most `bytes_max` bytes. Returns `http_body_util::LengthLimitError` if it is longer.
pub async fn read_whole<B>(body: B, bytes_max: usize) -> Result<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    let mut body = pin!(Limited::new(body, bytes_max));
    let mut whole = WholeBody::default();
    while let Some(frame) = body.as_mut().frame().await {
        if let Ok(chunk) = frame?.into_data() {
            whole.push(chunk);
        }
    }
    Ok(whole.into_bytes())
}

/// The chunks of a body that have arrived, joined.
#[derive(Default)]
pub struct WholeBody {
    /// Most bodies have a single chunk, which is not copied.
    first: Bytes,
    joined: Vec<u8>,
}

impl WholeBody {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.first.len().saturating_add(self.joined.len())
    }

    /// Returns whether there are no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Allocates memory for a body of this length at once. Otherwise it grows by doubling, which takes twice as much.
    pub fn reserve(&mut self, length: usize) {
        self.joined.reserve_exact(length.saturating_sub(self.joined.len()));
    }

    /// Appends a chunk.
    pub fn push(&mut self, chunk: Bytes) {
        if self.is_empty() && self.joined.capacity() == 0 {
            self.first = chunk;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&chunk);
    }

    /// Returns the body.
    pub fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::LengthLimitError;
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    struct Chunked(VecDeque<&'static str>);

    impl http_body::Body for Chunked {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(self.0.pop_front().map(|text| Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
        }
    }

    #[tokio::test]
    async fn chunks_are_joined_up_to_the_limit() {
        for chunks in [&[][..], &["", ""], &["abcd"], &["", "abcd", ""], &["a", "", "bc", "d"]] {
            let body = || Chunked(chunks.iter().copied().collect());
            assert_eq!(read_whole(body(), 4).await.unwrap(), chunks.concat());
            if !chunks.concat().is_empty() {
                assert!(read_whole(body(), 3).await.unwrap_err().is::<LengthLimitError>());
            }
        }
    }
}
