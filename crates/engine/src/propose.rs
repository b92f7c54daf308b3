//! Proposals: what the object would become. Pure: live object in, candidate out.
//!
//! Candidates are in the version of the request, decoded and defaulted.

use crate::decode::{self, Decoded, Media};
use crate::{Target, metadata, object};
use bytes::Bytes;
use pintle_apply::managed;
use pintle_apply::patch::{self, PatchError};
use pintle_meta::field::quoted;
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, GroupKind, GroupVersion, Status};
use pintle_schema::Schema;
use pintle_schema::typed::{self, Empties, Strict};
use pintle_value::{Map, Path, RawJson, Str, Value, cbor, json, yaml};
use std::borrow::Cow;

/// What a client wants done to an object.
pub enum Change {
    /// A new object.
    Create(Body),
    /// The object as it shall be.
    Replace(Body),
    /// A patch of the object.
    Patch(PatchType, Bytes),
    /// The fields the manager wants, for server-side apply.
    Apply {
        /// The applied configuration.
        body: Body,
        /// Whether fields of others are taken over.
        force: bool,
    },
}

/// A body and how it is written.
pub struct Body {
    /// The bytes.
    pub bytes: Bytes,
    /// Their encoding.
    pub media: Media,
}

/// The patch types that are applied to the live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
}

/// A candidate and what the client shall be told.
pub(crate) struct Proposed {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// Whether the object has empty lists or maps that JSON does not show. Go tells them from those that are not
    /// there until a new object has been validated.
    pub(crate) empties: bool,
}

impl Proposed {
    /// A refusal, with what was noted before.
    pub(crate) fn refused(self, status: Status) -> Status {
        status.with_warnings(self.warnings)
    }

    /// The proposal if it stands a check. What was noted before goes with the refusal.
    pub(crate) fn checked(
        mut self,
        check: impl FnOnce(&mut Value) -> Result<(), Status>,
    ) -> Result<Self, Status> {
        match check(&mut self.object) {
            Ok(()) => Ok(self),
            Err(status) => Err(status.with_warnings(self.warnings)),
        }
    }
}

/// What is written, and how strictly the body is read.
pub(crate) struct Context<'a> {
    pub(crate) target: &'a Target,
    pub(crate) validation: FieldValidation,
    pub(crate) registered: &'a dyn Fn(&str, &GroupVersion) -> bool,
}

/// Decodes the body of a create or replace. Nothing is compared with the live object yet.
pub(crate) fn decode_object(cx: &Context<'_>, body: &Body, empties: Empties) -> Result<Proposed, Status> {
    let version = cx.target.kind_version();
    let expected = decode::expected_object(&cx.target.kind, version, cx.registered);
    let Decoded { value: mut object, complaints, resets } =
        decode::decode(&body.bytes, body.media, &expected, cx.validation)?;
    let empties = complete(cx.target, &mut object, empties);
    mark_reset(&mut object, resets);
    let mut warnings = decode::warnings(complaints);
    warnings.extend(metadata::dedup_owner_references(&mut object, metadata::Dedup::Request));
    Ok(Proposed { object, warnings, empties })
}

/// Applies a patch to the live object (in the version of the request).
pub(crate) fn patch_object(
    cx: &Context<'_>,
    live: &Value,
    kind: PatchType,
    body: &[u8],
) -> Result<Proposed, Status> {
    let reported = cx.validation != FieldValidation::Ignore;
    let live = patched_form(&cx.target.kind_version().schema, live, kind);
    let Patched { decoded, shown } = match kind {
        PatchType::Json | PatchType::Merge => patch_document(cx, &live, kind, body, reported)?,
        PatchType::Strategic => patch_strategically(cx, &live, body)?,
    };
    let Decoded { value: mut object, mut complaints, resets } = decoded;
    if !complaints.is_empty() && cx.validation == FieldValidation::Strict {
        return Err(invalid_patch(&shown, &format!("strict decoding error: {}", complaints.join(", "))));
    }
    if !reported {
        complaints.clear();
    }
    complete(cx.target, &mut object, Empties::PreserveSerialized);
    mark_reset(&mut object, resets);
    let proposed = Proposed { object, warnings: decode::warnings(complaints), empties: false };
    proposed.checked(|object| {
        metadata::default_namespace(object, cx.target)?;
        metadata::check_name(object, cx.target)
    })
}

