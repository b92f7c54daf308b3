//! Lists: a header, the stored bytes of each item, a footer. Large ones are written while the client reads.

use super::Resources;
use super::encode::{LIST_ITEM, exact, form_key, protobuf_message};
use super::pieces::{self, Pieces, WriteItem};
use super::protobuf;
use crate::Body;
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::Encoding;
use bytes::{Bytes, BytesMut};
use pintle_cache::Object;
use pintle_engine::{Engine, Listed, Target};
use pintle_meta::Status;
use pintle_schema::{proto, typed};
use pintle_value::{Value, cbor, json, yaml};
use std::sync::Arc;

/// Lists up to this size are written in one piece.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
/// Larger lists are written in chunks of about this size. A connection buffers up to sixteen of them.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

impl Resources {
    pub(super) async fn list(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let list = self.list_request(request, target)?;
        let listed = self.engine.reader().list(&list).await?;
        self.list_response(request, &list.target, listed)
    }

    /// Answers a request with a list.
    pub(super) fn list_response(
        &self,
        request: &ApiRequest,
        target: &Target,
        listed: Listed,
    ) -> Result<ApiResponse, Status> {
        let _span = pintle_trace::span("SerializeObject");
        let encoding = request.accept.encoding;
        let media = encoding.media().name();
        if encoding == Encoding::Protobuf {
            pintle_audit::note_response_document(|| {
                let pieces = self.json_pieces(target, listed.clone());
                let pieces: Result<Vec<_>, _> = pieces.collect();
                Some(pieces.ok()?.concat())
            });
        }
        if let Some(transformer) = self.transformer(request, target)? {
            return Ok(ApiResponse::new(200, media, transformer.list(listed)?));
        }
        let body = match encoding {
            Encoding::Json { pretty } if self.engine.reader().can_send_stored_bytes(target) => {
                if !pretty {
                    json_list(target, listed)
                } else {
                    pieces::body(pieces::indented(ItemChunks::new(target, listed).map(Ok)))?
                }
            }
            Encoding::Json { pretty: false } => pieces::body(self.json_pieces(target, listed))?,
            Encoding::Json { pretty: true } => {
                pieces::body(pieces::indented(self.json_pieces(target, listed)))?
            }
            Encoding::Yaml => pieces::body(self.yaml_pieces(target, listed))?,
            Encoding::Cbor => pieces::body(self.cbor_pieces(target, listed))?,
            Encoding::Protobuf => self.protobuf_list(target, listed)?,
        };
        Ok(ApiResponse::new(200, media, body))
    }

    /// The list in JSON, in a version other than the stored one.
    fn json_pieces(&self, target: &Target, listed: Listed) -> Pieces {
        let (header, footer) = json_frame(target, &listed);
        let (engine, target) = (self.engine.clone(), target.clone());
        let write = move |object: &Object, out: &mut Vec<u8>| {
            let tree = item_tree(&engine, &target, object)?;
            typed::encode_json(&target.kind_version().schema, &tree, out);
            Ok(())
        };
        pieces_of(listed, header, b",", Box::new(write), footer.into())
    }

    /// The list in YAML, whose keys are sorted: the items come before the kind.
    fn yaml_pieces(&self, target: &Target, listed: Listed) -> Pieces {
        let (mut header, mut footer) = (Vec::new(), Vec::new());
        let mut head = list_head(target, &listed);
        let mut first = Value::object();
        first.set_at(&["apiVersion"], head.remove_at(&["apiVersion"]).unwrap_or(Value::Null));
        yaml::print(&first, &mut header);
        header.extend_from_slice(if listed.items.is_empty() { b"items: []\n" } else { b"items:\n" });
        yaml::print(&head, &mut footer);
        let (engine, target) = (self.engine.clone(), target.clone());
        let write = move |object: &Object, out: &mut Vec<u8>| {
            yaml::print(&Value::Array(vec![item_tree(&engine, &target, object)?]), out);
            Ok(())
        };
        pieces_of(listed, header, b"", Box::new(write), footer)
    }

    /// The list in protobuf: its own message, then the cached messages of its items.
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

    /// The list in CBOR, from the cached encodings of its items; shorter keys come first.
    fn cbor_pieces(&self, target: &Target, listed: Listed) -> Pieces {
        let head = list_head(target, &listed);
        let (mut header, mut footer) = (Vec::new(), Vec::new());
        cbor::write_self_described(&mut header);
        cbor::write_map_head(4, &mut header);
        cbor::write_text("kind", &mut header);
        cbor::write_text(head.str_at(&["kind"]), &mut header);
        cbor::write_text("items", &mut header);
        cbor::write_array_head(listed.items.len(), &mut header);
        cbor::write_text("metadata", &mut footer);
        cbor::encode_item(head.get("metadata").unwrap_or(&Value::Null), &mut footer);
        cbor::write_text("apiVersion", &mut footer);
        cbor::write_text(head.str_at(&["apiVersion"]), &mut footer);
        let (engine, target) = (self.engine.clone(), target.clone());
        let write = move |object: &Object, out: &mut Vec<u8>| {
            out.extend_from_slice(&cbor_item(&engine, &target, object)?);
            Ok(())
        };
        pieces_of(listed, header, b"", Box::new(write), footer)
    }
}

