//! CustomResourceDefinition: its names, stored versions and deletion.

use super::approval::{self, ANNOTATION, Approval};
use super::spec::{self, Options};
use super::{formats, names};
use crate::{Hooks, KindVersion, Scope};
use pintle_meta::{FieldErrors, objectmeta};
use pintle_schema::{Schema, Shape};
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

/// The finalizer that remains until all custom resources are deleted.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(crate) struct Definition;

impl Hooks for Definition {
    fn prepare_create(&self, object: &mut Value) {
        store_version(object);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, _old: &Value) {
        if scope == Scope::Main {
            store_version(object);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_new(object, None, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_changed(scope, object, old, None, errors);
    }

    fn validate_create_in(&self, version: &KindVersion, object: &Value, errors: &mut FieldErrors) {
        validate_new(object, metadata_type(version), errors);
    }

    fn validate_update_in(
        &self,
        version: &KindVersion,
        scope: Scope<'_>,
        object: &Value,
        old: &Value,
        errors: &mut FieldErrors,
    ) {
        validate_changed(scope, object, old, metadata_type(version), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let known: HashSet<String> = old.map(formats::unrecognized).into_iter().flatten().collect();
        let new = formats::unrecognized(object).into_iter().filter(|format| !known.contains(format));
        new.map(|format| format!("unrecognized format {}", pintle_meta::field::quoted(&format))).collect()
    }

    fn ends_in_two_phases(&self) -> bool {
        true
    }

    fn begin_deletion(&self, object: &mut Value, now: &str) -> bool {
        let mut finalizers = object.items_at(&["metadata", "finalizers"]).to_vec();
        if !finalizers.iter().any(|f| f.as_str() == Some(CLEANUP_FINALIZER)) {
            finalizers.push(CLEANUP_FINALIZER.into());
        }
        object.set_at(&["metadata", "finalizers"], Value::Array(finalizers));
        let pending = Condition {
            kind: "Terminating",
            status: "True",
            reason: "InstanceDeletionPending",
            message: "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        };
        pending.set(object, now);
        true
    }
}

/// Returns whether a webhook converts the definition's objects and its CA bundle is invalid.
pub fn has_invalid_webhook_ca_bundle(definition: &Value) -> bool {
    super::conversion::has_invalid_ca_bundle(definition.at(&["spec", "conversion"]))
}

/// A condition of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// `Established`, …
    pub kind: &'a str,
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    /// One word.
    pub reason: &'a str,
    /// A sentence.
    pub message: &'a str,
}

impl<'a> Condition<'a> {
    /// The condition of this type.
    pub fn of(definition: &'a Value, kind: &'a str) -> Option<Condition<'a>> {
        let conditions = definition.items_at(&["status", "conditions"]);
        let found = conditions.iter().find(|c| c.str_at(&["type"]) == kind)?;
        let text = |key: &str| found.str_at(&[key]);
        Some(Condition { kind, status: text("status"), reason: text("reason"), message: text("message") })
    }

    /// Returns whether a definition has this condition with status True.
    pub fn is_true(definition: &Value, kind: &str) -> bool {
        Condition::of(definition, kind).is_some_and(|c| c.status == "True")
    }

    /// Sets the condition; its transition time only changes with its status.
    pub fn set(&self, definition: &mut Value, now: &str) {
        let mut conditions = definition.items_at(&["status", "conditions"]).to_vec();
        let at = conditions.iter().position(|c| c.str_at(&["type"]) == self.kind).unwrap_or(conditions.len());
        let mut condition = conditions.get(at).cloned().unwrap_or_else(Value::object);
        if condition.str_at(&["status"]) != self.status
            || condition.get("lastTransitionTime").is_none_or(Value::is_null)
        {
            condition.set_at(&["lastTransitionTime"], now.into());
        }
        let texts = [
            ("type", self.kind),
            ("status", self.status),
            ("reason", self.reason),
            ("message", self.message),
        ];
        for (key, text) in texts {
            condition.set_at(&[key], text.into());
        }
        match conditions.get_mut(at) {
            Some(place) => *place = condition,
            None => conditions.push(condition),
        }
        definition.set_at(&["status", "conditions"], Value::Array(conditions));
    }
}

/// Names, and the storage version as the first stored one.
pub(crate) fn default_names_and_versions(object: &mut Value) {
    default_names(object);
    if object.items_at(&["status", "storedVersions"]).is_empty() {
        store_version(object);
    }
}

fn default_names(object: &mut Value) {
    let kind = Str::from(object.str_at(&["spec", "names", "kind"]));
    if kind.is_empty() {
        return;
    }
    if object.str_at(&["spec", "names", "singular"]).is_empty() {
        object.set_at(&["spec", "names", "singular"], kind.to_lowercase().into());
    }
    if object.str_at(&["spec", "names", "listKind"]).is_empty() {
        object.set_at(&["spec", "names", "listKind"], format!("{kind}List").into());
    }
}

/// Adds the current storage version to `status.storedVersions`.
fn store_version(object: &mut Value) {
    let versions = object.items_at(&["spec", "versions"]);
    let stored = versions.iter().find(|v| v.get("storage").and_then(Value::as_bool) == Some(true));
    let Some(name) = stored.and_then(|v| v.get("name")).cloned() else { return };
    let mut all = object.items_at(&["status", "storedVersions"]).to_vec();
    if !all.contains(&name) {
        all.push(name);
        object.set_at(&["status", "storedVersions"], Value::Array(all));
    }
}

fn validate_name(object: &Value, errors: &mut FieldErrors) {
    let plural = object.str_at(&["spec", "names", "plural"]);
    let wanted = format!("{plural}.{}", object.str_at(&["spec", "group"]));
    let metadata = Path::of("metadata");
    for key in ["generateName", "name"] {
        let given = object.str_at(&["metadata", key]);
        if !given.is_empty() && given != wanted {
            errors.invalid(&metadata.field(key), given, "must be spec.names.plural+\".\"+spec.group");
        }
    }
}

fn validate_new(object: &Value, metadata: Option<Schema>, errors: &mut FieldErrors) {
    validate_name(object, errors);
    validate_spec(object, Options::strict(metadata), errors);
    validate_accepted_names(object, errors);
    validate_stored_versions(object, errors);
    validate_approval(object, None, errors);
    validate_preservation(object, None, errors);
}

fn validate_changed(
    scope: Scope<'_>,
    object: &Value,
    old: &Value,
    metadata: Option<Schema>,
    errors: &mut FieldErrors,
) {
    if scope != Scope::Main {
        return validate_accepted_names(object, errors);
    }
    let specs = (old.get("spec").unwrap_or(&Value::Null), object.get("spec").unwrap_or(&Value::Null));
    let established = Condition::is_true(old, "Established");
    validate_spec(object, Options::after(specs.0, specs.1, established, metadata), errors);
    validate_immutable(object, old, errors);
    validate_accepted_names(object, errors);
    validate_stored_versions(object, errors);
    validate_approval(object, Some(old), errors);
    validate_preservation(object, Some(old), errors);
}

/// The type of metadata, which is that of the definition itself.
fn metadata_type(version: &KindVersion) -> Option<Schema> {
    let Shape::Struct(fields) = &version.schema.node().shape else { return None };
    Some(version.schema.at(fields.field("metadata")?.node))
}

fn validate_spec(object: &Value, options: Options, errors: &mut FieldErrors) {
    spec::validate(object.get("spec").unwrap_or(&Value::Null), options, &Path::of("spec"), errors);
}

/// Validates immutable fields: group and plural, and kind and scope once established.
fn validate_immutable(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let established: [&[&str]; 2] = [&["spec", "scope"], &["spec", "names", "kind"]];
    let always: [&[&str]; 2] = [&["spec", "group"], &["spec", "names", "plural"]];
    let established = established.into_iter().filter(|_| Condition::is_true(old, "Established"));
    for keys in established.chain(always) {
        let root = Path::of("spec");
        let names = root.field("names");
        let path = match keys {
            [_, key] => root.field(key),
            [_, _, key] => names.field(key),
            _ => continue,
        };
        objectmeta::validate_immutable(object.at(keys), old.at(keys), &path, errors);
    }
}

fn validate_accepted_names(object: &Value, errors: &mut FieldErrors) {
    if let Some(accepted) = object.at(&["status", "acceptedNames"]) {
        names::validate(accepted, &Path::of("status.acceptedNames"), errors);
    }
}

fn validate_stored_versions(object: &Value, errors: &mut FieldErrors) {
    let stored: Vec<Str> = object
        .items_at(&["status", "storedVersions"])
        .iter()
        .filter_map(Value::as_str)
        .map(Str::from)
        .collect();
    let status = Path::of("status");
    let path = status.field("storedVersions");
    if stored.is_empty() {
        return errors.invalid(&path, &stored[..], "must have at least one stored version");
    }
    let versions = object.items_at(&["spec", "versions"]);
    let known: HashSet<&Str> = stored.iter().collect();
    let mut names = HashSet::new();
    for version in versions {
        let name = version.str_at(&["name"]);
        let is_storage = version.get("storage").and_then(Value::as_bool) == Some(true);
        // Of two versions with the same name, kube-apiserver only finds the first.
        let is_repeated = !names.insert(name);
        if is_storage && (is_repeated || !known.contains(&Str::from(name))) {
            errors.invalid(&path, &stored[..], &format!("must have the storage version {name}"));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !names.contains(name.as_str()) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.invalid(&path.index(at), name, &why);
        }
    }
}

fn validate_approval(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    if !approval::is_protected(object.str_at(&["spec", "group"])) {
        return;
    }
    let (state, why) = approval::approval(object);
    if old.is_some_and(|old| approval::approval(old).0 == state) {
        return;
    }
    let annotations = Path::of("metadata.annotations");
    let path = annotations.key(ANNOTATION);
    match state {
        Approval::Missing => errors.required(&path, &why),
        Approval::Invalid => {
            errors.invalid(&path, object.str_at(&["metadata", "annotations", ANNOTATION]), &why)
        }
        Approval::Approved | Approval::Bypassed => {}
    }
}

fn validate_preservation(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let preserves =
        |v: &Value| v.at(&["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true);
    if preserves(object) && !old.is_some_and(preserves) {
        let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&Path::of("spec.preserveUnknownFields"), true, why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted, tree};

    fn definition(schema: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"as.b.c"}},"spec":{{"group":"b.c","scope":"Namespaced",
                "names":{{"plural":"as","singular":"a","kind":"A","listKind":"AList"}},"conversion":{{"strategy":"None"}},
                "versions":[{{"name":"v1","served":true,"storage":true,"schema":{{"openAPIV3Schema":{schema}}}}}]}},
                "status":{{"storedVersions":["v1"]}}}}"#
        )
    }

    #[test]
    fn names_and_conversion_have_defaults() {
        let out = defaulted(
            "apiextensions/v1.CustomResourceDefinition",
            r#"{"spec":{"names":{"kind":"Thing"},"versions":[{"name":"v1","storage":true}]}}"#,
        );
        let expected = concat!(
            r#"{"spec":{"conversion":{"strategy":"None"},"names":{"kind":"Thing","listKind":"ThingList","#,
            r#""singular":"thing"},"versions":[{"name":"v1","storage":true}]},"status":{"storedVersions":["v1"]}}"#
        );
        assert_eq!(out, expected);
    }

    #[test]
    fn schemas_are_structural() {
        let at = "spec.validation.openAPIV3Schema";
        let cases = [
            (r#"{"type":"object"}"#, vec![]),
            (
                r#"{"type":"array"}"#,
                vec![
                    ".items: Required value: must be specified",
                    ".type: Invalid value: \"array\": must be object at the root",
                ],
            ),
            (
                r#"{"type":"object","properties":{"a":{"anyOf":[{"type":"string"}]}}}"#,
                vec![
                    ".properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
                    ".properties[a].type: Required value: must not be empty for specified object fields",
                ],
            ),
            (
                r#"{"type":"object","properties":{"a":{"type":"string","default":1}}}"#,
                vec![
                    ".properties[a].default: Invalid value: \"integer\":  in body must be of type string: \"integer\"",
                ],
            ),
        ];
        for (schema, expected) in cases {
            let expected: Vec<String> = expected.iter().map(|e| format!("{at}{e}")).collect();
            assert_eq!(created(&Definition, &definition(schema)), expected, "{schema}");
        }
    }

    #[test]
    fn the_end_begins_with_a_finalizer_and_a_condition() {
        let mut object = tree(r#"{"metadata":{},"status":{}}"#);
        assert!(Definition.begin_deletion(&mut object, "2020-01-01T00:00:00Z"));
        assert_eq!(object.items_at(&["metadata", "finalizers"]), [Value::from(CLEANUP_FINALIZER)]);
        assert!(Condition::is_true(&object, "Terminating"));
    }
}