/// The live object as patches see it. JSON patches and merge patches change its JSON, where raw fields keep the order of
/// their keys; strategic merge patches change maps, from which raw fields are written anew.
fn patched_form<'l>(schema: &Schema, live: &'l Value, kind: PatchType) -> Cow<'l, Value> {
    if !schema.has_raw() {
        return Cow::Borrowed(live);
    }
    let mut live = live.clone();
    match kind {
        PatchType::Json | PatchType::Merge => typed::compact_raw(schema, &mut live),
        PatchType::Strategic => typed::drop_raw(schema, &mut live),
    }
    Cow::Owned(live)
}

/// A patched object, and what is shown of the patch if the object turns out to be invalid.
struct Patched {
    decoded: Decoded,
    shown: String,
}

/// JSON patches and merge patches are applied to the JSON of the object; the outcome is read like a body.
fn patch_document(
    cx: &Context<'_>,
    live: &Value,
    kind: PatchType,
    body: &[u8],
    reported: bool,
) -> Result<Patched, Status> {
    let version = cx.target.kind_version();
    let (patched, mut complaints) = document_after(&version.schema, live, kind, body, reported)?;
    let expected = decode::expected_object(&cx.target.kind, version, cx.registered);
    let has_version =
        |map: &Map| map.get("apiVersion").is_some_and(|v| !v.is_null() && *v != Value::from(""));
    let written = |patched: &Value| {
        let parsed = (kind == PatchType::Merge).then(|| json::parse(body).ok()).flatten();
        let merged = parsed.as_ref().map(|parsed| &parsed.value);
        patch::written::written(&version.schema, live, patched, merged)
    };
    if version.schema.is_go() && patched.as_object().is_some_and(|map| !has_version(map)) {
        let shown = written(&patched);
        return Ok(Patched { decoded: without_version(&patched, complaints), shown });
    }
    if let Some(decoded) = decode::decode_plain(patched, &expected).filter(|_| complaints.is_empty()) {
        return Ok(Patched { decoded, shown: String::new() });
    }
    // Something is wrong with the outcome: it is made again and written down, to find and to show what.
    let (patched, _) = document_after(&version.schema, live, kind, body, reported)?;
    let shown = written(&patched);
    let mut decoded = decode::decode_patched(shown.as_bytes(), &expected).map_err(|refusal| {
        let whole = refusal.of_patched(&expected, shown.as_bytes());
        whole.unwrap_or_else(|| invalid_patch(&shown, refusal.why()))
    })?;
    complaints.append(&mut decoded.complaints);
    decoded.complaints = complaints;
    Ok(Patched { decoded, shown })
}

/// What a patch makes that takes away the `apiVersion`. kube-apiserver then reads the document into its internal type,
/// which knows none of the fields: nothing is left of the object.
fn without_version(patched: &Value, mut complaints: Vec<String>) -> Decoded {
    let keys = patched.as_object().into_iter().flat_map(|map| map.iter()).map(|(key, _)| key);
    let unknown = keys.filter(|key| !matches!(key.as_str(), "apiVersion" | "kind"));
    complaints.extend(unknown.map(|key| format!("unknown field {}", quoted(key))));
    Decoded { value: Value::object(), complaints, resets: false }
}

/// The live object after a JSON patch or merge patch, and complaints about the patch itself.
fn document_after(
    schema: &Schema,
    live: &Value,
    kind: PatchType,
    body: &[u8],
    reported: bool,
) -> Result<(Value, Vec<String>), Status> {
    let refuse = |error: PatchError| error.to_status();
    let parsed = json::parse(body).map_err(|error| match kind {
        _ if reported => Status::bad_request(format!("error decoding patch: {error}")),
        PatchType::Merge => Status::bad_request("Invalid JSON Patch"),
        _ => Status::bad_request(error.to_string()),
    })?;
    if kind == PatchType::Json {
        let decoded = patch::json::decode(parsed.value, &parsed.duplicates, reported).map_err(refuse)?;
        let decoded = decoded.with_texts(body, schema.has_raw());
        let mut patched = decoded.apply(live.clone()).map_err(refuse)?;
        if schema.has_raw() {
            typed::fold_raw(schema, &mut patched);
        }
        return Ok((patched, decoded.strict_errors));
    }
    let merged = match std::str::from_utf8(body) {
        Ok(text) if schema.has_raw() => RawJson::with_text(text, parsed.value),
        _ => parsed.value,
    };
    let mut patched = patch::merge::apply(live.clone(), merged, reported).map_err(refuse)?;
    if schema.has_raw() {
        typed::fold_raw(schema, &mut patched);
    }
    Ok((patched, duplicates(&parsed.duplicates)))
}

