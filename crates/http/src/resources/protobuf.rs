//! Lists in protobuf: the cached messages of the objects, one after another, written while the client reads.

use super::list::CHUNK_BYTES;
use crate::Body;
use crate::statuspb::{ENVELOPE_END, envelope_head};
use bytes::Bytes;
use pintle_cache::Object;
use pintle_meta::Status;
use pintle_protobuf::Writer;
use std::sync::Arc;

/// The field of every list message that holds an item.
const ITEMS: u64 = 2;

/// Returns the cached message of an object, or encodes it.
pub(super) type Message = Box<dyn Fn(&Object) -> Result<Bytes, Status> + Send>;

/// A list of a kind: `head` is its message without items.
pub(super) fn list(
    (api_version, kind): (&str, &str),
    head: &[u8],
    items: Vec<Arc<Object>>,
    message: Message,
) -> Result<Body, Status> {
    let mut length = head.len();
    for object in &items {
        let item = message(object)?.len();
        // A tag of one byte, the length, the item.
        length = length.saturating_add(1).saturating_add(varint_len(item)).saturating_add(item);
    }
    let mut header = envelope_head(api_version, kind, length);
    let total = header.len().saturating_add(length).saturating_add(ENVELOPE_END.len());
    header.extend_from_slice(head);
    let mut chunks = ItemChunks { header, items: items.into_iter(), message, large: None, is_over: false };
    if total <= CHUNK_BYTES {
        return Ok(Body::Full(chunks.next().unwrap_or_default()));
    }
    Ok(Body::lazy(chunks, u64::try_from(total).ok()))
}

/// The chunks of a list, each produced when the connection can send it.
struct ItemChunks {
    header: Vec<u8>,
    items: std::vec::IntoIter<Arc<Object>>,
    message: Message,
    /// The message of a large object, which is sent without copying.
    large: Option<Bytes>,
    is_over: bool,
}

impl Iterator for ItemChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.large.is_some() || self.is_over {
            return self.large.take();
        }
        let mut out = Writer(std::mem::take(&mut self.header));
        out.0.reserve(CHUNK_BYTES + CHUNK_BYTES / 8);
        while out.0.len() < CHUNK_BYTES && !self.is_over {
            // The message was available a moment ago. If it no longer is, the answer is too short and ends prematurely.
            match self.items.next().map(|object| (self.message)(&object)) {
                Some(Ok(item)) if item.len() > CHUNK_BYTES => {
                    out.length(ITEMS, item.len());
                    self.large = Some(item);
                    break;
                }
                Some(Ok(item)) => out.bytes(ITEMS, &item),
                Some(Err(_)) => self.is_over = true,
                None => {
                    out.0.extend_from_slice(ENVELOPE_END);
                    self.is_over = true;
                }
            }
        }
        Some(out.0.into())
    }
}

fn varint_len(number: usize) -> usize {
    number.checked_ilog2().map_or(1, |top_bit| (top_bit as usize / 7).saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use pintle_cache::{Extracted, ObjectKey, ReadForm, value_header};
    use pintle_schema::proto;
    use pintle_value::json;

    #[tokio::test]
    async fn lists_are_those_of_the_encoder() {
        let types = pintle_kinds::builtin().types;
        let partial = types.by_go("meta/v1.PartialObjectMetadata").unwrap();
        let schema = types.by_go("meta/v1.PartialObjectMetadataList").unwrap();
        let tree = |text: &str| json::parse(text.as_bytes()).unwrap().value;
        for lengths in [&[][..], &[1], &[3, 100, 130, 20_000], &[9_000; 9]] {
            let item = |length: &usize| {
                let name = "n".repeat(*length);
                format!(r#"{{"metadata":{{"name":"{name}","labels":{{"a":"b"}},"resourceVersion":"7"}}}}"#)
            };
            let items: Vec<String> = lengths.iter().map(item).collect();
            let head = r#""metadata":{"resourceVersion":"9","remainingItemCount":3}"#;
            let whole = format!(r#"{{{head},"items":[{}]}}"#, items.join(","));
            let mut expected = Vec::new();
            proto::encode(
                &schema,
                "meta.k8s.io/v1",
                "PartialObjectMetadataList",
                &tree(&whole),
                &mut expected,
            );
            let mut message = Vec::new();
            proto::encode_message(&schema, &tree(&format!("{{{head}}}")), &mut message);
            let kept = |json: &String| {
                let key = ObjectKey::new(&"/r/a".into(), "/r/").unwrap();
                let value = [value_header(0).as_slice(), json.as_bytes()].concat();
                Object::unstored(key, 7, value.into(), Extracted::default(), ReadForm::AsStored).unwrap()
            };
            let partial = partial.clone();
            let make: Message = Box::new(move |object| {
                let mut out = Vec::new();
                let tree = json::parse(object.json()).unwrap().value;
                proto::encode_message(&partial, &tree, &mut out);
                Ok(out.into())
            });
            let items = items.iter().map(kept).collect();
            let body = list(("meta.k8s.io/v1", "PartialObjectMetadataList"), &message, items, make).unwrap();
            let size = body.size();
            let written = body.collect().await.unwrap().to_bytes();
            assert_eq!(size, Some(written.len() as u64));
            assert_eq!(written, expected, "{lengths:?}");
        }
    }
}
