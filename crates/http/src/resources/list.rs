//! Lists: a header, the kept bytes of each item, a footer; large ones are written as the client reads.

use super::Resources;
use super::encode::{LIST_ITEM, exact, form_key, protobuf_message, write_tree};
use super::protobuf;
use crate::Body;
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::Encoding;
use bytes::{Bytes, BytesMut};
use pintle_cache::Object;
use pintle_engine::{Listed, Target};
use pintle_meta::Status;
use pintle_schema::{proto, typed};
use pintle_value::{Value, cbor, json};
use std::sync::Arc;

/// Lists up to this size are written at once.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
/// Larger lists are written in pieces of about this size. A connection takes up to sixteen of them ahead of its client.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

impl Resources {
    pub(super) async fn list(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let list = self.list_request(request, target)?;
        let listed = self.engine.list(&list).await?;
        self.list_response(request, &list.target, listed).await
    }

    /// A list as the answer to a request.
    pub(super) async fn list_response(
        &self,
        request: &ApiRequest,
        target: &Target,
        listed: Listed,
    ) -> Result<ApiResponse, Status> {
        let encoding = request.accept.encoding;
        let media = encoding.media().name();
        self.engine.prepare(target, &listed.items).await?;
        if let Some(transformer) = self.transformer(request, target)? {
            return Ok(ApiResponse::new(200, media, transformer.list(listed)?));
        }
        if encoding == Encoding::JSON && self.engine.shows_kept_bytes(target) {
            return Ok(ApiResponse::new(200, media, json_list(target, listed)));
        }
        match encoding {
            Encoding::Protobuf => {
                return Ok(ApiResponse::new(200, media, self.protobuf_list(target, listed)?));
            }
            Encoding::Cbor => return Ok(ApiResponse::new(200, media, self.cbor_list(target, &listed)?)),
            _ => {}
        }
        let mut items = Vec::with_capacity(listed.items.len());
        for object in &listed.items {
            let mut tree = self.engine.tree_in(target, object, object.revision())?;
            if target.kind_version().protobuf {
                tree.remove_at(&["kind"]);
                tree.remove_at(&["apiVersion"]);
            }
            items.push(tree);
        }
        let mut tree = list_head(target, &listed);
        tree.set_at(&["items"], Value::Array(items));
        let mut out = Vec::new();
        match self.types.by_kind(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"])) {
            Some(schema) => write_tree(&schema, &tree, encoding, &mut out),
            None => out = crate::respond::encode(&tree, encoding),
        }
        Ok(ApiResponse::new(200, media, out))
    }

    /// The list in protobuf: its own message, then the kept messages of its items.
    fn protobuf_list(&self, target: &Target, listed: Listed) -> Result<Body, Status> {
        let head = list_head(target, &listed);
        let names = (head.str_at(&["apiVersion"]), head.str_at(&["kind"]));
        let mut message = Vec::new();
        if let Some(schema) = self.types.by_kind(names.0, names.1) {
            proto::encode_message(&schema, &head, &mut message);
        }
        let (engine, target) = (self.engine.clone(), target.clone());
        let item = move |object: &Object| protobuf_message(&engine, &target, object);
        protobuf::list(names, &message, listed.items, Box::new(item))
    }

    /// The list in CBOR, from the kept encodings of its items; shorter keys come first.
    fn cbor_list(&self, target: &Target, listed: &Listed) -> Result<Vec<u8>, Status> {
        let head = list_head(target, listed);
        let mut out = Vec::new();
        cbor::write_self_described(&mut out);
        cbor::write_map_head(4, &mut out);
        cbor::write_text("kind", &mut out);
        cbor::write_text(head.str_at(&["kind"]), &mut out);
        cbor::write_text("items", &mut out);
        cbor::write_array_head(listed.items.len(), &mut out);
        for object in &listed.items {
            out.extend_from_slice(&self.cbor_item(target, object)?);
        }
        cbor::write_text("metadata", &mut out);
        cbor::encode_item(head.get("metadata").unwrap_or(&Value::Null), &mut out);
        cbor::write_text("apiVersion", &mut out);
        cbor::write_text(head.str_at(&["apiVersion"]), &mut out);
        Ok(out)
    }

    fn cbor_item(&self, target: &Target, object: &Object) -> Result<Bytes, Status> {
        object.encoded(form_key(target.version, LIST_ITEM, Encoding::Cbor), |object| {
            let mut tree = self.engine.tree_in(target, object, object.revision())?;
            if target.kind_version().protobuf {
                tree.remove_at(&["kind"]);
                tree.remove_at(&["apiVersion"]);
            }
            let mut out = Vec::new();
            typed::encode_cbor(&target.kind_version().schema, &tree, &mut out);
            Ok(exact(&out))
        })
    }
}

