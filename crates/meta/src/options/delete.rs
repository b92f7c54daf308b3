//! Options of deletions, in the query or in a body.

use super::{Query, check_options, validate_dry_run};
use crate::field::Named;
use crate::go_type::unregistered_kind;
use crate::{FieldErrors, GroupKind, GroupResource, GroupVersion, Status};
use pintle_value::{Path, Str, Value, json};

const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";
const IGNORE_READ_ERROR: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// How the dependents of a deleted object are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted before the object.
    Foreground,
    /// Dependents are deleted after the object.
    Background,
    /// Dependents remain.
    Orphan,
}

/// Conditions that an object must meet to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The object's UID.
    pub uid: Option<Str>,
    /// The object's version.
    pub resource_version: Option<Str>,
}

impl Preconditions {
    /// Checks the metadata of an object of a kind that is always deleted in two phases, for which kube-apiserver has
    /// other messages.
    pub fn check_two_phased(&self, resource: &GroupResource, meta: &Value) -> Result<(), Status> {
        for (what, key, wanted) in
            [("UID", "uid", &self.uid), ("ResourceVersion", "resourceVersion", &self.resource_version)]
        {
            let have = meta.str_at(&[key]);
            if let Some(wanted) = wanted.as_deref().filter(|wanted| *wanted != have) {
                let why = format!(
                    "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {have}"
                );
                return Err(Status::conflict(resource, meta.str_at(&["name"]), &why));
            }
        }
        Ok(())
    }

    /// Checks the metadata of an object.
    pub fn check(&self, kind: &GroupKind, meta: &Value) -> Result<(), Status> {
        let conflict = |what: &str, wanted: &str, have: &str, why: &str| {
            let resource = GroupResource { group: kind.group.clone(), resource: kind.kind.clone() };
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({have}). The object might have been {why}"
            );
            Err(Status::conflict(&resource, meta.str_at(&["name"]), &why))
        };
        let (uid, version) = (meta.str_at(&["uid"]), meta.str_at(&["resourceVersion"]));
        if let Some(wanted) = self.uid.as_deref().filter(|w| *w != uid) {
            return conflict("UID", wanted, uid, "deleted and then recreated");
        }
        if let Some(wanted) = self.resource_version.as_deref().filter(|w| *w != version) {
            return conflict("ResourceVersion", wanted, version, "modified");
        }
        Ok(())
    }
}

/// Options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The time that the object has to shut down.
    pub grace_period_seconds: Option<i64>,
    /// Conditions that the object must meet.
    pub preconditions: Option<Preconditions>,
    /// The deprecated field for `propagation`.
    pub orphan_dependents: Option<bool>,
    /// How dependents are handled.
    pub propagation: Option<Propagation>,
    /// Whether the deletion is a dry run, which stores nothing.
    pub dry_run: bool,
    /// Whether an object that cannot be decoded is deleted.
    pub ignore_store_read_error: bool,
}

impl DeleteOptions {
    /// Reads and checks the options in the query of a deletion without a body.
    pub fn from_query(query: Query<'_>, unsafe_deletion: bool) -> Result<Self, Status> {
        let given = |name: &str| Some(Str::from(query.text(name))).filter(|v| !v.is_empty());
        let (uid, resource_version) = (given("uid"), given("resourceVersion"));
        let preconditions = Preconditions { uid, resource_version };
        Raw {
            grace_period_seconds: query.int("gracePeriodSeconds")?,
            preconditions: Some(preconditions).filter(|p| *p != Preconditions::default()),
            orphan_dependents: query.switch("orphanDependents"),
            propagation: query.first("propagationPolicy").map(Str::from),
            dry_run: query.all("dryRun"),
            ignore_store_read_error: query.switch(IGNORE_READ_ERROR),
        }
        .check(unsafe_deletion)
    }

    /// Reads the options in a body. The version in its `apiVersion` does not matter, but the kind does. The second value is
    /// the error if they are not valid.
    pub fn read(body: &Value, unsafe_deletion: bool) -> Result<(Self, Result<(), Status>), Status> {
        check_type(body).map_err(Status::bad_request)?;
        let (options, errors) = read_body(body).map_err(Status::bad_request)?.read(unsafe_deletion);
        Ok((options, check_options("DeleteOptions", (), errors)))
    }

