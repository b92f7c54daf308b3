//! Validates events, in the form of the core group.

use crate::error_text::Internal;
use crate::fields::{int, member, text};
use crate::metadata::ResourceScope;
use crate::{Hooks, check, metadata};
use pintle_meta::{FieldErrors, names, objectmeta};
use pintle_value::{Path, Value};

/// The longest reason, action and reporting instance of an event with eventTime.
const TEXT_BYTES_MAX: usize = 128;
const MESSAGE_BYTES_MAX: usize = 1024;
const NAMESPACE_MISMATCH: &str = "does not match event.namespace";
fn is_timed(object: &Value) -> bool {
    !text(object, "eventTime").is_empty()
}

/// The rules of both groups. `strict` means `events.k8s.io`, which names one field differently.
pub(super) fn validate_common(object: &Value, strict: bool, errors: &mut FieldErrors) {
    let namespace = object.str_at(&["metadata", "namespace"]);
    let involved = object.str_at(&["involvedObject", "namespace"]);
    let matches = match (is_timed(object), involved) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, other) => other == namespace,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !matches {
        errors.invalid(&Path::of("involvedObject.namespace"), involved, NAMESPACE_MISMATCH);
    }
    if is_timed(object) {
        validate_timed(object, strict, errors);
    }
    check::dns_subdomain(&Path::of("namespace"), namespace, errors);
}

fn validate_timed(object: &Value, strict: bool, errors: &mut FieldErrors) {
    let controller = text(object, "reportingComponent");
    let path = Path::of(if strict { "reportingController" } else { "reportingComponent" });
    if controller.is_empty() {
        errors.required(&path, "");
    }
    check::each(names::is_qualified_name(controller), &path, controller, errors);
    for field in ["reportingInstance", "action", "reason"] {
        check::required(object, field, &Path::ROOT, errors);
        validate_length(object, field, TEXT_BYTES_MAX, errors);
    }
    validate_length(object, "message", MESSAGE_BYTES_MAX, errors);
}

fn validate_length(object: &Value, field: &str, max: usize, errors: &mut FieldErrors) {
    if text(object, field).len() > max {
        errors.invalid(&Path::of(field), "", &format!("can have at most {max} characters"));
    }
}

fn validate_series(object: &Value, errors: &mut FieldErrors) {
    let Some(series) = member(object, "series") else { return };
    if int(series, "count") < 2 {
        errors.invalid(&Path::of("series.count"), "", "should be at least 2");
    }
    if text(series, "lastObservedTime").is_empty() {
        errors.required(&Path::of("series.lastObservedTime"), "");
    }
}

/// Validates a new event of `events.k8s.io`.
pub(super) fn validate_strict_create(hooks: &dyn Hooks, object: &Value, errors: &mut FieldErrors) {
    metadata::validate_core_of_new(hooks, ResourceScope::Namespaced, object, errors);
    validate_series(object, errors);
    if !is_timed(object) {
        errors.required(&Path::of("eventTime"), "");
    }
    let kind = text(object, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::of("type"), "", &format!("has invalid value: {kind}"));
    }
    let source =
        object.get("source").is_some_and(|s| !text(s, "component").is_empty() || !text(s, "host").is_empty());
    for (field, set) in [
        ("firstTimestamp", !text(object, "firstTimestamp").is_empty()),
        ("lastTimestamp", !text(object, "lastTimestamp").is_empty()),
        ("count", int(object, "count") != 0),
        ("source", source),
    ] {
        if set {
            errors.invalid(&Path::of(field), "", "needs to be unset");
        }
    }
}

/// Validates an update in `events.k8s.io`: only the series may change.
pub(super) fn validate_strict_update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    objectmeta::validate_update(metadata::meta(object), metadata::meta(old), &Path::of("metadata"), errors);
    metadata::validate_core(object, errors);
    if object.get("series") != old.get("series") {
        validate_series(object, errors);
    }
    // The order is kube-apiserver's, which has the reason twice.
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        validate_unchanged(object, old, field, errors);
    }
}

fn validate_unchanged(object: &Value, old: &Value, field: &str, errors: &mut FieldErrors) {
    let new = object.get(field);
    if new == old.get(field) {
        return;
    }
    let path = Path::of(if field == "reportingComponent" { "reportingController" } else { field });
    match field {
        "involvedObject" | "related" => {
            errors.invalid(&path, Internal(new, "core/v1.ObjectReference"), objectmeta::IMMUTABLE)
        }
        "source" => errors.invalid(&path, Internal(new, "core/v1.EventSource"), objectmeta::IMMUTABLE),
        "count" => errors.invalid(&path, int(object, field), objectmeta::IMMUTABLE),
        "firstTimestamp" | "lastTimestamp" | "eventTime" => errors.invalid(&path, new, objectmeta::IMMUTABLE),
        _ => errors.invalid(&path, text(object, field), objectmeta::IMMUTABLE),
    }
}
