//! `RequestBody`: the body of a request. The part that the handler does not read is read and discarded for a while.
//!
//! A request can be answered before its body is read: refused credentials, missing rights, a path that leads nowhere. If the
//! body were dropped then, an HTTP/2 stream would be reset and an HTTP/1 connection closed while the client is still
//! sending, and many clients report that instead of the answer.

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How many bytes of a body are discarded at most, and how long that may take. Go's server reads 256 KiB and then keeps
/// the connection half open for 500 ms, in which a client takes the answer; we read on instead, somewhat further than
/// the largest accepted body (`writes/body-too-large.http` refuses one of 3 MiB and a byte because of its media type).
const DRAIN_BYTES_MAX: usize = crate::dispatch::BODY_BYTES_MAX + 1024 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A request's body.
pub(crate) struct RequestBody {
    body: Option<Incoming>,
    drains: bool,
}

impl RequestBody {
    /// Wraps the body of a request, so that the unread part is discarded when it is dropped.
    pub(crate) fn of(request: http::Request<Incoming>) -> http::Request<RequestBody> {
        // A client that waits for `100 Continue` has not sent anything that must be discarded.
        let drains = !request.headers().contains_key(http::header::EXPECT);
        request.map(|body| RequestBody { body: Some(body), drains })
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| self.drains && !body.is_end_stream());
        if let (Some(body), Ok(runtime)) = (body, tokio::runtime::Handle::try_current()) {
            // This task ends by itself after at most a second.
            runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, async {
                let mut body = Limited::new(body, DRAIN_BYTES_MAX);
                while let Some(Ok(_)) = body.frame().await {}
            }));
        }
    }
}
