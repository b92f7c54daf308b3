//! The format of values that kube-apiserver v1.36 stores in etcd.
//!
//! Built-in kinds are protobuf (or JSON or YAML, by flag), definitions and APIServices are always JSON, custom
//! resources are JSON with sorted keys, or CBOR. The first bytes of a value determine its encoding, regardless of the
//! flags: other servers may have written it.

use super::{StoredForm, Unreadable, definition, is_object_key, member, range, versions};
use crate::object;
use bytes::Bytes;
use pintle_cache::{mark_outdated, value_header};
use pintle_kinds::Kind;
use pintle_meta::go_type::unregistered_kind;
use pintle_schema::{proto, typed};
use pintle_value::{Str, Value, cbor, json, yaml};
use std::collections::HashMap;
use std::sync::Arc;

/// The prefix of every CBOR document: the tag "self-described CBOR".
const CBOR_MAGIC: &[u8] = &[0xd9, 0xd9, 0xf7];
/// The scheme that kube-apiserver's errors about an unknown kind name.
const SCHEME: &str = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30";

/// The value of `--storage-media-type`: how built-in kinds are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageMediaType {
    /// `application/vnd.kubernetes.protobuf`
    #[default]
    Protobuf,
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
}

impl StorageMediaType {
    /// The media type of this name. The empty name means JSON, which is the default of kube-apiserver's library,
    /// not of its flag.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "application/vnd.kubernetes.protobuf" => Some(StorageMediaType::Protobuf),
            "" | "application/json" => Some(StorageMediaType::Json),
            "application/yaml" => Some(StorageMediaType::Yaml),
            _ => None,
        }
    }
}

/// The form of kube-apiserver.
pub struct KubernetesForm {
    /// The built-in kinds by the prefix of their keys.
    builtin: HashMap<Str, Stored>,
    media: StorageMediaType,
    /// Whether custom resources are written as CBOR (feature gate `CBORServingAndStorage`).
    cbor: bool,
}

/// A built-in kind and its encoding.
struct Stored {
    kind: Arc<Kind>,
    api_version: Str,
    encoding: Encoding,
}

/// The prefix of the kind as which the leases of servers are encoded.
const ENDPOINTS: &str = "/registry/services/endpoints/";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Protobuf,
    Json,
    Yaml,
    /// JSON of `apiextensions.k8s.io/v1beta1`.
    Definition,
}

impl KubernetesForm {
    /// The storage format for these built-in kinds.
    pub fn new(kinds: impl Iterator<Item = Arc<Kind>>, media: StorageMediaType, cbor: bool) -> Self {
        let stored = |kind: Arc<Kind>| {
            // The servers inside kube-apiserver that own these two groups do not support protobuf storage.
            let encoding = match (kind.group.as_str(), media) {
                ("apiextensions.k8s.io", _) => Encoding::Definition,
                ("apiregistration.k8s.io", _) | (_, StorageMediaType::Json) => Encoding::Json,
                (_, StorageMediaType::Protobuf) => Encoding::Protobuf,
                (_, StorageMediaType::Yaml) => Encoding::Yaml,
            };
            let api_version = versions::stored_as(&kind);
            (kind.store_prefix.clone(), Stored { kind, api_version, encoding })
        };
        KubernetesForm { builtin: kinds.map(stored).collect(), media, cbor }
    }

    /// The built-in kind that a key belongs to, found by trying each prefix of the key that ends in a slash.
    fn builtin(&self, key: &str) -> Option<&Stored> {
        let mut ends = key.match_indices('/').map(|(at, _)| at.saturating_add(1));
        ends.find_map(|end| self.builtin.get(key.get(..end)?))
    }
}

impl StoredForm for KubernetesForm {
    fn encode(&self, key: &str, value: &Bytes, tree: Option<&Value>) -> Bytes {
        if key == range::NODE_PORTS {
            return range::encode(self.media, value);
        }
        let json = value.get(value_header(0).len()..).unwrap_or_default();
        if let Some(endpoints) = self.builtin.get(ENDPOINTS).filter(|_| member::is_member_key(key)) {
            return endpoints.encode(json, None);
        }
        if !is_object_key(key) {
            return value.clone();
        }
        match self.builtin(key) {
            Some(stored) => stored.encode(json, tree),
            None if self.cbor => match json::parse(json) {
                Ok(parsed) => {
                    let mut out = Vec::new();
                    cbor::encode(&parsed.value, &mut out);
                    Bytes::from(out)
                }
                Err(_) => line(json),
            },
            None => line(json),
        }
    }

