//! Validation that workloads share: a selector that matches the pod template, and counters in the status.

use crate::core::podspec::{options::Options, spec};
use crate::error_text::Internal;
use crate::fields::{int, member, opt_int, text};
use pintle_meta::field::{Named, Plain};
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, LabelSelector, names};
use pintle_value::{Path, Value};

/// The error of a selector that does not select the pods of its own template.
pub(crate) const NO_MATCH: &str = "`selector` does not match template `labels`";

/// Requires a selector that is not empty.
pub(crate) fn validate_required_selector(
    spec: &Value,
    what: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let path = path.field("selector");
    let Some(selector) = member(spec, "selector") else { return errors.required(&path, "") };
    validate_label_selector(Some(selector), Leniency::default(), &path, errors);
    if is_empty_selector(selector) {
        errors.invalid(&path, EMPTY_SELECTOR, &format!("empty selector is invalid for {what}"));
    }
}

/// The selector of a spec in error texts.
pub(crate) fn selector_error_text(spec: &Value) -> Internal<'_> {
    Internal(member(spec, "selector"), "meta/v1.LabelSelector")
}

/// Requires an unchanged selector.
pub(crate) fn validate_unchanged_selector(spec: &Value, old: &Value, errors: &mut FieldErrors) {
    if member(spec, "selector") != member(old, "selector") {
        errors.invalid(&Path::of("spec.selector"), selector_error_text(spec), crate::check::IMMUTABLE);
    }
}

/// An empty selector in error texts: Go omits empty lists and maps.
pub(crate) const EMPTY_SELECTOR: Plain<'_> = Plain("{}");

/// Returns whether a selector is empty.
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object).is_none_or(|m| m.is_empty());
    labels && selector.items_at(&["matchExpressions"]).is_empty()
}

/// Returns whether a selector matches the template's labels; `None` if it is invalid. An absent selector matches
/// nothing.
pub(crate) fn selects_template(spec: &Value) -> Option<bool> {
    let Some(selector) = member(spec, "selector") else { return Some(false) };
    let selector = LabelSelector::from_value(selector).ok()?;
    let labels = spec.at(&["template", "metadata", "labels"]).and_then(Value::as_object);
    Some(selector.matches(labels))
}

/// Reports that the labels of the template do not match.
pub(crate) fn report_unselected_template(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    errors.invalid(
        &path.field("template.metadata.labels"),
        spec.at(&["template", "metadata", "labels"]),
        NO_MATCH,
    );
}

/// Validates the template of a workload whose pods run forever. `path` is that of the spec.
pub(crate) fn validate_running_template(
    spec: &Value,
    what: &str,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let empty = Value::object();
    let template = spec.get("template").unwrap_or(&empty);
    spec::validate_template(template, &path.field("template"), options, errors);
    validate_runs_forever(template, what, &path.field("template"), errors);
}

/// Pods of a workload that runs forever must always restart and have no deadline.
pub(crate) fn validate_runs_forever(template: &Value, what: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("spec");
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let policy = text(spec, "restartPolicy");
    if policy != "Always" {
        errors.not_supported(&path.field("restartPolicy"), Named(policy), &["Always"]);
    }
    if opt_int(spec, "activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {what} is not Supported");
        errors.forbidden(&path.field("activeDeadlineSeconds"), &detail);
    }
}

/// Checks that none of the counters is negative; absent ones are zero.
pub(crate) fn validate_counters(status: &Value, keys: &[&str], path: &Path<'_>, errors: &mut FieldErrors) {
    for key in keys {
        crate::check::nonnegative_field(status, key, path, errors);
    }
}

/// Checks that no counter is above another.
pub(crate) fn validate_not_above(
    status: &Value,
    key: &str,
    limit: &str,
    limit_name: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let count = int(status, key);
    if count > int(status, limit) {
        errors.invalid(&path.field(key), count, &format!("cannot be greater than {limit_name}"));
    }
}

/// The count of hash collisions only grows.
pub(crate) fn validate_collision_count(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let count = |v: &Value| v.get("status").and_then(|s| opt_int(s, "collisionCount"));
    let (new, old) = (count(object), count(old));
    if old.is_some_and(|old| new.is_none_or(|new| new < old)) {
        errors.invalid(&Path::of("status.collisionCount"), new.unwrap_or(0), "cannot be decremented");
    }
}

/// The status of an object, or nothing.
pub(crate) fn status(object: &Value) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

/// The spec of an object, or nothing.
pub(crate) fn spec_of(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

/// Sets the replicas of an empty object, which are a number in Go's internal type.
pub(crate) fn set_no_replicas(object: &mut Value) {
    object.set_at(&["spec", "replicas"], Value::Int(0));
}

/// The warning about a name that cannot be a hostname.
pub(crate) fn name_warning(object: &Value, used_in: &str) -> Option<String> {
    let complaints = names::is_dns1123_label(object.str_at(&["metadata", "name"]));
    if complaints.is_empty() {
        return None;
    }
    let list = complaints.join(" ");
    Some(format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{list}]"
    ))
}

/// Where names of workloads turn up.
pub(crate) const POD_NAMES: &str = "Pod names and hostnames";
