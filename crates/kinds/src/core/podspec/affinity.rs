//! Affinity of pods to nodes and to each other.

use super::options::Options;
use super::spread;
use crate::check;
use crate::fields::{int, list, member, text, texts};
use pintle_meta::field::Named;
use pintle_meta::selector::label_validation::{Leniency, validate_label_name, validate_label_selector};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Checks all affinity of a pod.
pub(crate) fn validate(affinity: &Value, options: &Options, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(node) = member(affinity, "nodeAffinity") {
        validate_node_affinity(node, options, &path.field("nodeAffinity"), errors);
    }
    for key in ["podAffinity", "podAntiAffinity"] {
        if let Some(pods) = member(affinity, key) {
            validate_pod_affinity(pods, options.invalid_selector_values, &path.field(key), errors);
        }
    }
}

fn validate_node_affinity(affinity: &Value, options: &Options, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(required) = member(affinity, REQUIRED) {
        validate_node_selector(required, options.invalid_node_affinity_values, &path.field(REQUIRED), errors);
    }
    check::each_item(affinity, PREFERRED, path, |term, path| {
        validate_weight(term, path, errors);
        // Values that match no node are harmless in a preference.
        let preference = term.get("preference").unwrap_or(&Value::Null);
        validate_node_selector_term(preference, true, &path.field("preference"), errors);
    });
}

fn validate_weight(term: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let weight = int(term, "weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.field("weight"), weight, "must be in the range 1-100");
    }
}

/// Checks a node selector.
pub(crate) fn validate_node_selector(
    selector: &Value,
    invalid_values: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let path = path.field("nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        return errors.required(&path, "must have at least one node selector term");
    }
    for (at, term) in terms.iter().enumerate() {
        validate_node_selector_term(term, invalid_values, &path.index(at), errors);
    }
}

fn validate_node_selector_term(
    term: &Value,
    invalid_values: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    check::each_item(term, "matchExpressions", path, |requirement, path| {
        validate_node_requirement(requirement, invalid_values, path, errors)
    });
    check::each_item(term, "matchFields", path, |requirement, path| {
        validate_node_field(requirement, path, errors)
    });
}

fn validate_node_requirement(
    requirement: &Value,
    invalid_values: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let values = texts(requirement, "values");
    let field = path.field("values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.is_empty() => {
            errors.required(&field, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.forbidden(&field, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.required(&field, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.invalid(&path.field("operator"), Named(other), "not a valid selector operator"),
    }
    validate_label_name(text(requirement, "key"), &path.field("key"), errors);
    if invalid_values {
        return;
    }
    for (at, value) in values.into_iter().enumerate() {
        check::each(names::is_label_value(value), &field.index(at), value, errors);
    }
}

fn validate_node_field(requirement: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let values = texts(requirement, "values");
    match text(requirement, "operator") {
        "In" | "NotIn" if values.len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(&path.field("values"), detail);
        }
        "In" | "NotIn" => {}
        other => errors.invalid(&path.field("operator"), Named(other), "not a valid selector operator"),
    }
    match text(requirement, "key") {
        "metadata.name" => {
            for (at, value) in values.into_iter().enumerate() {
                let field = path.field("values");
                check::each(names::dns_subdomain(value, false), &field.index(at), value, errors);
            }
        }
        other => errors.invalid(&path.field("key"), other, "not a valid field selector key"),
    }
}

fn validate_pod_affinity(affinity: &Value, invalid_values: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    check::each_item(affinity, REQUIRED, path, |term, path| {
        validate_pod_term(term, invalid_values, path, errors)
    });
    check::each_item(affinity, PREFERRED, path, |weighted, path| {
        validate_weight(weighted, path, errors);
        let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
        validate_pod_term(term, invalid_values, &path.field("podAffinityTerm"), errors);
    });
}

fn validate_pod_term(term: &Value, invalid_values: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_term_selectors(term, invalid_values, path, errors);
    for namespace in texts(term, "namespaces") {
        check::each(names::dns_label(namespace, false), &path.field("namespace"), namespace, errors);
    }
    spread::validate_label_keys(term, path, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(&path.field("topologyKey"), "can not be empty");
    }
    validate_label_name(key, &path.field("topologyKey"), errors);
}

fn validate_term_selectors(term: &Value, invalid_values: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let leniency = Leniency { invalid_values, ..Leniency::default() };
    for key in ["labelSelector", "namespaceSelector"] {
        validate_label_selector(term.get(key), leniency, &path.field(key), errors);
    }
}

/// Returns whether a spec's affinity has an invalid selector.
pub(crate) fn has_invalid_selector(spec: &Value) -> bool {
    ["podAffinity", "podAntiAffinity"].iter().any(|side| {
        let required = spec.items_at(&["affinity", side, REQUIRED]).iter();
        let preferred = spec.items_at(&["affinity", side, PREFERRED]).iter();
        let terms = required.chain(preferred.filter_map(|w| w.get("podAffinityTerm")));
        terms.into_iter().any(|term| {
            let mut errors = FieldErrors::new();
            validate_term_selectors(term, false, &Path::ROOT, &mut errors);
            !errors.is_empty()
        })
    })
}
