//! Converts objects between trees and their stored form, and extracts what the cache needs from them.

use crate::Target;
use bytes::Bytes;
use pintle_cache::{
    Extract, Extracted, Object, ObjectKey, ReadForm, is_outdated, mark_outdated, unreadable_reason,
    value_header,
};
use pintle_kinds::{Kind, KindVersion, SelectableField, features};
use pintle_meta::Status;
use pintle_schema::{structural, typed};
use pintle_value::{Map, Str, Value, json};
use std::cell::Cell;
use std::sync::Arc;

const RESOURCE_VERSION: &str = "resourceVersion";

/// Encodes a tree of the storage version, without resourceVersion, for the store.
pub(crate) fn encode(kind: &Kind, tree: &Value) -> Bytes {
    if retains_floats(kind) && tree.has_whole_floats() {
        let mut tree = tree.clone();
        tree.spell_whole_floats();
        return encode_plainly(kind, &tree);
    }
    encode_plainly(kind, tree)
}

fn encode_plainly(kind: &Kind, tree: &Value) -> Bytes {
    value_of(|out| typed::encode_stored(&kind.storage_version().schema, tree, out).at)
}

/// Whether stored objects distinguish `2.0` from `2`, as CBOR does. Clients see `2` in both cases.
pub(crate) fn retains_floats(kind: &Kind) -> bool {
    !kind.storage_version().schema.is_built_in() && features::is_enabled("CBORServingAndStorage")
}

/// Encodes an object that is not stored, with a resourceVersion that is not a revision: a dry run returns the
/// resourceVersion that the client sent.
pub(crate) fn encode_with_version(kind: &Kind, tree: &Value, version: &str) -> Bytes {
    let mut member = b",\"resourceVersion\":".to_vec();
    json::write_string(version, &mut member);
    value_of(|out| {
        let at = typed::encode_stored(&kind.storage_version().schema, tree, out).at.min(out.len());
        out.splice(at..at, member);
        at
    })
}

/// The most memory that a thread retains for the next object that it encodes.
const ENCODE_BUFFER_MAX: usize = 256 << 10;

thread_local! {
    static ENCODE_BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns a value whose JSON `write` appends; `write` returns the offset of the resourceVersion. The value is
/// allocated with its exact size, because it stays in memory for long and a buffer that has grown may have twice the
/// capacity that it needs.
fn value_of(write: impl FnOnce(&mut Vec<u8>) -> usize) -> Bytes {
    let mut out = ENCODE_BUFFER.take();
    out.clear();
    out.extend_from_slice(&value_header(0));
    let header = out.len();
    let slot = write(&mut out);
    let rv_offset = u32::try_from(slot.saturating_sub(header)).unwrap_or(0);
    if let Some(head) = out.get_mut(..header) {
        head.copy_from_slice(&value_header(rv_offset));
    }
    let value = Bytes::copy_from_slice(&out);
    if out.capacity() <= ENCODE_BUFFER_MAX {
        ENCODE_BUFFER.set(out);
    }
    value
}

/// Like `encode`, for a custom resource whose schema is not available: members are sorted by name. Whole floats are printed as
/// the tree has them.
pub(crate) fn encode_untyped(tree: &Value) -> Bytes {
    value_of(|out| {
        let mut slot = 0;
        out.push(b'{');
        for (index, (key, value)) in tree.as_object().into_iter().flat_map(|map| map.iter()).enumerate() {
            if index > 0 {
                out.push(b',');
            }
            json::write_string(key, out);
            out.push(b':');
            match value {
                Value::Object(metadata) if key == "metadata" => slot = encode_metadata(metadata, out),
                value => json::print(value, out),
            }
        }
        out.push(b'}');
        slot
    })
}

/// Writes metadata without resourceVersion and returns the offset at which that belongs.
fn encode_metadata(metadata: &Map, out: &mut Vec<u8>) -> usize {
    let mut slot = None;
    out.push(b'{');
    let start = out.len();
    for (key, value) in metadata.iter().filter(|(key, _)| *key != RESOURCE_VERSION) {
        if key.as_str() > RESOURCE_VERSION && slot.is_none() {
            slot = Some(out.len());
        }
        if out.len() > start {
            out.push(b',');
        }
        json::write_string(key, out);
        out.push(b':');
        json::print(value, out);
    }
    let slot = slot.unwrap_or(out.len());
    out.push(b'}');
    slot
}

/// Decodes a stored object into a tree with its resourceVersion and the original text of its raw fields.
pub(crate) fn tree(kind: &Kind, object: &Object) -> Result<Value, Status> {
    let bytes = object.stored_json();
    let parsed = json::parse(bytes).map_err(|error| {
        Status::internal(&format!("object {} cannot be read: {error}", object.key().as_str()))
    })?;
    let mut tree = parsed.value;
    if kind.has_raw() {
        typed::restore_raw(&kind.storage_version().schema, &mut tree, bytes);
    }
    tree.set_at(&["metadata", "resourceVersion"], object.revision().to_string().into());
    Ok(tree)
}

/// Whether the object of a write is in the form in which its storage version decodes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// It is, as most are: their version decoded them before they were changed.
    Decoded,
    /// Readers see what the storage version decodes, which may have other defaults and fewer fields and nulls.
    Undecoded,
}

