//! Names and small types that the group's kinds share.

use crate::core::podspec::volume_sources;
use crate::{check, fields};
use pintle_meta::field::ErrorText;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value, json};
use std::collections::HashSet;

pub(super) const SUBDOMAIN_BYTES_MAX: usize = 253;
pub(super) const ID_BYTES_MAX: usize = 32;
/// The limit of opaque parameters and data in bytes.
pub(super) const RAW_BYTES_MAX: usize = 10 * 1024;

/// Calls `validate` with each item of the list `key` and its path. If there are more than `max` items, reports only that.
pub(super) fn each_limited<'a>(
    object: &'a Value,
    key: &str,
    max: usize,
    path: &Path<'_>,
    errors: &mut FieldErrors,
    mut validate: impl FnMut(&'a Value, &Path<'_>, &mut FieldErrors),
) {
    let count = fields::list(object, key).len();
    if count > max {
        return errors.too_many(&path.field(key), count, max);
    }
    check::each_item(object, key, path, |item, path| validate(item, path, errors));
}

/// The same for a list whose items differ in their `text`; then reports the items whose text an earlier item has.
pub(super) fn each_unique<'a, T: ErrorText>(
    object: &'a Value,
    key: &str,
    max: usize,
    path: &Path<'_>,
    errors: &mut FieldErrors,
    validate: impl FnMut(&'a Value, &Path<'_>, &mut FieldErrors),
    text: impl Fn(&'a Value) -> T,
) {
    each_limited(object, key, max, path, errors, validate);
    if fields::list(object, key).len() > max {
        return;
    }
    let mut seen = check::Unique::default();
    check::each_item(object, key, path, |item, path| {
        let text = text(item);
        seen.check(text.error_text(), path, text, errors);
    });
}

pub(super) fn validate_driver(object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    volume_sources::validate_csi_driver_name(fields::text(object, "driver"), &path.field("driver"), errors);
}

/// Validates the name of a pool: subdomains, separated by slashes.
pub(crate) fn validate_pool(path: &Path<'_>, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > SUBDOMAIN_BYTES_MAX {
        errors.too_long(path, SUBDOMAIN_BYTES_MAX);
    }
    for part in name.split('/') {
        check::dns_subdomain(path, part, errors);
    }
}

/// Validates the identifier of a share of a device.
pub(crate) fn validate_share_id(path: &Path<'_>, id: &str, errors: &mut FieldErrors) {
    let is_uuid = |text: &str| {
        let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        text.len() == 36
            && text
                .bytes()
                .enumerate()
                .all(|(at, b)| if dash(at) { b == b'-' } else { b.is_ascii_hexdigit() })
    };
    if !is_uuid(id) {
        let why = match id.len() {
            36 => "invalid UUID format".to_string(),
            length => format!("invalid UUID length: {length}"),
        };
        return errors.invalid(path, id, &format!("error validating uid: {why}"));
    }
    if id.bytes().any(|b| b.is_ascii_uppercase()) {
        let why = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.invalid(path, id, why);
    }
}

/// Requires the form `name` or `domain/name`.
pub(super) fn validate_qualified(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let parts: Vec<&str> = name.split('/').collect();
    match parts[..] {
        [name] => validate_identifier(name, path, errors),
        [domain, name] => {
            if domain.is_empty() {
                errors.invalid(path, "", "the domain must not be empty");
            } else {
                volume_sources::validate_csi_driver_name(domain, path, errors);
            }
            if name.is_empty() {
                errors.invalid(path, "", "the name must not be empty");
            } else {
                validate_identifier(name, path, errors);
            }
        }
        _ => {}
    }
}

/// Requires the form `domain/name`.
pub(super) fn validate_fully_qualified(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_qualified(name, path, errors);
    if !name.contains('/') {
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash");
    }
}

fn validate_identifier(id: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if id.len() > ID_BYTES_MAX {
        errors.too_long(path, ID_BYTES_MAX);
    }
    check::each(names::is_c_identifier(id), path, id, errors);
}

/// Validates an object that only the driver understands.
pub(super) fn validate_raw_object(
    raw: Option<&Value>,
    stored: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(raw) = raw.filter(|raw| !raw.is_null()) else {
        return errors.required(path, "");
    };
    let length = match raw {
        Value::Raw(raw) => raw.text().len(),
        plain => {
            let text = json::bytes(plain);
            text.len()
        }
    };
    if !stored && length > RAW_BYTES_MAX {
        errors.too_long(path, RAW_BYTES_MAX);
    } else if raw.as_object().is_none() {
        errors.invalid(path, "<value omitted>", "must be a valid JSON object");
    }
}

/// `opaque` of a configuration.
pub(super) fn validate_configuration(
    config: &Value,
    stored: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let at = path.field("opaque");
    let Some(opaque) = fields::member(config, "opaque") else {
        return errors.required(&at, "");
    };
    validate_driver(opaque, &at, errors);
    validate_raw_object(opaque.get("parameters"), stored, &at.field("parameters"), errors);
}

/// Validates binding conditions and binding failure conditions.
pub(super) fn validate_binding(object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const CONDITIONS_MAX: usize = 4;
    let keys = ["bindingConditions", "bindingFailureConditions"];
    for key in keys {
        each_limited(object, key, CONDITIONS_MAX, path, errors, |condition, path, errors| {
            check::qualified_name(path, condition.as_str().unwrap_or(""), errors);
        });
    }
    let [conditions, failures] = keys.map(|key| fields::list(object, key));
    let texts: HashSet<&str> = conditions.iter().filter_map(Value::as_str).collect();
    for (key, list) in keys.into_iter().zip([conditions, failures]) {
        let mut seen = check::Unique::default();
        for (index, condition) in list.iter().enumerate() {
            let text = condition.as_str().unwrap_or("");
            let at = path.field(key);
            seen.check(text, &at.index(index), text, errors);
            if key == "bindingFailureConditions" && texts.contains(text) {
                let why = "bindingFailureConditions must not overlap with bindingConditions";
                errors.invalid(&at.index(index), text, why);
            }
        }
    }
    if conditions.is_empty() != failures.is_empty() {
        let (lacking, given) = if conditions.is_empty() { (keys[0], keys[1]) } else { (keys[1], keys[0]) };
        let why = format!("{lacking} are required to use {given}");
        let value = if object.get(lacking).is_some_and(|list| !list.is_null()) { "[]" } else { "null" };
        errors.invalid(&path.field(lacking), pintle_meta::field::Plain(value), &why);
    }
}
