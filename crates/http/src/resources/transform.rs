//! Transformed answers: Tables and metadata only. All are written as compact JSON first, from stored bytes if possible;
//! other encodings are made from that.

mod json;
mod list;
mod protobuf;
mod row;

use super::Resources;
use super::encode::form_key;
use crate::api::ApiRequest;
use crate::negotiate::{Encoding, Media, MetaVersion, Transform};
use crate::respond;
use bytes::Bytes;
use pintle_cache::{EncodingKey, Object};
use pintle_engine::{Engine, Target};
use pintle_kinds::Kind;
use pintle_kinds::table::Printer;
use pintle_meta::options::{IncludeObject, Query};
use pintle_meta::{Reason, Status, Timestamp};
use pintle_schema::{Schema, proto};
use pintle_value::{Value, cbor, yaml};
use std::sync::Arc;

/// The annotation of the bookmark that ends the initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Transforms the objects of one request into the requested form.
pub(super) struct Transformer {
    engine: Arc<Engine>,
    target: Target,
    encoding: Encoding,
    version: MetaVersion,
    form: Form,
    /// Schema of `PartialObjectMetadata`.
    partial: Schema,
    /// Schema of `PartialObjectMetadataList`.
    partial_list: Schema,
}

/// The requested form.
enum Form {
    Partial,
    PartialList,
    Table { printer: Printer, include: IncludeObject },
}

