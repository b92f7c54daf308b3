//! Proposals: computes the object that a request would result in from the live object and the body, without side
//! effects.
//!
//! Candidates are in the version of the request, decoded and defaulted.

use crate::decode::{self, Decoded, Media, Refusal};
use crate::{Target, metadata, object, object_size};
use bytes::Bytes;
use pintle_apply::managed;
use pintle_apply::patch::{self, PatchError};
use pintle_meta::field::quoted;
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, GroupKind, GroupVersion, Status};
use pintle_schema::Schema;
use pintle_schema::typed::{self, Empties, Remaining, Strict};
use pintle_value::{Map, Path, RawJson, Str, Value, cbor, json, yaml};
use std::borrow::Cow;

/// The change that a client requests.
pub enum Change {
    /// A new object.
    Create(Body),
    /// The new object as a whole.
    Replace(Body),
    /// A patch of the object.
    Patch(PatchType, Bytes),
    /// An applied configuration, for server-side apply.
    Apply {
        /// The applied configuration.
        body: Body,
        /// Whether conflicting fields of other managers are taken over.
        force: bool,
    },
}

/// A body and its media type.
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

/// The proposed object and the warnings for the client.
pub(crate) struct Proposed {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
    /// Which empty lists and maps the object has. Go distinguishes them from absent ones until the object is stored.
    pub(crate) empties: Remaining,
    /// Whether the labels of a new object are those of its pod template.
    pub(crate) shares_template_labels: bool,
    /// The kind that the body states, if it is a custom resource of another kind.
    pub(crate) other_kind: Option<GroupKind>,
    /// The `apiVersion` that the body states, if it is an older one that is accepted.
    pub(crate) older_version: Option<Str>,
}

impl Proposed {
    /// A proposal of the kind and version of the request.
    pub(crate) fn plain(object: Value, warnings: Vec<String>, empties: Remaining) -> Self {
        Proposed {
            object,
            warnings,
            empties,
            shares_template_labels: false,
            other_kind: None,
            older_version: None,
        }
    }

    /// Returns the refusal together with the warnings collected so far.
    pub(crate) fn refused(self, status: Status) -> Status {
        status.with_warnings(self.warnings)
    }

    /// Returns the proposal if `check` accepts it. A refusal carries the warnings collected so far.
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

/// The target of a write and how strictly its body is decoded.
pub(crate) struct Context<'a> {
    pub(crate) target: &'a Target,
    pub(crate) validation: FieldValidation,
    pub(crate) registered: &'a dyn Fn(&str, &GroupVersion) -> bool,
}

/// Decodes the body of a create or replace, without comparing it with the live object.
pub(crate) fn decode_object(cx: &Context<'_>, body: &Body, empties: Empties) -> Result<Proposed, Status> {
    let version = cx.target.kind_version();
    let expected = decode::expected_object(&cx.target.kind, version, cx.registered);
    let Decoded { value: mut object, complaints, resets, other_kind, older_version } =
        decode::decode(&body.bytes, body.media, &expected, cx.validation)?;
    if body.media == Media::Protobuf {
        object_size::check(&object)?;
    }
    let shares_template_labels = version.hooks.shares_template_labels(&object);
    let empties = complete(cx.target, &mut object, empties);
    mark_reset(&mut object, resets);
    let mut warnings = decode::warnings(complaints);
    warnings.extend(metadata::dedup_owner_references(&mut object, metadata::Dedup::Request));
    // A write of the status takes the kind from the live object.
    let other_kind = other_kind.filter(|_| cx.target.subresource != "status");
    Ok(Proposed { object, warnings, empties, shares_template_labels, other_kind, older_version })
}

/// Applies a patch to the live object, which is in the version of the request.
pub(crate) fn patch_object(
    cx: &Context<'_>,
    live: &Value,
    kind: PatchType,
    body: &[u8],
) -> Result<Proposed, Status> {
    let reported = cx.validation != FieldValidation::Ignore;
    let live = patched_form(cx.target, live, kind);
    let Patched { decoded, patch_text } = match kind {
        PatchType::Json | PatchType::Merge => patch_document(cx, &live, kind, body, reported)?,
        PatchType::Strategic => patch_strategically(cx, &live, body)?,
    };
    let Decoded { value: mut object, mut complaints, resets, .. } = decoded;
    if !complaints.is_empty() && cx.validation == FieldValidation::Strict {
        return Err(strict_refusal(&patch_text, &complaints));
    }
    if !reported {
        complaints.clear();
    }
    let empties = complete(cx.target, &mut object, Empties::Preserve);
    mark_reset(&mut object, resets);
    let warnings = decode::warnings(complaints);
    let proposed = Proposed::plain(object, warnings, empties);
    proposed.checked(|object| {
        metadata::default_namespace(object, cx.target)?;
        metadata::check_name(object, cx.target)
    })
}

