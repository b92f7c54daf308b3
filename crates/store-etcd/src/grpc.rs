//! gRPC calls on one HTTP/2 connection: requests, answers, status. Knows no messages.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Uri};

/// The largest request that is sent, as in etcd's own client.
pub(crate) const REQUEST_BYTES_MAX: usize = 2 << 20;
/// The largest message that is taken. etcd does not limit the answers to ranges; pages do.
const RESPONSE_BYTES_MAX: usize = 1 << 30;
/// In front of each message: whether it is compressed, and its length.
const FRAME_HEADER_BYTES: usize = 5;

/// The gRPC codes that are distinguished here.
pub(crate) mod code {
    pub(crate) const DEADLINE_EXCEEDED: u32 = 4;
    pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(crate) const OUT_OF_RANGE: u32 = 11;
    pub(crate) const UNAVAILABLE: u32 = 14;
}

/// Why a call has no response.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request did not leave this process.
    #[error("{0}")]
    NotSent(String),
    /// The connection broke before the response: whether the request was executed is unknown.
    #[error("{0}")]
    Lost(String),
    /// etcd answered with a status.
    #[error("{message}")]
    Status {
        /// The gRPC code.
        code: u32,
        /// etcd's message.
        message: String,
    },
}

impl CallError {
    pub(crate) fn malformed(error: &crate::wire::Malformed) -> CallError {
        CallError::Lost(error.to_string())
    }
}

/// Sends one request and waits for the response. If `requires_leader`, a member without a leader returns an error at
/// once.
pub(crate) async fn unary(
    sender: SendRequest<Bytes>,
    uri: Uri,
    message: &Bytes,
    requires_leader: bool,
) -> Result<Bytes, CallError> {
    let (response, mut body) = start(sender, uri, requires_leader).await?;
    body.send_data(frame(message), true).map_err(|error| CallError::Lost(error.to_string()))?;
    let mut messages = Messages::open(response).await?;
    let first = messages.next().await?;
    // The status comes after the message.
    if messages.next().await?.is_some() {
        return Err(CallError::Lost("two answers to one request".into()));
    }
    first.ok_or_else(|| CallError::Lost("no answer".into()))
}

/// Sends one message and leaves the request open.
pub(crate) async fn stream(
    sender: SendRequest<Bytes>,
    uri: Uri,
    message: &Bytes,
) -> Result<(SendStream<Bytes>, Messages), CallError> {
    let (response, mut body) = start(sender, uri, true).await?;
    body.send_data(frame(message), false).map_err(|error| CallError::Lost(error.to_string()))?;
    Ok((body, Messages::open(response).await?))
}

async fn start(
    sender: SendRequest<Bytes>,
    uri: Uri,
    requires_leader: bool,
) -> Result<(ResponseFuture, SendStream<Bytes>), CallError> {
    let not_sent = |error: h2::Error| CallError::NotSent(error.to_string());
    let mut sender = sender.ready().await.map_err(not_sent)?;
    let mut request = Request::post(uri)
        .version(http::Version::HTTP_2)
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    if requires_leader {
        // A member that lost its leader ends the stream instead of staying silent.
        request = request.header("hasleader", "true");
    }
    let request = request.body(()).map_err(|error| CallError::NotSent(error.to_string()))?;
    sender.send_request(request, false).map_err(not_sent)
}

fn frame(message: &Bytes) -> Bytes {
    let mut out = BytesMut::with_capacity(FRAME_HEADER_BYTES.saturating_add(message.len()));
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.put_slice(message);
    out.freeze()
}

/// The messages of an answer.
pub(crate) struct Messages {
    body: Option<RecvStream>,
    buffer: BytesMut,
}

impl Messages {
    async fn open(response: ResponseFuture) -> Result<Messages, CallError> {
        let response = response.await.map_err(|error| CallError::Lost(error.to_string()))?;
        let (parts, body) = response.into_parts();
        if parts.status != http::StatusCode::OK {
            return Err(CallError::Lost(format!("HTTP status {}", parts.status)));
        }
        // An answer without messages has its status in the headers.
        if parts.headers.contains_key("grpc-status") {
            check_status(&parts.headers)?;
        }
        Ok(Messages { body: Some(body), buffer: BytesMut::new() })
    }

    /// The next message; `None` at the end of a successful response.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, CallError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let Some(body) = &mut self.body else { return Ok(None) };
            match body.data().await {
                Some(Ok(chunk)) => {
                    // This fails only if more is released than was received.
                    let _ = body.flow_control().release_capacity(chunk.len());
                    self.buffer.extend_from_slice(&chunk);
                }
                Some(Err(error)) => return Err(CallError::Lost(error.to_string())),
                None => {
                    let trailers =
                        body.trailers().await.map_err(|error| CallError::Lost(error.to_string()))?;
                    self.body = None;
                    check_status(&trailers.unwrap_or_default())?;
                }
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, CallError> {
        let Some(header) = self.buffer.get(..FRAME_HEADER_BYTES) else { return Ok(None) };
        let length = usize::try_from(header.get(1..).unwrap_or_default().get_u32()).unwrap_or(usize::MAX);
        if header.first() != Some(&0) || length > RESPONSE_BYTES_MAX {
            return Err(CallError::Lost("a message that is compressed or too large".into()));
        }
        let missing = FRAME_HEADER_BYTES.saturating_add(length).saturating_sub(self.buffer.len());
        if missing > 0 {
            self.buffer.reserve(missing);
            return Ok(None);
        }
        self.buffer.advance(FRAME_HEADER_BYTES);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

fn check_status(headers: &HeaderMap) -> Result<(), CallError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status").and_then(|code| code.parse().ok());
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            Err(CallError::Status { code, message: unescape(text("grpc-message").unwrap_or_default()) })
        }
        None => Err(CallError::Lost("the answer has no status".into())),
    }
}

/// gRPC escapes messages as URLs do.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_unescaped() {
        for (given, expected) in
            [("etcdserver: no leader", "etcdserver: no leader"), ("a%20b%", "a b%"), ("%zz", "%zz")]
        {
            assert_eq!(unescape(given), expected);
        }
    }
}
