//! Header blocks (HPACK, RFC 7541): request headers are encoded once per connection; in responses only the status is
//! read.
//!
//! Our SETTINGS allow etcd a dynamic table of size 0, so header blocks do not depend on earlier ones.

use super::huffman;
use bytes::Bytes;
use std::borrow::Cow;

/// The number of entries of the static table.
const STATIC_ENTRIES: u64 = 61;
/// The entries of the static table for the name `:status`, and their values.
const STATUS_INDEX: u64 = 8;
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// A header block cannot be decoded, so the connection cannot be used any more.
#[derive(Debug, thiserror::Error)]
#[error("malformed headers from etcd")]
pub(super) struct BadHeaders;

/// The fields of a response's headers and trailers that are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: Option<u16>,
    pub(super) grpc_status: Option<u32>,
    /// The message as it was sent, escaped.
    pub(super) grpc_message: String,
}

/// The headers of all requests for `path`.
pub(super) fn encode(is_tls: bool, authority: &str, path: &str, requires_leader: bool) -> Bytes {
    // `:method: POST`, `:scheme: https` or `http`.
    let mut out = vec![0x83, if is_tls { 0x87 } else { 0x86 }];
    // Literals whose names are entries of the static table: `:path`, `:authority`, `content-type`.
    out.push(0x04);
    string(&mut out, path);
    out.push(0x01);
    string(&mut out, authority);
    out.extend([0x0f, 31 - 15]);
    string(&mut out, "application/grpc");
    literal(&mut out, "te", "trailers");
    if requires_leader {
        // With this header, a member that lost its leader ends the stream instead of staying silent.
        literal(&mut out, "hasleader", "true");
    }
    out.into()
}

fn literal(out: &mut Vec<u8>, name: &str, value: &str) {
    out.push(0);
    string(out, name);
    string(out, value);
}

fn string(out: &mut Vec<u8>, text: &str) {
    const PREFIX_MAX: usize = 0x7f;
    match u8::try_from(text.len()) {
        Ok(length) if usize::from(length) < PREFIX_MAX => out.push(length),
        _ => {
            out.push(0x7f);
            let mut rest = text.len().saturating_sub(PREFIX_MAX);
            while rest > PREFIX_MAX {
                out.push((rest & PREFIX_MAX) as u8 | 0x80);
                rest >>= 7;
            }
            out.push(rest as u8);
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// Decodes a header block of a response.
pub(super) fn decode(block: &[u8]) -> Result<Head, BadHeaders> {
    let mut head = Head::default();
    let mut reader = Reader(block);
    while let Some(first) = reader.0.first().copied() {
        let name_bits = match first {
            0x80.. => {
                let index = reader.number(7)?;
                check_static(index)?;
                if let Some(status) = status_entry(index) {
                    head.status = Some(status);
                }
                continue;
            }
            0x40.. => 6,
            // The block changes the size of the table. The only allowed size is 0.
            0x20.. => match reader.number(5)? {
                0 => continue,
                _ => return Err(BadHeaders),
            },
            _ => 4,
        };
        let index = reader.number(name_bits)?;
        let name = match index {
            0 => reader.string()?,
            _ => {
                check_static(index)?;
                Cow::Borrowed(if status_entry(index).is_some() { &b":status"[..] } else { b"" })
            }
        };
        let value = reader.string()?;
        let text = || String::from_utf8_lossy(&value);
        match &name[..] {
            b":status" => head.status = text().parse().ok(),
            b"grpc-status" => head.grpc_status = text().parse().ok(),
            b"grpc-message" => head.grpc_message = text().into_owned(),
            _ => {}
        }
    }
    Ok(head)
}

fn check_static(index: u64) -> Result<(), BadHeaders> {
    if (1..=STATIC_ENTRIES).contains(&index) { Ok(()) } else { Err(BadHeaders) }
}

fn status_entry(index: u64) -> Option<u16> {
    let at = index.checked_sub(STATUS_INDEX)?;
    STATUSES.get(usize::try_from(at).ok()?).copied()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Result<u8, BadHeaders> {
        let (first, rest) = self.0.split_first().ok_or(BadHeaders)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number whose first bits are the last `bits` of the next byte.
    fn number(&mut self, bits: u32) -> Result<u64, BadHeaders> {
        let mask = (1u64 << bits).wrapping_sub(1);
        let first = u64::from(self.byte()?) & mask;
        if first < mask {
            return Ok(first);
        }
        let mut value = first;
        // Lengths are below 2³⁵, and blocks are much smaller.
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value = value.saturating_add(u64::from(byte & 0x7f) << shift);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(BadHeaders)
    }

    fn string(&mut self) -> Result<Cow<'a, [u8]>, BadHeaders> {
        let is_coded = self.0.first().ok_or(BadHeaders)? & 0x80 != 0;
        let length = usize::try_from(self.number(7)?).map_err(|_| BadHeaders)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(BadHeaders)?;
        self.0 = rest;
        if is_coded { Ok(Cow::Owned(huffman::decode(text)?)) } else { Ok(Cow::Borrowed(text)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read() {
        // A change of the table's size, `:status: 200`, a literal with an indexed name, one that would be added to the table.
        let mut block = vec![0x20, 0x88, 0x0f, 0x10];
        string(&mut block, "application/grpc");
        block.push(0x40);
        string(&mut block, "grpc-status");
        string(&mut block, "14");
        literal(&mut block, "grpc-message", "no%20leader");
        let head = decode(&block).unwrap();
        assert_eq!(
            (head.status, head.grpc_status, &head.grpc_message[..]),
            (Some(200), Some(14), "no%20leader")
        );
        // A status that is not in the static table, under a name that is.
        assert_eq!(decode(&[0x08, 3, b'5', b'0', b'3']).unwrap().status, Some(503));
    }

    #[test]
    fn damaged_blocks_are_refused() {
        // Entry 0; an entry of the dynamic table; a larger table; a string that ends early; a number without an end.
        for block in [
            &[0x80][..],
            &[0xbe],
            &[0x21],
            &[0x00, 5, b'a'],
            &[0x00, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
            &[0x7e],
        ] {
            assert!(decode(block).is_err(), "{block:x?}");
        }
    }

    #[test]
    fn long_strings_have_long_lengths() {
        for length in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
            let mut block = Vec::new();
            literal(&mut block, "grpc-message", &"m".repeat(length));
            assert_eq!(decode(&block).unwrap().grpc_message.len(), length);
        }
    }
}
