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
    // Most bodies have a single chunk, which is not copied.
    let mut first = Bytes::new();
    let mut joined = Vec::new();
    while let Some(frame) = body.as_mut().frame().await {
        let Ok(chunk) = frame?.into_data() else { continue };
        if first.is_empty() && joined.is_empty() {
            first = chunk;
            continue;
        }
        if joined.is_empty() {
            joined.extend_from_slice(&std::mem::take(&mut first));
        }
        joined.extend_from_slice(&chunk);
    }
    Ok(if joined.is_empty() { first } else { joined.into() })
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
