//! A call whose messages flow both ways until one side ends it.

use crate::{EndOnDrop, FRAME_HEAD, RpcError, check_status, frame, new_request, unavailable};
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

/// The largest message that is received: the default of Go's client.
const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Messages that wait to be sent.
const QUEUED_MESSAGES_MAX: usize = 4;

/// Sends messages of a call; the call's side of it ends when all of its senders are dropped.
#[derive(Clone)]
pub struct Sender(mpsc::Sender<Bytes>);

impl Sender {
    /// Sends a message once there is room for it. The error says that the call has ended.
    pub async fn send(&self, message: &[u8]) -> Result<(), RpcError> {
        let ended = |_| RpcError::new("Unavailable", "the stream is closed");
        self.0.send(frame(message)?).await.map_err(ended)
    }
}

/// Receives messages of a call. Dropping it ends the call and its connection.
pub struct Receiver {
    body: Incoming,
    headers: HeaderMap,
    buffer: BytesMut,
    _connection: EndOnDrop,
}

/// Opens a call of `method` (`/package.Service/Method`) on a connection of its own, and returns when the server answers its first
/// message. Servers send the head of their answer with their own first message.
pub async fn open<S>(stream: S, method: &str, first: &[u8]) -> Result<(Sender, Receiver), RpcError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (mut requests, connection) = handshake.map_err(|error| unavailable(&error))?;
    let connection = EndOnDrop(tokio::spawn(connection).abort_handle());
    let (queue, queued) = mpsc::channel(QUEUED_MESSAGES_MAX);
    let sender = Sender(queue);
    sender.send(first).await?;
    let response = requests.send_request(new_request(method, Messages(queued))?).await;
    let (head, body) = response.map_err(|error| unavailable(&error))?.into_parts();
    let receiver = Receiver { body, headers: head.headers, buffer: BytesMut::new(), _connection: connection };
    Ok((sender, receiver))
}

impl Receiver {
    /// The next message; `None` when the server ended the call without an error.
    pub async fn receive(&mut self) -> Result<Option<Bytes>, RpcError> {
        loop {
            if let Some(message) = take_message(&mut self.buffer)? {
                return Ok(Some(message));
            }
            let Some(frame) = self.body.frame().await else {
                return check_status(&self.headers, &HeaderMap::new()).map(|()| None);
            };
            let frame = frame.map_err(|error| unavailable(&error))?;
            match frame.into_data() {
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    return check_status(&self.headers, &trailers).map(|()| None);
                }
            }
        }
    }
}

/// Takes a message that is complete from the buffer.
fn take_message(buffer: &mut BytesMut) -> Result<Option<Bytes>, RpcError> {
    let Some([flag, length @ ..]) = buffer.first_chunk::<FRAME_HEAD>() else { return Ok(None) };
    if *flag != 0 {
        return Err(RpcError::new("Unimplemented", "the message is compressed"));
    }
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MESSAGE_BYTES_MAX {
        let why = format!("grpc: received message larger than max ({length} vs. {MESSAGE_BYTES_MAX})");
        return Err(RpcError::new("ResourceExhausted", why));
    }
    if buffer.len() < FRAME_HEAD.saturating_add(length) {
        return Ok(None);
    }
    buffer.advance(FRAME_HEAD);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// The messages of a call as the body of its request.
struct Messages(mpsc::Receiver<Bytes>);

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_in_pieces() {
        let mut buffer = BytesMut::new();
        for piece in [&b"\0\0\0"[..], b"\0\x02a"] {
            buffer.extend_from_slice(piece);
            assert_eq!(take_message(&mut buffer), Ok(None));
        }
        buffer.extend_from_slice(b"b\0\0\0\0\0\0");
        assert_eq!(take_message(&mut buffer), Ok(Some(Bytes::from_static(b"ab"))));
        assert_eq!(take_message(&mut buffer), Ok(Some(Bytes::new())));
        assert_eq!(take_message(&mut buffer), Ok(None));
        for refused in [&b"\x01\0\0\0\0"[..], b"\0\xff\xff\xff\xff"] {
            assert!(take_message(&mut BytesMut::from(refused)).is_err(), "{refused:?}");
        }
    }
}
