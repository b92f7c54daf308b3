//! Messages and status of gRPC. This module knows neither connections nor the meaning of messages.

use bytes::{Buf, BytesMut};
use std::ops::ControlFlow;

/// The largest request that is sent, as in etcd's own client.
pub(crate) const REQUEST_BYTES_MAX: usize = 2 << 20;
/// The largest message that is accepted. etcd does not limit the size of range responses; our page size does.
const RESPONSE_BYTES_MAX: usize = 1 << 30;
/// The memory that is reserved for a message of which only the beginning has arrived.
const RESERVED_BYTES_MAX: usize = 4 << 20;
/// The length of the prefix of each message: a compression flag and the length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// The gRPC codes that are distinguished here.
pub(crate) mod code {
    pub(crate) const CANCELLED: u32 = 1;
    pub(crate) const DEADLINE_EXCEEDED: u32 = 4;
    pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(crate) const OUT_OF_RANGE: u32 = 11;
    pub(crate) const UNAVAILABLE: u32 = 14;
}

/// The reason why a call has no response.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// The request did not leave this process.
    #[error("{0}")]
    NotSent(String),
    /// The connection broke before the response: whether the request was executed is unknown.
    #[error("rpc error: code = Unavailable desc = error reading from server: {0}")]
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
    pub(crate) fn malformed(error: &crate::message::Malformed) -> CallError {
        CallError::Lost(error.to_string())
    }
}

/// The prefix of a message: that it is not compressed, and its length.
pub(crate) fn prefix(length: usize) -> [u8; PREFIX_BYTES] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

/// Passes the messages that `payload` completes to `take`, until it breaks, and stores the beginning of the next one
/// in `partial`.
pub(crate) fn take_messages<B>(
    partial: &mut BytesMut,
    mut payload: &[u8],
    mut take: impl FnMut(&[u8]) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, CallError> {
    if partial.is_empty() {
        // Most messages come in one piece.
        while let Some(message) = first_message(payload)? {
            payload = payload.get(PREFIX_BYTES.saturating_add(message.len())..).unwrap_or_default();
            if let end @ ControlFlow::Break(_) = take(message) {
                return Ok(end);
            }
        }
        if payload.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
    }
    partial.extend_from_slice(payload);
    while let Some(message) = first_message(partial)? {
        let outcome = take(message);
        let length = PREFIX_BYTES.saturating_add(message.len());
        partial.advance(length);
        if outcome.is_break() {
            return Ok(outcome);
        }
    }
    match message_length(partial)? {
        Some(length) => {
            let whole = PREFIX_BYTES.saturating_add(length);
            partial.reserve(whole.saturating_sub(partial.len()).min(RESERVED_BYTES_MAX));
        }
        // Free the memory of a large message.
        None if partial.is_empty() => *partial = BytesMut::new(),
        None => {}
    }
    Ok(ControlFlow::Continue(()))
}

/// The first message, if it is complete.
fn first_message(bytes: &[u8]) -> Result<Option<&[u8]>, CallError> {
    let Some(length) = message_length(bytes)? else { return Ok(None) };
    Ok(bytes.get(PREFIX_BYTES..PREFIX_BYTES.saturating_add(length)))
}

/// The length of the first message.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, CallError> {
    let Some([compressed, length @ ..]) = bytes.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if *compressed != 0 || length > RESPONSE_BYTES_MAX {
        return Err(CallError::Lost("a message that is compressed or too large".into()));
    }
    Ok(Some(length))
}

/// Returns the outcome of a call from its status code and its escaped message.
pub(crate) fn check_status(code: Option<u32>, message: &str) -> Result<(), CallError> {
    match code {
        Some(0) => Ok(()),
        Some(code) => Err(CallError::Status { code, message: unescape(message) }),
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

    #[test]
    fn messages_are_taken_from_any_pieces() {
        let messages: [&[u8]; 4] = [b"first", b"", &[7; 300], b"last"];
        let sent: Vec<u8> = messages.iter().flat_map(|m| [&prefix(m.len())[..], m].concat()).collect();
        for size in 1..sent.len() {
            let (mut partial, mut out) = (BytesMut::new(), Vec::new());
            for piece in sent.chunks(size) {
                let taken = take_messages(&mut partial, piece, |message| {
                    out.push(message.to_vec());
                    ControlFlow::<()>::Continue(())
                });
                assert!(taken.unwrap().is_continue());
            }
            assert!(out.iter().eq(&messages) && partial.is_empty(), "pieces of {size}");
        }
    }

    #[test]
    fn compressed_and_huge_messages_are_refused() {
        for head in [[1, 0, 0, 0, 1], [0, 255, 255, 255, 255]] {
            let refused = take_messages(&mut BytesMut::new(), &head, |_| ControlFlow::Break(()));
            assert!(refused.is_err(), "{head:?}");
        }
    }
}