/// Determines how the cache and readers see `value`, the encoded form of `tree`. Without a read form, the cache asks
/// for it.
pub(crate) fn prepare(kind: &Kind, value: &Bytes, tree: &Value, form: Form) -> (Extracted, Option<ReadForm>) {
    if form == Form::Decoded {
        return (extract_written(kind, tree), None);
    }
    let (extracted, read_form) = read_custom(kind, value, tree.clone());
    (extracted, Some(read_form))
}

/// An object that is not in the store: the answer of a dry run, or the last state of a deleted object.
pub(crate) fn unstored(
    target: &Target,
    value: &Bytes,
    tree: &Value,
    revision: u64,
) -> Result<Arc<Object>, Status> {
    unstored_in(target, value, tree, revision, Form::Decoded)
}

/// Like [`unstored`], for an object in any form.
pub(crate) fn unstored_in(
    target: &Target,
    value: &Bytes,
    tree: &Value,
    revision: u64,
    form: Form,
) -> Result<Arc<Object>, Status> {
    let name = tree.str_at(&["metadata", "name"]);
    let key = ObjectKey::new(&target.named(name).store_key(), &target.kind.store_prefix);
    let (extracted, prepared) = prepare(&target.kind, value, tree, form);
    let read_form = prepared.unwrap_or_else(|| read_form(&target.kind, value));
    let object = key.and_then(|key| Object::unstored(key, revision, value.clone(), extracted, read_form));
    object.ok_or_else(|| Status::internal("the object could not be encoded"))
}

/// Determines how a just-written value differs from its stored form when it is read. Most kinds do not differ, and their
/// values are not decoded.
fn read_form(kind: &Kind, value: &Bytes) -> ReadForm {
    let (header, json) = value.split_at_checked(value_header(0).len()).unwrap_or_default();
    if kind.has_raw() && !json::is_compact(json) {
        // Raw fields are stored as they were sent but returned without white space.
        let mut out = header.to_vec();
        json::compact(json, &mut out);
        return ReadForm::ForReaders(out.into());
    }
    // Only whole floats have a text that contains `.0`.
    if retains_floats(kind)
        && json.windows(2).any(|pair| pair == b".0")
        && let Ok(parsed) = json::parse(json)
        && parsed.value.has_whole_floats()
    {
        return ReadForm::ForReaders(encode_plainly(kind, &parsed.value));
    }
    if kind.hooks.is_defaulted_when_read()
        && let Ok(parsed) = json::parse(json)
    {
        return defaulted(kind, value, parsed.value);
    }
    if kind.hooks.hides_from_readers()
        && let Ok(parsed) = json::parse(json)
    {
        return without_hidden(kind, value, parsed.value);
    }
    ReadForm::AsStored
}

/// Removes what the kind stores but does not return from a value, of which `tree` is the decoded form.
fn without_hidden(kind: &Kind, value: &Bytes, mut tree: Value) -> ReadForm {
    if !kind.hooks.hide_from_readers(&mut tree) {
        return ReadForm::AsStored;
    }
    let encoded = encode(kind, &tree);
    ReadForm::ForReaders(if is_outdated(value) { mark_outdated(encoded) } else { encoded })
}

/// Applies the defaults that kube-apiserver applies on every read to a value, of which `tree` is the decoded form.
fn defaulted(kind: &Kind, value: &Bytes, mut tree: Value) -> ReadForm {
    default_read(kind, &mut tree);
    let encoded = encode(kind, &tree);
    let encoded = if is_outdated(value) { mark_outdated(encoded) } else { encoded };
    if encoded == value { ReadForm::AsStored } else { ReadForm::Revised(encoded) }
}

fn default_read(kind: &Kind, tree: &mut Value) {
    let version = kind.storage_version();
    version.apply_defaults(tree);
    typed::normalize(&version.schema, tree);
}

/// Extracts what selectors need from an object that is being written, as it will be read.
pub(crate) fn extract_written(kind: &Kind, tree: &Value) -> Extracted {
    if !kind.hooks.is_defaulted_when_read() {
        return extract(kind, tree);
    }
    let mut read = tree.clone();
    default_read(kind, &mut read);
    extract(kind, &read)
}

/// The values that selectors compare: labels and selectable fields.
pub(crate) fn extract(kind: &Kind, tree: &Value) -> Extracted {
    extract_fields(kind, kind.extracted_fields(), tree)
}

/// Extracts what selectors need from an object in this version.
pub(crate) fn extract_in(kind: &Kind, version: &KindVersion, tree: &Value) -> Extracted {
    extract_fields(kind, version.selectable.iter(), tree)
}

