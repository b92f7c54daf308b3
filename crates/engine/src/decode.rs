//! Decodes request bodies into trees: determines the kind of a body, refuses kinds that the endpoint does not accept,
//! and collects unknown fields.
//!
//! The messages, and the order of the checks, are those of kube-apiserver's serializers.

mod cbor_error_text;
mod gvk;
mod known;

use crate::object_size;
use gvk::BodyGvk;
pub(crate) use known::is_in_every_version;
use pintle_apply::managed;
use pintle_kinds::{Hooks, Kind, KindVersion};
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, GroupKind, GroupVersion, Status, field::quoted};
use pintle_schema::Schema;
use pintle_schema::proto::{self, Envelope};
use pintle_schema::typed::{self, Strict};
use pintle_value::json::Parsed as Document;
use pintle_value::{Path, Str, Value, cbor, hex, json, yaml};

/// The internal version of kube-apiserver, in which it works on all kinds. A body with this version is refused.
pub(crate) const INTERNAL_VERSION: &str = "__internal";

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// `application/json`
    Json,
    /// `application/yaml`
    Yaml,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
    /// `application/cbor`
    Cbor,
}

/// The type that a body is decoded as: the kind of the object or of a subresource's body.
pub struct Expected<'a> {
    /// Group of the kind.
    pub group: &'a str,
    /// Version of the kind.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// The kind's schema.
    pub schema: &'a Schema,
    /// All versions of the kind.
    pub versions: &'a [KindVersion],
    /// Knows which decoded objects kube-apiserver cannot convert into its internal type.
    pub hooks: &'a dyn Hooks,
    /// Whether kind and apiVersion may be omitted, as for built-in kinds. Custom resources must have them.
    pub lenient: bool,
    /// Returns whether the server knows a kind in a version; this decides which error is reported.
    pub registered: &'a dyn Fn(&str, &GroupVersion) -> bool,
}

/// A decoded body.
pub struct Decoded {
    /// The decoded object in canonical form, with kind and apiVersion.
    pub value: Value,
    /// Unknown and duplicate fields, which become warnings or errors depending on fieldValidation.
    pub complaints: Vec<String>,
    /// Whether the body resets managedFields with an empty list. The canonical tree cannot represent that list.
    pub resets: bool,
    /// The kind that the body states, if it is a custom resource of another kind. Validation refuses it.
    pub other_kind: Option<GroupKind>,
    /// The `apiVersion` that the body states, if it is an older one that is accepted all the same. Audit events have it.
    pub older_version: Option<Str>,
}

impl Decoded {
    /// A body of the expected kind and version.
    pub(crate) fn plain(value: Value, complaints: Vec<String>, resets: bool) -> Self {
        Decoded { value, complaints, resets, other_kind: None, older_version: None }
    }
}

/// The reason why a body is refused.
#[derive(Clone)]
pub enum Refusal {
    /// The kind of the body cannot be determined.
    Unrecognized(String),
    /// The body is malformed or of another kind than expected.
    Unfit {
        /// The kind that the body states.
        kind: Str,
        /// The version that the body states.
        version: Str,
        /// The error message.
        why: String,
    },
    /// A custom resource without kind.
    Kindless {
        /// The version that the body states.
        version: Str,
        /// The error message.
        why: String,
    },
    /// The body is in another version than the request path.
    OtherVersion {
        /// The version and kind that the body states.
        claimed: (GroupVersion, Str),
        /// The error message.
        why: String,
    },
    /// A custom resource of another kind. Validation refuses it under the kind that it states.
    OtherKind(GroupKind),
    /// The object would take too much memory.
    TooLarge,
}

impl Refusal {
    /// The error message, without a reference to the body.
    pub fn why(&self) -> &str {
        match self {
            Refusal::Unrecognized(why)
            | Refusal::Unfit { why, .. }
            | Refusal::Kindless { why, .. }
            | Refusal::OtherVersion { why, .. } => why,
            Refusal::OtherKind(_) => "the object is of another kind",
            Refusal::TooLarge => object_size::TOO_LARGE,
        }
    }