    /// The options as an object, without an `apiVersion`.
    pub fn to_value(&self) -> Value {
        let mut out = Value::object();
        out.set_at(&["kind"], "DeleteOptions".into());
        if let Some(seconds) = self.grace_period_seconds {
            out.set_at(&["gracePeriodSeconds"], Value::Int(seconds));
        }
        if let Some(preconditions) = &self.preconditions {
            out.set_at(&["preconditions"], Value::object());
            let given = [("uid", &preconditions.uid), ("resourceVersion", &preconditions.resource_version)];
            for (key, text) in given.into_iter().filter_map(|(key, text)| Some((key, text.as_ref()?))) {
                out.set_at(&["preconditions", key], Value::String(text.clone()));
            }
        }
        if let Some(orphan) = self.orphan_dependents {
            out.set_at(&["orphanDependents"], Value::Bool(orphan));
        }
        if let Some(propagation) = self.propagation {
            let name = match propagation {
                Propagation::Foreground => "Foreground",
                Propagation::Background => "Background",
                Propagation::Orphan => "Orphan",
            };
            out.set_at(&["propagationPolicy"], name.into());
        }
        if self.dry_run {
            out.set_at(&["dryRun"], Value::Array(vec!["All".into()]));
        }
        if self.ignore_store_read_error {
            out.set_at(&[IGNORE_READ_ERROR], Value::Bool(true));
        }
        out
    }

    /// Checks the rules that hold only for deletions of collections.
    pub fn check_collection(&self) -> Result<(), Status> {
        let mut errors = FieldErrors::new();
        if self.ignore_store_read_error {
            let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
            errors.invalid(&Path::of(IGNORE_READ_ERROR), true, detail);
        }
        check_options("DeleteOptions", (), errors)
    }
}

/// The options as sent.
struct Raw {
    grace_period_seconds: Option<i64>,
    preconditions: Option<Preconditions>,
    orphan_dependents: Option<bool>,
    propagation: Option<Str>,
    dry_run: Vec<Str>,
    ignore_store_read_error: Option<bool>,
}

impl Raw {
    fn check(self, unsafe_deletion: bool) -> Result<DeleteOptions, Status> {
        let (options, errors) = self.read(unsafe_deletion);
        check_options("DeleteOptions", options, errors)
    }

    /// Returns the options and the errors in them. Without `unsafe_deletion` (a feature gate), the option to delete what
    /// cannot be read counts as not sent.
    fn read(mut self, unsafe_deletion: bool) -> (DeleteOptions, FieldErrors) {
        self.ignore_store_read_error = self.ignore_store_read_error.filter(|_| unsafe_deletion);
        let mut errors = FieldErrors::new();
        let path = Path::of("propagationPolicy");
        let policy = self.propagation.as_deref();
        if let Some(policy) = policy.filter(|_| self.orphan_dependents.is_some()) {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.invalid(&path, Named(policy), detail);
        }
        let propagation = match policy {
            None => None,
            Some("Foreground") => Some(Propagation::Foreground),
            Some("Background") => Some(Propagation::Background),
            Some("Orphan") => Some(Propagation::Orphan),
            Some(other) => {
                errors.not_supported(&path, Named(other), &["Foreground", "Background", "Orphan", "nil"]);
                None
            }
        };
        validate_dry_run(&self.dry_run, &mut errors);
        self.check_ignore_read_error(&mut errors);
        let options = DeleteOptions {
            grace_period_seconds: self.grace_period_seconds,
            preconditions: self.preconditions,
            orphan_dependents: self.orphan_dependents,
            propagation,
            dry_run: !self.dry_run.is_empty(),
            ignore_store_read_error: self.ignore_store_read_error == Some(true),
        };
        (options, errors)
    }

    fn check_ignore_read_error(&self, errors: &mut FieldErrors) {
        if self.ignore_store_read_error != Some(true) {
            return;
        }
        for (set, other) in [
            (!self.dry_run.is_empty(), ".dryRun"),
            (self.propagation.is_some(), ".propagationPolicy"),
            (self.orphan_dependents.is_some(), ".orphanDependents"),
            (self.grace_period_seconds.is_some(), ".gracePeriodSeconds"),
            (self.preconditions.is_some(), ".preconditions"),
        ] {
            if set {
                let detail = format!("cannot be set together with {other}");
                errors.invalid(&Path::of(IGNORE_READ_ERROR), true, &detail);
            }
        }
    }
}

