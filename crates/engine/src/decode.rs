//! Bodies into trees: which kind a body says it is, whether this place takes it, what of it is unknown.
//!
//! The sentences are those of kube-apiserver's serializers, in their order of checks.

use pintle_kinds::{Kind, KindVersion};
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, GroupKind, GroupVersion, Status, field::quoted};
use pintle_schema::proto::{self, Envelope};
use pintle_schema::{Schema, typed};
use pintle_value::{Path, Str, Value, cbor, json, yaml};

/// How a body is written.
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

/// What a body is decoded as: the kind of the object, or of what a subresource takes.
pub struct Expected<'a> {
    /// Group of the kind.
    pub group: &'a str,
    /// Version of the kind.
    pub version: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Its schema.
    pub schema: &'a Schema,
    /// Whether kind and apiVersion may be left out (built-in kinds) or must be there (custom ones).
    pub lenient: bool,
    /// Whether kind and version are known to the server at all, for the choice of the error.
    pub registered: &'a dyn Fn(&str, &GroupVersion) -> bool,
}

/// A decoded body.
pub struct Decoded {
    /// The canonical tree, with kind and apiVersion.
    pub value: Value,
    /// Complaints about unknown and duplicate fields, for warnings.
    pub complaints: Vec<String>,
}

/// Turns a body into the canonical tree of what is expected here.
pub fn decode(
    body: &[u8],
    media: Media,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let parsed = parse(body, media, expected).map_err(|why| unrecognized(expected, &why, body))?;
    let claimed = claimed_gvk(&parsed, media).map_err(|why| unrecognized(expected, &why, body))?;
    let tree = match &parsed.tree {
        Tree::Untyped(tree) => Some(tree),
        Tree::Protobuf(_) => None,
    };
    let gvk = settle_gvk(claimed, expected, tree, body)?;
    let unfit = |why: &str| cannot_be_handled(&gvk, expected, why);
    let Parsed { tree, mut complaints, .. } = parsed;
    let mut strict = typed::Strict::default();
    let mut value = match tree {
        Tree::Untyped(tree) => {
            pintle_schema::decode(expected.schema, tree, &mut strict).map_err(|e| unfit(e.message()))?
        }
        Tree::Protobuf(raw) => {
            let envelope = Envelope { raw: &raw, ..Envelope::default() };
            proto::decode(expected.schema, &envelope).map_err(|e| unfit(&e.to_string()))?
        }
    };
    complaints.extend(strict.unknown.iter().map(|path| format!("unknown field {}", quoted(path))));
    if !complaints.is_empty() && validation == FieldValidation::Strict {
        return Err(unfit(&format!("strict decoding error: {}", complaints.join(", "))));
    }
    if validation == FieldValidation::Ignore {
        complaints.clear();
    }
    stamp(&mut value, expected);
    Ok(Decoded { value, complaints })
}

/// Reads options that come in a body, such as `DeleteOptions`: any kind, unknown fields and all.
pub fn decode_options(body: &[u8], media: Media) -> Result<Value, Status> {
    match media {
        Media::Json => json::parse(body)
            .map(|parsed| parsed.value)
            .map_err(|e| Status::bad_request(format!("couldn't get version/kind; json parse error: {e}"))),
        Media::Yaml => {
            yaml::parse(body).map(|parsed| parsed.value).map_err(|e| Status::bad_request(e.to_string()))
        }
        Media::Cbor => cbor::decode(body).map_err(|e| Status::bad_request(e.to_string())),
        Media::Protobuf => Err(Status::bad_request("options in protobuf are not read")),
    }
}

/// Writes the kind and apiVersion of what is expected into the tree.
fn stamp(value: &mut Value, expected: &Expected<'_>) {
    value.set_at(&["kind"], expected.kind.into());
    value.set_at(&["apiVersion"], api_version(expected.group, expected.version).into());
}

/// `apps/v1`, or `v1` for the core group.
pub fn api_version(group: &str, version: &str) -> Str {
    if group.is_empty() { version.into() } else { Str::from(format!("{group}/{version}")) }
}

enum Tree {
    Untyped(Value),
    Protobuf(Vec<u8>),
}

struct Parsed {
    tree: Tree,
    complaints: Vec<String>,
    claimed: Option<(Str, Str)>,
}

fn parse(body: &[u8], media: Media, _expected: &Expected<'_>) -> Result<Parsed, String> {
    match media {
        Media::Json => {
            let parsed =
                json::parse(body).map_err(|e| format!("couldn't get version/kind; json parse error: {e}"))?;
            Ok(untyped(parsed.value, duplicates(&parsed.duplicates)))
        }
        Media::Yaml => {
            let parsed = yaml::parse(body).map_err(|e| e.to_string())?;
            Ok(untyped(parsed.value, parsed.strict_error.into_iter().map(|e| e.to_string()).collect()))
        }
        Media::Cbor => {
            let value =
                cbor::decode(body).map_err(|e| format!("unable to determine group/version/kind: {e}"))?;
            Ok(untyped(value, Vec::new()))
        }
        Media::Protobuf => {
            let envelope = proto::open(body).map_err(|e| e.to_string())?;
            let claimed = Some((envelope.api_version.clone(), envelope.kind.clone()));
            Ok(Parsed { tree: Tree::Protobuf(envelope.raw.to_vec()), complaints: Vec::new(), claimed })
        }
    }
}

fn untyped(value: Value, complaints: Vec<String>) -> Parsed {
    Parsed { tree: Tree::Untyped(value), complaints, claimed: None }
}

fn duplicates(paths: &[Str]) -> Vec<String> {
    paths.iter().map(|path| format!("duplicate field {}", quoted(path))).collect()
}

