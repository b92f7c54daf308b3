//! Objects as bytes: the kept JSON as it is wherever that is what is asked for, other encodings made once and
//! kept beside it.

use super::Resources;
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::Encoding;
use crate::statuspb::envelope;
use bytes::Bytes;
use pintle_cache::{EncodingKey, Object};
use pintle_engine::{Engine, Target};
use pintle_meta::Status;
use pintle_schema::{Schema, proto, typed};
use pintle_value::{Value, cbor, json, yaml};
use std::sync::Arc;

impl Resources {
    /// An object as the answer to a request.
    pub(super) async fn object_response(
        &self,
        request: &ApiRequest,
        target: &Target,
        object: &Arc<Object>,
        code: u16,
    ) -> Result<ApiResponse, Status> {
        let _span = pintle_trace::span("SerializeObject");
        let encoding = request.accept.encoding;
        self.engine.prepare(target, std::slice::from_ref(object)).await?;
        if encoding == Encoding::Protobuf {
            pintle_audit::note_response_document(|| {
                self.object_bytes(target, object, Encoding::JSON).ok().map(|bytes| bytes.to_vec())
            });
        }
        let body = match self.transformer(request, target)? {
            None => self.object_bytes(target, object, encoding)?,
            Some(transformer) => transformer.object(object)?,
        };
        Ok(ApiResponse::new(code, encoding.media().name(), body))
    }

    /// An object in an encoding, with its resourceVersion.
    pub(super) fn object_bytes(
        &self,
        target: &Target,
        object: &Object,
        encoding: Encoding,
    ) -> Result<Bytes, Status> {
        if encoding == Encoding::JSON && self.engine.shows_kept_bytes(target) {
            let mut out = Vec::with_capacity(object.json_len_max().saturating_add(1));
            object.write_json(0, &mut out);
            out.push(b'\n');
            return Ok(out.into());
        }
        if encoding == Encoding::Protobuf {
            let version = target.kind_version();
            let api_version = pintle_engine::decode::api_version(&version.group, &version.name);
            let message = protobuf_message(&self.engine, target, object)?;
            return Ok(envelope(&api_version, &target.kind.kind, &message).into());
        }
        // What is not in the store has no place to keep its encodings for others.
        object.encoded(encoding_key(target.version, encoding), |object| {
            let tree = self.engine.tree_in(target, object, object.revision())?;
            let mut out = Vec::new();
            write_tree(&target.kind_version().schema, &tree, encoding, &mut out);
            Ok(exact(&out))
        })
    }

    /// A tree of a kind that is no resource, or that is made for this answer.
    pub(super) fn tree_response(
        &self,
        request: &ApiRequest,
        tree: &Value,
        code: u16,
    ) -> Result<ApiResponse, Status> {
        let _span = pintle_trace::span("SerializeObject");
        let encoding = request.accept.encoding;
        if let Some(transformer) =
            self.transformer(request, &super::engine_target(&request.target, &request.info))?
        {
            return Ok(ApiResponse::new(code, encoding.media().name(), transformer.tree(tree)?));
        }
        let schema = self.types.by_kind(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
        let schema = schema.ok_or_else(|| Status::internal("the answer's kind is unknown"))?;
        if encoding == Encoding::Protobuf {
            pintle_audit::note_response_document(|| {
                let mut out = Vec::new();
                write_tree(&schema, tree, Encoding::JSON, &mut out);
                Some(out)
            });
        }
        let mut out = Vec::new();
        write_tree(&schema, tree, encoding, &mut out);
        Ok(ApiResponse::new(code, encoding.media().name(), out))
    }
}

/// The message of an object in protobuf, without an envelope: as it stands in lists.
pub(super) fn protobuf_message(engine: &Engine, target: &Target, object: &Object) -> Result<Bytes, Status> {
    object.encoded(encoding_key(target.version, Encoding::Protobuf), |object| {
        let tree = engine.tree_in(target, object, object.revision())?;
        let mut out = Vec::new();
        proto::encode_message(&target.kind_version().schema, &tree, &mut out);
        Ok(exact(&out))
    })
}

/// Bytes to be kept, without the room that was left for more of them.
pub(super) fn exact(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// Names an encoding of a version.
pub(super) fn encoding_key(version: usize, encoding: Encoding) -> EncodingKey {
    form_key(version, 0, encoding)
}

/// Names an encoding of another form of a version; 0 is the object itself, the others are `transform`'s.
pub(super) fn form_key(version: usize, form: u16, encoding: Encoding) -> EncodingKey {
    let kind = match encoding {
        Encoding::Json { pretty: false } => 0,
        Encoding::Json { pretty: true } => 1,
        Encoding::Yaml => 2,
        Encoding::Protobuf => 3,
        Encoding::Cbor => 4,
    };
    let version = u16::try_from(version).unwrap_or(u16::MAX >> VERSION_SHIFT);
    EncodingKey(version << VERSION_SHIFT | form << FORM_SHIFT | kind)
}

/// Names the metadata of an object in compact JSON, which is the same in all versions of custom resources.
pub(super) fn metadata_key() -> EncodingKey {
    EncodingKey(METADATA)
}

/// The form of an object without its type, as lists of built-in kinds have it.
pub(super) const LIST_ITEM: u16 = 31;
/// The row of a Table without its object, as `transform::row` keeps it.
pub(super) const ROW: u16 = 30;

/// Keys are made of a version, a form and an encoding.
const FORM_SHIFT: u32 = 3;
const VERSION_SHIFT: u32 = 8;
/// An encoding that is none of those above.
const METADATA: u16 = 7;

/// Appends a whole document.
pub(super) fn write_tree(schema: &Schema, tree: &Value, encoding: Encoding, out: &mut Vec<u8>) {
    match encoding {
        Encoding::Json { pretty: false } => {
            typed::encode_json(schema, tree, out);
            out.push(b'\n');
        }
        Encoding::Json { pretty: true } => {
            let mut compact = Vec::new();
            typed::encode_json(schema, tree, &mut compact);
            json::indent(&compact, out);
        }
        Encoding::Yaml => yaml::print(tree, out),
        Encoding::Protobuf => {
            proto::encode(schema, tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]), tree, out)
        }
        Encoding::Cbor => {
            cbor::write_self_described(out);
            typed::encode_cbor(schema, tree, out);
        }
    }
}