    /// The error for a custom resource that a patch turned into another kind: kube-apiserver reports wrong fields,
    /// because it reads the object before it checks the version.
    pub(crate) fn of_patched(&self, expected: &Expected<'_>, document: &[u8]) -> Option<Status> {
        match self {
            Refusal::OtherKind(_) => Some(self.to_status(expected, document)),
            Refusal::OtherVersion { claimed: (version, _), .. } if version.version.is_empty() => {
                let why = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
                Some(Status::internal(why))
            }
            Refusal::OtherVersion { claimed: (version, kind), .. } if !expected.lenient => {
                let mut errors = FieldErrors::new();
                if kind != expected.kind {
                    let why = format!("must be {}", expected.kind);
                    errors.invalid(&Path::of("kind"), kind.as_str(), &why);
                }
                let why = format!("must be {}", api_version(expected.group, expected.version));
                errors.invalid(&Path::of("apiVersion"), version.to_string().as_str(), &why);
                let tree = json::parse(document).map(|parsed| parsed.value).unwrap_or_default();
                let kind = GroupKind::new(&version.group, kind);
                Some(Status::invalid(&kind, tree.str_at(&["metadata", "name"]), &errors))
            }
            _ => None,
        }
    }

    pub(crate) fn to_status(&self, expected: &Expected<'_>, body: &[u8]) -> Status {
        let wanted = expected.kind;
        if let Refusal::OtherKind(kind) = self {
            let tree = json::parse(body).map(|parsed| parsed.value).unwrap_or_default();
            return other_kind(kind, wanted, &tree);
        }
        if let Refusal::TooLarge = self {
            return Status::entity_too_large(self.why());
        }
        Status::bad_request(match self {
            Refusal::Unrecognized(why) | Refusal::Kindless { why, .. } => {
                let summary = summarize(body);
                format!("the object provided is unrecognized (must be of type {wanted}): {why} ({summary})")
            }
            Refusal::Unfit { kind, version, why } => {
                format!("{kind} in version {} cannot be handled as a {wanted}: {why}", quoted(version))
            }
            Refusal::OtherVersion { .. } | Refusal::OtherKind(_) | Refusal::TooLarge => {
                self.why().to_string()
            }
        })
    }
}

/// Decodes a body into the canonical tree of the expected type.
pub fn decode(
    body: &[u8],
    media: Media,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let Read { gvk, mut decoded, refusal } =
        read(body, media, expected).map_err(|refusal| match refusal {
            // Without strict validation the error names the expected kind.
            Refusal::Kindless { version, why } if validation == FieldValidation::Ignore => {
                Refusal::Unfit { kind: expected.kind.into(), version, why }.to_status(expected, body)
            }
            other => other.to_status(expected, body),
        })?;
    if !decoded.complaints.is_empty() && validation == FieldValidation::Strict {
        let why = format!("strict decoding error: {}", decoded.complaints.join(", "));
        return Err(gvk.unfit(why).to_status(expected, body));
    }
    if validation == FieldValidation::Ignore {
        decoded.complaints.clear();
    }
    match refusal {
        None => {}
        Some(Refusal::OtherKind(kind)) => decoded.other_kind = Some(kind),
        Some(refusal) => {
            return Err(refusal.to_status(expected, body).with_warnings(warnings(decoded.complaints)));
        }
    }
    Ok(decoded)
}

/// The error about a custom resource of another kind than the expected one.
pub(crate) fn other_kind(stated: &GroupKind, wanted: &str, object: &Value) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::of("kind"), stated.kind.as_str(), &format!("must be {wanted}"));
    Status::invalid(stated, object.str_at(&["metadata", "name"]), &errors)
}

/// Decodes a tree on the fast path: only if it is of the expected kind, without unknown fields and with correct types.
pub fn decode_plain(tree: Value, expected: &Expected<'_>) -> Option<Decoded> {
    let is_ours = tree.str_at(&["kind"]) == expected.kind
        && api_version(expected.group, expected.version) == tree.str_at(&["apiVersion"]);
    if !is_ours {
        return None;
    }
    let resets = resets(&tree, expected);
    let mut strict = Strict::default();
    let value = pintle_schema::decode(expected.schema, tree, &mut strict).ok()?;
    if expected.hooks.conversion_error(&value).is_some() {
        return None;
    }
    strict.unknown.is_empty().then(|| Decoded::plain(value, Vec::new(), resets))
}