/// Rejects bodies of other kinds.
fn check_type(body: &Value) -> Result<(), String> {
    let (api_version, kind) = (body.str_at(&["apiVersion"]), body.str_at(&["kind"]));
    let mut version = GroupVersion::parse(api_version)?;
    if version == GroupVersion::default() {
        version = GroupVersion::new("meta.k8s.io", "v1");
    }
    if matches!(kind, "" | "DeleteOptions") {
        return Ok(());
    }
    if let Some(package) = registered_in(kind, &version) {
        return Err(format!("converting ({package}.{kind}) to (v1.DeleteOptions): unknown conversion"));
    }
    Err(unregistered_kind(kind, &version.to_string(), SCHEME))
}

/// The Go package of another kind that kube-apiserver can decode where it expects DeleteOptions.
fn registered_in(kind: &str, version: &GroupVersion) -> Option<&'static str> {
    let version = (version.group == "meta.k8s.io").then_some(version.version.as_str());
    match (kind, version) {
        (
            "APIGroup" | "APIGroupList" | "APIResourceList" | "APIVersions" | "CreateOptions" | "Status"
            | "UpdateOptions",
            _,
        ) => Some("v1"),
        ("GetOptions" | "ListOptions" | "PatchOptions" | "WatchEvent", Some("v1")) => Some("v1"),
        ("PartialObjectMetadataList", Some("v1beta1")) => Some("v1beta1"),
        (
            "PartialObjectMetadata" | "PartialObjectMetadataList" | "Table" | "TableOptions",
            Some("v1" | "v1beta1"),
        ) => Some("v1"),
        _ => None,
    }
}

fn read_body(body: &Value) -> Result<Raw, String> {
    if !matches!(body, Value::Object(_) | Value::Null) {
        let what = kind_of(body);
        return Err(format!("json: cannot unmarshal {what} into Go value of type v1.DeleteOptions"));
    }
    Ok(Raw {
        dry_run: read_texts(body)?,
        grace_period_seconds: read_member(
            body,
            "DeleteOptions",
            "gracePeriodSeconds",
            "int64",
            Value::as_int,
        )?,
        ignore_store_read_error: read_member(
            body,
            "DeleteOptions",
            IGNORE_READ_ERROR,
            "bool",
            Value::as_bool,
        )?,
        orphan_dependents: read_member(body, "DeleteOptions", "orphanDependents", "bool", Value::as_bool)?,
        preconditions: read_preconditions(body)?,
        propagation: read_member(body, "DeleteOptions", "propagationPolicy", "v1.DeletionPropagation", text)?,
    })
}

fn read_preconditions(body: &Value) -> Result<Option<Preconditions>, String> {
    let Some(inner) = body.get("preconditions").filter(|v| !v.is_null()) else { return Ok(None) };
    if inner.as_object().is_none() {
        return Err(mismatch(inner, "DeleteOptions.preconditions", "v1.Preconditions"));
    }
    let read = |name: &str, go_type: &str| {
        let value = inner.get(name).filter(|v| !v.is_null());
        let complain = |v: &Value| mismatch(v, &format!("Preconditions.preconditions.{name}"), go_type);
        value.map(|v| text(v).ok_or_else(|| complain(v))).transpose()
    };
    Ok(Some(Preconditions {
        resource_version: read("resourceVersion", "string")?,
        uid: read("uid", "types.UID")?,
    }))
}

fn read_texts(body: &Value) -> Result<Vec<Str>, String> {
    match body.get("dryRun") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| match item {
                Value::Null => Ok(Str::default()),
                item => text(item).ok_or_else(|| mismatch(item, "DeleteOptions.dryRun", "string")),
            })
            .collect(),
        Some(other) => Err(mismatch(other, "DeleteOptions.dryRun", "[]string")),
    }
}

fn text(value: &Value) -> Option<Str> {
    value.as_str().map(Str::from)
}

fn read_member<T>(
    body: &Value,
    holder: &str,
    name: &str,
    go_type: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let value = body.get(name).filter(|v| !v.is_null());
    value.map(|v| read(v).ok_or_else(|| mismatch(v, &format!("{holder}.{name}"), go_type))).transpose()
}

fn mismatch(value: &Value, field: &str, go_type: &str) -> String {
    format!("json: cannot unmarshal {} into Go struct field {field} of type {go_type}", kind_of(value))
}

