//! Validates the metadata of an object on creation and on update, with kube-apiserver's order and messages.

use crate::field::{ErrorText, Named, Plain, is_print, quoted};
use crate::selector::label_validation::validate_labels;
use crate::{FieldErrors, GroupVersion, names};
use pintle_value::{Map, Path, Str, Value};
use std::collections::HashSet;

/// The message for a field that must not change.
pub const IMMUTABLE: &str = "field is immutable";
/// The limit of all annotations together, keys and values.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;
/// How long the name of a field manager may be.
pub const FIELD_MANAGER_BYTES_MAX: usize = 128;
/// How long the subresource of a managed fields entry may be.
pub const SUBRESOURCE_BYTES_MAX: usize = 256;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Finalizers without a domain that the core kinds allow.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];

/// Checks the metadata of a new object, after its name was generated.
pub fn validate_create(
    meta: &Value,
    namespaced: bool,
    name_errors: &dyn Fn(&str, bool) -> Vec<String>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    validate_names(meta, name_errors, path, errors);
    validate_common(meta, namespaced, path, errors);
}

/// The part of `validate_create` that depends on the rule for names: the name and `generateName`.
pub fn validate_names(
    meta: &Value,
    name_errors: &dyn Fn(&str, bool) -> Vec<String>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let generate_name = meta.str_at(&["generateName"]);
    if !generate_name.is_empty() {
        for complaint in name_errors(generate_name, true) {
            errors.invalid(&path.field("generateName"), generate_name, &complaint);
        }
    }
    match meta.str_at(&["name"]) {
        "" => errors.required(&path.field("name"), "name or generateName is required"),
        name => {
            for complaint in name_errors(name, false) {
                errors.invalid(&path.field("name"), name, &complaint);
            }
        }
    }
}

fn validate_common(meta: &Value, namespaced: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let namespace = meta.str_at(&["namespace"]);
    let at = path.field("namespace");
    match (namespaced, namespace) {
        (true, "") => errors.required(&at, ""),
        (true, namespace) => {
            for complaint in names::dns_label(namespace, false) {
                errors.invalid(&at, namespace, &complaint);
            }
        }
        (false, "") => {}
        (false, _) => errors.forbidden(&at, "not allowed on this type"),
    }
    let generation = generation(meta);
    if generation < 0 {
        errors.invalid(&path.field("generation"), generation, names::IS_NEGATIVE);
    }
    validate_labels(map_at(meta, "labels"), &path.field("labels"), errors);
    validate_annotations(map_at(meta, "annotations"), &path.field("annotations"), errors);
    validate_owner_references(meta.items_at(&["ownerReferences"]), &path.field("ownerReferences"), errors);
    validate_finalizers(&texts_at(meta, "finalizers"), &path.field("finalizers"), errors);
    validate_managed_fields(meta.items_at(&["managedFields"]), &path.field("managedFields"), errors);
}

/// Checks that an update does not change immutable metadata, and validates what it changes.
pub fn validate_update(new: &Value, old: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_unchanged(new, old, path, errors);
    validate_labels(map_at(new, "labels"), &path.field("labels"), errors);
    validate_annotations(map_at(new, "annotations"), &path.field("annotations"), errors);
    validate_owner_references(new.items_at(&["ownerReferences"]), &path.field("ownerReferences"), errors);
    validate_managed_fields(new.items_at(&["managedFields"]), &path.field("managedFields"), errors);
}

