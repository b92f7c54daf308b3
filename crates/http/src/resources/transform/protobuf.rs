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
    Ok(assembled(api_version(transformer.version), &message, &items).into())
}

/// A document of a list's message without items, and of its items.
fn assembled(api_version: &str, head: &[u8], items: &[Bytes]) -> Vec<u8> {
    let size: usize = items.iter().map(|item| item.len() + 1 + varint_len(item.len())).sum();
    let mut types = Vec::new();
    write_bytes(1, api_version.as_bytes(), &mut types);
    write_bytes(2, b"PartialObjectMetadataList", &mut types);
    let mut out = Vec::with_capacity(size + head.len() + types.len() + 64);
    out.extend_from_slice(MAGIC);
    write_bytes(1, &types, &mut out);
    out.push(2 << 3 | BYTES);
    write_varint(head.len() + size, &mut out);
    out.extend_from_slice(head);
    for item in items {
        write_bytes(ITEMS, item, &mut out);
    }
    write_bytes(3, b"", &mut out);
    write_bytes(4, b"", &mut out);
    out
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

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    #[test]
    fn assembled_documents_are_those_of_the_encoder() {
        let types = pintle_kinds::builtin().types;
        let partial = types.by_go("meta/v1.PartialObjectMetadata").unwrap();
        let list = types.by_go("meta/v1.PartialObjectMetadataList").unwrap();
        for lengths in [&[][..], &[1], &[3, 100, 130, 20_000]] {
            let item = |length: &usize| {
                let name = "n".repeat(*length);
                format!(r#"{{"metadata":{{"name":"{name}","labels":{{"a":"b"}},"resourceVersion":"7"}}}}"#)
            };
            let items: Vec<String> = lengths.iter().map(item).collect();
            let head = r#""metadata":{"resourceVersion":"9","remainingItemCount":3}"#;
            let whole = format!(r#"{{{head},"items":[{}]}}"#, items.join(","));
            let tree = |text: &str| json::parse(text.as_bytes()).unwrap().value;
            let mut expected = Vec::new();
            proto::encode(&list, "meta.k8s.io/v1", "PartialObjectMetadataList", &tree(&whole), &mut expected);
            let message = |schema, text: &str| {
                let mut out = Vec::new();
                proto::encode_message(schema, &tree(text), &mut out);
                out
            };
            let items: Vec<Bytes> = items.iter().map(|item| message(&partial, item).into()).collect();
            let head = message(&list, &format!("{{{head}}}"));
            assert_eq!(assembled("meta.k8s.io/v1", &head, &items), expected, "{lengths:?}");
        }
    }
}
