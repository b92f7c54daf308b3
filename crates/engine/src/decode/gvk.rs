//! Determines the kind that a body states and checks that this endpoint accepts it.

use super::{Expected, INTERNAL_VERSION, Media, Parsed, Refusal, api_version, cbor_error_text, known};
use pintle_kinds::KindVersion;
use pintle_meta::go_type::unregistered_kind;
use pintle_meta::{GroupKind, GroupVersion};
use pintle_value::{Map, Str, Value};

/// The apiVersion and kind that the body states.
pub(super) fn claimed(
    parsed: &Parsed<'_>,
    media: Media,
    expected: &Expected<'_>,
    body: &[u8],
) -> Result<(Str, Str), String> {
    let tree = match parsed {
        Parsed::Json(document, _) => &document.value,
        Parsed::Yaml(value, _) | Parsed::Cbor(value) => value,
        Parsed::BadCbor(_) => {
            return Ok((api_version(expected.group, expected.version), expected.kind.into()));
        }
        Parsed::Protobuf(envelope) => return Ok((envelope.api_version.clone(), envelope.kind.clone())),
    };
    let prefix = error_prefix(media);
    let Some(map) = members(tree, media, body)? else { return Ok(Default::default()) };
    let text = |key: &str| match named(map, key, media) {
        None | Some(Value::Null) => Ok(Str::default()),
        Some(Value::String(s)) => Ok(s.clone()),
        Some(other) if media == Media::Cbor => {
            let found = cbor_error_text::type_of(other, cbor_error_text::string_type(body));
            Err(format!("{prefix} {found} into Go struct field v1.TypeMeta.{key} of type string"))
        }
        Some(other) => {
            Err(format!("{prefix} {} into Go struct field .{key} of type string", other.json_type()))
        }
    };
    Ok((text("apiVersion")?, text("kind")?))
}

fn error_prefix(media: Media) -> &'static str {
    match media {
        Media::Cbor => "unable to determine group/version/kind: cbor: cannot unmarshal",
        _ => "couldn't get version/kind; json parse error: json: cannot unmarshal",
    }
}

/// The members of an object, or none for null. Other values have no kind and are refused.
pub(super) fn members<'v>(tree: &'v Value, media: Media, body: &[u8]) -> Result<Option<&'v Map>, String> {
    let prefix = error_prefix(media);
    match tree {
        Value::Object(map) => Ok(Some(map)),
        Value::Null => Ok(None),
        other if media == Media::Cbor => {
            let note = " (cannot decode CBOR array to struct without toarray option)";
            let note = if matches!(other, Value::Array(_)) { note } else { "" };
            let found = cbor_error_text::type_of(other, cbor_error_text::string_type(body));
            Err(format!("{prefix} {found} into Go value of type v1.TypeMeta{note}"))
        }
        other => {
            let target = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
            Err(format!("{prefix} {} into Go value of type {target}", other.json_type()))
        }
    }
}

/// The member with this name. While only the kind is detected, JSON keys match case-insensitively, as in Go.
fn named<'v>(map: &'v Map, key: &str, media: Media) -> Option<&'v Value> {
    let folded = || map.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    map.get(key).or_else(|| if media == Media::Cbor { None } else { folded() })
}

/// The kind and version of a body: those that it states, completed from the request path.
pub(super) struct BodyGvk {
    group_version: GroupVersion,
    kind: Str,
}

impl BodyGvk {
    pub(super) fn is_kind(&self, group: &str, kind: &str) -> bool {
        self.group_version.group == group && self.kind == kind
    }

    /// The `apiVersion` of the body, if it is not the expected one.
    pub(super) fn older_version(&self, expected: &Expected<'_>) -> Option<Str> {
        let GroupVersion { group, version } = &self.group_version;
        let is_expected = group == expected.group && version == expected.version;
        (!is_expected).then(|| api_version(group, version))
    }

    /// The version of the expected kind that the body is in, if it has one.
    pub(super) fn version_of<'k>(&self, expected: &Expected<'k>) -> Option<&'k KindVersion> {
        let GroupVersion { group, version } = &self.group_version;
        let mut versions = expected.versions.iter().filter(|_| self.kind == expected.kind);
        versions.find(|known| known.name == *version && known.group == *group)
    }

    pub(super) fn unfit(&self, why: String) -> Refusal {
        Refusal::Unfit { kind: self.kind.clone(), version: self.group_version.version.clone(), why }
    }
}