/// The part of `validate_update` that `validate_create` does not contain: that immutable metadata does not change. Where
/// that found no errors, this finds all.
pub fn validate_unchanged(new: &Value, old: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        let (new, old) = (texts_at(new, "finalizers"), texts_at(old, "finalizers"));
        validate_no_new_finalizers(&new, &old, &path.field("finalizers"), errors);
    }
    if new.str_at(&["resourceVersion"]).is_empty() {
        errors.invalid(&path.field("resourceVersion"), "", "must be specified for an update");
    }
    if generation(new) < generation(old) {
        errors.invalid(&path.field("generation"), generation(new), "must not be decremented");
    }
    for field in ["name", "namespace"] {
        let value = new.str_at(&[field]);
        if value != old.str_at(&[field]) {
            errors.invalid(&path.field(field), value, IMMUTABLE);
        }
    }
    let uid = new.str_at(&["uid"]);
    if uid != old.str_at(&["uid"]) {
        errors.invalid(&path.field("uid"), Named(uid), IMMUTABLE);
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        validate_immutable(new.get(field), old.get(field), &path.field(field), errors);
    }
}

/// Checks that a field is unchanged; missing and `null` are the same.
pub fn validate_immutable(
    new: Option<&Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if new.unwrap_or(&Value::Null) != old.unwrap_or(&Value::Null) {
        errors.invalid(path, new, IMMUTABLE);
    }
}

fn generation(meta: &Value) -> i64 {
    meta.get("generation").and_then(Value::as_int).unwrap_or(0)
}

fn map_at<'a>(meta: &'a Value, field: &str) -> Option<&'a Map> {
    meta.get(field).and_then(Value::as_object)
}

fn texts_at(meta: &Value, field: &str) -> Vec<Str> {
    meta.items_at(&[field]).iter().map(|v| Str::from(v.as_str().unwrap_or(""))).collect()
}

/// Checks the keys of annotations, and their total size.
pub fn validate_annotations(annotations: Option<&Map>, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut size = 0_usize;
    for (key, value) in annotations.iter().flat_map(|a| a.iter()) {
        // Annotation keys may have capitals.
        for complaint in names::is_qualified_name(&key.to_lowercase()) {
            errors.invalid(path, key, &complaint);
        }
        size = size.saturating_add(key.len()).saturating_add(value.as_str().map_or(0, str::len));
    }
    if size > ANNOTATIONS_BYTES_MAX {
        errors.too_long(path, ANNOTATIONS_BYTES_MAX);
    }
}

/// Checks owner references: complete, no Events, at most one controller.
pub fn validate_owner_references(references: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut controller: Option<String> = None;
    for reference in references {
        validate_owner_reference(reference, path, errors);
        if reference.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let name = format!("{}/{}", reference.str_at(&["kind"]), reference.str_at(&["name"]));
        match &controller {
            None => controller = Some(name),
            // Each error quotes all references.
            Some(_) if errors.is_full() => return,
            Some(first) => {
                let all: Vec<String> = references.iter().map(owner_error_text).collect();
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                );
                errors.invalid(path, Plain(&format!("[{}]", all.join(","))), &detail);
            }
        }
    }
}

fn validate_owner_reference(reference: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = |field: &str| reference.str_at(&[field]);
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let version = GroupVersion::parse(api_version).unwrap_or_default();
    if version.version.is_empty() {
        errors.invalid(&path.field("apiVersion"), api_version, "version must not be empty");
    }
    if kind.is_empty() {
        errors.invalid(&path.field("kind"), kind, "must not be empty");
    }
    if text("name").is_empty() {
        errors.invalid(&path.field("name"), "", "must not be empty");
    }
    if text("uid").is_empty() {
        errors.invalid(&path.field("uid"), "", "must not be empty");
    }
    if api_version == "v1" && kind == "Event" {
        let owner = owner_error_text(reference);
        errors.invalid(path, Plain(&owner), "/v1, Kind=Event is disallowed from being an owner");
    }
}

/// An owner reference as JSON in the order of the type's fields.
fn owner_error_text(reference: &Value) -> String {
    let mut out = String::from("{");
    for (i, field) in ["apiVersion", "kind", "name", "uid"].iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        out.push_str(&format!("{comma}\"{field}\":{}", Named(reference.str_at(&[field])).error_text()));
    }
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(set) = reference.get(field).and_then(Value::as_bool) {
            out.push_str(&format!(",\"{field}\":{set}"));
        }
    }
    out.push('}');
    out
}