/// Like `decode`, for a document that a patch produced. Its errors have other texts. The second refusal, if there is one,
/// comes after the complaints about the document.
pub fn decode_patched(
    document: &[u8],
    expected: &Expected<'_>,
) -> Result<(Decoded, Option<Refusal>), Refusal> {
    read(document, Media::Json, expected).map(|read| (read.decoded, read.refusal))
}

/// A body that could be decoded.
struct Read {
    gvk: BodyGvk,
    decoded: Decoded,
    /// Why it is refused all the same. kube-apiserver decodes bodies of other versions before it refuses them.
    refusal: Option<Refusal>,
}

fn read(body: &[u8], media: Media, expected: &Expected<'_>) -> Result<Read, Refusal> {
    if media == Media::Cbor && object_size::has_too_many_values(body) {
        return Err(Refusal::TooLarge);
    }
    let parsed = parse(body, media).map_err(Refusal::Unrecognized)?;
    let claimed = gvk::claimed(&parsed, media, expected, body).map_err(Refusal::Unrecognized)?;
    let (gvk, refusal) = gvk::resolve(claimed, expected, media, body)?;
    let tree = match &parsed {
        Parsed::Json(document, _) => Some(&document.value),
        Parsed::Yaml(value, _) | Parsed::Cbor(value) => Some(value),
        Parsed::BadCbor(_) | Parsed::Protobuf(_) => None,
    };
    let is_short = media == Media::Json && object_size::is_short_json(body);
    if tree.is_some_and(|tree| !is_short && object_size::check(tree).is_err()) {
        return Err(Refusal::TooLarge);
    }
    if !expected.lenient && tree.and_then(|tree| tree.get("apiVersion")).is_some_and(Value::is_null) {
        let why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
        return Err(gvk.unfit(why.to_string()));
    }
    let resets = tree.is_some_and(|tree| resets(tree, expected));
    let stated = gvk.version_of(expected).filter(|_| refusal.is_some());
    let known = match (&refusal, stated) {
        (None, _) | (_, Some(_)) => Known::AllFields,
        // kube-apiserver has no schema for it.
        (Some(refusal), None) if expected.lenient => return Err(refusal.clone()),
        (Some(_), None) if gvk.is_kind(expected.group, expected.kind) => Known::NoFields,
        (Some(_), None) => Known::Metadata,
    };
    let schema = stated.map_or(expected.schema, |version| &version.schema);
    let (mut value, complaints) =
        typed_tree(parsed, body, &Expected { schema, ..*expected }, known).map_err(|why| gvk.unfit(why))?;
    let hooks = stated.map_or(expected.hooks, |version| version.hooks);
    if let Some(why) = hooks.conversion_error(&value) {
        return Err(gvk.unfit(why));
    }
    stamp(&mut value, expected);
    let mut decoded = Decoded::plain(value, complaints, resets);
    if refusal.is_none() {
        decoded.older_version = gvk.older_version(expected);
    }
    Ok(Read { gvk, decoded, refusal })
}

/// The fields of a body for which there is a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    AllFields,
    /// A custom resource of another kind: its other fields may have any name.
    Metadata,
    /// A custom resource in a version that its definition does not have: it has no other fields.
    NoFields,
}

/// Returns whether a body resets managedFields. kube-apiserver decodes the metadata of custom resources once more, and
/// an empty list does not survive that.
fn resets(body: &Value, expected: &Expected<'_>) -> bool {
    let is_empty = body.items_at(&["metadata", "managedFields"]).is_empty();
    managed::resets_managed_fields(body) && (expected.schema.decodes_into_go_struct() || !is_empty)
}

/// Turns complaints into warnings. Complaints about YAML come as one text; each line becomes one warning.
pub fn warnings(complaints: Vec<String>) -> Vec<String> {
    const YAML: [&str; 2] =
        ["yaml: unmarshal errors:\n", "error converting YAML to JSON: yaml: unmarshal errors:\n"];
    let mut out = Vec::with_capacity(complaints.len());
    for complaint in complaints {
        match YAML.iter().find_map(|prefix| complaint.strip_prefix(prefix)) {
            Some(lines) => out.extend(lines.split('\n').map(|line| line.trim().to_string())),
            None => out.push(complaint),
        }
    }
    out
}