/// The value's type in Go's errors; a number that does not fit its field is printed with its digits.
fn kind_of(value: &Value) -> String {
    match value {
        Value::Float(_) => {
            format!("number {}", json::text(value))
        }
        other => other.json_type().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_and_check(body: &Value, unsafe_deletion: bool) -> Result<DeleteOptions, Status> {
        let (options, validity) = DeleteOptions::read(body, unsafe_deletion)?;
        validity.map(|()| options)
    }
    use crate::options::pairs;

    fn said(result: Result<DeleteOptions, Status>) -> String {
        result.map_or_else(|s| format!("{} {}", s.code, s.message), |_| "fine".to_string())
    }

    #[test]
    fn bodies() {
        let invalid = |errors: &str| format!(r#"422 DeleteOptions.meta.k8s.io "" is invalid: {errors}"#);
        for (body, expected) in [
            ("{}", "fine".to_string()),
            (r#"{"apiVersion":"v9","kind":"DeleteOptions","dryRun":["All"],"nope":1}"#, "fine".into()),
            (
                r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
                r#"400 no kind "ConfigMap" is registered for version "v1" in scheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27""#.into(),
            ),
            (
                r#"{"apiVersion":"apps/v1","kind":"Status"}"#,
                "400 converting (v1.Status) to (v1.DeleteOptions): unknown conversion".into(),
            ),
            (
                r#"{"apiVersion":"meta.k8s.io/v1beta1","kind":"PartialObjectMetadataList"}"#,
                "400 converting (v1beta1.PartialObjectMetadataList) to (v1.DeleteOptions): unknown conversion"
                    .into(),
            ),
            (
                r#"{"gracePeriodSeconds":"5"}"#,
                "400 json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64".into(),
            ),
            (
                r#"{"preconditions":{"uid":7}}"#,
                "400 json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID".into(),
            ),
            (
                r#"{"propagationPolicy":"Sideways"}"#,
                invalid(
                    r#"propagationPolicy: Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil""#,
                ),
            ),
            (
                r#"{"propagationPolicy":"Orphan","orphanDependents":true}"#,
                invalid(
                    r#"propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
                ),
            ),
            (
                r#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"gracePeriodSeconds":0}"#,
                invalid(
                    "ignoreStoreReadErrorWithClusterBreakingPotential: Invalid value: true: cannot be set together with .gracePeriodSeconds",
                ),
            ),
        ] {
            let tree = pintle_value::json::parse(body.as_bytes()).unwrap().value;
            assert_eq!(said(read_and_check(&tree, true)), expected, "{body}");
        }
    }

    #[test]
    fn queries_and_preconditions() {
        let query = pairs("gracePeriodSeconds=-1&uid=u&orphanDependents=false");
        let options = DeleteOptions::from_query(Query(&query), true).unwrap();
        assert_eq!((options.grace_period_seconds, options.orphan_dependents), (Some(-1), Some(false)));
        let mut meta = Value::object();
        meta.set_at(&["name"], "a".into());
        meta.set_at(&["uid"], "v".into());
        let status =
            options.preconditions.unwrap().check(&GroupKind::new("", "ConfigMap"), &meta).unwrap_err();
        assert_eq!(
            status.message,
            "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition (u) does not match the UID in record (v). The object might have been deleted and then recreated"
        );
        assert_eq!(
            said(DeleteOptions::from_query(Query(&pairs("propagationPolicy=")), true)),
            r#"422 DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "": supported values: "Foreground", "Background", "Orphan", "nil""#
        );
    }

    #[test]
    fn without_its_gate_the_option_for_unreadable_objects_counts_as_not_sent() {
        let body = br#"{"ignoreStoreReadErrorWithClusterBreakingPotential":true,"dryRun":["All"]}"#;
        let tree = pintle_value::json::parse(body).unwrap().value;
        let query = pairs("ignoreStoreReadErrorWithClusterBreakingPotential=true&gracePeriodSeconds=0");
        for unsafe_deletion in [false, true] {
            let from_value = read_and_check(&tree, unsafe_deletion);
            let from_query = DeleteOptions::from_query(Query(&query), unsafe_deletion);
            for options in [from_value, from_query] {
                let ignored = options.map(|options| !options.ignore_store_read_error);
                assert_eq!(ignored.unwrap_or(false), !unsafe_deletion);
            }
        }
    }
}