/// Returns the live object in the form that a patch type changes. JSON and merge patches change its JSON, in which raw
/// fields retain the order of their keys and whole floats become integers; strategic merge patches change maps, from which raw
/// fields are printed again.
fn patched_form<'l>(target: &Target, live: &'l Value, kind: PatchType) -> Cow<'l, Value> {
    let schema = &target.kind_version().schema;
    if object::retains_floats(&target.kind) && live.has_whole_floats() {
        let mut live = live.clone();
        live.whole_floats_to_integers();
        return Cow::Owned(live);
    }
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

/// A patched object, and the text that error messages show of it if it is invalid.
struct Patched {
    decoded: Decoded,
    patch_text: String,
}

/// Applies a JSON patch or merge patch to the object's JSON and decodes the result like a body.
fn patch_document(
    cx: &Context<'_>,
    live: &Value,
    kind: PatchType,
    body: &[u8],
    reported: bool,
) -> Result<Patched, Status> {
    let version = cx.target.kind_version();
    let (patched, mut complaints) =
        document_after(&version.schema, live, kind, body, reported, Texts::OfRaw)?;
    object_size::check(&patched)?;
    let expected = decode::expected_object(&cx.target.kind, version, cx.registered);
    let has_version =
        |map: &Map| map.get("apiVersion").is_some_and(|v| !v.is_null() && *v != Value::from(""));
    // Applies the patch again and prints the document, to find errors in it and to quote it.
    let written = || {
        let (patched, _) = document_after(&version.schema, live, kind, body, reported, Texts::OfAll)?;
        Ok::<_, Status>(json::text(&patched))
    };
    if version.schema.decodes_into_go_struct() && patched.as_object().is_some_and(|map| !has_version(map)) {
        let patch_text = written()?;
        return Ok(Patched { decoded: without_version(&patched, complaints), patch_text });
    }
    if let Some(decoded) = decode::decode_plain(patched, &expected).filter(|_| complaints.is_empty()) {
        return Ok(Patched { decoded, patch_text: String::new() });
    }
    let patch_text = written()?;
    let refuse = |refusal: Refusal| {
        let whole = refusal.of_patched(&expected, patch_text.as_bytes());
        whole.unwrap_or_else(|| invalid_patch(&patch_text, refusal.why()))
    };
    let (mut decoded, refusal) = decode::decode_patched(patch_text.as_bytes(), &expected).map_err(refuse)?;
    complaints.append(&mut decoded.complaints);
    decoded.complaints = complaints;
    let Some(refusal) = refusal.filter(|refusal| !is_reset(cx.target, refusal)) else {
        return Ok(Patched { decoded, patch_text });
    };
    Err(match cx.validation {
        FieldValidation::Strict if !decoded.complaints.is_empty() => {
            strict_refusal(&patch_text, &decoded.complaints)
        }
        FieldValidation::Warn => refuse(refusal).with_warnings(decode::warnings(decoded.complaints)),
        _ => refuse(refusal),
    })
}

/// The live object as the text that kube-apiserver's patch library reads: it only parses the objects and lists that a
/// patch looks into, and writes them with sorted keys. All else remains in the order of its type.
fn as_text(schema: &Schema, live: &Value) -> Value {
    let mut text = Vec::new();
    if schema.has_field_order() {
        typed::encode_json(schema, live, &mut text);
    } else {
        json::print(live, &mut text);
    }
    let text = String::from_utf8(text).ok();
    match text.and_then(|text| RawJson::read(&text)) {
        // The document itself is always parsed.
        Some(Value::Raw(raw)) => raw.opened(),
        Some(plain) => plain,
        None => live.clone(),
    }
}

/// The result of a patch that removes `apiVersion`. kube-apiserver then decodes the document into its internal type,
/// which has none of the fields, so the object is empty.
fn without_version(patched: &Value, mut complaints: Vec<String>) -> Decoded {
    let keys = patched.as_object().into_iter().flat_map(|map| map.iter()).map(|(key, _)| key);
    let unknown = keys.filter(|key| !matches!(key.as_str(), "apiVersion" | "kind"));
    complaints.extend(unknown.map(|key| format!("unknown field {}", quoted(key))));
    Decoded::plain(Value::object(), complaints, false)
}

/// Determines which values of a patch keep their original text in the patched document.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    /// The texts of raw fields, for decoding.
    OfRaw,
    /// All texts, for errors: kube-apiserver's library copies what a patch does not look into.
    OfAll,
}