/// Decodes options from a body, such as DeleteOptions, of any kind and with unknown fields. `schema` is the schema of
/// the options, for encodings that need one.
pub fn decode_options(body: &[u8], media: Media, schema: &Schema) -> Result<Value, Status> {
    let parsed = parse(body, media).map_err(Status::bad_request)?;
    if let Parsed::Json(Document { value, .. }, _) | Parsed::Yaml(value, _) | Parsed::Cbor(value) = &parsed {
        gvk::members(value, media, body).map_err(Status::bad_request)?;
    }
    match parsed {
        Parsed::Json(_, Some(out_of_range)) => Err(Status::bad_request(out_of_range.to_string())),
        Parsed::Json(document, None) => Ok(document.value),
        Parsed::Yaml(value, _) | Parsed::Cbor(value) => Ok(value),
        Parsed::BadCbor(error) => Err(Status::bad_request(error.to_string())),
        Parsed::Protobuf(envelope) => {
            proto::decode(schema, &envelope).map_err(|error| Status::bad_request(error.to_string()))
        }
    }
}

/// Refuses a body that is not an object, with the error of kube-apiserver's kind detection.
pub(crate) fn check_is_object(tree: &Value) -> Result<(), String> {
    gvk::members(tree, Media::Json, &[]).map(|_| ())
}

/// Sets the kind and apiVersion of the expected type in the tree.
pub(crate) fn stamp(value: &mut Value, expected: &Expected<'_>) {
    value.set_at(&["kind"], expected.kind.into());
    value.set_at(&["apiVersion"], api_version(expected.group, expected.version).into());
}

/// `apps/v1`, or `v1` for the core group.
pub fn api_version(group: &str, version: &str) -> Str {
    if group.is_empty() { version.into() } else { Str::from(format!("{group}/{version}")) }
}

/// Returns whether `text` is the `apiVersion` of a version, without building that.
pub(crate) fn is_api_version(group: &str, version: &str, text: &str) -> bool {
    match group {
        "" => text == version,
        _ => text.strip_prefix(group).and_then(|rest| rest.strip_prefix('/')) == Some(version),
    }
}

/// A parsed body whose type has not been checked yet.
enum Parsed<'b> {
    /// The document, and the error of a number that is out of range, if there is one.
    Json(Document, Option<json::ParseError>),
    /// The tree, and the complaints of strict decoding.
    Yaml(Value, Option<Str>),
    Cbor(Value),
    /// Well-formed CBOR that is not an object. The kind that it states is checked before this error is reported.
    BadCbor(cbor::DecodeError),
    Protobuf(Envelope<'b>),
}

fn parse(body: &[u8], media: Media) -> Result<Parsed<'_>, String> {
    match media {
        Media::Json => json::parse_unbounded(body)
            .map(|(document, out_of_range)| Parsed::Json(document, out_of_range))
            .map_err(|e| format!("couldn't get version/kind; json parse error: {e}")),
        Media::Yaml => {
            let document = yaml::parse(body).map_err(|e| e.to_string())?;
            Ok(Parsed::Yaml(document.value, document.strict_error))
        }
        Media::Cbor => match cbor::decode(body) {
            Ok(value) => Ok(Parsed::Cbor(value)),
            Err(error) if error.is_malformed() => {
                Err(format!("unable to determine group/version/kind: {error}"))
            }
            Err(error) => Ok(Parsed::BadCbor(error)),
        },
        Media::Protobuf => proto::open(body).map(Parsed::Protobuf).map_err(|e| e.to_string()),
    }
}

