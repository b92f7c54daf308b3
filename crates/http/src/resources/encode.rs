//! Encodes objects: uses the stored JSON unchanged if possible, and caches other encodings beside it.

use super::Resources;
use crate::Body;
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::Encoding;
use crate::statuspb::{ENVELOPE_END, envelope, envelope_head};
use bytes::Bytes;
use pintle_cache::{EncodingKey, Object};
use pintle_engine::{Engine, Target};
use pintle_meta::Status;
use pintle_schema::{Schema, proto, typed};
use pintle_value::{Value, cbor, json, yaml};
use std::iter::once;
use std::sync::Arc;

/// Longer objects are sent in pieces of this size.
const LONG_BYTES: usize = 16 * 1024;

impl Resources {
    /// Answers a request with an object.
    pub(super) async fn object_response(
        &self,
        request: &ApiRequest,
        target: &Target,
        object: &Arc<Object>,
        code: u16,
    ) -> Result<ApiResponse, Status> {
        let _span = pintle_trace::span("SerializeObject");
        let encoding = request.accept.encoding;
        self.engine.reader().prepare(target, std::slice::from_ref(object)).await?;
        if encoding == Encoding::Protobuf {
            pintle_audit::note_response_document(|| {
                self.object_bytes(target, object, Encoding::JSON).ok().map(|bytes| bytes.to_vec())
            });
        }
        let transformer = self.transformer(request, target)?;
        self.check_no_list(target, object)?;
        let body = match transformer {
            None => self.object_body(target, object, encoding)?,
            Some(transformer) => transformer.object(object)?.into(),
        };
        Ok(ApiResponse::new(code, encoding.media().name(), body))
    }

    /// Encodes an object with its resourceVersion. The body of a long one shares the bytes of the stored object: hundreds of streams
    /// may wait for a client that does not read them.
    fn object_body(&self, target: &Target, object: &Object, encoding: Encoding) -> Result<Body, Status> {
        if object.json_len_max() <= LONG_BYTES {
            return self.object_bytes(target, object, encoding).map(Body::from);
        }
        if encoding == Encoding::JSON && self.engine.reader().can_send_stored_bytes(target) {
            let mut head = Vec::new();
            let rest = object.write_json_head(0, &mut head);
            return Ok(shared_body(head, rest, b"\n"));
        }
        if encoding == Encoding::Protobuf {
            let version = target.kind_version();
            let api_version = pintle_engine::decode::api_version(&version.group, &version.name);
            let message = protobuf_message(&self.engine, target, object)?;
            let head = envelope_head(&api_version, &target.kind.kind, message.len());
            return Ok(shared_body(head, message, ENVELOPE_END));
        }
        self.object_bytes(target, object, encoding).map(Body::from)
    }

    /// Refuses to answer with a custom resource that has a list `items`: kube-apiserver takes it for a list whose items
    /// it cannot find. The request itself has been executed.
    fn check_no_list(&self, target: &Target, object: &Object) -> Result<(), Status> {
        let schema = &target.kind_version().schema;
        if schema.is_built_in() || !schema.may_have("items") {
            return Ok(());
        }
        let tree = self.engine.reader().tree_in(target, object, object.revision())?;
        match tree.get("items") {
            Some(Value::Array(_)) => Err(Status::unclassified(
                "*unstructured.Unstructured is not a list: no Items field in this object",
            )),
            _ => Ok(()),
        }
    }

    /// Encodes an object with its resourceVersion.
    pub(super) fn object_bytes(
        &self,
        target: &Target,
        object: &Object,
        encoding: Encoding,
    ) -> Result<Bytes, Status> {
        if encoding == Encoding::JSON && self.engine.reader().can_send_stored_bytes(target) {
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
        // An object that is not in the store cannot share its encodings.
        object.encoded(encoding_key(target.version, encoding), |object| {
            let tree = self.engine.reader().tree_in(target, object, object.revision())?;
            let mut out = Vec::new();
            write_tree(&target.kind_version().schema, &tree, encoding, &mut out);
            Ok(exact(&out))
        })
    }

    /// Answers with a tree that is not stored.
    pub(super) fn tree_response(
        &self,
        request: &ApiRequest,
        tree: &Value,
        code: u16,
    ) -> Result<ApiResponse, Status> {
        let _span = pintle_trace::span("SerializeObject");
        let encoding = request.accept.encoding;
        // A Status keeps its form.
        let is_status = tree.str_at(&["apiVersion"]) == "v1" && tree.str_at(&["kind"]) == "Status";
        if !is_status
            && let Some(transformer) =
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

/// A body that begins with `head`, continues with shared bytes and ends with `end`.
fn shared_body(head: Vec<u8>, rest: Bytes, end: &'static [u8]) -> Body {
    let total = head.len().saturating_add(rest.len()).saturating_add(end.len());
    let pieces = (0..rest.len())
        .step_by(LONG_BYTES)
        .map(move |start| rest.slice(start..start.saturating_add(LONG_BYTES).min(rest.len())));
    let pieces = once(Bytes::from(head)).chain(pieces).chain(once(Bytes::from_static(end)));
    Body::lazy(pieces, u64::try_from(total).ok())
}

/// The protobuf message of an object without envelope, as in lists.
pub(super) fn protobuf_message(engine: &Engine, target: &Target, object: &Object) -> Result<Bytes, Status> {
    object.encoded(encoding_key(target.version, Encoding::Protobuf), |object| {
        let tree = engine.reader().tree_in(target, object, object.revision())?;
        let mut out = Vec::new();
        proto::encode_message(&target.kind_version().schema, &tree, &mut out);
        Ok(exact(&out))
    })
}

/// Copies bytes for the cache, without spare capacity.
pub(super) fn exact(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// The cache key of an encoding of a version.
pub(super) fn encoding_key(version: usize, encoding: Encoding) -> EncodingKey {
    form_key(version, 0, encoding)
}

/// The cache key of an object in some form and version. Form 0 is the object itself; `transform` defines the other
/// forms.
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

/// The cache key of an object's metadata in compact JSON, which is the same in all versions of custom resources.
pub(super) fn metadata_key() -> EncodingKey {
    EncodingKey(METADATA)
}

/// The form of an object without its type, as in lists of built-in kinds.
pub(super) const LIST_ITEM: u16 = 31;
/// The form of a Table row without its object, as `transform::row` caches it.
pub(super) const ROW: u16 = 30;

/// A key consists of a version, a form and an encoding.
const FORM_SHIFT: u32 = 3;
const VERSION_SHIFT: u32 = 8;
/// A value that no encoding has.
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