fn extract_fields<'a>(
    kind: &Kind,
    selectable: impl Iterator<Item = &'a SelectableField>,
    tree: &Value,
) -> Extracted {
    let labels = tree.at(&["metadata", "labels"]).and_then(Value::as_object);
    let labels = labels
        .map(|map| map.iter().map(|(k, v)| (k.clone(), Str::from(v.as_str().unwrap_or("")))).collect())
        .unwrap_or_default();
    let value = |field: &SelectableField| {
        kind.hooks.selectable(&field.label, tree).unwrap_or_else(|| {
            let path: Vec<&str> = field.path.iter().map(Str::as_str).collect();
            scalar_text(tree.at(&path)).unwrap_or_else(|| field.unset.clone())
        })
    };
    Extracted {
        labels,
        fields: selectable.map(value).collect(),
        uid: tree.str_at(&["metadata", "uid"]).into(),
    }
}

fn scalar_text(value: Option<&Value>) -> Option<Str> {
    match value? {
        Value::String(s) => Some(s.clone()),
        Value::Int(i) => Some(Str::from(i.to_string())),
        Value::Float(f) => Some(Str::from(f.to_string())),
        Value::Bool(b) => Some(if *b { "true".into() } else { "false".into() }),
        Value::Null | Value::Array(_) | Value::Object(_) | Value::Raw(_) => None,
    }
}

/// Decodes stored bytes for the cache.
pub(crate) struct KindExtract(pub(crate) Arc<Kind>);

impl Extract for KindExtract {
    fn extract(&self, bytes: &[u8]) -> Extracted {
        json::parse(bytes).map(|parsed| extract(&self.0, &parsed.value)).unwrap_or_default()
    }

    fn read_form(&self, value: &Bytes) -> ReadForm {
        read_form(&self.0, value)
    }

    fn read(&self, value: &Bytes) -> (Extracted, ReadForm) {
        if let Some(why) = unreadable_reason(value) {
            return (Extracted::default(), ReadForm::Unreadable(why.into()));
        }
        let parsed = match json::parse(value.get(value_header(0).len()..).unwrap_or_default()) {
            Ok(parsed) => parsed.value,
            Err(error) => {
                let why = format!("couldn't get version/kind; json parse error: {error}");
                return (Extracted::default(), ReadForm::Unreadable(why.into()));
            }
        };
        if self.0.storage_version().schema.converts_through_internal_version() {
            return (extract_written(&self.0, &parsed), read_form(&self.0, value));
        }
        read_custom(&self.0, value, parsed)
    }
}

/// Reads a value of a custom resource, of which `parsed` is the decoded form.
fn read_custom(kind: &Kind, value: &Bytes, parsed: Value) -> (Extracted, ReadForm) {
    let Some(from) = own_version(kind, &parsed) else {
        let written = parsed.str_at(&["apiVersion"]);
        let why = format!("request to convert CR from an invalid group/version: {written}");
        return (extract(kind, &parsed), ReadForm::Unreadable(why.into()));
    };
    let today = revise(kind, from, parsed);
    let encoded = encode(kind, &today);
    let encoded = if is_outdated(value) { mark_outdated(encoded) } else { encoded };
    let read_form = if encoded == value {
        read_form(kind, value)
    } else if retains_floats(kind) {
        // Clients see a revised value, so it has no spelled floats. The next write stores integers.
        ReadForm::Revised(encode_plainly(kind, &today))
    } else {
        ReadForm::Revised(encoded)
    };
    (extract(kind, &today), read_form)
}

/// The index of the version that an object was written in.
fn own_version(kind: &Kind, tree: &Value) -> Option<usize> {
    let written = tree.str_at(&["apiVersion"]);
    let written = written.rsplit('/').next().unwrap_or(written);
    kind.versions.iter().position(|v| v.name == written)
}

/// Brings a stored custom resource up to date: prunes and defaults it in the version it was written in, then in the
/// current storage version.
fn revise(kind: &Kind, from: usize, mut tree: Value) -> Value {
    if let Some(version) = kind.versions.get(from) {
        let kept = tree.clone();
        tree = structural::decode(&version.schema, tree, &mut typed::Strict::default()).unwrap_or(kept);
    }
    // Objects that a webhook converts stay in the version in which they were written.
    if kind.conversion.is_none() {
        convert(kind, &mut tree, from, kind.storage);
    }
    tree
}

/// Converts a tree between two versions of its kind, given as indexes into `Kind::versions`.
pub(crate) fn convert(kind: &Kind, tree: &mut Value, from: usize, to: usize) {
    if from == to {
        return;
    }
    let (Some(from), Some(to)) = (kind.versions.get(from), kind.versions.get(to)) else { return };
    kind.hooks.convert(tree, from, to);
    tree.set_at(&["apiVersion"], crate::decode::api_version(&to.group, &to.name).into());
    if to.schema.validates_objects() {
        structural::coerce(&to.schema, tree);
    }
}

/// Sets the apiVersion of a custom resource without any other change.
pub(crate) fn relabel(kind: &Kind, tree: &mut Value, to: usize) {
    if let Some(version) = kind.versions.get(to) {
        tree.set_at(&["apiVersion"], crate::decode::api_version(&version.group, &version.name).into());
    }
}

/// Drops the fields that the version `to` does not have from a tree that was made elsewhere.
pub(crate) fn coerce(kind: &Kind, tree: &mut Value, to: usize) {
    if let Some(version) = kind.versions.get(to) {
        structural::coerce(&version.schema, tree);
    }
}
