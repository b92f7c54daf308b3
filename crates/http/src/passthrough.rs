//! Requests that another server answers: adapts hyper's types to the reverse proxy.

use crate::api::ApiResponse;
use crate::body::{Aborted, Body, Chunks, ClientBody};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::BodyExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use pintle_proxy::header::IdentityHeaders;
use pintle_proxy::{ProxyBody, RequestBody, Upgraded, tunnel};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::time::Sleep;

/// The number of bytes that a backend may send before other tasks get their turn.
const TURN_BYTES: usize = 1024 * 1024;

/// The host that a request names.
pub(crate) fn host(parts: &Parts) -> String {
    let named = parts.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
    named.or_else(|| parts.uri.authority().map(http::uri::Authority::as_str)).unwrap_or("").to_string()
}

/// The headers to forward: all except credentials and identity claims.
pub(crate) fn headers(parts: &Parts, identity: &IdentityHeaders) -> HeaderMap {
    let mut headers = parts.headers.clone();
    identity.remove(&mut headers);
    crate::websocket::remove_token(&mut headers);
    headers
}

/// Wraps a request's body for the proxy.
pub(crate) fn body<B: ClientBody>(body: B) -> RequestBody {
    body.map_err(Into::into).boxed_unsync()
}

/// Wraps a backend's answer. `deadline` ends its body; streams have none.
pub(crate) fn answer(response: Response<ProxyBody>, deadline: Option<Instant>) -> ApiResponse {
    let (parts, body) = response.into_parts();
    let mut headers = parts.headers;
    // Go's server omits these headers in answers without a body.
    if matches!(parts.status.as_u16(), 204 | 304) {
        headers.remove(CONTENT_LENGTH);
    }
    if parts.status == StatusCode::NOT_MODIFIED {
        headers.remove(CONTENT_TYPE);
    }
    if let Some(theirs) = headers.remove(CACHE_CONTROL) {
        // As in kube-apiserver, both values are sent, ours first.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        headers.append(CACHE_CONTROL, theirs);
    }
    let deadline = deadline.map(|at| Box::pin(tokio::time::sleep_until(at.into())));
    let chunks = Forwarded { body, deadline, turn: 0 };
    ApiResponse {
        code: parts.status.as_u16(),
        headers,
        warnings: Vec::new(),
        body: Body::Chunks(Box::pin(chunks)),
        is_acceptable: true,
    }
}

/// Answers a client whose backend switched protocols. Bytes flow once the client's connection has switched as well.
pub(crate) fn switch(parts: &Parts, head: Response<()>, backend: Upgraded) -> ApiResponse {
    let Some(upgrade) = parts.extensions.get::<OnUpgrade>().cloned() else {
        return crate::respond::text(500, "request connection cannot be hijacked");
    };
    // This task ends when either side closes.
    tokio::spawn(async move {
        if let Ok(client) = upgrade.await {
            tunnel::join(TokioIo::new(client), backend).await;
        }
    });
    let mut response = ApiResponse::empty(101);
    response.headers = head.into_parts().0.headers;
    response
}

/// The body of a backend's answer.
struct Forwarded {
    body: ProxyBody,
    deadline: Option<Pin<Box<Sleep>>>,
    /// The number of bytes forwarded since other tasks got their turn.
    turn: usize,
}

impl Chunks for Forwarded {
    fn poll_chunk(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        if self.turn >= TURN_BYTES {
            self.turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Some(Err(Aborted("the time for the request is over".to_string()))));
        }
        let polled = Pin::new(&mut self.body).poll_chunk(cx);
        self.turn = match &polled {
            Poll::Ready(Some(Ok(chunk))) => self.turn.saturating_add(chunk.len()),
            _ => 0,
        };
        polled.map(|piece| piece.map(|piece| piece.map_err(|error| Aborted(error.to_string()))))
    }

    fn remaining(&self) -> Option<u64> {
        self.body.remaining()
    }

    /// Proxied answers are forwarded unchanged, never compressed here.
    fn has_more_than(self: Pin<&mut Self>, _bytes: u64) -> bool {
        false
    }
}