    fn decode(&self, key: &str, stored: &Bytes) -> Result<Bytes, Unreadable> {
        if key == range::NODE_PORTS {
            return range::decode(stored);
        }
        if !is_object_key(key) {
            return Ok(stored.clone());
        }
        let value = match self.builtin(key) {
            Some(builtin) => builtin.decode(stored)?,
            None => custom(stored, self.cbor)?,
        };
        // If the value would now be stored differently, mark it, so that even an update without changes writes it.
        if self.encode(key, &value, None) == stored { Ok(value) } else { Ok(mark_outdated(value)) }
    }
}

impl Stored {
    fn encode(&self, json: &[u8], tree: Option<&Value>) -> Bytes {
        if let Some(tree) = tree.filter(|tree| self.encoding == Encoding::Protobuf && !has_revision(tree)) {
            let stored = self.encode_protobuf(json.len(), tree);
            debug_assert_eq!(stored, self.encode(json, None), "the tree of a write is what is stored");
            return stored;
        }
        // JSON in memory always parses; if it did not, it would be stored unchanged.
        let version = self.kind.storage_version();
        let parse = || {
            let mut tree = json::parse(json).ok()?.value;
            typed::restore_raw(&version.schema, &mut tree, json);
            Some(tree)
        };
        let encoded = match self.encoding {
            Encoding::Json => return self.encode_json(json),
            Encoding::Yaml => parse().map(|mut tree| {
                self.relabel(&mut tree);
                let mut out = Vec::new();
                yaml::print(&tree, &mut out);
                out
            }),
            Encoding::Definition => parse().map(|tree| definition::encode(&version.schema, &tree)),
            Encoding::Protobuf => {
                return parse().map_or_else(|| line(json), |tree| self.encode_protobuf(json.len(), &tree));
            }
        };
        encoded.map_or_else(|| line(json), Bytes::from)
    }

    fn encode_protobuf(&self, json_bytes: usize, tree: &Value) -> Bytes {
        let mut out = Vec::with_capacity(json_bytes);
        proto::encode(
            &self.kind.storage_version().schema,
            &self.api_version,
            &self.kind.kind,
            tree,
            &mut out,
        );
        Bytes::from(out)
    }

    fn encode_json(&self, json: &[u8]) -> Bytes {
        let version = self.kind.storage_version();
        let mut compact = Vec::new();
        if self.kind.has_raw() {
            json::compact(json, &mut compact);
        }
        let json = if self.kind.has_raw() { &compact } else { json };
        let own = crate::decode::api_version(&version.group, &version.name);
        if own == self.api_version {
            return line(json);
        }
        let head = |api_version: &str| {
            format!("{{\"kind\":\"{}\",\"apiVersion\":\"{api_version}\",", self.kind.kind)
        };
        match json.strip_prefix(head(&own).as_bytes()) {
            Some(rest) => line(&[head(&self.api_version).as_bytes(), rest].concat()),
            None => line(json),
        }
    }

    fn relabel(&self, tree: &mut Value) {
        tree.set_at(&["apiVersion"], self.api_version.clone().into());
    }

    fn decode(&self, stored: &[u8]) -> Result<Bytes, Unreadable> {
        let mut tree = match stored {
            _ if stored.starts_with(proto::MAGIC) => self.decode_protobuf(stored)?,
            _ if stored.starts_with(CBOR_MAGIC) => {
                let tree = cbor::decode_object(stored).map_err(|error| Unreadable(error.to_string()))?;
                self.typed(tree)?
            }
            _ => self.typed_text(stored)?,
        };
        let version = self.kind.storage_version();
        tree.remove_at(&["metadata", "resourceVersion"]);
        tree.remove_at(&["metadata", "selfLink"]);
        tree.set_at(&["kind"], self.kind.kind.clone().into());
        tree.set_at(&["apiVersion"], crate::decode::api_version(&version.group, &version.name).into());
        Ok(object::encode(&self.kind, &tree))
    }