/// Returns the tree as its schema types it, and the complaints of strict decoding. The error says which value has a
/// wrong type.
fn typed_tree(
    parsed: Parsed<'_>,
    body: &[u8],
    expected: &Expected<'_>,
    known: Known,
) -> Result<(Value, Vec<String>), String> {
    let schema = expected.schema;
    let untyped = |value: Value| {
        let mut strict = Strict::default();
        let names: Vec<Str> = match known {
            Known::NoFields => value
                .as_object()
                .into_iter()
                .flat_map(|map| map.iter())
                .map(|(name, _)| name.clone())
                .collect(),
            _ => Vec::new(),
        };
        let value = pintle_schema::decode(schema, value, &mut strict)?;
        if known != Known::AllFields {
            strict.unknown.retain(|path| path.starts_with("metadata."));
            let others =
                names.into_iter().filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
            strict.unknown.extend(others);
            strict.unknown.sort();
        }
        Ok::<_, typed::TypeError>((value, strict))
    };
    match parsed {
        Parsed::Json(document, out_of_range) if schema.decodes_into_go_struct() => {
            let decoded = typed::decode_parsed(schema, document, body).map_err(|e| e.to_string())?;
            match out_of_range.filter(|_| !is_finite(&decoded.value)) {
                Some(error) => Err(error.to_string()),
                None => {
                    let mut value = decoded.value;
                    typed::restore_raw(schema, &mut value, body);
                    Ok((value, decoded.strict))
                }
            }
        }
        Parsed::Json(_, Some(out_of_range)) => Err(out_of_range.to_string()),
        Parsed::Json(document, None) => {
            let mut complaints = duplicates(&document.duplicates);
            let (value, strict) = untyped(document.value).map_err(|e| e.to_string())?;
            complaints.extend(strict.texts());
            Ok((value, complaints))
        }
        Parsed::Yaml(value, strict_error) => {
            let mut complaints: Vec<String> = strict_error.into_iter().map(|e| e.to_string()).collect();
            let (value, strict) = untyped(value).map_err(|e| e.to_string())?;
            complaints.extend(strict.texts());
            Ok((value, complaints))
        }
        Parsed::Cbor(mut value) => {
            if schema.decodes_into_go_struct() {
                typed::restore_bytes(schema, &mut value, body)?;
            }
            let (value, strict) = untyped(value)
                .map_err(|e| cbor_error_text::mismatch(&e, expected, cbor_error_text::string_type(body)))?;
            // Strict CBOR decoding only applies to Go types, and stops at the first unknown field.
            let unknown = if schema.decodes_into_go_struct() {
                cbor::unknown_field_index(body, &strict.unknown)
            } else {
                None
            };
            let complaint = |index| format!("cbor: found unknown field at map element index {index}");
            Ok((value, unknown.map(complaint).into_iter().collect()))
        }
        Parsed::BadCbor(error) => Err(cbor_error_text::decode_error_text(&error, expected)),
        Parsed::Protobuf(envelope) => {
            let envelope = Envelope { raw: envelope.raw, ..Envelope::default() };
            proto::decode(schema, &envelope).map(|value| (value, Vec::new())).map_err(|e| e.to_string())
        }
    }
}

/// Returns whether all numbers are finite. Only called if one was out of range.
fn is_finite(value: &Value) -> bool {
    match value {
        Value::Float(f) => f.is_finite(),
        Value::Array(items) => items.iter().all(is_finite),
        Value::Object(map) => map.values().all(is_finite),
        _ => true,
    }
}

fn duplicates(paths: &[Str]) -> Vec<String> {
    paths.iter().map(|path| format!("duplicate field {}", quoted(path))).collect()
}

/// How many characters of a body an error message contains.
const SUMMARY_CHARS_MAX: usize = 30;

/// The beginning of a body for an error message: as text if it looks like a JSON object, otherwise in hexadecimal.
fn summarize(body: &[u8]) -> String {
    let cut = body.get(..SUMMARY_CHARS_MAX).filter(|head| head.len() < body.len());
    match (body.first(), cut) {
        (None, _) => "<empty>".to_string(),
        (Some(b'{'), Some(head)) => format!("{} ...", String::from_utf8_lossy(head)),
        (Some(b'{'), None) => String::from_utf8_lossy(body).into_owned(),
        (_, Some(head)) => format!("{} ...", hex::encode(head)),
        (_, None) => hex::encode(body),
    }
}

/// The expected type for the main resource of `kind` in `version`.
pub fn expected_object<'a>(
    kind: &'a Kind,
    version: &'a KindVersion,
    registered: &'a dyn Fn(&str, &GroupVersion) -> bool,
) -> Expected<'a> {
    Expected {
        group: &version.group,
        version: &version.name,
        kind: &kind.kind,
        schema: &version.schema,
        versions: &kind.versions,
        hooks: version.hooks,
        lenient: version.protobuf,
        registered,
    }
}

#[cfg(test)]
mod tests;
