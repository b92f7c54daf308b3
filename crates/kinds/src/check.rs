//! Checks that many kinds share, with kube-apiserver's error texts.

use crate::fields;
use pintle_meta::field::{ErrorText, Named};
use pintle_meta::{FieldErrors, Quantity, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;
use std::hash::Hash;

/// The error text of an immutable field.
pub(crate) const IMMUTABLE: &str = "field is immutable";

/// Reports each complaint about a value as an error.
pub(crate) fn each(
    complaints: Vec<String>,
    path: &Path<'_>,
    value: impl ErrorText + Copy,
    errors: &mut FieldErrors,
) {
    for complaint in complaints {
        errors.invalid(path, value, &complaint);
    }
}

/// Calls `validate` with each item of the list `key` and its path.
pub(crate) fn each_item<'a>(
    object: &'a Value,
    key: &str,
    path: &Path<'_>,
    mut validate: impl FnMut(&'a Value, &Path<'_>),
) {
    let path = path.field(key);
    for (index, item) in fields::list(object, key).iter().enumerate() {
        validate(item, &path.index(index));
    }
}

/// Finds values of a list that appear again, in time proportional to its length.
pub(crate) struct Unique<K>(HashSet<K>);

impl<K> Default for Unique<K> {
    fn default() -> Self {
        Unique(HashSet::new())
    }
}

impl<K: Eq + Hash> Unique<K> {
    /// Returns whether an earlier call had the same key.
    pub(crate) fn is_repeated(&mut self, key: K) -> bool {
        !self.0.insert(key)
    }

    /// Reports `value` as a duplicate if an earlier call had the same key.
    pub(crate) fn check(&mut self, key: K, path: &Path<'_>, value: impl ErrorText, errors: &mut FieldErrors) {
        if self.is_repeated(key) {
            errors.duplicate(path, value);
        }
    }
}

/// Returns whether two items are equal.
pub(crate) fn has_repeated<K: Eq + Hash>(mut items: impl Iterator<Item = K>) -> bool {
    let mut seen = HashSet::new();
    items.any(|item| !seen.insert(item))
}

/// A DNS label.
pub(crate) fn dns_label(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    each(names::is_dns1123_label(value), path, value, errors);
}

/// Requires a valid DNS label.
pub(crate) fn required_dns_label(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    if value.is_empty() { errors.required(path, "") } else { dns_label(path, value, errors) }
}

/// A DNS subdomain.
pub(crate) fn dns_subdomain(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    each(names::is_dns1123_subdomain(value), path, value, errors);
}

/// A key of labels.
pub(crate) fn qualified_name(path: &Path<'_>, value: &str, errors: &mut FieldErrors) {
    each(names::is_qualified_name(value), path, value, errors);
}

/// A text that must be there.
pub(crate) fn required(object: &Value, key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if fields::text(object, key).is_empty() {
        errors.required(&path.field(key), "");
    }
}

/// Requires a number that is not negative.
pub(crate) fn nonnegative(path: &Path<'_>, value: i64, errors: &mut FieldErrors) {
    if value < 0 {
        errors.invalid(path, value, names::IS_NEGATIVE);
    }
}

/// Requires that a number in the object is not negative.
pub(crate) fn nonnegative_field(object: &Value, key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    nonnegative(&path.field(key), fields::int(object, key), errors);
}

/// Requires a number greater than zero.
pub(crate) fn positive(path: &Path<'_>, value: i64, errors: &mut FieldErrors) {
    if value <= 0 {
        errors.invalid(path, value, "must be greater than zero");
    }
}

/// Requires a quantity that is not negative.
pub(crate) fn nonnegative_quantity(path: &Path<'_>, value: &Quantity, errors: &mut FieldErrors) {
    if value.sign() < 0 {
        errors.invalid(path, value.to_string().as_str(), names::IS_NEGATIVE);
    }
}

/// Requires that an enum value, if present, is supported.
pub(crate) fn supported(path: &Path<'_>, value: Option<&str>, supported: &[&str], errors: &mut FieldErrors) {
    if let Some(value) = value.filter(|v| !supported.contains(v)) {
        errors.not_supported(path, Named(value), supported);
    }
}

/// Requires a supported enum value.
pub(crate) fn required_supported(path: &Path<'_>, value: &str, values: &[&str], errors: &mut FieldErrors) {
    if value.is_empty() { errors.required(path, "") } else { supported(path, Some(value), values, errors) }
}

/// A port by number or name.
pub(crate) fn port_number_or_name(path: &Path<'_>, port: Option<&Value>, errors: &mut FieldErrors) {
    match port {
        Some(Value::String(name)) => each(names::is_valid_port_name(name), path, name, errors),
        other => {
            let number = other.and_then(Value::as_int).unwrap_or(0);
            each(names::is_valid_port_num(number), path, number, errors);
        }
    }
}

/// Requires a number or percentage that is not negative.
pub(crate) fn nonnegative_int_or_percent(path: &Path<'_>, value: &Value, errors: &mut FieldErrors) {
    match value {
        Value::String(text) => {
            names::is_valid_percent(text).iter().for_each(|why| errors.invalid(path, Named(text), why));
        }
        other => nonnegative(path, other.as_int().unwrap_or(0), errors),
    }
}

/// Refuses percentages above 100; other values pass.
pub(crate) fn not_above_hundred_percent(path: &Path<'_>, value: &Value, errors: &mut FieldErrors) {
    if percent(value).is_some_and(|p| p > 100) {
        errors.invalid(path, value, "must not be greater than 100%");
    }
}

/// The number of a percentage.
fn percent(value: &Value) -> Option<i64> {
    let text = value.as_str()?;
    names::is_valid_percent(text).is_empty().then(|| text.trim_end_matches('%').parse().unwrap_or(i64::MAX))
}

/// The number, or the number of a percentage: rollout rules compare both alike.
pub(crate) fn int_or_percent(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(number)) => *number,
        Some(other) => percent(other).or_else(|| other.as_str()?.parse().ok()).unwrap_or(0),
        None => 0,
    }
}

/// Returns whether Go's `reflect.DeepEqual` takes a list or map as changed. Unlike `!=`, which is semantic in updates (see
/// `typed::align_empties`), it distinguishes an empty one from an absent one, and a stored object has no empty ones.
pub(crate) fn differs_exactly(new: Option<&Value>, old: Option<&Value>) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    new != old || new.is_some_and(is_empty)
}

/// Requires that a field is unchanged.
pub(crate) fn immutable(new: Option<&Value>, old: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    pintle_meta::objectmeta::validate_immutable(new, old, path, errors);
}