fn pieces_of(
    listed: Listed,
    header: Vec<u8>,
    between: &'static [u8],
    write: WriteItem,
    footer: Vec<u8>,
) -> Pieces {
    Pieces { header, items: listed.items.into_iter(), between, write, footer: Some(footer), is_first: true }
}

/// An item as it appears in a list: built-in kinds omit its type.
fn item_tree(engine: &Engine, target: &Target, object: &Object) -> Result<Value, Status> {
    let mut tree = engine.reader().tree_in(target, object, object.revision())?;
    if target.kind_version().protobuf {
        tree.remove_at(&["kind"]);
        tree.remove_at(&["apiVersion"]);
    }
    Ok(tree)
}

fn cbor_item(engine: &Engine, target: &Target, object: &Object) -> Result<Bytes, Status> {
    object.encoded(form_key(target.version, LIST_ITEM, Encoding::Cbor), |object| {
        let mut out = Vec::new();
        typed::encode_cbor(&target.kind_version().schema, &item_tree(engine, target, object)?, &mut out);
        Ok(exact(&out))
    })
}

/// A list without its items, as a tree.
fn list_head(target: &Target, listed: &Listed) -> Value {
    let version = target.kind_version();
    let mut head = Value::object();
    head.set_at(&["kind"], Value::String(target.kind.list_kind.clone()));
    head.set_at(&["apiVersion"], pintle_engine::decode::api_version(&version.group, &version.name).into());
    head.set_at(&["metadata"], list_metadata(listed));
    // Lists of custom resources are maps in Go, not structs: they always have a `continue` member, and never the shard.
    if !version.protobuf {
        head.set_at(&["metadata", "continue"], listed.continue_token.clone().into());
    } else if let Some(shard) = &listed.shard {
        head.set_at(&["metadata", "shardInfo", "selector"], Value::String(shard.clone()));
    }
    head
}

/// The metadata of a list.
fn list_metadata(listed: &Listed) -> Value {
    let mut metadata = Value::object();
    if listed.revision > 0 {
        metadata.set_at(&["resourceVersion"], listed.revision.to_string().into());
    }
    if !listed.continue_token.is_empty() {
        metadata.set_at(&["continue"], listed.continue_token.clone().into());
    }
    if let Some(remaining) = listed.remaining {
        metadata.set_at(&["remainingItemCount"], Value::Int(remaining));
    }
    metadata
}

/// The list in JSON, from the stored bytes of its items.
fn json_list(target: &Target, listed: Listed) -> Body {
    let mut chunks = ItemChunks::new(target, listed);
    let items = chunks.items.as_slice();
    let body: usize = items.iter().map(|object| object.json_len(chunks.skip).saturating_add(1)).sum();
    let footer = chunks.footer.as_ref().map_or(0, Bytes::len);
    let total = chunks
        .header
        .len()
        .saturating_add(body.saturating_sub(usize::from(!items.is_empty())))
        .saturating_add(footer);
    if total <= WHOLE_BYTES_MAX {
        let mut out = BytesMut::with_capacity(total);
        for chunk in &mut chunks {
            out.extend_from_slice(&chunk);
        }
        return Body::Full(out.freeze());
    }
    Body::lazy(chunks, u64::try_from(total).ok())
}

/// The text before and after the items.
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
    if listed.revision > 0 {
        text("resourceVersion", &listed.revision.to_string(), &mut out);
    }
    if !listed.continue_token.is_empty() {
        out.push(b',');
        text("continue", &listed.continue_token, &mut out);
    }
    if let Some(remaining) = listed.remaining {
        out.extend_from_slice(b",\"remainingItemCount\":");
        json::write_int(remaining, &mut out);
    }
    if let Some(shard) = &listed.shard {
        out.extend_from_slice(b",\"shardInfo\":{");
        text("selector", shard, &mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"},\"items\":[");
    (out, Bytes::from_static(b"]}\n"))
}

/// The length of `"kind":"…","apiVersion":"…",` at the start of each stored object.
fn item_type_len(target: &Target) -> usize {
    let version = target.kind.storage_version();
    let api_version = pintle_engine::decode::api_version(&version.group, &version.name);
    r#""kind":"","apiVersion":"","#.len().saturating_add(target.kind.kind.len()).saturating_add(api_version.len())
}

/// The chunks of a list, each produced when the connection can send it.
struct ItemChunks {
    header: Vec<u8>,
    footer: Option<Bytes>,
    items: std::vec::IntoIter<Arc<Object>>,
    skip: usize,
    first: bool,
    /// The rest of a large object, which is sent without copying.
    large: Option<Bytes>,
}

impl ItemChunks {
    fn new(target: &Target, listed: Listed) -> Self {
        let (header, footer) = json_frame(target, &listed);
        // Items of built-in lists omit their type; those of custom resources, which are sorted maps, have it.
        let skip = if target.kind_version().protobuf { item_type_len(target) } else { 0 };
        let items = listed.items.into_iter();
        ItemChunks { header, footer: Some(footer), items, skip, first: true, large: None }
    }
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
