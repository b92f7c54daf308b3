//! ResourceQuota: limits and scopes.

use super::podspec::resources::{validate_quantity_value, validate_resource_name};
use super::resources::{amounts, is_standard_for_quota};
use crate::error_text::Internal;
use crate::fields::{member, quantity, strings, text};
use crate::{Hooks, Scope};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, objectmeta};
use pintle_value::{Path, Str, Value};
use std::collections::HashMap;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];
const POD_RESOURCES: [&str; 7] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "pods", "requests.cpu", "requests.memory"];
const EXISTS_ONLY: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
pub(crate) struct ResourceQuota;

impl Hooks for ResourceQuota {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, errors);
        validate_status(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return validate_status(object, errors);
        }
        validate_spec(object, errors);
        let sorted = |v: &Value| {
            let mut scopes: Vec<Str> = scopes(v);
            scopes.sort();
            scopes.dedup();
            scopes
        };
        if sorted(object) != sorted(old) {
            errors.invalid(&Path::of("spec.scopes"), object.at(&["spec", "scopes"]), objectmeta::IMMUTABLE);
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        ["cpu", "memory", "storage", "ephemeral-storage"]
            .iter()
            .filter_map(|name| request_above_limit(object, name))
            .collect()
    }
}

fn request_above_limit(object: &Value, name: &str) -> Option<String> {
    let hard = |name: &str| object.at(&["spec", "hard", name]).map(|v| quantity(Some(v)));
    let (requested, limited) = (format!("requests.{name}"), format!("limits.{name}"));
    let bare = matches!(name, "cpu" | "memory");
    let (label, request) = match hard(&requested) {
        Some(request) => (requested.as_str(), request),
        None if bare => (name, hard(name)?),
        None => return None,
    };
    let limit = hard(&limited)?;
    (request > limit)
        .then(|| format!("ResourceQuota {label} ({request}) should be less than {limited} ({limit})"))
}

fn scopes(object: &Value) -> Vec<Str> {
    object.items_at(&["spec", "scopes"]).iter().map(|s| s.as_str().unwrap_or("").into()).collect()
}

fn validate_spec(object: &Value, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    validate_list(object.at(&["spec", "hard"]), &spec.field("hard"), errors);
    validate_scopes(object, &spec.field("scopes"), errors);
    if let Some(selector) = object.get("spec").and_then(|s| member(s, "scopeSelector")) {
        validate_selector(object, selector, &spec.field("scopeSelector.matchExpressions"), errors);
    }
}

fn validate_status(object: &Value, errors: &mut FieldErrors) {
    let status = Path::of("status");
    for field in ["hard", "used"] {
        validate_list(object.at(&["status", field]), &status.field(field), errors);
    }
}

fn validate_list(list: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    for (name, amount) in amounts(list) {
        let path = path.key(name);
        validate_resource_name(name, &path, errors);
        if !name.contains('/') && !is_standard_for_quota(name) {
            errors.invalid(&path, Named(name), "must be a standard resource for quota");
        }
        validate_quantity_value(name, &amount, &path, errors);
    }
}

/// How many limits concern resources that the scope excludes.
fn count_excluded(object: &Value, scope: &str) -> usize {
    let fits = |name: &str| match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => POD_RESOURCES.contains(&name),
        "BestEffort" => name == "pods",
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    };
    amounts(object.at(&["spec", "hard"]))
        .filter(|(name, _)| is_standard_for_quota(name) && !fits(name))
        .count()
}

fn count_conflicts<'a>(scopes: impl Iterator<Item = &'a str> + Clone) -> usize {
    OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| scopes.clone().any(|s| s == *scope))).count()
}

fn validate_scopes(object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let all = scopes(object);
    let mut excluded = HashMap::new();
    for scope in &all {
        if errors.is_full() {
            return;
        }
        if !SCOPES.contains(&scope.as_str()) {
            errors.invalid(path, all.as_slice(), "unsupported scope");
        }
        for _ in 0..*excluded.entry(scope.as_str()).or_insert_with(|| count_excluded(object, scope)) {
            errors.invalid(path, all.as_slice(), "unsupported scope applied to resource");
        }
    }
    for _ in 0..count_conflicts(all.iter().map(Str::as_str)) {
        errors.invalid(path, all.as_slice(), "conflicting scopes");
    }
}

fn validate_selector(object: &Value, selector: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let requirements = selector.items_at(&["matchExpressions"]);
    let mut excluded = HashMap::new();
    for requirement in requirements {
        if errors.is_full() {
            return;
        }
        let (scope, operator) = (text(requirement, "scopeName"), text(requirement, "operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(&path.field("scopeName"), Named(scope), "unsupported scope");
        }
        for _ in 0..*excluded.entry(scope).or_insert_with(|| count_excluded(object, scope)) {
            errors.invalid(
                path,
                Internal(Some(selector), "core/v1.ScopeSelector"),
                "unsupported scope applied to resource",
            );
        }
        let valued = matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if SCOPES.contains(&scope) && !valued && operator != "Exists" {
            errors.invalid(&path.field("operator"), Named(operator), EXISTS_ONLY);
        }
        validate_values(requirement, operator, path, errors);
    }
    for _ in 0..count_conflicts(requirements.iter().map(|r| text(r, "scopeName"))) {
        errors.invalid(path, scopes(object).as_slice(), "conflicting scopes");
    }
}

fn validate_values(requirement: &Value, operator: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let values = strings(requirement, "values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
            errors.required(&path.field("values"), detail);
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
            errors.invalid(&path.field("values"), values.as_slice(), detail);
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(&path.field("operator"), Named(other), "not a valid selector operator"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, tree};

    #[test]
    fn limits_have_known_names_and_whole_amounts() {
        assert_eq!(
            created(&ResourceQuota, r#"{"spec":{"hard":{"odd":"1","pods":"1500m","cpu":"-1"}}}"#),
            [
                r#"spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
                r#"spec.hard[odd]: Invalid value: "odd": must be a standard resource type or fully qualified"#,
                r#"spec.hard[odd]: Invalid value: "odd": must be a standard resource for quota"#,
                r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#,
            ]
        );
    }

    #[test]
    fn scopes_fit() {
        assert_eq!(
            created(
                &ResourceQuota,
                r#"{"spec":{"hard":{"requests.cpu":"1"},"scopes":["BestEffort","NotBestEffort"],"scopeSelector":{"matchExpressions":[{"scopeName":"BestEffort","operator":"In"}]}}}"#
            ),
            [
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource"#
                    .to_string(),
                r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes"#.to_string(),
                r#"spec.scopeSelector.matchExpressions: Invalid value: {"MatchExpressions":[{"ScopeName":"BestEffort","Operator":"In","Values":null}]}: unsupported scope applied to resource"#.to_string(),
                format!(r#"spec.scopeSelector.matchExpressions.operator: Invalid value: "In": {EXISTS_ONLY}"#),
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector".to_string(),
            ]
        );
    }

    #[test]
    fn requests_above_limits_are_warned_about() {
        let quota = tree(r#"{"spec":{"hard":{"cpu":"2","limits.cpu":"1"}}}"#);
        assert_eq!(
            ResourceQuota.warnings(&quota, None),
            ["ResourceQuota cpu (2) should be less than limits.cpu (1)"]
        );
    }
}
