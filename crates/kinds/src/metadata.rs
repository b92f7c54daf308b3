//! Validation of metadata that kinds repeat or add to the engine's.

use crate::Hooks;
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Path, Value};

static NOTHING: Value = Value::Null;

/// The metadata of an object.
pub(crate) fn meta(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&NOTHING)
}

/// An annotation, if it is set.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.at(&["metadata", "annotations", key]).and_then(Value::as_str)
}

/// The additional rules for metadata of core kinds.
pub(crate) fn validate_core(object: &Value, errors: &mut FieldErrors) {
    objectmeta::validate_core_finalizers(meta(object), &Path::of("metadata"), errors);
}

/// Validates metadata by the rules of changes, for kinds that do it between others of their rules.
pub(crate) fn validate_core_as_change(object: &Value, old: &Value, errors: &mut FieldErrors) {
    objectmeta::validate_update(meta(object), meta(old), &Path::of("metadata"), errors);
    validate_core(object, errors);
}

/// Validates metadata by the rules of a new object. Many kinds validate an updated object as a new one, so that errors
/// of metadata appear again.
pub(crate) fn validate_as_new(hooks: &dyn Hooks, namespaced: bool, object: &Value, errors: &mut FieldErrors) {
    let own_rule = |name: &str, prefix: bool| hooks.name_errors(name, prefix);
    objectmeta::validate_create(meta(object), namespaced, &own_rule, &Path::of("metadata"), errors);
}

/// `validate_as_new` and `validate_core`, as the core kinds do it.
pub(crate) fn validate_core_as_new(
    hooks: &dyn Hooks,
    namespaced: bool,
    object: &Value,
    errors: &mut FieldErrors,
) {
    validate_as_new(hooks, namespaced, object, errors);
    validate_core(object, errors);
}
