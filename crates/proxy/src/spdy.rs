//! The client side of SPDY/3.1, as far as kubelets need it: opens streams, transfers data, answers pings. Without flow
//! control, like the library that kubelets use.

use bytes::{Bytes, BytesMut};
use std::io::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The maximum number of bytes of a frame that are passed on at once; frames may be longer.
pub(crate) const PIECE_BYTES: usize = 8 * 1024;
/// The longest control frame that is read.
const CONTROL_BYTES_MAX: u32 = 64 * 1024;

const SYN_STREAM: u16 = 1;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FIN: u8 = 1;

/// An event from a kubelet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A piece of a stream's bytes; `is_last` ends the stream.
    Data {
        /// Number of the stream.
        stream: u32,
        /// Bytes.
        bytes: Bytes,
        /// Whether the frame is the end of the stream.
        is_last: bool,
    },
    /// A stream was reset.
    Reset(u32),
    /// A ping, which must be answered with the same number.
    Ping(u32),
    /// The end of the connection.
    End,
}

/// Reads the frames of a kubelet.
pub(crate) struct Reader<R> {
    from: R,
    stream: u32,
    left: u32,
    is_fin: bool,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// A reader of frames.
    pub(crate) fn new(from: R) -> Self {
        Reader { from, stream: 0, left: 0, is_fin: false, buffer: BytesMut::new() }
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
                self.left = self.left.saturating_sub(u32::try_from(read).unwrap_or(0));
                let is_last = self.is_fin && self.left == 0;
                return Ok(Event::Data { stream: self.stream, bytes: self.buffer.split().freeze(), is_last });
            }
            let first = match self.from.read_u32().await {
                Ok(first) => first,
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Event::End),
                Err(error) => return Err(error),
            };
            let second = self.from.read_u32().await?;
            let (flags, length) = (u8::try_from(second >> 24).unwrap_or(0), second & 0x00ff_ffff);
            if first & 0x8000_0000 == 0 {
                self.stream = first;
                self.left = length;
                self.is_fin = flags & FIN != 0;
                if length == 0 {
                    return Ok(Event::Data { stream: first, bytes: Bytes::new(), is_last: self.is_fin });
                }
                continue;
            }
            if let Some(event) = self.control_frame(first, length).await? {
                return Ok(event);
            }
        }
    }

    /// Reads a control frame. Headers are ignored: the replies of kubelets contain nothing of interest.
    async fn control_frame(&mut self, first: u32, length: u32) -> Result<Option<Event>> {
        if length > CONTROL_BYTES_MAX {
            return Err(Error::new(ErrorKind::InvalidData, "the control frame is too long"));
        }
        self.buffer.resize(usize::try_from(length).unwrap_or(0), 0);
        self.from.read_exact(&mut self.buffer).await?;
        let number = self.buffer.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes));
        self.buffer.clear();
        Ok(match u16::try_from(first & 0xffff).unwrap_or(0) {
            RST_STREAM => Some(Event::Reset(number & 0x7fff_ffff)),
            PING => Some(Event::Ping(number)),
            GOAWAY => Some(Event::End),
            _ => None,
        })
    }
}

/// Opens a stream with these headers.
pub(crate) async fn open(
    to: &mut (impl AsyncWrite + Unpin),
    stream: u32,
    headers: &[(&str, &str)],
) -> Result<()> {
    let block = compressed(headers, stream == 1);
    let mut body = Vec::with_capacity(block.len().saturating_add(10));
    body.extend_from_slice(&stream.to_be_bytes());
    body.extend_from_slice(&[0; 6]);
    body.extend_from_slice(&block);
    to.write_all(&control_frame(SYN_STREAM, &body)).await?;
    to.flush().await
}

/// Sends bytes of a stream; `is_last` ends it.
pub(crate) async fn data(
    to: &mut (impl AsyncWrite + Unpin),
    stream: u32,
    bytes: &[u8],
    is_last: bool,
) -> Result<()> {
    let length = u32::try_from(bytes.len()).unwrap_or(0) & 0x00ff_ffff;
    let flags = u32::from(is_last) << 24;
    let mut out = Vec::with_capacity(bytes.len().saturating_add(8));
    out.extend_from_slice(&(stream & 0x7fff_ffff).to_be_bytes());
    out.extend_from_slice(&(flags | length).to_be_bytes());
    out.extend_from_slice(bytes);
    to.write_all(&out).await?;
    to.flush().await
}

/// Sends a ping, or the answer to one.
pub(crate) async fn ping(to: &mut (impl AsyncWrite + Unpin), number: u32) -> Result<()> {
    to.write_all(&control_frame(PING, &number.to_be_bytes())).await?;
    to.flush().await
}

fn control_frame(kind: u16, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len().saturating_add(8));
    out.extend_from_slice(&0x8003_u16.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&(u32::try_from(body.len()).unwrap_or(0) & 0x00ff_ffff).to_be_bytes());
    out.extend_from_slice(body);
    out
}

/// Headers as a part of the connection's zlib stream. They are stored uncompressed and without a dictionary, which every
/// reader supports; the first part has the header of the stream.
fn compressed(headers: &[(&str, &str)], is_first: bool) -> Vec<u8> {
    let count = |number: usize| u32::try_from(number).unwrap_or(0).to_be_bytes();
    let mut block = Vec::new();
    block.extend_from_slice(&count(headers.len()));
    for (name, value) in headers {
        for text in [name, value] {
            block.extend_from_slice(&count(text.len()));
            block.extend_from_slice(text.as_bytes());
        }
    }
    let mut out = if is_first { vec![0x78, 0x01] } else { Vec::new() };
    let length = u16::try_from(block.len()).unwrap_or(0);
    out.push(0);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(&block);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Decompress, FlushDecompress};

    #[test]
    fn headers_are_one_zlib_stream() {
        let mut unpacker = Decompress::new(true);
        for (stream, name) in [(1, "error"), (3, "stdout")] {
            let packed = compressed(&[("streamtype", name)], stream == 1);
            let mut out = Vec::with_capacity(256);
            unpacker.decompress_vec(&packed, &mut out, FlushDecompress::Sync).unwrap();
            let mut want = vec![0, 0, 0, 1, 0, 0, 0, 10];
            want.extend_from_slice(b"streamtype");
            want.extend_from_slice(&u32::try_from(name.len()).unwrap().to_be_bytes());
            want.extend_from_slice(name.as_bytes());
            assert_eq!(out, want);
        }
    }

    #[tokio::test]
    async fn frames_are_written_and_read() {
        let mut bytes = Vec::new();
        open(&mut bytes, 1, &[("streamtype", "error")]).await.unwrap();
        ping(&mut bytes, 7).await.unwrap();
        data(&mut bytes, 3, b"out", false).await.unwrap();
        data(&mut bytes, 3, b"", true).await.unwrap();
        bytes.extend(control_frame(RST_STREAM, &[0, 0, 0, 5, 0, 0, 0, 1]));
        let mut reader = Reader::new(&bytes[..]);
        let data = |bytes: &'static [u8], is_last| Event::Data { stream: 3, bytes: bytes.into(), is_last };
        for want in [Event::Ping(7), data(b"out", false), data(b"", true), Event::Reset(5), Event::End] {
            assert_eq!(reader.next().await.unwrap(), want);
        }
    }
}
