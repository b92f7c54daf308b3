//! Validates which requests webhooks and policies apply to.

use super::expressions::{Expressions, Offered};
use crate::{check, facts, fields};
use pintle_cel::env::Checked;
use pintle_cel::types::Type;
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const CONDITIONS_MAX: usize = 64;

fn wildcard_beside_others(all: &[Str]) -> bool {
    all.len() > 1 && all.iter().any(|text| text == "*")
}

/// A rule of a webhook.
pub(super) fn validate_rule(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let operations = fields::strings(rule, "operations");
    let at = path.field("operations");
    if operations.is_empty() {
        errors.required(&at, "");
    }
    if wildcard_beside_others(&operations) {
        errors.invalid(&at, &operations[..], "if '*' is present, must not specify other operations");
    }
    for (index, operation) in operations.iter().enumerate() {
        check::supported(&at.index(index), Some(operation), &OPERATIONS, errors);
    }
    for (key, others) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let all = fields::strings(rule, key);
        let at = path.field(key);
        if all.is_empty() {
            errors.required(&at, "");
        }
        if wildcard_beside_others(&all) {
            errors.invalid(&at, &all[..], &format!("if '*' is present, must not specify other {others}"));
        }
        for (index, _) in all.iter().enumerate().filter(|(_, text)| key == "apiVersions" && text.is_empty()) {
            errors.required(&at.index(index), "");
        }
    }
    validate_resources(&fields::strings(rule, "resources"), &path.field("resources"), errors);
    facts::check(rule, "admissionregistration/v1.Rule", path, errors);
}

fn validate_resources(resources: &[Str], path: &Path<'_>, errors: &mut FieldErrors) {
    if resources.is_empty() {
        errors.required(path, "");
    }
    let (mut all_subresources, mut of_all_resources) = (HashSet::new(), HashSet::new());
    let mut plain_last = false;
    for (at, resource) in resources.iter().enumerate() {
        if resource.is_empty() {
            errors.required(&path.index(at), "");
            continue;
        }
        let Some((name, sub)) = resource.split_once('/') else {
            plain_last = resource != "*";
            continue;
        };
        if all_subresources.contains(name) {
            let why = format!("if '{name}/*' is present, must not specify {resource}");
            errors.invalid(&path.index(at), resource, &why);
        }
        if of_all_resources.contains(sub) {
            let why = format!("if '*/{sub}' is present, must not specify {resource}");
            errors.invalid(&path.index(at), resource, &why);
        }
        if sub == "*" {
            all_subresources.insert(name);
        }
        if name == "*" {
            of_all_resources.insert(sub);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    if resources.len() > 1 && has("*/*") {
        errors.invalid(path, resources, "if '*/*' is present, must not specify other resources");
    }
    if has("*") && plain_last {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(path, resources, why);
    }
}

/// Validates `matchConstraints` and `matchResources`.
pub(super) fn validate_match_resources(matches: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(matches, "admissionregistration/v1.MatchResources", path, errors);
    for key in ["namespaceSelector", "objectSelector"] {
        match fields::member(matches, key) {
            None => errors.required(&path.field(key), ""),
            selector => validate_label_selector(selector, Leniency::default(), &path.field(key), errors),
        }
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        check::each_item(matches, key, path, |rule, path| validate_named_rule(rule, path, errors));
    }
}

/// A mutating policy may only match CREATE and UPDATE.
pub(super) fn validate_mutating_operations(matches: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let at = path.field("resourceRules.operations");
    for rule in fields::list(matches, "resourceRules") {
        for operation in fields::texts(rule, "operations") {
            check::supported(&at, Some(operation), &MUTATING_OPERATIONS, errors);
        }
    }
}

fn validate_named_rule(rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let given = fields::texts(rule, "resourceNames");
    let at = path.field("resourceNames");
    let mut seen = check::Unique::default();
    for (index, name) in given.iter().enumerate() {
        check::each(names::path_segment_name(name, false), &at.index(index), *name, errors);
        seen.check(name, &at.index(index), *name, errors);
    }
    validate_rule(rule, path, errors);
}

/// Validates `matchConditions`.
pub(super) fn validate_conditions(
    conditions: &[Value],
    has_params: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(path, conditions.len(), CONDITIONS_MAX);
    }
    let mut seen = check::Unique::default();
    for (at, condition) in conditions.iter().enumerate() {
        let name = fields::text(condition, "name");
        let expression = fields::text(condition, "expression").trim();
        if expression.is_empty() {
            errors.required(&path.index(at).field("expression"), "");
        } else {
            let offered = Offered { params: has_params, authorizer: true, patches: false };
            let checked = Expressions::default().check(expression, offered, &[Type::Bool]);
            report_invalid_expression(checked, expression, &path.index(at).field("expression"), errors);
        }
        if name.is_empty() {
            errors.required(&path.index(at).field("name"), "");
            continue;
        }
        check::qualified_name(&path.index(at).field("name"), name, errors);
        seen.check(name, &path.index(at).field("name"), name, errors);
    }
}

/// Reports an invalid expression, or one that cannot be planned.
pub(super) fn report_invalid_expression(
    checked: Result<Checked, String>,
    expression: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    match checked.map(|checked| checked.plan()) {
        Err(why) => errors.invalid(path, expression, &why),
        Ok(Err(why)) => errors.internal(path, &format!("program instantiation failed: {why}")),
        Ok(Ok(_)) => {}
    }
}

/// Validates `paramKind`.
pub(super) fn validate_param_kind(kind: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let (api_version, name) = (fields::text(kind, "apiVersion"), fields::text(kind, "kind"));
    let at = path.field("apiVersion");
    let parts: Vec<&str> = api_version.split('/').collect();
    match parts[..] {
        _ if api_version.is_empty() => errors.required(&at, ""),
        [version] => validate_group_version("", version, api_version, &at, errors),
        [group, version] => validate_group_version(group, version, api_version, &at, errors),
        _ => errors.invalid(&at, api_version, &format!("unexpected GroupVersion string: {api_version}")),
    }
    let complaints = names::is_dns1035_label(&name.to_lowercase());
    if name.is_empty() {
        errors.required(&path.field("kind"), "");
    } else if !complaints.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
        errors.invalid(&path.field("kind"), name, &why);
    }
}

fn validate_group_version(
    group: &str,
    version: &str,
    whole: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let complaints = names::is_dns1123_subdomain(group);
    if !group.is_empty() && !complaints.is_empty() {
        errors.invalid(path, group, &complaints.join(","));
    }
    let complaints = names::is_dns1035_label(version);
    if version.is_empty() {
        errors.invalid(path, whole, "version must be specified");
    } else if !complaints.is_empty() {
        errors.invalid(path, version, &complaints.join(","));
    }
}
