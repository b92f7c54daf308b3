//! LimitRange: bounds and defaults of resources, and their relations.

use super::podspec::aggregate::is_overcommit_allowed;
use super::podspec::resources::{validate_container_resource_name, validate_resource_name};
use super::resources::amounts;
use crate::fields::{entries, text};
use crate::{Hooks, check};
use pintle_meta::field::Named;
use pintle_meta::quantity::Format;
use pintle_meta::{FieldErrors, Quantity, names};
use pintle_value::{Path, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Larger quantities cannot be expressed in thousandths.
const MILLI_VALUE_MAX: i64 = i64::MAX / 1000;
const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
const NOT_FOR_PODS: &str = "may not be specified when `type` is 'Pod'";

pub(crate) struct LimitRange;

impl Hooks for LimitRange {
    fn prepare_create(&self, object: &mut Value) {
        if object.str_at(&["metadata", "name"]).is_empty() {
            let unique = Value::from(object.str_at(&["metadata", "uid"]));
            object.set_at(&["metadata", "name"], unique);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let list = Path::of("spec.limits");
        let mut seen = check::Unique::default();
        for (i, limit) in object.items_at(&["spec", "limits"]).iter().enumerate() {
            let path = list.index(i);
            let kind = text(limit, "type");
            validate_type(kind, &path.field("type"), errors);
            seen.check(kind, &path.field("type"), Named(kind), errors);
            validate_limit(limit, kind, &path, errors);
        }
    }
}

/// The default limits of containers follow from the upper bounds, the default requests from the limits and lower bounds.
pub(crate) fn default_from_bounds(limit: &mut Value) {
    if text(limit, "type") == "Container" {
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            copy_missing(limit, from, to);
        }
    }
}

/// Copies the amounts of the list `from` that `to` does not have.
fn copy_missing(limit: &mut Value, from: &str, to: &str) {
    let known: Vec<(String, Value)> =
        entries(limit.get(from)).map(|(k, v)| (k.to_string(), v.clone())).collect();
    for (name, amount) in known {
        if limit.at(&[to, &name]).is_none() {
            limit.set_at(&[to, &name], amount);
        }
    }
}

fn validate_type(kind: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let complaints = names::is_qualified_name(kind);
    for complaint in &complaints {
        errors.invalid(path, Named(kind), complaint);
    }
    let standard = matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim");
    if complaints.is_empty() && !kind.contains('/') && !standard {
        errors.invalid(path, Named(kind), "must be a standard limit type or fully qualified");
    }
}

fn validate_limit(limit: &Value, kind: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut lists: BTreeMap<&str, BTreeMap<&str, Quantity>> = BTreeMap::new();
    for field in LISTS {
        let at = path.field(field);
        if field == "maxLimitRequestRatio" && kind == "PersistentVolumeClaim" {
            let bounded = ["min", "max"].iter().any(|f| limit.at(&[f, "storage"]).is_some());
            if !bounded {
                let detail = "either minimum or maximum storage value is required, but neither was provided";
                errors.required(&path.field("limits"), detail);
            }
        }
        if kind == "Pod" && field.starts_with("default") {
            if amounts(limit.get(field)).next().is_some() {
                errors.forbidden(&at, NOT_FOR_PODS);
            }
            continue;
        }
        for (name, _) in amounts(limit.get(field)) {
            match kind {
                "Pod" | "Container" => validate_container_resource_name(name, &at.key(name), errors),
                _ => validate_resource_name(name, &at.key(name), errors),
            }
        }
        lists.insert(field, amounts(limit.get(field)).collect());
    }
    let names: BTreeSet<&str> = lists.values().flat_map(|l| l.keys().copied()).collect();
    for name in names {
        let amount = |field: &str| lists.get(field).and_then(|l| l.get(name));
        validate_order(name, &amount, path, errors);
        validate_ratio(name, &amount, path, errors);
        validate_overcommit(name, &amount, path, errors);
    }
}

type Amount<'a, 'b> = &'b dyn Fn(&str) -> Option<&'a Quantity>;

fn report(
    path: &Path<'_>,
    field: &str,
    name: &str,
    amount: &Quantity,
    detail: &str,
    errors: &mut FieldErrors,
) {
    errors.invalid(&path.field(field).key(name), Named(&amount.to_string()), detail);
}

/// Validates that min ≤ defaultRequest ≤ default ≤ max.
fn validate_order(name: &str, amount: Amount<'_, '_>, path: &Path<'_>, errors: &mut FieldErrors) {
    // (the lower bound, the upper bound, the reported field, whether the first or the second amount is printed)
    let rules = [
        (("min", "min"), ("max", "max"), "min", true),
        (("min", "min"), ("defaultRequest", "default request"), "defaultRequest", false),
        (("defaultRequest", "default request"), ("max", "max"), "defaultRequest", true),
        (("defaultRequest", "default request"), ("default", "default limit"), "defaultRequest", true),
        (("min", "min"), ("default", "default"), "default", true),
        (("default", "default"), ("max", "max"), "default", false),
    ];
    for ((low_field, low_words), (high_field, high_words), reported, shows_low) in rules {
        let (Some(low), Some(high)) = (amount(low_field), amount(high_field)) else { continue };
        if low > high {
            let detail = format!("{low_words} value {low} is greater than {high_words} value {high}");
            report(path, reported, name, if shows_low { low } else { high }, &detail, errors);
        }
    }
}

fn validate_ratio(name: &str, amount: Amount<'_, '_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(ratio) = amount("maxLimitRequestRatio") else { return };
    if *ratio < Quantity::new(1, Format::DecimalSI) {
        let detail = format!("ratio {ratio} is less than 1");
        report(path, "maxLimitRequestRatio", name, ratio, &detail, errors);
    }
    let (Some(min), Some(max)) = (amount("min"), amount("max")) else { return };
    let exact = [ratio, min, max].iter().all(|q| q.value() < MILLI_VALUE_MAX);
    let (value, bound) = if exact {
        (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
    } else {
        (ratio.value() as f64, max.value() as f64 / min.value() as f64)
    };
    if value > bound {
        let detail = format!("ratio {ratio} is greater than max/min = {bound:.6}");
        report(path, "maxLimitRequestRatio", name, ratio, &detail, errors);
    }
}

fn validate_overcommit(name: &str, amount: Amount<'_, '_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let (Some(limit), Some(request)) = (amount("default"), amount("defaultRequest")) else { return };
    if !is_overcommit_allowed(name) && limit != request {
        let detail = format!("default value {limit} must equal to defaultRequest value {request} in {name}");
        report(path, "defaultRequest", name, request, &detail, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted};

    #[test]
    fn defaults_follow_from_bounds() {
        assert_eq!(
            defaulted(
                "core/v1.LimitRange",
                r#"{"spec":{"limits":[{"type":"Container","max":{"cpu":"2"},"min":{"cpu":"1","memory":"1"}}]}}"#
            ),
            r#"{"spec":{"limits":[{"default":{"cpu":"2"},"defaultRequest":{"cpu":"2","memory":"1"},"max":{"cpu":"2"},"min":{"cpu":"1","memory":"1"},"type":"Container"}]}}"#
        );
    }

    #[test]
    fn bounds_are_in_order() {
        assert_eq!(
            created(
                &LimitRange,
                r#"{"spec":{"limits":[{"type":"Container","min":{"cpu":"2"},"max":{"cpu":"1"},"default":{"cpu":"1"},"defaultRequest":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"500m"}}]}}"#
            ),
            [
                r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#,
                r#"spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1"#,
                r#"spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1"#,
                r#"spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1"#,
            ]
        );
    }
}
