//! Validates objects: metadata, then the schema, then the rules of the kind. All errors are returned together.

use crate::{Target, subresource};
use pintle_admission::manifest::STATIC_SUFFIX;
use pintle_admission::policy::GROUP;
use pintle_kinds::{Kind, MetadataOnUpdate, Namespace, Scope};
use pintle_meta::field::{ErrorKind, FieldError, quoted};
use pintle_meta::{FieldErrors, Status, names, objectmeta};
use pintle_schema::{Schema, Shape, rules, structural};
use pintle_value::{Path, Value};

/// Validates a new object. `reserves_names` is whether names are refused that only manifest files may use.
pub(crate) fn create(
    target: &Target,
    object: &Value,
    namespace: &Namespace<'_>,
    reserves_names: bool,
) -> Result<(), Status> {
    let mut errors = errors_of_new(target, object, namespace);
    let name = object.str_at(&["metadata", "name"]);
    if reserves_names && target.kind.group == GROUP && name.ends_with(STATIC_SUFFIX) {
        let suffix = quoted(STATIC_SUFFIX);
        let why = format!(
            "names ending with {suffix} are reserved for static manifest-based configurations and cannot be managed via the API"
        );
        errors.invalid(&Path::of("metadata.name"), name, &why);
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&target.kind.group_kind(), name, &errors)) }
}

/// The errors of a new object: first the rules of its kind, then those of all objects.
pub(crate) fn errors_of_new(target: &Target, object: &Value, namespace: &Namespace<'_>) -> FieldErrors {
    let kind = &target.kind;
    let meta = object.get("metadata").unwrap_or(&Value::Null);
    let path = Path::of("metadata");
    let mut errors = FieldErrors::new();
    kind.hooks.validate_in_namespace(object, namespace, &mut errors);
    let validates_metadata = kind.hooks.validates_metadata();
    if validates_metadata {
        let own_rule = |name: &str, prefix: bool| kind.hooks.name_errors(name, prefix);
        objectmeta::validate_create(meta, kind.namespaced, &own_rule, &path, &mut errors);
        validate_standard_finalizers(kind, meta, &mut errors);
    }
    validate_by_schema(target, object, None, &mut errors);
    validate_by_rules(target, object, None, 0, &mut errors, &mut Vec::new());
    kind.hooks.validate_create_in(target.kind_version(), object, &mut errors);
    // The rules of all objects differ from those of the kind only in the name.
    if errors.is_empty() && validates_metadata {
        objectmeta::validate_names(meta, &names::path_segment_name, &path, &mut errors);
    } else if errors.is_empty() {
        objectmeta::validate_create(meta, kind.namespaced, &names::path_segment_name, &path, &mut errors);
    }
    errors
}

/// Finalizers without a domain must be standard ones, in most built-in kinds.
fn validate_standard_finalizers(kind: &Kind, meta: &Value, errors: &mut FieldErrors) {
    if kind.storage_version().schema.is_built_in() && kind.rules.standard_finalizers {
        objectmeta::validate_core_finalizers(meta, &Path::of("metadata"), errors);
    }
}

/// Validates a custom resource against its schema; built-in kinds are validated by their hooks.
fn validate_by_schema(target: &Target, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let schema = &target.working_version().schema;
    if !schema.validates_objects() {
        return;
    }
    let (arena, root) = (schema.arena(), schema.root());
    match target.scope() {
        Scope::Sub("status") => validate_status_by_schema(schema, object, old, errors),
        _ => structural::validate_change(arena, root, object, old, &Path::ROOT, errors),
    }
    subresource::scale::validate_numbers(target, object, errors);
    // kube-apiserver does not validate embedded objects when the status is written.
    if target.scope() != Scope::Sub("status") {
        structural::validate_embedded(arena, root, object, &Path::ROOT, errors);
    }
    let mut repeated = FieldErrors::new();
    structural::validate_lists(arena, root, object, &Path::ROOT, &mut repeated);
    let mut before = FieldErrors::new();
    if let Some(old) = old.filter(|_| !repeated.is_empty()) {
        structural::validate_lists(arena, root, old, &Path::ROOT, &mut before);
    }
    if before.is_empty() {
        errors.append(repeated);
    }
}

