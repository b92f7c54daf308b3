//! Validates autoscalers.

use crate::core::podspec::resources::validate_container_resource_name;
use crate::fields::{int, list, member, opt_int, text};
use crate::{check, facts, features};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, GroupVersion};
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
const RESOURCE: &str = "autoscaling/v2.ResourceMetricSource";
const CONTAINER_RESOURCE: &str = "autoscaling/v2.ContainerResourceMetricSource";
const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];
/// Metric sources in the order of validation, and their types.
const SOURCES: [(&str, &str); 5] = [
    ("object", "Object"),
    ("external", "External"),
    ("pods", "Pods"),
    ("resource", "Resource"),
    ("containerResource", "ContainerResource"),
];

/// Which apiVersion a reference may have.
#[derive(Clone, Copy)]
struct Reference {
    empty_group: bool,
    any_version: bool,
}

/// Validates the spec of an autoscaler.
pub(super) fn validate(spec: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let had_zero = old.is_some_and(|old| opt_int(old, "minReplicas") == Some(0));
    let (min, max) = (opt_int(spec, "minReplicas"), int(spec, "maxReplicas"));
    let lowest = if had_zero || features::is_enabled("HPAScaleToZero") { 0 } else { 1 };
    if let Some(min) = min.filter(|min| *min < lowest) {
        errors.invalid(
            &SPEC.field("minReplicas"),
            min,
            &format!("must be greater than or equal to {lowest}"),
        );
    }
    let path = SPEC.field("maxReplicas");
    if max == 0 {
        errors.required(&path, "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(&path, max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(&path, max, "must be greater than or equal to `minReplicas`");
    }
    let empty = Value::object();
    let target = spec.get("scaleTargetRef").unwrap_or(&empty);
    validate_reference(target, target_rules(target, old), &SPEC.field("scaleTargetRef"), errors);
    validate_metrics(spec, min, object_rules(old), errors);
    if let Some(behavior) = member(spec, "behavior") {
        let path = SPEC.field("behavior");
        for key in ["scaleUp", "scaleDown"] {
            if let Some(rules) = member(behavior, key) {
                validate_scaling_rules(rules, &path.field(key), errors);
            }
        }
    }
}

/// An unchanged target is not validated again. Of the core group only ReplicationController can be scaled.
fn target_rules(target: &Value, old: Option<&Value>) -> Reference {
    let old = old.and_then(|old| old.get("scaleTargetRef"));
    let same =
        old.is_some_and(|old| ["apiVersion", "kind"].iter().all(|key| text(old, key) == text(target, key)));
    let core = !same && text(target, "kind") == "ReplicationController";
    Reference { empty_group: core, any_version: same }
}

fn object_rules(old: Option<&Value>) -> Reference {
    let rules = Reference { empty_group: true, any_version: false };
    let metrics = old.map_or(&[] as &[Value], |old| list(old, "metrics"));
    let bad = |metric: &Value| {
        let described = metric.at(&["object", "describedObject"]);
        text(metric, "type") == "Object" && described.is_some_and(|d| api_version_fault(d, rules).is_some())
    };
    Reference { any_version: metrics.iter().any(bad), ..rules }
}

fn validate_reference(reference: &Value, rules: Reference, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(reference, "autoscaling/v2.CrossVersionObjectReference", path, errors);
    if let Some(fault) = api_version_fault(reference, rules) {
        errors.invalid(&path.field("apiVersion"), text(reference, "apiVersion"), &fault);
    }
}

fn api_version_fault(reference: &Value, rules: Reference) -> Option<String> {
    if rules.any_version {
        return None;
    }
    match GroupVersion::parse(text(reference, "apiVersion")) {
        Err(error) => Some(error),
        Ok(version) if version.group.is_empty() && !rules.empty_group => {
            Some("apiVersion must specify API group".to_string())
        }
        Ok(_) => None,
    }
}

fn validate_metrics(spec: &Value, min: Option<i64>, rules: Reference, errors: &mut FieldErrors) {
    let path = SPEC.field("metrics");
    let metrics = list(spec, "metrics");
    for (at, metric) in metrics.iter().enumerate() {
        validate_metric(metric, rules, &path.index(at), errors);
    }
    let outside = |m: &Value| matches!(text(m, "type"), "Object" | "External");
    if min == Some(0) && !metrics.iter().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(&path, detail);
    }
}

fn validate_metric(metric: &Value, rules: Reference, path: &Path<'_>, errors: &mut FieldErrors) {
    let kind = text(metric, "type");
    let field = path.field("type");
    if kind.is_empty() {
        errors.required(&field, "must specify a metric source type");
    }
    check::supported(&field, Some(kind), &SOURCE_TYPES, errors);
    let present: Vec<&str> =
        SOURCES.iter().map(|(key, _)| *key).filter(|key| member(metric, key).is_some()).collect();
    if let Some(first) = present.first() {
        validate_source(first, metric.get(first).unwrap_or(&Value::Null), rules, &path.field(first), errors);
    }
    let expected = SOURCES.iter().find(|(_, of)| *of == kind).map(|(key, _)| *key);
    match expected {
        Some(key) if !present.contains(&key) => {
            errors.required(&path.field(key), "must populate information for the given metric source");
        }
        Some(_) => {}
        None => errors.not_supported(&field, Named(kind), &SOURCE_TYPES),
    }
    if present.len() != 1 {
        for key in present.into_iter().filter(|key| Some(*key) != expected) {
            errors.forbidden(&path.field(key), "must populate the given metric source only");
        }
    }
}