/// Checks the name of a finalizer by the rules of all kinds.
pub fn validate_finalizer_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    for complaint in names::is_qualified_name(name) {
        errors.invalid(path, name, &complaint);
    }
}

/// Checks finalizers of the metadata.
pub fn validate_finalizers(finalizers: &[Str], path: &Path<'_>, errors: &mut FieldErrors) {
    for finalizer in finalizers {
        validate_finalizer_name(finalizer, path, errors);
    }
    if [ORPHAN, FOREGROUND].iter().all(|wanted| finalizers.iter().any(|f| f == wanted)) {
        let detail = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.invalid(path, finalizers, &detail);
    }
}

/// Checks, for core kinds only, that finalizers without a domain are standard ones. `path` is the metadata.
pub fn validate_core_finalizers(meta: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for (i, name) in texts_at(meta, "finalizers").iter().enumerate() {
        validate_core_finalizer_name(name, &path.field("finalizers").index(i), errors);
    }
}

/// Checks that a finalizer without a domain is a standard one.
pub fn validate_core_finalizer_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        errors.invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified");
    }
}

/// Checks that an object being deleted gets no further finalizers.
pub fn validate_no_new_finalizers(new: &[Str], old: &[Str], path: &Path<'_>, errors: &mut FieldErrors) {
    let old: HashSet<&Str> = old.iter().collect();
    let mut added: Vec<&Str> = new.iter().filter(|f| !old.contains(f)).collect();
    added.sort_unstable();
    added.dedup();
    if added.is_empty() {
        return;
    }
    let list: Vec<String> = added.iter().map(|f| quoted(f)).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        list.join(", ")
    );
    errors.forbidden(path, &detail);
}

/// Checks the entries of `managedFields`.
pub fn validate_managed_fields(entries: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (i, entry) in entries.iter().enumerate() {
        let path = path.index(i);
        let operation = entry.str_at(&["operation"]);
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&path.field("operation"), Named(operation), "must be `Apply` or `Update`");
        }
        let fields_type = entry.str_at(&["fieldsType"]);
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path.field("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        validate_field_manager(entry.str_at(&["manager"]), &path.field("manager"), errors);
        if entry.str_at(&["subresource"]).len() > SUBRESOURCE_BYTES_MAX {
            errors.too_long(&path.field("subresource"), SUBRESOURCE_BYTES_MAX);
        }
    }
}