/// Returns the live object after a JSON patch or merge patch, and complaints about the patch itself.
fn document_after(
    schema: &Schema,
    live: &Value,
    kind: PatchType,
    body: &[u8],
    reported: bool,
    texts: Texts,
) -> Result<(Value, Vec<String>), Status> {
    let refuse = |error: PatchError| error.to_status();
    let parsed = json::parse(body).map_err(|error| match kind {
        _ if reported => Status::bad_request(format!("error decoding patch: {error}")),
        PatchType::Merge => Status::bad_request("Invalid JSON Patch"),
        _ => Status::bad_request(error.to_string()),
    })?;
    let keeps_texts = schema.has_raw() || texts == Texts::OfAll;
    let live = if keeps_texts { as_text(schema, live) } else { live.clone() };
    if kind == PatchType::Json {
        let decoded = patch::json::decode(parsed.value, &parsed.duplicates, reported).map_err(refuse)?;
        let decoded = decoded.with_texts(body, keeps_texts);
        let mut patched = decoded.apply(live).map_err(refuse)?;
        if texts == Texts::OfRaw && schema.has_raw() {
            typed::fold_raw(schema, &mut patched);
        }
        return Ok((patched, decoded.strict_errors));
    }
    let merged = match std::str::from_utf8(body) {
        Ok(text) if keeps_texts => RawJson::with_text(text, parsed.value),
        _ => parsed.value,
    };
    let mut patched = patch::merge::apply(live, merged, reported).map_err(refuse)?;
    if texts == Texts::OfRaw && schema.has_raw() {
        typed::fold_raw(schema, &mut patched);
    }
    Ok((patched, duplicates(&parsed.duplicates)))
}

/// Applies a strategic merge patch to the object's tree. The result is of the object's kind whatever the patch says.
fn patch_strategically(cx: &Context<'_>, live: &Value, body: &[u8]) -> Result<Patched, Status> {
    let schema = &cx.target.kind_version().schema;
    let parsed = json::parse(body).map_err(|e| Status::bad_request(e.to_string()))?;
    let patch_text =
        |patch: &Value| patch::go_text::go_text(&patch::strategic::remaining(live, patch, schema));
    let patched = patch::strategic::apply(live.clone(), parsed.value.clone(), schema)
        .map_err(|error| error.to_status())?;
    object_size::check(&patched)?;
    let resets = managed::resets_managed_fields(&patched);
    let mut strict = Strict { omits_keys: true, ..Strict::default() };
    let mut value = pintle_schema::decode(schema, patched, &mut strict)
        .map_err(|e| invalid_patch(&patch_text(&parsed.value), e.message()))?;
    if let Some(why) = cx.target.kind_version().hooks.conversion_error(&value) {
        return Err(Status::unclassified(why));
    }
    decode::stamp(
        &mut value,
        &decode::expected_object(&cx.target.kind, cx.target.kind_version(), cx.registered),
    );
    let mut complaints = duplicates(&parsed.duplicates);
    complaints.extend(strict.texts());
    let patch_text = if complaints.is_empty() { String::new() } else { patch_text(&parsed.value) };
    Ok(Patched { decoded: Decoded::plain(value, complaints, resets), patch_text })
}

/// Canonical trees omit empty lists, but an empty managedFields list resets ownership, so mark it.
fn mark_reset(object: &mut Value, resets: bool) {
    const PATH: [&str; 2] = ["metadata", "managedFields"];
    if resets {
        object.set_at(&PATH, Value::Array(Vec::new()));
    } else if object.items_at(&PATH).is_empty() {
        object.remove_at(&PATH);
    }
}

/// Applies the version's defaults and brings the object into the form that Go would write. Returns which empty
/// lists and maps it has.
pub(crate) fn complete(target: &Target, object: &mut Value, empties: Empties) -> Remaining {
    let version = target.kind_version();
    version.apply_defaults(object);
    // kube-apiserver works on one internal type for all versions, and computes ownership from that.
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

/// The 422 that kube-apiserver returns for a patched object that does not decode, with the object as bad value.
fn invalid_patch(patch_text: &str, why: &str) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::of("patch"), patch_text, why);
    Status::invalid(&GroupKind::default(), "", &errors)
}

fn strict_refusal(patch_text: &str, complaints: &[String]) -> Status {
    invalid_patch(patch_text, &format!("strict decoding error: {}", complaints.join(", ")))
}

/// Returns whether a write takes what is refused from the live object: one of the status of a custom resource does so with
/// kind and version.
fn is_reset(target: &Target, refusal: &Refusal) -> bool {
    let is_named = match refusal {
        Refusal::OtherVersion { claimed: (version, _), .. } => !version.version.is_empty(),
        _ => true,
    };
    is_named && target.subresource == "status" && !target.kind_version().protobuf
}

/// An applied configuration as sent by the client. Its fields are merged with the live object later.
pub(crate) struct Configuration {
    pub(crate) tree: Value,
    /// The complaints of strict decoding.
    strict_error: Option<String>,
}

impl Configuration {
    /// Decodes a configuration. It must be an object; `null` counts as an empty one.
    pub(crate) fn decode(body: &Body) -> Result<Self, Status> {
        let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        if body.media == Media::Cbor {
            if object_size::has_too_many_values(&body.bytes) {
                return Err(Status::entity_too_large(object_size::TOO_LARGE));
            }
            let tree = cbor::decode_object(&body.bytes).map_err(|e| refuse(e.to_string()))?;
            object_size::check(&tree)?;
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
        object_size::check(&parsed.value)?;
        Ok(Configuration { tree: parsed.value, strict_error: parsed.strict_error.map(|e| in_conversion(&e)) })
    }

    /// Returns the warnings after the configuration was applied, or the refusal of a strict request. `unknown` are the
    /// fields that were dropped.
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