/// A list without its items, as a tree.
fn list_head(target: &Target, listed: &Listed) -> Value {
    let version = target.kind_version();
    let mut head = Value::object();
    head.set_at(&["kind"], Value::String(target.kind.list_kind.clone()));
    head.set_at(&["apiVersion"], pintle_engine::decode::api_version(&version.group, &version.name).into());
    head.set_at(&["metadata"], list_metadata(listed));
    // Lists of custom resources always name a continuation: they are maps in Go, not structs.
    if !version.protobuf {
        head.set_at(&["metadata", "continue"], listed.continue_token.clone().into());
    }
    head
}

/// The metadata of a list.
fn list_metadata(listed: &Listed) -> Value {
    let mut metadata = Value::object();
    metadata.set_at(&["resourceVersion"], listed.revision.to_string().into());
    if !listed.continue_token.is_empty() {
        metadata.set_at(&["continue"], listed.continue_token.clone().into());
    }
    if let Some(remaining) = listed.remaining {
        metadata.set_at(&["remainingItemCount"], Value::Int(remaining));
    }
    metadata
}

/// The list in JSON, from the kept bytes of its items.
fn json_list(target: &Target, listed: Listed) -> Body {
    let (header, footer) = json_frame(target, &listed);
    // Items of built-in lists leave out their type; those of custom resources, sorted maps, have it.
    let skip = if target.kind_version().protobuf { item_type_len(target) } else { 0 };
    let body: usize = listed.items.iter().map(|object| object.json_len(skip) + 1).sum();
    let total = header.len() + body.saturating_sub(usize::from(!listed.items.is_empty())) + footer.len();
    let mut chunks = ItemChunks {
        header,
        footer: Some(footer),
        items: listed.items.into_iter(),
        skip,
        first: true,
        large: None,
    };
    if total <= WHOLE_BYTES_MAX {
        let mut out = BytesMut::with_capacity(total);
        for chunk in &mut chunks {
            out.extend_from_slice(&chunk);
        }
        return Body::Full(out.freeze());
    }
    Body::lazy(chunks, u64::try_from(total).ok())
}

/// What stands before and behind the items.
fn json_frame(target: &Target, listed: &Listed) -> (Vec<u8>, Bytes) {
    let version = target.kind_version();
    let mut out = Vec::with_capacity(256);
    let text = |key: &str, value: &str, out: &mut Vec<u8>| {
        json::write_string(key, out);
        out.push(b':');
        json::write_string(value, out);
    };
    let api_version = pintle_engine::decode::api_version(&version.group, &version.name);
    if !version.protobuf {
        out.push(b'{');
        text("apiVersion", &api_version, &mut out);
        out.extend_from_slice(b",\"items\":[");
        let mut tail = b"],".to_vec();
        text("kind", &target.kind.list_kind, &mut tail);
        tail.extend_from_slice(b",\"metadata\":");
        json::print(list_head(target, listed).get("metadata").unwrap_or(&Value::Null), &mut tail);
        tail.extend_from_slice(b"}\n");
        return (out, tail.into());
    }
    out.push(b'{');
    text("kind", &target.kind.list_kind, &mut out);
    out.push(b',');
    text("apiVersion", &api_version, &mut out);
    out.extend_from_slice(b",\"metadata\":{");
    text("resourceVersion", &listed.revision.to_string(), &mut out);
    if !listed.continue_token.is_empty() {
        out.push(b',');
        text("continue", &listed.continue_token, &mut out);
    }
    if let Some(remaining) = listed.remaining {
        out.extend_from_slice(b",\"remainingItemCount\":");
        json::write_int(remaining, &mut out);
    }
    out.extend_from_slice(b"},\"items\":[");
    (out, Bytes::from_static(b"]}\n"))
}

/// How long `"kind":"…","apiVersion":"…",` is at the beginning of each kept object.
fn item_type_len(target: &Target) -> usize {
    let version = target.kind.storage_version();
    let api_version = pintle_engine::decode::api_version(&version.group, &version.name);
    r#""kind":"","apiVersion":"","#.len() + target.kind.kind.len() + api_version.len()
}

/// The pieces of a list, each made when the connection can take it.
struct ItemChunks {
    header: Vec<u8>,
    footer: Option<Bytes>,
    items: std::vec::IntoIter<Arc<Object>>,
    skip: usize,
    first: bool,
    /// The rest of a large object, which is sent as it is kept.
    large: Option<Bytes>,
}

impl Iterator for ItemChunks {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.large.is_some() {
            return self.large.take();
        }
        let mut out = std::mem::take(&mut self.header);
        out.reserve(CHUNK_BYTES + CHUNK_BYTES / 8);
        while out.len() < CHUNK_BYTES {
            let Some(object) = self.items.next() else {
                out.extend_from_slice(&self.footer.take().unwrap_or_default());
                break;
            };
            if !std::mem::take(&mut self.first) {
                out.push(b',');
            }
            if object.json().len() > CHUNK_BYTES {
                self.large = Some(object.write_json_head(self.skip, &mut out));
                break;
            }
            object.write_json(self.skip, &mut out);
        }
        (!out.is_empty()).then(|| out.into())
    }
}
