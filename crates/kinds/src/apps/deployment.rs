//! Deployment.

use crate::core::podspec::options::Options;
use crate::error_text::Internal;
use crate::fields::{int, member, opt_int, text};
use crate::hooks::take;
use crate::{Hooks, Scope, check, facts, workload};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
const TYPE: &str = "apps/v1.DeploymentSpec";
/// The annotation that is a field of kube-apiserver's internal type: the revision to roll back to.
const ROLLBACK_ANNOTATION: &str = "deprecated.deployment.rollback.to";
const ROLLBACK: [&str; 3] = ["metadata", "annotations", ROLLBACK_ANNOTATION];

pub(crate) struct Deployment;

impl Hooks for Deployment {
    fn field_annotations(&self) -> &'static [&'static str] {
        &[ROLLBACK_ANNOTATION]
    }

    fn conversion_error(&self, object: &Value) -> Option<String> {
        let text = object.str_at(&ROLLBACK);
        let why = super::parse_int_error(text).filter(|_| !text.is_empty())?;
        Some(format!("failed to parse annotation[{ROLLBACK_ANNOTATION}]={text} as int64: {why}"))
    }

    fn complete_empty(&self, object: &mut Value) {
        workload::set_no_replicas(object);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope == Scope::Sub("status") {
            take(object, old, &["metadata", "labels"]);
            // A status update may change annotations, but this one belongs to the spec.
            take(object, old, &ROLLBACK);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, &Options::of_template(None), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            validate_status(workload::status(object), errors);
            return workload::validate_collision_count(object, old, errors);
        }
        let options = Options::of_template(old.at(&["spec", "template"]));
        validate_spec(object, &options, errors);
        workload::validate_unchanged_selector(workload::spec_of(object), workload::spec_of(old), errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        super::template_warnings(object, old, true)
    }

    /// Annotations count as well, because they are copied to replica sets.
    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        let annotations =
            |v: &Value| v.at(&["metadata", "annotations"]).filter(|a| **a != Value::object()).cloned();
        object.get("spec") != old.get("spec") || annotations(object) != annotations(old)
    }
}

/// Writes the revision to roll back to as kube-apiserver does after it read it as a number; an empty one is none.
pub(crate) fn normalize_rollback(object: &mut Value) {
    let Some(text) = object.at(&ROLLBACK).and_then(Value::as_str) else { return };
    match text.parse::<i64>() {
        Ok(revision) => object.set_at(&ROLLBACK, revision.to_string().into()),
        Err(_) if text.is_empty() => _ = object.remove_at(&ROLLBACK),
        Err(_) => {}
    }
}

fn validate_spec(object: &Value, options: &Options, errors: &mut FieldErrors) {
    let spec = workload::spec_of(object);
    facts::check_fields(spec, TYPE, &["replicas"], &SPEC, errors);
    workload::validate_required_selector(spec, "deployment", &SPEC, errors);
    super::validate_replicated_template(spec, options, errors);
    validate_strategy(spec.get("strategy").unwrap_or(&Value::Null), &SPEC.field("strategy"), errors);
    facts::check_fields(spec, TYPE, &["minReadySeconds", "revisionHistoryLimit"], &SPEC, errors);
    if let Ok(revision) = object.str_at(&ROLLBACK).parse::<i64>() {
        check::nonnegative(&SPEC.field("rollback.version"), revision, errors);
    }
    facts::check_fields(spec, TYPE, &["progressDeadlineSeconds"], &SPEC, errors);
    if let Some(deadline) = opt_int(spec, "progressDeadlineSeconds") {
        let path = SPEC.field("progressDeadlineSeconds");
        if deadline <= int(spec, "minReadySeconds") {
            errors.invalid(&path, deadline, "must be greater than minReadySeconds");
        }
    }
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let rolling = member(strategy, "rollingUpdate");
    let field = path.field("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("Recreate", Some(_)) => {
            errors.forbidden(&field, "may not be specified when strategy `type` is 'Recreate'");
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => errors.required(&field, "this should be defaulted and never be nil"),
        ("RollingUpdate", Some(rolling)) => validate_rolling_update(rolling, &field, errors),
        _ => {
            let error_text = Internal(Some(strategy), "apps/v1.DeploymentStrategy");
            errors.not_supported(path, error_text, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn validate_rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let zero = Value::Int(0);
    let unavailable = rolling.get("maxUnavailable").unwrap_or(&zero);
    let surge = rolling.get("maxSurge").unwrap_or(&zero);
    let field = path.field("maxUnavailable");
    check::nonnegative_int_or_percent(&field, unavailable, errors);
    check::nonnegative_int_or_percent(&path.field("maxSurge"), surge, errors);
    if check::int_or_percent(Some(unavailable)) == 0 && check::int_or_percent(Some(surge)) == 0 {
        errors.invalid(&field, unavailable, "may not be 0 when `maxSurge` is 0");
    }
    check::not_above_hundred_percent(&field, unavailable, errors);
}

fn validate_status(status: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    facts::check(status, "apps/v1.DeploymentStatus", &path, errors);
    for key in ["updatedReplicas", "readyReplicas", "availableReplicas"] {
        workload::validate_not_above(status, key, "replicas", "status.replicas", &path, errors);
    }
    workload::validate_not_above(
        status,
        "availableReplicas",
        "readyReplicas",
        "readyReplicas",
        &path,
        errors,
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, updated};
    use pintle_value::json;

    fn deployment(spec: &str) -> String {
        let mut object = tree(&format!(r#"{{"metadata":{{"name":"d"}},"spec":{spec}}}"#));
        crate::defaults::of_type("apps/v1.Deployment").unwrap().apply(&mut object);
        json::text(&object)
    }

    #[test]
    fn the_selector_selects_the_template_and_stays() {
        let template = |label: &str| {
            format!(
                r#""template":{{"metadata":{{"labels":{{"a":"{label}"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
            )
        };
        let with = |selector: &str, label: &str| {
            deployment(&format!(
                r#"{{"selector":{{"matchLabels":{{"a":"{selector}"}}}},{}}}"#,
                template(label)
            ))
        };
        let old = with("b", "b");
        let update = |new: &str| updated(&Deployment, Scope::Main, new, &old);
        assert_eq!(update(&old), [""; 0]);
        assert_eq!(
            update(&with("b", "c")),
            [
                r#"spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`"#
            ]
        );
        assert_eq!(
            update(&with("c", "c")),
            [r#"spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable"#]
        );
    }

    #[test]
    fn annotations_make_a_generation() {
        let object = tree(r#"{"metadata":{"annotations":{"a":"b"}},"spec":{}}"#);
        let old = tree(r#"{"metadata":{},"spec":{}}"#);
        assert!(Deployment.new_generation(&object, &old));
        assert!(!Deployment.new_generation(&old, &old));
    }
}