/// Strategic merge patches are applied to the tree of the object, which is of its kind whatever the patch says.
fn patch_strategically(cx: &Context<'_>, live: &Value, body: &[u8]) -> Result<Patched, Status> {
    let schema = &cx.target.kind_version().schema;
    let parsed = json::parse(body).map_err(|e| Status::bad_request(e.to_string()))?;
    let shown = patch::go_text::go_text(&parsed.value);
    let patched =
        patch::strategic::apply(live.clone(), parsed.value, schema).map_err(|error| error.to_status())?;
    let resets = managed::asks_for_reset(&patched);
    let mut strict = Strict::default();
    let mut value = pintle_schema::decode(schema, patched, &mut strict)
        .map_err(|e| invalid_patch(&shown, e.message()))?;
    decode::stamp(
        &mut value,
        &decode::expected_object(&cx.target.kind, cx.target.kind_version(), cx.registered),
    );
    let mut complaints = duplicates(&parsed.duplicates);
    complaints.extend(strict.texts());
    Ok(Patched { decoded: Decoded { value, complaints, resets }, shown })
}

/// Canonical trees have no empty lists, but an empty list of managed fields means something to ownership.
fn mark_reset(object: &mut Value, resets: bool) {
    const PATH: [&str; 2] = ["metadata", "managedFields"];
    if resets {
        object.set_at(&PATH, Value::Array(Vec::new()));
    } else if object.items_at(&PATH).is_empty() {
        object.remove_at(&PATH);
    }
}

/// Defaults of the version, and the form that Go would write. Says whether empty lists or maps stayed that JSON does
/// not show.
pub(crate) fn complete(target: &Target, object: &mut Value, empties: Empties) -> bool {
    let version = target.kind_version();
    target.kind.hooks.default(&version.name, object);
    // kube-apiserver works on one type for all versions, and what a writer owns is read from that.
    if target.working() != target.version {
        typed::normalize_with(&version.schema, object, empties);
        object::convert(&target.kind, object, target.version, target.working());
        object::convert(&target.kind, object, target.working(), target.version);
    }
    typed::normalize_with(&version.schema, object, empties)
}

fn duplicates(paths: &[Str]) -> Vec<String> {
    paths.iter().map(|path| format!("duplicate field {}", quoted(path))).collect()
}

/// 422 with the patched object as the bad value, as kube-apiserver answers a patch that does not decode.
fn invalid_patch(shown: &str, why: &str) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::of("patch"), shown, why);
    Status::invalid(&GroupKind::default(), "", &errors)
}

/// An applied configuration as it is written; its fields are merged later, against the live object.
pub(crate) struct Configuration {
    pub(crate) tree: Value,
    /// What strict reading has against it.
    strict_error: Option<String>,
}

impl Configuration {
    /// Reads a configuration. Only an object will do, but `null` passes for one without anything in it.
    pub(crate) fn decode(body: &Body) -> Result<Self, Status> {
        let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        if body.media == Media::Cbor {
            let tree = cbor::decode_object(&body.bytes).map_err(|e| refuse(e.to_string()))?;
            return Ok(Configuration { tree, strict_error: None });
        }
        let parsed = yaml::parse(&body.bytes).map_err(|e| refuse(in_conversion(e.message())))?;
        if !matches!(parsed.value, Value::Object(_) | Value::Null) {
            let found = parsed.value.json_type();
            return Err(refuse(format!(
                "error unmarshaling JSON: while decoding JSON: \
                 json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
        Ok(Configuration { tree: parsed.value, strict_error: parsed.strict_error.map(|e| in_conversion(&e)) })
    }

    /// What is left to be said once it has been applied: warnings, or the refusal of a strict request. `unknown`
    /// are fields that were dropped.
    pub(crate) fn complaints(
        self,
        validation: FieldValidation,
        unknown: &Strict,
    ) -> Result<Vec<String>, Status> {
        let mut complaints = unknown.texts();
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => {
                complaints.splice(0..0, self.strict_error);
                Ok(decode::warnings(complaints))
            }
            FieldValidation::Strict => match self.strict_error {
                Some(why) => Err(Status::bad_request(format!("error strict decoding YAML: {why}"))),
                None if complaints.is_empty() => Ok(complaints),
                None => Err(Status::bad_request(format!("strict decoding error: {}", complaints.join(", ")))),
            },
        }
    }
}

fn in_conversion(why: &str) -> String {
    format!("error converting YAML to JSON: {why}")
}
