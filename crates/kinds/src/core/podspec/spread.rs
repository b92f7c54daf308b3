//! Validates topology spread constraints and label keys.

use super::options::Options;
use crate::facts;
use crate::fields::{entries, list, member, opt_int, text, texts};
use pintle_meta::FieldErrors;
use pintle_meta::selector::label_validation::{Leniency, validate_label_name, validate_label_selector};
use pintle_value::{Path, Value};
use std::collections::{HashMap, HashSet};

const TYPE: &str = "core/v1.TopologySpreadConstraint";
const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

/// Checks the spread constraints of a pod.
pub(crate) fn validate(constraints: &[Value], path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    // The last position of each pair, because comparing thousands of constraints with each other is quadratic.
    let last: HashMap<_, _> = constraints.iter().map(identity).zip(0..).collect();
    for (at, constraint) in constraints.iter().enumerate() {
        let path = path.index(at);
        facts::check_fields(
            constraint,
            TYPE,
            &["maxSkew", "topologyKey", "whenUnsatisfiable"],
            &path,
            errors,
        );
        let (key, action) = identity(constraint);
        if last.get(&(key, action)).is_some_and(|last| *last > at) {
            let error_text = format!("{{{key}, {action}}}");
            errors.duplicate(&path.field("{topologyKey, whenUnsatisfiable}"), error_text.as_str());
        }
        validate_min_domains(constraint, &path, errors);
        facts::check_fields(constraint, TYPE, &["nodeAffinityPolicy", "nodeTaintsPolicy"], &path, errors);
        if options.old_match_label_keys {
            validate_old_label_keys(constraint, &path.field("matchLabelKeys"), errors);
        } else {
            validate_label_keys(constraint, &path, errors);
        }
        if !options.invalid_spread_selector {
            let selector = constraint.get("labelSelector");
            validate_label_selector(selector, Leniency::default(), &path.field("labelSelector"), errors);
        }
    }
}

/// The fields that no two constraints of a pod may share.
fn identity(constraint: &Value) -> (&str, &str) {
    (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"))
}

fn validate_min_domains(constraint: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(domains) = opt_int(constraint, "minDomains") else { return };
    facts::check_fields(constraint, TYPE, &["minDomains"], path, errors);
    let action = text(constraint, "whenUnsatisfiable");
    if action != "DoNotSchedule" {
        let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(&path.field("minDomains"), domains, &detail);
    }
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys` together with their selector.
pub(crate) fn validate_label_keys(term: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for key in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = texts(term, key);
        let field = path.field(key);
        if !keys.is_empty() && member(term, "labelSelector").is_none() {
            errors.forbidden(&field, "must not be specified when labelSelector is not set");
            continue;
        }
        for (at, name) in keys.into_iter().enumerate() {
            validate_label_name(name, &field.index(at), errors);
        }
    }
    let matched = texts(term, "matchLabelKeys");
    if let Some(selector) = member(term, "labelSelector") {
        refuse_repeated_selection(selector, &matched, path, errors);
    }
    let mismatched: HashSet<&str> = texts(term, "mismatchLabelKeys").into_iter().collect();
    for (at, key) in matched.iter().enumerate().filter(|(_, key)| mismatched.contains(*key)) {
        let field = path.field("matchLabelKeys");
        errors.invalid(&field.index(at), *key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// The keys have been merged into the selector, so a key that occurs twice was also set by the user.
fn refuse_repeated_selection(selector: &Value, keys: &[&str], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen: HashSet<&str> = entries(selector.get("matchLabels")).map(|(key, _)| key).collect();
    // Of equal keys, the index of the last one.
    let indexes: HashMap<&str, usize> = keys.iter().enumerate().map(|(at, key)| (*key, at)).collect();
    for expression in list(selector, "matchExpressions") {
        let key = text(expression, "key");
        if let Some(at) = indexes.get(key).filter(|_| seen.contains(key)) {
            errors.invalid(&path.index(*at), key, IN_BOTH);
        }
        seen.insert(key);
    }
}

/// The rules of older versions, for existing objects.
fn validate_old_label_keys(constraint: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let keys = texts(constraint, "matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    let selector = member(constraint, "labelSelector");
    if selector.is_none() {
        errors.forbidden(path, "must not be specified when labelSelector is not set");
    }
    let selected: HashSet<&str> = selector
        .into_iter()
        .flat_map(|s| {
            let expressions = list(s, "matchExpressions").iter().map(|e| text(e, "key"));
            entries(s.get("matchLabels")).map(|(key, _)| key).chain(expressions)
        })
        .collect();
    for (at, key) in keys.into_iter().enumerate() {
        validate_label_name(key, &path.index(at), errors);
        if selected.contains(key) {
            errors.invalid(&path.index(at), key, IN_BOTH);
        }
    }
}

/// Returns whether a spec has label keys that are invalid by the current rules.
pub(crate) fn has_invalid_match_label_keys(spec: &Value) -> bool {
    list(spec, "topologySpreadConstraints").iter().any(|constraint| {
        let mut errors = FieldErrors::new();
        validate_label_keys(constraint, &Path::ROOT, &mut errors);
        !errors.is_empty()
    })
}
