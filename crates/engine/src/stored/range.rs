//! The allocation of node ports, which is stored in one value: `RangeAllocation`, a range and a bit for each port.
//!
//! In memory the value is its JSON, as kube-apiserver stores it with `--storage-media-type=application/json`.

use super::{StorageMediaType, Unreadable};
use bytes::Bytes;
use pintle_protobuf::{Field, Fields, Writer};
use pintle_schema::proto;
use pintle_value::{Value, base64, json};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The key of the node port allocation.
pub(crate) const NODE_PORTS: &str = "/registry/ranges/servicenodeports";

const API_VERSION: &str = "v1";
const KIND: &str = "RangeAllocation";
/// An empty ObjectMeta message, as Go encodes it.
const NO_METADATA: [u8; 16] = [0x0a, 0, 0x12, 0, 0x1a, 0, 0x22, 0, 0x2a, 0, 0x32, 0, 0x38, 0, 0x42, 0];

/// Encodes these ports in the form in memory.
pub(crate) fn encode_ports(range: &RangeInclusive<i64>, taken: &BTreeSet<i64>) -> Bytes {
    let within = taken.iter().filter(|port| range.contains(port));
    let offsets = within.filter_map(|port| usize::try_from(port.checked_sub(*range.start())?).ok());
    // Bit n is set if the n-th port after the first is allocated.
    let mut bits: Vec<u8> = Vec::new();
    for offset in offsets {
        let byte = offset / 8;
        bits.resize(bits.len().max(byte.saturating_add(1)), 0);
        if let Some(byte) = bits.get_mut(byte) {
            *byte |= 1 << (offset % 8);
        }
    }
    // The stored form is a big-endian integer without leading zeros.
    bits.reverse();
    write_json(&format!("{}-{}", range.start(), range.end()), &bits)
}

/// Decodes the allocated ports from a value in memory or in stored form; `None` if it is of another range or
/// undecodable.
pub(crate) fn decode_ports(range: &RangeInclusive<i64>, value: &Bytes) -> Option<BTreeSet<i64>> {
    let tree = json::parse(&decode(value).ok()?).ok()?.value;
    if tree.str_at(&["range"]) != format!("{}-{}", range.start(), range.end()) {
        return None;
    }
    let bits = base64::decode(tree.str_at(&["data"])).ok()?;
    let mut ports = BTreeSet::new();
    for (at, byte) in bits.iter().rev().enumerate() {
        for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
            let offset = i64::try_from(at.checked_mul(8)?.checked_add(bit)?).ok()?;
            ports.insert(range.start().checked_add(offset)?);
        }
    }
    Some(ports)
}

fn write_json(range: &str, data: &[u8]) -> Bytes {
    let mut out =
        format!("{{\"kind\":\"{KIND}\",\"apiVersion\":\"{API_VERSION}\",\"metadata\":{{}},\"range\":")
            .into_bytes();
    json::write_string(range, &mut out);
    out.extend_from_slice(format!(",\"data\":\"{}\"}}\n", base64::encode(data)).as_bytes());
    Bytes::from(out)
}

/// Converts a value from the form in memory to the stored form.
pub(super) fn encode(media: StorageMediaType, value: &Bytes) -> Bytes {
    let tree = match media {
        StorageMediaType::Json | StorageMediaType::Yaml => return value.clone(),
        StorageMediaType::Protobuf => json::parse(value).map(|parsed| parsed.value).unwrap_or(Value::Null),
    };
    let mut out = Writer(proto::MAGIC.to_vec());
    out.message(1, |names| {
        names.string(1, API_VERSION);
        names.string(2, KIND);
    });
    out.message(2, |message| {
        message.bytes(1, &NO_METADATA);
        message.string(2, tree.str_at(&["range"]));
        message.bytes(3, &base64::decode(tree.str_at(&["data"])).unwrap_or_default());
    });
    out.bytes(3, b"");
    out.bytes(4, b"");
    Bytes::from(out.0)
}

/// Converts a value from the stored form to the form in memory.
pub(super) fn decode(stored: &Bytes) -> Result<Bytes, Unreadable> {
    if !stored.starts_with(proto::MAGIC) {
        return Ok(stored.clone());
    }
    let envelope = proto::open(stored).map_err(|error| Unreadable(error.to_string()))?;
    let (mut range, mut data) = (String::new(), Vec::new());
    for field in Fields(envelope.raw) {
        match field.map_err(|_| Unreadable("unexpected EOF".to_string()))? {
            (2, Field::Bytes(bytes)) => range = pintle_protobuf::text(bytes),
            (3, Field::Bytes(bytes)) => data = bytes.to_vec(),
            _ => {}
        }
    }
    Ok(write_json(&range, &data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_bits() {
        let range = 30000..=32767;
        for (ports, data) in
            [(&[][..], ""), (&[30001], "Ag=="), (&[30001, 30009], "AgI="), (&[30050], "BAAAAAAAAA==")]
        {
            let taken: BTreeSet<i64> = ports.iter().copied().collect();
            let value = encode_ports(&range, &taken);
            let text = String::from_utf8_lossy(&value).into_owned();
            assert!(text.ends_with(&format!("\"data\":\"{data}\"}}\n")), "{text}");
            for media in [StorageMediaType::Json, StorageMediaType::Protobuf] {
                assert_eq!(decode_ports(&range, &encode(media, &value)), Some(taken.clone()));
            }
            assert_eq!(decode_ports(&(1..=2), &value), None);
        }
    }

    #[test]
    fn the_message_is_that_of_kube_apiserver() {
        let value = encode_ports(&(30000..=32767), &BTreeSet::from([30001]));
        let stored = encode(StorageMediaType::Protobuf, &value);
        let expected = b"k8s\0\n\x15\n\x02v1\x12\x0fRangeAllocation\x12\"\n\x10\n\0\x12\0\x1a\0\"\0*\x002\x008\0B\0\x12\x0b30000-32767\x1a\x01\x02\x1a\0\"\0";
        assert_eq!(stored, expected.as_slice());
    }
}