    fn decode_protobuf(&self, stored: &[u8]) -> Result<Value, Unreadable> {
        let unreadable = |error: proto::ProtoError| Unreadable(error.to_string());
        let envelope = proto::open(stored).map_err(unreadable)?;
        let at = self.version(&envelope.api_version, &envelope.kind)?;
        let Some(version) = self.kind.versions.get(at) else { return Ok(Value::object()) };
        let tree = proto::decode(&version.schema, &envelope).map_err(unreadable)?;
        Ok(self.complete(tree, at))
    }

    /// Decodes JSON or YAML in any version into a tree.
    fn typed_text(&self, stored: &[u8]) -> Result<Value, Unreadable> {
        let tree = parse_text(stored)?;
        if !self.kind.has_raw() || !is_json(stored) {
            return self.typed(tree);
        }
        let at = self.version(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))?;
        let mut tree = tree;
        if let Some(version) = self.kind.versions.get(at) {
            typed::restore_raw(&version.schema, &mut tree, stored);
        }
        self.typed(tree)
    }

    /// Types a tree that was decoded from JSON, YAML or CBOR in any version.
    fn typed(&self, tree: Value) -> Result<Value, Unreadable> {
        let tree = definition::upgrade(tree);
        let at = self.version(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))?;
        let Some(version) = self.kind.versions.get(at) else { return Ok(Value::object()) };
        let mut tree =
            typed::decode(&version.schema, tree, None).map_err(|error| Unreadable(error.to_string()))?;
        typed::normalize(&version.schema, &mut tree);
        Ok(self.complete(tree, at))
    }

    /// The index of the version in which a stored object is decoded.
    fn version(&self, api_version: &str, kind: &str) -> Result<usize, Unreadable> {
        if kind.is_empty() {
            return Err(Unreadable("Object 'Kind' is missing in stored value".to_string()));
        }
        let known = versions::position(&self.kind, api_version).filter(|_| kind == self.kind.kind);
        known.ok_or_else(|| Unreadable(unregistered_kind(kind, api_version, SCHEME)))
    }

    /// Applies the defaults of the version `at`, as kube-apiserver does on every read, and converts to the storage
    /// version.
    fn complete(&self, mut tree: Value, at: usize) -> Value {
        if let Some(version) = self.kind.versions.get(at) {
            version.apply_defaults(&mut tree);
            typed::normalize(&version.schema, &mut tree);
        }
        if at != self.kind.storage {
            object::convert(&self.kind, &mut tree, at, self.kind.storage);
            typed::normalize(&self.kind.storage_version().schema, &mut tree);
        }
        tree
    }
}

/// Decodes a custom resource without its schema, because its kind may not be registered yet.
fn custom(stored: &[u8], retains_floats: bool) -> Result<Bytes, Unreadable> {
    let mut tree = if stored.starts_with(CBOR_MAGIC) {
        cbor::decode_object(stored).map_err(|error| Unreadable(error.to_string()))?
    } else {
        parse_text(stored)?
    };
    tree.remove_at(&["metadata", "resourceVersion"]);
    tree.remove_at(&["metadata", "selfLink"]);
    if retains_floats {
        tree.spell_whole_floats();
    }
    Ok(object::encode_untyped(&tree))
}

/// Whether a tree has a field that is in neither form of a stored object.
fn has_revision(tree: &Value) -> bool {
    tree.at(&["metadata", "resourceVersion"]).is_some()
}

fn is_json(stored: &[u8]) -> bool {
    stored.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{')
}

/// Parses JSON, or YAML that is an object.
pub(super) fn parse_text(stored: &[u8]) -> Result<Value, Unreadable> {
    let parsed = if is_json(stored) {
        json::parse(stored).map(|parsed| parsed.value).map_err(|error| error.to_string())
    } else {
        yaml::parse(stored).map(|parsed| parsed.value).map_err(|error| error.message().to_string())
    };
    match parsed {
        Ok(tree @ Value::Object(_)) => Ok(tree),
        Ok(other) => {
            let found = other.json_type();
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type \
                 struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }}"
            );
            Err(Unreadable(why))
        }
        Err(error) => Err(Unreadable(format!("couldn't get version/kind; json parse error: {error}"))),
    }
}

/// JSON as Go's encoder writes it, with a newline at the end.
fn line(json: &[u8]) -> Bytes {
    Bytes::from([json, b"\n"].concat())
}