/// Checks the name of a field manager: short and printable.
pub fn validate_field_manager(manager: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if manager.len() > FIELD_MANAGER_BYTES_MAX {
        errors.too_long(path, FIELD_MANAGER_BYTES_MAX);
    }
    for (i, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        errors.invalid(path, manager, &format!("invalid character U+{:04X} (at position {i})", c as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        pintle_value::json::parse(text.as_bytes()).unwrap().value
    }

    fn short(errors: &FieldErrors) -> Vec<String> {
        errors.0.iter().map(|e| e.to_string().split(" (e.g.").next().unwrap_or("").to_string()).collect()
    }

    #[test]
    fn many_controllers_do_not_repeat_all_references_without_limit() {
        let reference = r#"{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true}"#;
        let references = format!("[{}]", vec![reference; 12_000].join(","));
        let references = pintle_value::json::parse(references.as_bytes()).unwrap().value;
        let mut errors = FieldErrors::new();
        validate_owner_references(references.as_array().unwrap(), &Path::of("m"), &mut errors);
        let bytes: usize = errors.0.iter().map(|error| error.body.len()).sum();
        assert!(bytes <= crate::field::ERROR_BYTES_MAX && errors.is_full(), "{bytes}");
    }

    #[test]
    fn creation() {
        for (meta, namespaced, expected) in [
            (r#"{"name":"a","namespace":"n"}"#, true, vec![]),
            (
                r#"{}"#,
                true,
                vec![
                    "m.name: Required value: name or generateName is required",
                    "m.namespace: Required value",
                ],
            ),
            (
                r#"{"name":"a","namespace":"n"}"#,
                false,
                vec!["m.namespace: Forbidden: not allowed on this type"],
            ),
            (
                r#"{"name":"a","generation":-1,"annotations":{"/x":"","A":""},"managedFields":[{"operation":"X","fieldsType":"F","manager":"a\tb"}]}"#,
                false,
                vec![
                    "m.generation: Invalid value: -1: must be greater than or equal to 0",
                    "m.annotations: Invalid value: \"/x\": prefix part must be non-empty",
                    "m.managedFields[0].operation: Invalid value: \"X\": must be `Apply` or `Update`",
                    "m.managedFields[0].fieldsType: Invalid value: \"F\": must be `FieldsV1`",
                    "m.managedFields[0].manager: Invalid value: \"a\\tb\": invalid character U+0009 (at position 1)",
                ],
            ),
            (
                r#"{"name":"a","finalizers":["orphan","foregroundDeletion"],"ownerReferences":[
                    {"apiVersion":"v1","kind":"Event","name":"x","uid":"1","controller":true},{"kind":"K","name":"y","controller":true}]}"#,
                false,
                vec![
                    "m.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"x\",\"uid\":\"1\",\"controller\":true}: /v1, Kind=Event is disallowed from being an owner",
                    "m.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                    "m.ownerReferences.uid: Invalid value: \"\": must not be empty",
                    "m.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"x\",\"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"\",\"kind\":\"K\",\"name\":\"y\",\"uid\":\"\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for Event/x and K/y",
                    "m.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and foregroundDeletion cannot be both set",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            validate_create(&tree(meta), namespaced, &names::dns_subdomain, &Path::of("m"), &mut errors);
            assert_eq!(short(&errors), expected, "{meta}");
        }
    }

    #[test]
    fn update() {
        let old = r#"{"name":"a","uid":"u","resourceVersion":"1","generation":2,"deletionTimestamp":"2020-01-01T00:00:00Z","finalizers":["x/y"]}"#;
        for (new, expected) in [
            (old, vec![]),
            (
                r#"{"name":"b","uid":"v","generation":1,"finalizers":["x/z","x/y"]}"#,
                vec![
                    "m.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/z\"}",
                    "m.resourceVersion: Invalid value: \"\": must be specified for an update",
                    "m.generation: Invalid value: 1: must not be decremented",
                    "m.name: Invalid value: \"b\": field is immutable",
                    "m.uid: Invalid value: \"v\": field is immutable",
                    "m.deletionTimestamp: Invalid value: null: field is immutable",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            validate_update(&tree(new), &tree(old), &Path::of("m"), &mut errors);
            assert_eq!(short(&errors), expected, "{new}");
        }
    }

    #[test]
    fn annotations_have_a_size() {
        let meta =
            tree(&format!(r#"{{"name":"a","annotations":{{"k":"{}"}}}}"#, "x".repeat(ANNOTATIONS_BYTES_MAX)));
        let mut errors = FieldErrors::new();
        validate_create(&meta, false, &names::dns_subdomain, &Path::of("m"), &mut errors);
        assert_eq!(short(&errors), ["m.annotations: Too long: may not be more than 262144 bytes"]);
    }

    #[test]
    fn core_kinds_know_their_finalizers() {
        let mut errors = FieldErrors::new();
        validate_core_finalizers(
            &tree(r#"{"finalizers":["kubernetes","loose","a/b"]}"#),
            &Path::of("m"),
            &mut errors,
        );
        assert_eq!(
            short(&errors),
            [
                "m.finalizers[1]: Invalid value: \"loose\": name is neither a standard finalizer name nor is it fully qualified"
            ]
        );
    }
}