/// An object to transform.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A stored object, with the resourceVersion to return.
    Stored(&'a Object, u64),
    /// A tree in the request's version that is not stored.
    Tree(&'a Value),
}

impl Resources {
    /// Returns the transformer of this request, if it asks for a transformation.
    pub(super) fn transformer(
        &self,
        request: &ApiRequest,
        target: &Target,
    ) -> Result<Option<Transformer>, Status> {
        let (version, form) = match request.accept.transform {
            Transform::None => return Ok(None),
            Transform::PartialObjectMetadata(version) => (version, Form::Partial),
            Transform::PartialObjectMetadataList(version) => (version, Form::PartialList),
            Transform::Table(version) => {
                let include = IncludeObject::from_query(Query(&request.query))?;
                let printer = match target.subresource.as_str() {
                    "scale" => Printer::scale(target.kind_version()),
                    _ => Printer::of(&target.kind, target.kind_version()),
                };
                (version, Form::Table { printer, include })
            }
        };
        let schema = |kind: &str| {
            let schema = self.types.by_kind(api_version(version), kind);
            schema.ok_or_else(|| Status::internal(&format!("{kind} is unknown")))
        };
        Ok(Some(Transformer {
            engine: self.engine.clone(),
            target: target.clone(),
            encoding: request.accept.encoding,
            version,
            form,
            partial: schema("PartialObjectMetadata")?,
            partial_list: schema("PartialObjectMetadataList")?,
        }))
    }
}

impl Transformer {
    /// Transforms one object as the whole answer.
    pub(super) fn object(&self, object: &Object) -> Result<Bytes, Status> {
        // Table cells contain ages, so only metadata can be cached.
        match self.form {
            Form::Partial if self.encoding != Encoding::JSON => object.encoded(self.key(), |object| {
                self.encode_document(Source::Stored(object, object.revision()))
            }),
            _ => self.encode_document(Source::Stored(object, object.revision())),
        }
    }

    /// Transforms a tree that is not stored as the whole answer.
    pub(super) fn tree(&self, tree: &Value) -> Result<Bytes, Status> {
        self.encode_document(Source::Tree(tree))
    }

    fn encode_document(&self, source: Source<'_>) -> Result<Bytes, Status> {
        if matches!(self.form, Form::PartialList) {
            return Err(self.not_a_list(source));
        }
        let mut compact = Vec::new();
        self.write(source, true, &mut compact)?;
        self.encoded(compact, &self.partial)
    }

    /// Transforms one object of a watch event; `None` if that is impossible, which ends the watch. Only the first Table
    /// has columns.
    pub(super) fn event_object(&self, source: Source<'_>, with_columns: bool) -> Option<Vec<u8>> {
        if matches!(self.form, Form::PartialList) {
            return None;
        }
        let mut compact = Vec::new();
        self.write(source, with_columns, &mut compact).ok()?;
        match self.encoding.media() {
            Media::Json => Some(compact),
            Media::Cbor => {
                let mut out = Vec::new();
                cbor::encode_item(&read(&compact).ok()?, &mut out);
                Some(out)
            }
            Media::Protobuf | Media::Yaml => self.encoded(compact, &self.partial).ok().map(Vec::from),
        }
    }

    /// Returns whether events differ by having columns.
    pub(super) fn has_columns(&self) -> bool {
        matches!(self.form, Form::Table { .. })
    }

    /// The cache key of this form of an object in this encoding.
    pub(super) fn key(&self) -> EncodingKey {
        form_key(self.target.version, self.code(), self.encoding)
    }

    /// A number for each form.
    fn code(&self) -> u16 {
        let version = match self.version {
            MetaVersion::V1 => 0,
            MetaVersion::V1beta1 => 1,
        };
        let form = match &self.form {
            Form::Partial => 1,
            Form::PartialList => 2,
            Form::Table { include: IncludeObject::None, .. } => 3,
            Form::Table { include: IncludeObject::Metadata, .. } => 4,
            Form::Table { include: IncludeObject::Object, .. } => 5,
        };
        form << 1 | version
    }

    fn now(&self) -> Timestamp {
        let (seconds, nanos) = self.engine.storage().clock().now();
        Timestamp { seconds, nanos }
    }

    /// Converts a document in compact JSON to the encoding of the answer.
    fn encoded(&self, mut compact: Vec<u8>, schema: &Schema) -> Result<Bytes, Status> {
        let mut out = Vec::new();
        match self.encoding {
            Encoding::Json { pretty: false } => {
                compact.push(b'\n');
                out = compact;
            }
            Encoding::Json { pretty: true } => pintle_value::json::indent(&compact, &mut out),
            Encoding::Yaml => yaml::print(&read(&compact)?, &mut out),
            Encoding::Cbor => cbor::encode(&read(&compact)?, &mut out),
            Encoding::Protobuf => {
                let tree = read(&compact)?;
                proto::encode(schema, api_version(self.version), tree.str_at(&["kind"]), &tree, &mut out);
            }
        }
        Ok(out.into())
    }

    /// The error for a list that is requested as a single object.
    fn is_a_list(&self) -> Status {
        let type_ = go_type(&self.target.kind, self.is_built_in(), true);
        let why =
            format!("you requested PartialObjectMetadata, but the requested object is a list ({type_})");
        Status::new(406, Reason::NotAcceptable, why)
    }

    /// The error for a single object that is requested as a list.
    fn not_a_list(&self, source: Source<'_>) -> Status {
        match source {
            Source::Stored(..) if !self.is_built_in() => Status::unclassified("content is not a list"),
            Source::Stored(..) => respond::no_list(&go_type(&self.target.kind, true, false)),
            // The kind of such an answer is the subresource's.
            Source::Tree(tree) => {
                let (api_version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                // Scales of custom resources are not converted to the internal version.
                let package = if self.is_built_in() { go_package(group) } else { version };
                respond::no_list(&format!("*{package}.{kind}"))
            }
        }
    }

    fn is_built_in(&self) -> bool {
        self.target.kind_version().schema.is_built_in()
    }

    /// Returns whether objects may have a list called `items`, so that kube-apiserver takes them for lists.
    fn may_be_list(&self) -> bool {
        let schema = &self.target.kind_version().schema;
        !schema.is_built_in() && schema.may_have("items")
    }

    /// Returns whether the request's version is the storage version.
    fn writes_storage_version(&self) -> bool {
        self.engine.reader().can_send_stored_bytes(&self.target)
    }
}

/// The internal Go type of a request's object.
fn go_type(kind: &Kind, is_go: bool, is_list: bool) -> String {
    let list = if is_list { "List" } else { "" };
    if !is_go {
        return format!("*unstructured.Unstructured{list}");
    }
    format!("*{}.{}{list}", go_package(&kind.group), kind.kind)
}

/// The name of the Go package with the internal types of a group.
fn go_package(group: &str) -> &str {
    match group {
        "" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

fn api_version(version: MetaVersion) -> &'static str {
    match version {
        MetaVersion::V1 => "meta.k8s.io/v1",
        MetaVersion::V1beta1 => "meta.k8s.io/v1beta1",
    }
}

/// Parses JSON that this module has just written.
fn read(compact: &[u8]) -> Result<Value, Status> {
    let parsed = pintle_value::json::parse(compact);
    parsed.map(|parsed| parsed.value).map_err(|error| Status::internal(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_types_as_go_does() {
        let builtin = pintle_kinds::builtin();
        for (kind, expected) in [
            ("ConfigMap", "*core.ConfigMap"),
            ("Event", "*core.Event"),
            ("Role", "*rbac.Role"),
            ("Deployment", "*apps.Deployment"),
            ("FlowSchema", "*flowcontrol.FlowSchema"),
            ("CustomResourceDefinition", "*apiextensions.CustomResourceDefinition"),
        ] {
            let kind = builtin.kinds.iter().find(|k| k.kind == kind).unwrap();
            assert_eq!(go_type(kind, true, false), expected);
            assert_eq!(go_type(kind, true, true), format!("{expected}List"));
            assert_eq!(go_type(kind, false, true), "*unstructured.UnstructuredList");
        }
    }
}
