//! Proposals: what the object would become. Pure: live object in, candidate out.
//!
//! Candidates are in the version of the request, decoded and defaulted; ownership of fields is recorded.

use crate::decode::{self, Decoded, FieldValidation, Media};
use crate::{Target, metadata};
use bytes::Bytes;
use pintle_apply::managed::{self, Owner};
use pintle_apply::patch::{self, PatchError};
use pintle_meta::{FieldErrors, GroupKind, GroupVersion, Reason, Status};
use pintle_schema::typed;
use pintle_value::{Path, Value, json, yaml};

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
}

/// Who writes, and how strictly the body is read.
pub(crate) struct Context<'a> {
    pub(crate) target: &'a Target,
    pub(crate) validation: FieldValidation,
    pub(crate) owner: Owner<'a>,
    pub(crate) registered: &'a dyn Fn(&str, &GroupVersion) -> bool,
}

/// Decodes the body of a create or replace. Nothing is compared with the live object yet.
pub(crate) fn decode_object(cx: &Context<'_>, body: &Body) -> Result<Proposed, Status> {
    let version = cx.target.kind_version();
    let expected = decode::expected_object(&cx.target.kind, version, cx.registered);
    let Decoded { value: mut object, complaints: mut warnings } =
        decode::decode(&body.bytes, body.media, &expected, cx.validation)?;
    cx.target.kind.hooks.default(&version.name, &mut object);
    typed::normalize(&version.schema, &mut object);
    warnings.extend(metadata::dedup_owner_references(&mut object, metadata::Dedup::Request));
    Ok(Proposed { object, warnings })
}

/// Applies a patch to the live object (in the version of the request).
pub(crate) fn patch_object(cx: &Context<'_>, live: &Value, kind: PatchType, body: &[u8]) -> Result<Proposed, Status> {
    let version = cx.target.kind_version();
    let reported = cx.validation != FieldValidation::Ignore;
    let (patched, mut complaints, shown) = match kind {
        PatchType::Json => {
            let (ops, complaints) = patch::json::parse(body, reported).map_err(refuse)?;
            let patched = patch::json::apply(&ops, live.clone()).map_err(refuse)?;
            (patched, complaints, None)
        }
        PatchType::Merge => {
            let parsed = json::parse(body).map_err(|e| bad_patch(&e.to_string(), reported))?;
            if !matches!(parsed.value, Value::Object(_)) && reported {
                let why = format!(
                    "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    parsed.value.json_type()
                );
                return Err(Status::bad_request(why));
            }
            let complaints = duplicates(&parsed.duplicates);
            (patch::merge::apply(live.clone(), parsed.value), complaints, None)
        }
        PatchType::Strategic => {
            let parsed = json::parse(body).map_err(|e| Status::bad_request(e.to_string()))?;
            let Value::Object(map) = parsed.value else {
                let why = format!(
                    "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    parsed.value.json_type()
                );
                return Err(Status::bad_request(why));
            };
            let shown = patch::strategic::shown(&map);
            let patched = patch::strategic::apply(&version.schema, live.clone(), map).map_err(refuse)?;
            (patched, duplicates(&parsed.duplicates), Some(shown))
        }
    };
    let shown = shown.unwrap_or_else(|| compact(&patched));
    let mut unknown = Vec::new();
    let mut object =
        typed::decode(&version.schema, patched, &mut unknown).map_err(|e| invalid_patch(&shown, &e.to_string()))?;
    complaints.extend(unknown.into_iter().map(|path| format!("unknown field {}", pintle_meta::field::quoted(&path))));
    if !complaints.is_empty() && cx.validation == FieldValidation::Strict {
        return Err(invalid_patch(&shown, &format!("strict decoding error: {}", complaints.join(", "))));
    }
    if !reported {
        complaints.clear();
    }
    cx.target.kind.hooks.default(&version.name, &mut object);
    typed::normalize(&version.schema, &mut object);
    metadata::settle_namespace(&mut object, cx.target)?;
    metadata::check_name(&object, cx.target)?;
    Ok(Proposed { object, warnings: complaints })
}

fn duplicates(paths: &[pintle_value::Str]) -> Vec<String> {
    paths.iter().map(|path| format!("duplicate field {}", pintle_meta::field::quoted(path))).collect()
}

fn compact(value: &Value) -> String {
    let mut out = Vec::new();
    json::print(value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn bad_patch(why: &str, reported: bool) -> Status {
    Status::bad_request(if reported { format!("error decoding patch: {why}") } else { "Invalid JSON Patch".to_string() })
}

/// 422 with the patched object as the bad value, as kube-apiserver answers a patch that does not decode.
fn invalid_patch(shown: &str, why: &str) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::of("patch"), shown, why);
    Status::invalid(&GroupKind::default(), "", &errors)
}

fn refuse(error: PatchError) -> Status {
    match error {
        PatchError::BadRequest(why) => Status::bad_request(why),
        PatchError::TooManyOperations(why) => Status::new(413, Reason::RequestEntityTooLarge, why),
        PatchError::Unprocessable(_) => {
            Status::new(422, Reason::Invalid, "the server rejected our request due to an error in our request")
        }
        PatchError::Internal(why) => Status::new(500, Reason::Unknown, why),
    }
}

/// Reads an applied configuration. Its fields are merged later, against the live object.
pub(crate) fn decode_applied(cx: &Context<'_>, body: &Body) -> Result<(Value, Vec<String>), Status> {
    let (value, repeated) = match body.media {
        Media::Cbor => {
            let value = pintle_value::cbor::decode(&body.bytes)
                .map_err(|e| Status::bad_request(format!("error decoding YAML: {e}")))?;
            (value, Vec::new())
        }
        _ => {
            let parsed = yaml::parse(&body.bytes)
                .map_err(|e| Status::bad_request(format!("error decoding YAML: {e}")))?;
            (parsed.value, parsed.duplicates)
        }
    };
    let complaints = duplicates(&repeated);
    match cx.validation {
        FieldValidation::Strict if !complaints.is_empty() => {
            Err(Status::bad_request(format!("error strict decoding YAML: {}", complaints.join(", "))))
        }
        FieldValidation::Ignore => Ok((value, Vec::new())),
        _ => Ok((value, complaints)),
    }
}

/// Records on `object` that its writer owns what differs from `live`.
pub(crate) fn own(cx: &Context<'_>, managed: &managed::Context<'_>, live: Option<&Value>, object: &mut Value) {
    // An update that cannot be attributed goes through unattributed, as in kube-apiserver.
    _ = managed::update(managed, live, object, cx.owner);
}
