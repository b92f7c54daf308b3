//! Validation of metadata that kinds repeat or add to the engine's.

use crate::Hooks;
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Path, Value};

static NOTHING: Value = Value::Null;

/// Whether objects of a kind belong to namespaces.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum ResourceScope {
    Namespaced,
    Cluster,
}

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

/// Validates metadata of a new object, and its additional rules of core kinds.
pub(crate) fn validate_core_of_new(
    hooks: &dyn Hooks,
    scope: ResourceScope,
    object: &Value,
    errors: &mut FieldErrors,
) {
    let own_rule = |name: &str, prefix: bool| hooks.name_errors(name, prefix);
    let namespaced = scope == ResourceScope::Namespaced;
    objectmeta::validate_create(meta(object), namespaced, &own_rule, &Path::of("metadata"), errors);
    validate_core(object, errors);
}

/// Validates metadata of an updated object as that of a new one. Many kinds do so, and errors of metadata appear again.
///
/// The engine validates metadata by the rules of all objects before it calls the hooks of an update. If there are no
/// errors yet, only the name is left to check: the rules of a kind differ from those of all objects in nothing else.
pub(crate) fn validate_core_as_new(
    hooks: &dyn Hooks,
    scope: ResourceScope,
    object: &Value,
    errors: &mut FieldErrors,
) {
    if !errors.is_empty() {
        return validate_core_of_new(hooks, scope, object, errors);
    }
    let own_rule = |name: &str, prefix: bool| hooks.name_errors(name, prefix);
    objectmeta::validate_names(meta(object), &own_rule, &Path::of("metadata"), errors);
    validate_core(object, errors);
}