fn validate_source(key: &str, source: &Value, rules: Reference, path: &Path<'_>, errors: &mut FieldErrors) {
    let empty = Value::object();
    let wanted = source.get("target").unwrap_or(&empty);
    let target_path = path.field("target");
    let has = |field: &str| member(wanted, field).is_some();
    match key {
        "object" => {
            let described = source.get("describedObject").unwrap_or(&empty);
            validate_reference(described, rules, &path.field("describedObject"), errors);
            validate_identifier(source, path, errors);
            validate_target(wanted, &target_path, errors);
            if !has("value") && !has("averageValue") {
                let detail = "must set either a target value or averageValue";
                errors.required(&target_path.field("averageValue"), detail);
            }
        }
        "external" => {
            validate_identifier(source, path, errors);
            validate_target(wanted, &target_path, errors);
            if !has("value") && !has("averageValue") {
                let detail = "must set either a target value for metric or a per-pod target";
                errors.required(&target_path.field("averageValue"), detail);
            }
            if has("value") && has("averageValue") {
                let detail = "may not set both a target value for metric and a per-pod target";
                errors.forbidden(&target_path.field("value"), detail);
            }
        }
        "pods" => {
            validate_identifier(source, path, errors);
            validate_target(wanted, &target_path, errors);
            if !has("averageValue") {
                let detail = "must specify a positive target averageValue";
                errors.required(&target_path.field("averageValue"), detail);
            }
        }
        _ => validate_resource_source(key, source, wanted, path, errors),
    }
}

fn validate_resource_source(
    key: &str,
    source: &Value,
    wanted: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let name = text(source, "name");
    let block = if key == "containerResource" { CONTAINER_RESOURCE } else { RESOURCE };
    facts::check_fields(source, block, &["name"], path, errors);
    if key == "containerResource" {
        if !name.is_empty() {
            validate_container_resource_name(name, &path.field("name"), errors);
        }
        facts::check_fields(source, block, &["container"], path, errors);
    }
    let path = path.field("target");
    validate_target(wanted, &path, errors);
    let has = |field: &str| member(wanted, field).is_some();
    if !has("averageUtilization") && !has("averageValue") {
        let detail = "must set either a target raw value or a target utilization";
        errors.required(&path.field("averageUtilization"), detail);
    }
    if has("averageUtilization") && has("averageValue") {
        let detail = "may not set both a target raw value and a target utilization";
        errors.forbidden(&path.field("averageValue"), detail);
    }
}

fn validate_identifier(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let metric = source.get("metric").unwrap_or(&Value::Null);
    facts::check(metric, "autoscaling/v2.MetricIdentifier", &path.field("metric"), errors);
}

fn validate_target(target: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let kind = text(target, "type");
    if kind.is_empty() {
        errors.required(&path.field("type"), "must specify a metric target type");
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(&path.field("type"), Named(kind), detail);
    }
    facts::check(target, "autoscaling/v2.MetricTarget", path, errors);
}

fn validate_scaling_rules(rules: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(rules, "autoscaling/v2.HPAScalingRules", path, errors);
}

#[cfg(test)]
mod tests {
    use super::validate;
    use crate::testing::tree;
    use pintle_meta::FieldErrors;

    fn faults(spec: &str, old: Option<&str>) -> Vec<String> {
        let mut errors = FieldErrors::new();
        validate(&tree(spec), old.map(tree).as_ref(), &mut errors);
        errors.0.iter().map(ToString::to_string).collect()
    }

    const TARGET: &str =
        r#""scaleTargetRef":{"kind":"Deployment","name":"d","apiVersion":"apps/v1"},"maxReplicas":3"#;

    #[test]
    fn targets_replicas_and_metrics() {
        for (rest, expected) in [
            ("", vec![]),
            (
                r#","minReplicas":4"#,
                vec!["spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"],
            ),
            (
                r#","metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":0}}}]"#,
                vec![
                    "spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                ],
            ),
            (
                r#","behavior":{"scaleUp":{"policies":[{"type":"Pods","value":1,"periodSeconds":1801}]}}"#,
                vec![
                    "spec.behavior.scaleUp.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                ],
            ),
        ] {
            assert_eq!(faults(&format!("{{{TARGET}{rest}}}"), None), expected, "{rest}");
        }
    }

    #[test]
    fn a_target_that_does_not_change_is_not_judged_again() {
        let spec = r#"{"scaleTargetRef":{"kind":"K","name":"d","apiVersion":"a/b/c"},"maxReplicas":3}"#;
        let fault =
            "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c";
        assert_eq!(faults(spec, None), [fault]);
        assert_eq!(faults(spec, Some(spec)), [""; 0]);
    }
}
