//! Lists of metadata in protobuf, put together from what is kept beside each object.

use super::json::write_list_metadata;
use super::{Source, Transformer, api_version, read};
use bytes::Bytes;
use pintle_engine::Listed;
use pintle_meta::Status;
use pintle_schema::proto;

/// What documents begin with.
const MAGIC: &[u8] = b"k8s\0";
/// Number of the items in a list's message.
const ITEMS: u8 = 2;

/// The list as a whole document.
pub(super) fn list(transformer: &Transformer, listed: &Listed) -> Result<Bytes, Status> {
    let mut items = Vec::with_capacity(listed.items.len());
    for object in &listed.items {
        items.push(object.encoded(transformer.key(), |object| {
            let mut compact = Vec::new();
            transformer.write_partial(Source::Kept(object, object.revision()), &mut compact)?;
            let mut message = Vec::new();
            proto::encode_message(&transformer.partial, &read(&compact)?, &mut message);
            Ok::<Bytes, Status>(message.into())
        })?);
    }
    let mut head = b"{\"metadata\":".to_vec();
    write_list_metadata(listed, &mut head);
    head.push(b'}');
    let mut message = Vec::new();
    proto::encode_message(&transformer.partial_list, &read(&head)?, &mut message);
    let size: usize = items.iter().map(|item| item.len() + 1 + varint_len(item.len())).sum();
    let mut types = Vec::new();
    write_bytes(1, api_version(transformer.version).as_bytes(), &mut types);
    write_bytes(2, b"PartialObjectMetadataList", &mut types);
    let mut out = Vec::with_capacity(size + message.len() + types.len() + 64);
    out.extend_from_slice(MAGIC);
    write_bytes(1, &types, &mut out);
    out.push(2 << 3 | BYTES);
    write_varint(message.len() + size, &mut out);
    out.extend_from_slice(&message);
    for item in &items {
        write_bytes(ITEMS, item, &mut out);
    }
    write_bytes(3, b"", &mut out);
    write_bytes(4, b"", &mut out);
    Ok(out.into())
}

/// Wire type of what has a length.
const BYTES: u8 = 2;

fn write_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | BYTES);
    write_varint(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn varint_len(number: usize) -> usize {
    (number.max(1).ilog2() as usize) / 7 + 1
}
