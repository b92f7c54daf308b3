//! Shared parts of the tests of the kinds' rules: they take JSON and return the list of errors.

use crate::{Hooks, Scope};
use pintle_meta::FieldErrors;
use pintle_value::{Value, json};

pub(crate) fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

/// The errors of a new object.
pub(crate) fn created(hooks: &dyn Hooks, object: &str) -> Vec<String> {
    let mut errors = FieldErrors::new();
    hooks.validate_create(&tree(object), &mut errors);
    errors.0.iter().map(ToString::to_string).collect()
}

/// The errors of a changed object, without preparing it.
pub(crate) fn updated(hooks: &dyn Hooks, scope: Scope<'_>, new: &str, old: &str) -> Vec<String> {
    let mut errors = FieldErrors::new();
    let (new, old) = (tree(new), tree(old));
    hooks.validate_update(scope, &new, &old, &mut errors);
    hooks.validate_against_old(scope, &new, &old, &mut errors);
    errors.0.iter().map(ToString::to_string).collect()
}

/// An object of a Go type after its defaults, as compact JSON with sorted keys.
pub(crate) fn defaulted(type_: &str, object: &str) -> String {
    let mut object = tree(object);
    crate::defaults::of_type(type_).unwrap().apply(&mut object);
    json::text(&object)
}