/// The apiVersion and kind that the body itself names.
fn claimed_gvk(parsed: &Parsed, media: Media) -> Result<(Str, Str), String> {
    if let Some(claimed) = &parsed.claimed {
        return Ok(claimed.clone());
    }
    let Tree::Untyped(tree) = &parsed.tree else { return Ok(Default::default()) };
    let prefix = match media {
        Media::Cbor => "unable to determine group/version/kind: cbor: cannot unmarshal",
        _ => "couldn't get version/kind; json parse error: json: cannot unmarshal",
    };
    let map = match tree {
        Value::Object(map) => map,
        Value::Null => return Ok(Default::default()),
        other if media == Media::Cbor => {
            let note = " (cannot decode CBOR array to struct without toarray option)";
            let note = if matches!(other, Value::Array(_)) { note } else { "" };
            return Err(format!("{prefix} {} into Go value of type v1.TypeMeta{note}", other.json_type()));
        }
        other => {
            let target = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            return Err(format!("{prefix} {} into Go value of type {target}", other.json_type()));
        }
    };
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(Str::default()),
        Some(Value::String(s)) => Ok(s.clone()),
        Some(other) => {
            Err(format!("{prefix} {} into Go struct field .{key} of type string", other.json_type()))
        }
    };
    Ok((text("apiVersion")?, text("kind")?))
}

struct BodyGvk {
    group_version: GroupVersion,
    kind: Str,
}

/// Fills in what the body leaves out and refuses what this place does not take.
fn settle_gvk(
    claimed: (Str, Str),
    expected: &Expected<'_>,
    tree: Option<&Value>,
    body: &[u8],
) -> Result<BodyGvk, Status> {
    let (api_version, kind) = claimed;
    let group_version =
        GroupVersion::parse(&api_version).map_err(|why| unrecognized(expected, &why, body))?;
    if !expected.lenient {
        if kind.is_empty() {
            let text = String::from_utf8_lossy(body);
            return Err(unrecognized(expected, &format!("Object 'Kind' is missing in '{text}'"), body));
        }
        if group_version.version.is_empty() {
            let text = String::from_utf8_lossy(body);
            return Err(unrecognized(expected, &format!("Object 'apiVersion' is missing in '{text}'"), body));
        }
    }
    let group_version = if group_version.version.is_empty() && group_version.group.is_empty() {
        GroupVersion::new(expected.group, expected.version)
    } else {
        group_version
    };
    let kind = if kind.is_empty() { Str::from(expected.kind) } else { kind };
    let gvk = BodyGvk { group_version, kind };
    let same_kind = gvk.kind == expected.kind && gvk.group_version.group == expected.group;
    if same_kind && gvk.group_version.version == expected.version {
        return Ok(gvk);
    }
    let same_version = gvk.group_version == GroupVersion::new(expected.group, expected.version);
    if !expected.lenient && same_version {
        return Err(other_kind(&gvk, expected, tree));
    }
    if !expected.lenient || (same_kind && (expected.registered)(&gvk.kind, &gvk.group_version)) {
        let expected_version = self::api_version(expected.group, expected.version);
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected_version})",
            gvk.group_version
        )));
    }
    let why = if (expected.registered)(&gvk.kind, &gvk.group_version) {
        format!(
            "converting ({}.{}) to ({}.{}): unknown conversion",
            gvk.group_version.version,
            gvk.kind,
            go_package(expected.group),
            expected.kind
        )
    } else {
        format!(
            "no kind {} is registered for version {} in scheme {}",
            quoted(&gvk.kind),
            quoted(&gvk.group_version.to_string()),
            quoted(scheme(expected.group))
        )
    };
    Err(cannot_be_handled(&gvk, expected, &why))
}

/// A custom resource of another kind is refused by validation, in the name of the kind it says it is.
fn other_kind(gvk: &BodyGvk, expected: &Expected<'_>, tree: Option<&Value>) -> Status {
    let mut errors = FieldErrors::new();
    errors.invalid(&Path::of("kind"), gvk.kind.as_str(), &format!("must be {}", expected.kind));
    let name = tree.map_or("", |tree| tree.str_at(&["metadata", "name"]));
    Status::invalid(&GroupKind::new(&gvk.group_version.group, &gvk.kind), name, &errors)
}

/// The Go package of a group's internal types, as it appears in errors.
fn go_package(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) }
}

/// The name of the Go scheme that knows a group's kinds, as it appears in errors.
fn scheme(group: &str) -> &'static str {
    match group {
        "apiextensions.k8s.io" => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:53",
        "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:31",
        _ => "pkg/api/legacyscheme/scheme.go:30",
    }
}

fn cannot_be_handled(gvk: &BodyGvk, expected: &Expected<'_>, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {} cannot be handled as a {}: {why}",
        gvk.kind,
        quoted(&gvk.group_version.version),
        expected.kind
    ))
}

/// How many characters of a body its error shows.
const SUMMARY_CHARS_MAX: usize = 30;

fn unrecognized(expected: &Expected<'_>, why: &str, body: &[u8]) -> Status {
    let kind = expected.kind;
    let summary = summarize(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The beginning of a body: as text if it looks like a JSON object, in hexadecimal otherwise.
fn summarize(body: &[u8]) -> String {
    let cut = body.get(..SUMMARY_CHARS_MAX).filter(|head| head.len() < body.len());
    match (body.first(), cut) {
        (None, _) => "<empty>".to_string(),
        (Some(b'{'), Some(head)) => format!("{} ...", String::from_utf8_lossy(head)),
        (Some(b'{'), None) => String::from_utf8_lossy(body).into_owned(),
        (_, Some(head)) => format!("{} ...", hex(head)),
        (_, None) => hex(body),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// What the main resource of `kind` in `version` expects.
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
        lenient: version.protobuf,
        registered,
    }
}
