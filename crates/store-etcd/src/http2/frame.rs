//! The frames of HTTP/2 (RFC 9113, section 4 and 6).

use bytes::{BufMut, BytesMut};

/// The first bytes of a client.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The size of the header of a frame.
pub(super) const HEADER_BYTES: usize = 9;
/// The largest payload that either side may send until the other allows more, which we never do.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 10;

/// The types of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// The flags of frames. `ACK` is used by SETTINGS and PING, the other ones by DATA and HEADERS.
pub(super) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The settings that are sent or obeyed.
pub(super) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(crate) const MAX_FRAME_SIZE: u16 = 5;
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// The stream, or 0 for the connection.
    pub(super) stream: u32,
}

impl Frame {
    /// Reads the header at the beginning of `bytes`; `None` if it is not complete.
    pub(super) fn read(bytes: &[u8]) -> Option<Frame> {
        let [a, b, c, kind, flags, id @ ..] = bytes.first_chunk::<HEADER_BYTES>()?;
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        let stream = u32::from_be_bytes(*id) & (u32::MAX >> 1);
        Some(Frame { length: usize::try_from(length).ok()?, kind: *kind, flags: *flags, stream })
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends the header of a frame.
pub(super) fn head(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, length: usize) {
    // Payloads are at most `PAYLOAD_BYTES_MAX`.
    out.put_uint(length as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
}

/// Appends a frame whose payload is one number.
pub(super) fn number(out: &mut BytesMut, kind: u8, stream: u32, number: u32) {
    head(out, kind, 0, stream, 4);
    out.put_u32(number);
}

/// Appends an answer to a PING.
pub(super) fn ping(out: &mut BytesMut, flags: u8, data: [u8; 8]) {
    head(out, kind::PING, flags, 0, data.len());
    out.put_slice(&data);
}

/// Appends SETTINGS.
pub(super) fn settings(out: &mut BytesMut, settings: &[(u16, u32)]) {
    head(out, kind::SETTINGS, 0, 0, settings.len().saturating_mul(6));
    for (name, value) in settings {
        out.put_u16(*name);
        out.put_u32(*value);
    }
}
