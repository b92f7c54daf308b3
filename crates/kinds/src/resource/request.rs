//! The spec of claims: device requests, constraints and configuration.

use super::names::{self, each_limited, each_unique};
use super::selector;
use crate::{check, facts, fields, fill};
use pintle_meta::FieldErrors;
use pintle_meta::field::Plain;
use pintle_meta::names::is_label_value;
use pintle_value::{Path, Value};

const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const CONFIG_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const EXPRESSION_BYTES_MAX: usize = 10 * 1024;
const TOLERATION: &str = "resource/v1.DeviceToleration";
const NO_SUCH_REQUEST: &str =
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";

/// A request of v1beta1 is itself what v1 has under `exactly`, unless it lists alternatives.
pub(crate) fn default_beta_request(request: &mut Value) {
    if request.str_at(&["deviceClassName"]).is_empty() {
        return;
    }
    fill::zero(request, "allocationMode", "ExactCount");
    if request.str_at(&["allocationMode"]) == "ExactCount" {
        fill::zero(request, "count", 1);
    }
}

/// Validates `devices`.
pub(super) fn validate(devices: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    each_unique(devices, "requests", REQUESTS_MAX, path, errors, validate_request, |request| {
        fields::text(request, "name")
    });
    each_limited(devices, "constraints", CONSTRAINTS_MAX, path, errors, |constraint, path, errors| {
        validate_constraint(constraint, devices, path, errors);
    });
    each_limited(devices, "config", CONFIG_MAX, path, errors, |config, path, errors| {
        validate_references(config, devices, path, errors);
        names::validate_configuration(config, false, path, errors);
    });
}

fn validate_request(request: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    check::dns_label(&path.field("name"), fields::text(request, "name"), errors);
    let has_alternatives = !fields::list(request, "firstAvailable").is_empty();
    match (fields::member(request, "exactly"), has_alternatives) {
        (None, false) => errors.required(path, "exactly one of `exactly` or `firstAvailable` is required"),
        (Some(_), true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(path, Plain("null"), why);
        }
        (Some(exactly), false) => validate_devices(exactly, &path.field("exactly"), errors),
        (None, true) => {
            let key = "firstAvailable";
            let validate = |alternative: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
                check::dns_label(&path.field("name"), fields::text(alternative, "name"), errors);
                validate_devices(alternative, path, errors);
            };
            each_unique(request, key, ALTERNATIVES_MAX, path, errors, validate, |alternative| {
                fields::text(alternative, "name")
            });
        }
    }
}

fn validate_devices(request: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(request, "resource/v1.ExactDeviceRequest", path, errors);
    validate_selectors(request, path, errors);
    let (mode, count) = (fields::text(request, "allocationMode"), fields::int(request, "count"));
    match mode {
        "All" if count != 0 => {
            errors.invalid(&path.field("count"), count, "must not be specified when allocationMode is 'All'");
        }
        "All" => {}
        "ExactCount" => check::positive(&path.field("count"), count, errors),
        _ => check::supported(&path.field("allocationMode"), Some(mode), &["All", "ExactCount"], errors),
    }
    check::each_item(request, "tolerations", path, |toleration, path| {
        validate_toleration(toleration, path, errors)
    });
}

/// Validates `selectors` of requests and classes.
pub(super) fn validate_selectors(object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    each_limited(object, "selectors", SELECTORS_MAX, path, errors, |selector, path, errors| {
        let at = path.field("cel");
        match fields::member(selector, "cel") {
            None => errors.required(&at, ""),
            Some(cel) if fields::text(cel, "expression").len() > EXPRESSION_BYTES_MAX => {
                errors.too_long(&at.field("expression"), EXPRESSION_BYTES_MAX);
            }
            Some(cel) => selector::validate(fields::text(cel, "expression"), &at.field("expression"), errors),
        }
    });
}

fn validate_toleration(toleration: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(toleration, TOLERATION, &["key"], path, errors);
    let value = fields::text(toleration, "value");
    match fields::text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            errors.invalid(&path.field("value"), value, "must be empty for operator `Exists`");
        }
        "Exists" => {}
        "Equal" => check::each(is_label_value(value), &path.field("value"), value, errors),
        operator => {
            check::required_supported(&path.field("operator"), operator, &["Equal", "Exists"], errors)
        }
    }
    facts::check_fields(toleration, TOLERATION, &["effect"], path, errors);
}

fn validate_constraint(constraint: &Value, devices: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_references(constraint, devices, path, errors);
    let given = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|k| Some((k, fields::opt_text(constraint, k)?)));
    match given {
        Some((key, attribute)) => names::validate_fully_qualified(attribute, &path.field(key), errors),
        None => {
            let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
            errors.required(path, why);
        }
    }
}

/// Validates `requests` of constraints and configuration: unique references to requests of the claim.
pub(super) fn validate_references(
    object: &Value,
    devices: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let validate = |name: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        validate_reference(name.as_str().unwrap_or(""), devices, path, errors);
    };
    each_unique(object, "requests", REQUESTS_MAX, path, errors, validate, |name| name.as_str().unwrap_or(""));
}

/// Validates the name of a request, or of one of its alternatives.
pub(super) fn validate_reference(name: &str, devices: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let parts: Vec<&str> = name.split('/').collect();
    if parts.len() > 2 {
        return errors.invalid(path, name, NO_SUCH_REQUEST);
    }
    for part in &parts {
        check::dns_label(path, part, errors);
    }
    if !is_request(&parts, devices) {
        errors.invalid(path, name, NO_SUCH_REQUEST);
    }
}

fn is_request(parts: &[&str], devices: &Value) -> bool {
    let named =
        |list: &'_ [Value], name: &str| list.iter().rposition(|each| fields::text(each, "name") == name);
    let requests = fields::list(devices, "requests");
    let found = parts.first().and_then(|name| named(requests, name)).and_then(|at| requests.get(at));
    match (found, parts.get(1)) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(request), Some(name)) => named(fields::list(request, "firstAvailable"), name).is_some(),
    }
}
