//! The body of a proxied HTML page while its links are rewritten. A compressed page can expand a thousandfold, so only
//! a small part is rewritten at once, and other tasks run in between.

use crate::BoxError;
use crate::forward::poll_data;
use crate::rewrite::Page;
use bytes::Bytes;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Reads the page from `B` and returns it with rewritten links.
pub struct PageBody<B> {
    body: B,
    /// What was read from the body and not rewritten yet.
    unread: Bytes,
    /// `None` after the end of the page.
    page: Option<Page>,
}

impl<B> PageBody<B>
where
    B: http_body::Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    pub(crate) fn new(body: B, page: Page) -> Self {
        PageBody { body, unread: Bytes::new(), page: Some(page) }
    }

    /// The next chunk; `None` at the end.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        let Some(page) = self.page.as_mut() else { return Poll::Ready(None) };
        if self.unread.is_empty() {
            match ready!(poll_data(Pin::new(&mut self.body), cx)).transpose()? {
                Some(read) => self.unread = read,
                None => return Poll::Ready(self.finish()),
            }
        }
        let part = self.unread.split_to(page.bytes_at_once().min(self.unread.len()));
        let rewritten = page.push(&part)?;
        if rewritten.is_empty() {
            // The part ends within a tag, or the compressor has not produced anything yet. Other tasks of this thread
            // run before the next part.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(rewritten)))
    }

    fn finish(&mut self) -> Option<Result<Bytes, BoxError>> {
        match self.page.take()?.finish() {
            Ok(rewritten) if rewritten.is_empty() => None,
            Ok(rewritten) => Some(Ok(rewritten)),
            Err(error) => Some(Err(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rewrite::Links;
    use flate2::Compression;
    use flate2::write::{GzDecoder, GzEncoder};
    use http_body_util::Full;
    use std::io::Write;

    #[test]
    fn a_compressed_page_that_expands_lets_other_tasks_run() {
        const PLAIN_BYTES: usize = 4 << 20;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![b'x'; PLAIN_BYTES]).unwrap();
        let compressed = encoder.finish().unwrap();
        let parts = compressed.len() / 1024;
        assert!(parts > 2, "{} bytes", compressed.len());

        let page = Page::new(Links::default(), "gzip").unwrap();
        let mut body = PageBody::new(Full::new(Bytes::from(compressed)), page);
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let (mut polls, mut decoder) = (0, GzDecoder::new(Vec::new()));
        loop {
            polls += 1;
            match body.poll_chunk(&mut cx) {
                Poll::Ready(Some(chunk)) => decoder.write_all(&chunk.unwrap()).unwrap(),
                Poll::Ready(None) => break,
                Poll::Pending => {}
            }
        }
        assert_eq!(decoder.finish().unwrap().len(), PLAIN_BYTES);
        assert!(polls > parts, "{polls} polls for {parts} parts");
    }
}
