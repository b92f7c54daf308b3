//! Header blocks (HPACK, RFC 7541): request headers are encoded once per connection; in responses only the status is
//! read.
//!
//! Our SETTINGS allow etcd a dynamic table of size 0, so header blocks do not depend on earlier ones.

use bytes::Bytes;
use pintle_hpack::{
    Field, Fields, Indexing, Literal, Malformed, Name, STATIC_ENTRIES, write_literal, write_named,
};
use std::borrow::Cow;

/// The entries of the static table for the name `:status`, and their values.
const STATUS_INDEX: u64 = 8;
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

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
    for (name, value) in [(4, path), (1, authority), (31, "application/grpc")] {
        write_named(&mut out, Indexing::Without, name, value.as_bytes());
    }
    write_literal(&mut out, b"te", b"trailers");
    if requires_leader {
        // With this header, a member that lost its leader ends the stream instead of staying silent.
        write_literal(&mut out, b"hasleader", b"true");
    }
    out.into()
}

/// Decodes a header block of a response.
pub(super) fn decode(block: &[u8]) -> Result<Head, Malformed> {
    let mut head = Head::default();
    for field in Fields::of(block) {
        let (name, value) = match field? {
            Field::Indexed(index) => {
                check_static(index)?;
                if let Some(status) = status_entry(index) {
                    head.status = Some(status);
                }
                continue;
            }
            // The only allowed size is 0.
            Field::TableSize(0) => continue,
            Field::TableSize(_) => return Err(Malformed),
            Field::Literal(Literal { name, value, .. }) => (name, value.decode()?),
        };
        let name = match name {
            Name::Text(name) => name.decode()?,
            Name::Index(index) => {
                check_static(index)?;
                Cow::Borrowed(if status_entry(index).is_some() { &b":status"[..] } else { b"" })
            }
        };
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

fn check_static(index: u64) -> Result<(), Malformed> {
    if (1..=STATIC_ENTRIES).contains(&index) { Ok(()) } else { Err(Malformed) }
}

fn status_entry(index: u64) -> Option<u16> {
    let at = index.checked_sub(STATUS_INDEX)?;
    STATUSES.get(usize::try_from(at).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read() {
        // A change of the table's size, `:status: 200`, a literal with an indexed name, one that would be added to the table.
        let mut block = vec![0x20, 0x88];
        write_named(&mut block, Indexing::Without, 31, b"application/grpc");
        block.extend_from_slice(b"\x40\x0bgrpc-status\x0214");
        write_literal(&mut block, b"grpc-message", b"no%20leader");
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
}
