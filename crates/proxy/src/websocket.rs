//! The server side of WebSocket: the handshake, streaming frames from a client, frames to it.

use bytes::{Bytes, BytesMut};
use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The maximum number of bytes of a message that are passed on at once; messages may be longer.
pub(crate) const PIECE_BYTES: usize = 8 * 1024;
/// The size limit in bytes of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;
/// The longest allowed message.
const MESSAGE_BYTES_MAX: u64 = 32 << 20;

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// An event from a client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A part of a message; `is_first` marks its beginning.
    Data {
        /// Bytes, unmasked.
        bytes: Bytes,
        /// Whether this is the beginning of a message.
        is_first: bool,
        /// Whether the message is text.
        is_text: bool,
    },
    /// A ping, which must be answered with the same bytes.
    Ping(Bytes),
    /// The peer closes the connection.
    Close,
}

/// Reads the frames of a client.
pub(crate) struct Reader<R> {
    from: R,
    /// The remaining bytes of the current frame, and its mask.
    left: u64,
    mask: [u8; 4],
    at: usize,
    is_first: bool,
    is_text: bool,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// A reader of frames.
    pub(crate) fn new(from: R) -> Self {
        let buffer = BytesMut::new();
        Reader { from, left: 0, mask: [0; 4], at: 0, is_first: true, is_text: false, buffer }
    }

    /// The next event. Must not be dropped before it is ready: a frame may be half read.
    pub(crate) async fn next(&mut self) -> Result<Event> {
        loop {
            if self.left > 0 {
                let size = usize::try_from(self.left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                self.buffer.resize(size, 0);
                let read = self.from.read(&mut self.buffer).await?;
                if read == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                self.buffer.truncate(read);
                self.left = self.left.saturating_sub(u64::try_from(read).unwrap_or(0));
                self.unmask();
                let is_first = std::mem::replace(&mut self.is_first, false);
                return Ok(Event::Data {
                    bytes: self.buffer.split().freeze(),
                    is_first,
                    is_text: self.is_text,
                });
            }
            let mut head = [0; 2];
            if let Err(error) = self.from.read_exact(&mut head).await {
                return if error.kind() == ErrorKind::UnexpectedEof { Ok(Event::Close) } else { Err(error) };
            }
            let [first, second] = head;
            let size = match second & 0x7f {
                126 => u64::from(self.from.read_u16().await?),
                127 => self.from.read_u64().await?,
                short => u64::from(short),
            };
            if size > MESSAGE_BYTES_MAX {
                return Err(Error::new(ErrorKind::InvalidData, "the message is too long"));
            }
            self.mask = [0; 4];
            if second & 0x80 != 0 {
                self.from.read_exact(&mut self.mask).await?;
            }
            self.at = 0;
            match first & 0x0f {
                TEXT | BINARY => {
                    self.is_first = true;
                    self.is_text = first & 0x0f == TEXT;
                    self.left = size;
                }
                CONTINUATION => self.left = size,
                control @ (CLOSE | PING | PONG) => {
                    if size > CONTROL_BYTES_MAX {
                        return Err(Error::new(ErrorKind::InvalidData, "the control frame is too long"));
                    }
                    self.buffer.resize(usize::try_from(size).unwrap_or(0), 0);
                    self.from.read_exact(&mut self.buffer).await?;
                    self.unmask();
                    match control {
                        CLOSE => return Ok(Event::Close),
                        PING => return Ok(Event::Ping(self.buffer.split().freeze())),
                        _ => self.buffer.clear(),
                    }
                }
                _ => return Err(Error::new(ErrorKind::InvalidData, "unknown kind of frame")),
            }
        }
    }

    fn unmask(&mut self) {
        let [a, b, c, d] = self.mask;
        let cycle = [a, b, c, d].into_iter().cycle().skip(self.at % 4);
        for (byte, mask) in self.buffer.iter_mut().zip(cycle) {
            *byte ^= mask;
        }
        self.at = self.at.wrapping_add(self.buffer.len()) % 4;
    }
}

/// The header of an unmasked frame that is a whole message.
pub fn head(opcode: u8, length: usize) -> Vec<u8> {
    let mut out = vec![0x80 | opcode];
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => out.push(short),
        (_, Ok(medium)) => {
            out.push(126);
            out.extend_from_slice(&medium.to_be_bytes());
        }
        _ => {
            out.push(127);
            out.extend_from_slice(&u64::try_from(length).unwrap_or(u64::MAX).to_be_bytes());
        }
    }
    out
}

/// Writes a binary message: one byte for the channel, if there is one, and the bytes.
pub(crate) async fn write_binary(
    to: &mut (impl AsyncWrite + Unpin),
    channel: Option<u8>,
    bytes: &[u8],
) -> Result<()> {
    let mut out = head(BINARY, bytes.len().saturating_add(usize::from(channel.is_some())));
    out.extend(channel);
    out.extend_from_slice(bytes);
    to.write_all(&out).await?;
    to.flush().await
}

/// Answers a ping.
pub(crate) async fn write_pong(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<()> {
    let mut out = head(PONG, bytes.len());
    out.extend_from_slice(bytes);
    to.write_all(&out).await?;
    to.flush().await
}

/// Sends a close frame.
pub(crate) async fn write_close(to: &mut (impl AsyncWrite + Unpin)) -> Result<()> {
    to.write_all(&[0x80 | CLOSE, 2, 0x03, 0xe8]).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![opcode, 0x80 | u8::try_from(payload.len()).unwrap(), 1, 2, 3, 4];
        out.extend(payload.iter().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, mask)| byte ^ mask));
        out
    }

    #[tokio::test]
    async fn frames_of_a_client() {
        let mut bytes = frame(0x02, b"\x00hel");
        bytes.extend(frame(0x89, b"ping"));
        bytes.extend(frame(0x80, b"lo"));
        bytes.extend(frame(0x81, b"text"));
        bytes.extend(frame(0x88, b""));
        let mut reader = Reader::new(&bytes[..]);
        let data =
            |bytes: &'static [u8], is_first, is_text| Event::Data { bytes: bytes.into(), is_first, is_text };
        for want in [
            data(b"\x00hel", true, false),
            Event::Ping(Bytes::from_static(b"ping")),
            data(b"lo", false, false),
            data(b"text", true, true),
            Event::Close,
        ] {
            assert_eq!(reader.next().await.unwrap(), want);
        }
        let mut huge = Reader::new(&[0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..]);
        assert!(huge.next().await.is_err());
    }
}
