//! ConfigMap: keys, size, and immutability.

use crate::check::{self, differs_exactly};
use crate::metadata::ResourceScope;
use crate::{Hooks, Scope, metadata};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Map, Path, Value, base64};

/// The limit of all values of a ConfigMap or Secret together, in bytes.
pub(super) const DATA_BYTES_MAX: usize = 1024 * 1024;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";

pub(crate) struct ConfigMap;

impl Hooks for ConfigMap {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let mut size = 0_usize;
        let data = Path::of("data");
        for (key, value) in entries(object, "data") {
            validate_key(&data, key, errors);
            if object.at(&["binaryData", key]).is_some() {
                errors.invalid(&data.key(key), key, "duplicate of key present in binaryData");
            }
            size = size.saturating_add(value.len());
        }
        for (key, value) in entries(object, "binaryData") {
            validate_key(&Path::of("binaryData"), key, errors);
            size = size.saturating_add(decoded_len(value));
        }
        if size > DATA_BYTES_MAX {
            // The error is about the whole object; this is how kube-apiserver writes the path of an unnamed field.
            errors.too_long(&Path::ROOT.key(""), DATA_BYTES_MAX);
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        // kube-apiserver defaults `data` to an empty map, also when it reads the stored object.
        let fields: [(_, Differs); 2] = [("data", |new, old| new != old), ("binaryData", differs_exactly)];
        validate_unchanged(object, old, &fields, errors);
        metadata::validate_core_as_new(self, ResourceScope::Namespaced, object, errors);
        self.validate_create(object, errors);
    }
}

/// Compares the new and the old value of a field.
pub(super) type Differs = fn(Option<&Value>, Option<&Value>) -> bool;

/// An immutable object must keep its mark and these fields.
pub(super) fn validate_unchanged(
    object: &Value,
    old: &Value,
    fields: &[(&str, Differs)],
    errors: &mut FieldErrors,
) {
    let marked = |v: &Value| v.get("immutable").and_then(Value::as_bool) == Some(true);
    if !marked(old) {
        return;
    }
    if !marked(object) {
        errors.forbidden(&Path::of("immutable"), IMMUTABLE);
    }
    for (field, differs) in fields {
        if differs(object.get(field), old.get(field)) {
            errors.forbidden(&Path::of(field), IMMUTABLE);
        }
    }
}

/// Checks the keys of a map of data.
pub(super) fn validate_key(path: &Path<'_>, key: &str, errors: &mut FieldErrors) {
    check::each(names::is_config_map_key(key), &path.key(key), key, errors);
}

/// The entries of a map field.
pub(super) fn entries<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = object.get(field).and_then(Value::as_object);
    map.into_iter().flat_map(Map::iter).map(|(k, v)| (k.as_str(), v.as_str().unwrap_or("")))
}

/// The number of bytes that a base64 text encodes.
pub(super) fn decoded_len(text: &str) -> usize {
    base64::decode(text).map_or(0, |bytes| bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, updated};

    #[test]
    fn keys_are_checked_and_unique() {
        let faults = created(&ConfigMap, r#"{"data":{"a/b":"","x":"1"},"binaryData":{"x":"MQ==",".":""}}"#);
        assert_eq!(
            faults.iter().map(|f| f.split(" (e.g.").next().unwrap_or("")).collect::<Vec<_>>(),
            [
                r#"data[a/b]: Invalid value: "a/b": a valid config key must consist of alphanumeric characters, '-', '_' or '.'"#,
                r#"data[x]: Invalid value: "x": duplicate of key present in binaryData"#,
                r#"binaryData[.]: Invalid value: ".": must not be '.'"#,
            ]
        );
    }

    #[test]
    fn an_immutable_map_stays() {
        let old = r#"{"metadata":{"name":"a","namespace":"n"},"immutable":true,"data":{"a":"1"}}"#;
        let new = r#"{"metadata":{"name":"a","namespace":"n"},"binaryData":{"a":"MQ=="}}"#;
        assert_eq!(
            updated(&ConfigMap, Scope::Main, new, old),
            ["immutable", "data", "binaryData"].map(|f| format!("{f}: Forbidden: {IMMUTABLE}"))
        );
    }
}