/// Completes the kind and version from the request path and refuses kinds that this endpoint does not accept. The second
/// refusal, if there is one, is for a body that is decoded first: it is in another version or a custom resource of another
/// kind.
pub(super) fn resolve(
    claimed: (Str, Str),
    expected: &Expected<'_>,
    media: Media,
    body: &[u8],
) -> Result<(BodyGvk, Option<Refusal>), Refusal> {
    let (version, kind) = claimed;
    let group_version = GroupVersion::parse(&version).map_err(Refusal::Unrecognized)?;
    let missing = |what: &str| format!("Object '{what}' is missing in '{}'", String::from_utf8_lossy(body));
    if !expected.lenient && kind.is_empty() {
        let version = if version.is_empty() { expected.version.into() } else { group_version.version };
        return Err(Refusal::Kindless { version, why: missing("Kind") });
    }
    let other_version = |group_version: &GroupVersion, kind: &Str| {
        let wanted = api_version(expected.group, expected.version);
        let why = format!(
            "the API version in the data ({group_version}) does not match the expected API version ({wanted})"
        );
        let claimed = (group_version.clone(), kind.clone());
        Some(Refusal::OtherVersion { claimed, why })
    };
    if !expected.lenient && group_version.version.is_empty() {
        let refusal = other_version(&group_version, &kind);
        return Ok((BodyGvk { group_version, kind }, refusal));
    }
    let takes_ours = group_version.version.is_empty()
        && (group_version.group.is_empty()
            || group_version.group == expected.group
            || media == Media::Protobuf);
    let group_version =
        if takes_ours { GroupVersion::new(expected.group, expected.version) } else { group_version };
    let kind = if kind.is_empty() { Str::from(expected.kind) } else { kind };
    let gvk = BodyGvk { group_version, kind };
    if gvk.group_version.version.is_empty() {
        return Err(gvk.unfit(missing("apiVersion")));
    }
    let same_version = gvk.group_version == GroupVersion::new(expected.group, expected.version);
    if gvk.kind == expected.kind && (same_version || known::is_still_taken(&gvk.kind, &gvk.group_version)) {
        return Ok((gvk, None));
    }
    let home = known::home_group(expected.group, expected.kind);
    let same_kind =
        gvk.kind == expected.kind && known::home_group(&gvk.group_version.group, &gvk.kind) == home;
    let registered = is_in_scheme(&gvk, expected);
    if !expected.lenient && same_version {
        let kind = GroupKind::new(&gvk.group_version.group, &gvk.kind);
        return Ok((gvk, Some(Refusal::OtherKind(kind))));
    }
    if !expected.lenient || (same_kind && registered) {
        let refusal = other_version(&gvk.group_version, &gvk.kind);
        return Ok((gvk, refusal));
    }
    let why = if registered {
        format!(
            "converting ({}.{}) to ({}.{}): unknown conversion",
            match gvk.group_version.version.as_str() {
                INTERNAL_VERSION => go_package(&gvk.group_version.group),
                _ if known::is_unversioned(&gvk.kind) || known::is_in_every_version(&gvk.kind) => "v1",
                version => version,
            },
            gvk.kind,
            go_package(home),
            expected.kind
        )
    } else {
        unregistered_kind(&gvk.kind, &gvk.group_version.to_string(), scheme(expected.group))
    };
    Err(gvk.unfit(why))
}

/// Returns whether the Go scheme of the expected kind also contains the body's kind.
fn is_in_scheme(gvk: &BodyGvk, expected: &Expected<'_>) -> bool {
    let BodyGvk { group_version, kind } = gvk;
    if known::is_everywhere(kind, group_version) {
        return true;
    }
    scheme(&group_version.group) == scheme(expected.group)
        && ((expected.registered)(kind, group_version)
            || known::is_unserved(kind, group_version)
            || known::is_only_a_body(kind, group_version))
}

/// The Go package of a group's internal types, for error messages.
fn go_package(group: &str) -> &str {
    if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) }
}

/// The name of the Go scheme that contains a group's kinds, for error messages.
fn scheme(group: &str) -> &'static str {
    match group {
        "apiextensions.k8s.io" => "k8s.io/apiextensions-apiserver/pkg/apiserver/apiserver.go:53",
        "apiregistration.k8s.io" => "k8s.io/kube-aggregator/pkg/apiserver/scheme/scheme.go:31",
        _ => "pkg/api/legacyscheme/scheme.go:30",
    }
}