/// Validates the status by itself; its errors have paths relative to the status.
fn validate_status_by_schema(schema: &Schema, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let Shape::Struct(root) = &schema.node().shape else { return };
    let (Some(field), Some(status)) = (root.field("status"), object.get("status")) else { return };
    let mut found = FieldErrors::new();
    // An absent status is `nil` for Go, as `null` is, so that `null` is no change of it.
    let old = old.map(|old| old.get("status").unwrap_or(&Value::Null));
    structural::validate_change(schema.arena(), field.node, status, old, &Path::ROOT, &mut found);
    errors.append(structural::within(found, "status"));
}

/// Evaluates the CEL rules of the schema. They are skipped if the errors from `own` on show that the object may not
/// have the types and sizes that the rules rely on.
fn validate_by_rules(
    target: &Target,
    object: &Value,
    old: Option<&Value>,
    own: usize,
    errors: &mut FieldErrors,
    warnings: &mut Vec<String>,
) {
    let schema = &target.working_version().schema;
    let Some(scope) = schema.rules() else { return };
    let blocks = |error: &FieldError| {
        use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
    };
    if errors.0.iter().skip(own).any(blocks) {
        let why = "some validation rules were not checked because the object was invalid; correct the existing errors \
                   to complete validation";
        return errors.invalid(&Path::of("<nil>"), None::<&Value>, why);
    }
    let before = old.map(|old| rules::Before { arena: schema.arena(), root: schema.root(), old });
    let outcome = rules::validate(scope, object, before, &Path::ROOT, rules::REQUEST_BUDGET);
    errors.append(outcome.errors);
    warnings.extend(outcome.warnings);
}

/// Validates a changed object. Metadata is validated twice, by the rules of all objects and by the kind's, and its
/// errors appear twice, as in kube-apiserver. `refused` are changes that the user may not make; they come before the
/// errors of the kind.
pub(crate) fn update(
    target: &Target,
    object: &Value,
    old: &Value,
    refused: FieldErrors,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let kind = &target.kind;
    let (meta, old_meta) =
        (object.get("metadata").unwrap_or(&Value::Null), old.get("metadata").unwrap_or(&Value::Null));
    let path = Path::of("metadata");
    let mut errors = FieldErrors::new();
    objectmeta::validate_create(meta, kind.namespaced, &names::path_segment_name, &path, &mut errors);
    if errors.is_empty() {
        objectmeta::validate_unchanged(meta, old_meta, &path, &mut errors)
    } else {
        objectmeta::validate_update(meta, old_meta, &path, &mut errors)
    }
    let own = errors.0.len();
    errors.append(refused);
    let of_object = match target.scope() {
        Scope::Main => kind.rules.metadata_on_update,
        Scope::Sub(_) => MetadataOnUpdate::AsChange,
    };
    let validate_as_change = |errors: &mut FieldErrors| {
        if kind.hooks.validates_changed_metadata(target.scope()) {
            // Without errors above there are none here.
            if own > 0 {
                objectmeta::validate_update(meta, old_meta, &path, errors);
            }
            validate_standard_finalizers(kind, meta, errors);
        }
    };
    if matches!(of_object, MetadataOnUpdate::AsChange | MetadataOnUpdate::AsChangeThenAsNew) {
        validate_as_change(&mut errors);
    }
    if of_object != MetadataOnUpdate::AsChange {
        let own_rule = |name: &str, prefix: bool| kind.hooks.name_errors(name, prefix);
        // Without errors above only the name, for which the kind has its own rule, can be wrong.
        if errors.is_empty() {
            objectmeta::validate_names(meta, &own_rule, &path, &mut errors)
        } else {
            objectmeta::validate_create(meta, kind.namespaced, &own_rule, &path, &mut errors)
        }
        validate_standard_finalizers(kind, meta, &mut errors);
    }
    validate_by_schema(target, object, Some(old), &mut errors);
    validate_by_rules(target, object, Some(old), own, &mut errors, warnings);
    kind.hooks.validate_update_in(target.kind_version(), target.scope(), object, old, &mut errors);
    if of_object == MetadataOnUpdate::AsNewThenAsChange {
        validate_as_change(&mut errors);
    }
    kind.hooks.validate_against_old(target.scope(), object, old, &mut errors);
    if target.scope() == Scope::Main {
        kind.validate_immutable_fields(object, old, &mut errors);
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&kind.group_kind(), object.str_at(&["metadata", "name"]), &errors))
}
